//! The proof that door 2 was passed.

use crate::principal::Principal;
use crate::session::Session;
use crate::upgrade::Upgrade;
use crate::used::Used;
use crate::validity::Validity;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{At, Clocks, Held, MemoKey};
use std::sync::Arc;

/// Who is inside, as of which revision, and until when at most.
/// Made in one place, [`crate::open`] (invariant D2).
#[derive(Clone, Debug)]
pub struct IdentityPermit {
    pub(crate) granted: Held<Granted>,
}

/// In this order, so that what is looked at each time lies together. Where only revocations of others came since, the same
/// principal and session are granted anew at a later revision: they are shared, not copied.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Granted {
    pub(crate) validity: Validity,
    pub(crate) used: Used,
    pub(crate) proof: Proof,
    pub(crate) principal: Arc<Principal>,
    pub(crate) session: Option<Arc<Session>>,
}

/// What was proven, so that it can be asked again whether it still holds, without the secret.
#[derive(Clone)]
pub(crate) struct Proof {
    /// The credential; `None` for a password.
    pub(crate) credential: Option<CredentialId>,
    /// Digest of the verifier the secret matched.
    pub(crate) verifier: MemoKey,
    /// What is to take the verifier's place.
    pub(crate) upgrade: Option<Arc<Upgrade>>,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof")
    }
}

/// Somebody's token, as it was found to be. It lets nobody in.
#[derive(Clone, Debug)]
pub struct Validated {
    pub(crate) granted: Held<Granted>,
}

impl Validated {
    /// What it stands for.
    pub fn session(&self) -> Option<&Session> {
        self.granted.session.as_deref()
    }

    /// The facts it was judged on.
    pub fn at(&self) -> At {
        self.granted.validity.at
    }
}

impl IdentityPermit {
    /// Who it is.
    pub fn principal(&self) -> &Principal {
        &self.granted.principal
    }

    /// What the facts are to remember of it from now on, where its token is to be upgraded.
    pub fn upgrade(&self) -> Option<&Upgrade> {
        self.granted.proof.upgrade.as_deref()
    }

    /// The API token it was granted to; `None` for a password.
    pub fn token(&self) -> Option<&CredentialId> {
        self.granted.proof.credential.as_ref()
    }

    /// Whether this is its first use in this minute, so that noting when a token was used costs most uses nothing.
    /// Where facts changed meanwhile it may be told so twice.
    pub fn is_first_use(&self, now: Clocks) -> bool {
        self.granted.used.is_first_in(now.tick_millis / 60_000)
    }

    /// The session it was granted to.
    pub fn session(&self) -> Option<&Session> {
        self.granted.session.as_deref()
    }

    /// The facts it was granted on.
    pub fn at(&self) -> At {
        self.granted.validity.at
    }

    /// How long it counts without asking again.
    pub fn validity(&self) -> &Validity {
        &self.granted.validity
    }
}
