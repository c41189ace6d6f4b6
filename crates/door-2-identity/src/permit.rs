//! The proof that door 2 was passed.

use crate::principal::Principal;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{At, MemoKey, Now};
use std::sync::Arc;

/// Who is inside, as of which revision, and until when at most.
/// Made in one place, [`crate::open`] (invariant D2).
#[derive(Clone, Debug)]
pub struct IdentityPermit {
    pub(crate) principal: Arc<Principal>,
    pub(crate) proof: Proof,
    pub(crate) at: At,
    pub(crate) good_until: i64,
    /// Whether the files people edit were being looked at when it was granted.
    pub(crate) files_current: bool,
}

/// What was proven, so that it can be asked again whether it still holds, without the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proof {
    /// The credential; `None` for a password.
    pub(crate) credential: Option<CredentialId>,
    /// Digest of the verifier the secret matched.
    pub(crate) verifier: MemoKey,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof")
    }
}

impl IdentityPermit {
    /// Who it is.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The token it was granted to; `None` for a password.
    pub fn token(&self) -> Option<&CredentialId> {
        self.proof.credential.as_ref()
    }

    /// The facts it was granted on.
    pub fn at(&self) -> At {
        self.at
    }

    /// The last second it may hold without asking again, seconds since the epoch; `None` when nothing of it expires.
    pub fn good_until(&self) -> Option<i64> {
        (self.good_until != i64::MAX).then_some(self.good_until)
    }

    /// Whether, as far as this permit's own facts say, it still holds: same revision, not yet expired, and the files people
    /// edit looked at as they were.
    pub fn holds(&self, at: At, now: Now) -> bool {
        self.at == at && now.unix_seconds <= self.good_until && self.files_current == now.files_current
    }
}
