//! From a slow hash to a fast one. The door only says what is to be; `admin` changes the facts.

use crate::ask::SecretAsk;
use crate::generated::{HashKey, is_generated};
use enfilade_facts::tables::{Credential, Verifier};
use enfilade_facts::vocabulary::CredentialId;
use std::fmt;

/// A token whose slow hash is to give way to a fast one, because its secret was just used and cannot be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The token.
    pub token: CredentialId,
    /// The hash it has.
    pub from: String,
    /// The keyed hash it is to have.
    pub to: [u8; 32],
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upgrade of {}", self.token)
    }
}

impl Upgrade {
    /// Of this token, whose secret was just proven: where somebody said so, and the secret is of a kind that cannot be
    /// guessed.
    pub(crate) fn of(
        (id, credential): (&CredentialId, &Credential),
        proven: &Verifier,
        ask: &SecretAsk,
        key: &HashKey,
    ) -> Option<Upgrade> {
        let Verifier::Upgrading(from) = proven else { return None };
        let secret = ask.secret.reveal();
        // Not the secret before the present one, while that still works.
        let is_wanted = credential.verifier == *proven && is_generated(secret);
        is_wanted.then(|| Upgrade { token: *id, from: from.clone(), to: key.digest(id, secret) })
    }
}
