//! The proof that door 2 identified the client.

use crate::principal::Principal;
use crate::refuse::Refusal;
use crate::session::Session;
use crate::upgrade::Upgrade;
use crate::used::Used;
use crate::validity::Validity;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{At, Clocks, Held, MemoKey};
use std::sync::Arc;

/// The principal of the client, and the conditions under which the verdict is valid. Only `open.rs` makes permits.
#[derive(Clone, Debug)]
pub struct IdentityPermit {
    pub(crate) granted: Held<Granted>,
}

/// A verdict. The fields that every request reads come first. A verdict that is renewed for a later revision shares its principal and session with
/// the earlier verdict.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Granted {
    pub(crate) validity: Validity,
    pub(crate) used: Used,
    pub(crate) proof: Proof,
    pub(crate) principal: Arc<Principal>,
    pub(crate) session: Option<Arc<Session>>,
    /// Whether the user needs further methods. Then the door makes no permit from this verdict.
    pub(crate) is_unfinished: bool,
}

/// A login with the correct password of a user who needs further methods. This is not a permit: door 2 can only issue a session or a receipt for such
/// a login.
#[derive(Clone, Debug)]
pub struct Unfinished {
    pub(crate) granted: Held<Granted>,
}

impl Unfinished {
    /// The refusal of a request with the password alone.
    pub fn refuse(&self) -> Refusal {
        let principal = &self.granted.principal;
        Refusal::MoreMethods { authid: principal.authid.clone(), user: Box::new(principal.user) }
    }
}

/// The credential that the client has proven, and the digest of its verifier. With this record the door can judge a permit again without the secret.
#[derive(Clone)]
pub(crate) struct Proof {
    /// The API token of the client. For a session: the application credential for which the session was issued. `None` for a password and for any
    /// other session.
    pub(crate) credential: Option<CredentialId>,
    /// The digest of the verifier that the secret matched; not used for a session.
    pub(crate) verifier: MemoKey,
    /// The upgrade, if a fast hash is to replace this verifier.
    pub(crate) upgrade: Option<Arc<Upgrade>>,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proof")
    }
}

/// The verdict on a session that a service asked about. The verdict is not a permit.
#[derive(Clone, Debug)]
pub struct Validated {
    pub(crate) granted: Held<Granted>,
}

impl Validated {
    /// The session.
    pub fn session(&self) -> Option<&Session> {
        self.granted.session.as_deref()
    }

    /// The revision of the facts on which the session was judged.
    pub fn at(&self) -> At {
        self.granted.validity.at
    }
}

impl IdentityPermit {
    /// The principal.
    pub fn principal(&self) -> &Principal {
        &self.granted.principal
    }

    /// The upgrade, if the token's hash is to be upgraded.
    pub fn upgrade(&self) -> Option<&Upgrade> {
        self.granted.proof.upgrade.as_deref()
    }

    /// The API token that the permit was granted to. For a session: the application credential for which the session was issued. `None` for a
    /// password and for any other session.
    pub fn token(&self) -> Option<&CredentialId> {
        self.granted.proof.credential.as_ref()
    }

    /// Whether this is the first use of the verdict in this minute. The server records a use of a token only if it is the first use in the minute, so
    /// most requests record nothing. After a change of the stored facts, the function can return true again in the same minute.
    pub fn is_first_use(&self, now: Clocks) -> bool {
        self.granted.used.is_first_in(now.tick_millis / 60_000)
    }

    /// The session, if the credential was a session's token or the cookie of a browser.
    pub fn session(&self) -> Option<&Session> {
        self.granted.session.as_deref()
    }

    /// The revision of the facts on which the permit was granted.
    pub fn at(&self) -> At {
        self.granted.validity.at
    }

    /// The conditions under which the permit is valid. If they no longer hold, the door must be asked again.
    pub fn validity(&self) -> &Validity {
        &self.granted.validity
    }
}
