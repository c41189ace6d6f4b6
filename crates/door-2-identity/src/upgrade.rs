//! Upgrades of tokens from a slow hash to a fast one. The door only determines which token is upgraded; `admin` changes the facts.

use crate::ask::SecretAsk;
use crate::crypt;
use crate::generated::{HashKey, is_generated};
use enfilade_facts::tables::{Credential, Verifier};
use enfilade_facts::vocabulary::CredentialId;
use std::fmt;

/// A token with a slow hash that is to be replaced by a fast hash, because the secret was just used and cannot be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The token.
    pub token: CredentialId,
    /// The present hash of the token.
    pub from: String,
    /// The new keyed hash of the token.
    pub to: [u8; 32],
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upgrade of {}", self.token)
    }
}

impl Upgrade {
    /// The upgrade of a token, after its secret was proven. There is an upgrade only if all of these conditions hold: an administrator requested the
    /// upgrade, the secret is the present secret of the token, the secret has the form of a generated secret, and a match with the hash proves the
    /// whole secret (a bcrypt hash ignores the end of a long secret). Without the last condition, the new hash could be the hash of a wrong secret.
    pub(crate) fn of(
        (id, credential): (&CredentialId, &Credential),
        proven: &Verifier,
        ask: &SecretAsk,
        key: &HashKey,
    ) -> Option<Upgrade> {
        let Verifier::Upgrading(from) = proven else { return None };
        let secret = ask.secret.reveal();
        // During a grace period the previous secret is also accepted, but its hash is not upgraded.
        let is_present = credential.verifier == *proven;
        let is_wanted = is_present && is_generated(secret) && crypt::proves_whole(&ask.secret, from);
        is_wanted.then(|| Upgrade { token: *id, from: from.clone(), to: key.digest(id, secret) })
    }
}
