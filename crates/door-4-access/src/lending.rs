//! Lending: which calls a lent credential may make. A lent credential, such as an application credential or a trust, acts for a user with limited
//! rights. Only this module decides about lent credentials, for every call of Identity v3 ([`crate::use_api`]) and of the Proxmox API
//! ([`crate::administer`]). The code must state the [`Lending`] of each call, because there is no default.
//!
//! A lent credential has only the rights that were delegated with it. A lent credential cannot change an account, group or role. If a lent credential
//! creates another credential, the new credential has no right that the lent credential does not have, and ends when the lent credential ends.

use crate::about::{About, Lends};
use enfilade_facts::vocabulary::{CredentialId, RoleId};
use enfilade_identity::{IdentityPermit, Methods, Principal, Reach, Session};

/// The kind of a call. The kind decides whether a lent credential may make the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lending {
    /// The call reads or ends sessions of a user.
    Sessions,
    /// The call reads something that is not a secret.
    Reads,
    /// The call changes resources that are not credentials and give no role: projects, the catalog, datastores.
    Manages,
    /// The call changes accounts and their rights: domains, users, passwords, groups, roles and role assignments.
    People,
    /// The call creates, reads, changes or deletes keys that services accept as credentials.
    Keys,
    /// The call creates or deletes application credentials.
    Credentials,
    /// The call creates or deletes trusts.
    Trusts,
}

impl Lending {
    /// What a lent credential may do with a call of this kind, in words, for the generated page.
    pub fn says(self) -> &'static str {
        match self {
            Lending::Sessions => "yes; a credential with access rules can access only tokens of its own user",
            Lending::Reads | Lending::Manages => "yes",
            Lending::People => "no",
            Lending::Keys | Lending::Credentials => {
                "only an unrestricted credential: it can create records within its own project and roles; it can read, change and delete only records that it created"
            }
            Lending::Trusts => {
                "an unrestricted credential: it can create trusts within its own project and roles, and delete trusts that it created; a session of a trust with `allow_redelegation` can only redelegate the trust (POST)"
            }
        }
    }
}

/// The limits of the visitor's credential when it acts for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loan {
    /// There are no limits: the user acts in person, or by an API token that has all roles of its owner.
    Nothing,
    /// An application credential that may create other credentials.
    Unrestricted(CredentialId),
    /// A trust that may be redelegated.
    Redelegable,
    /// A credential that may not create other credentials: an EC2 key, an OAuth access token, an API token with roles of its own, or any other
    /// application credential or trust.
    Plain,
    /// A link; an application credential that permits only certain requests to other services; or an application credential that reaches nothing now,
    /// for example because its project is disabled.
    ForRequests,
}

impl Loan {
    fn of_session(session: &Session) -> Self {
        if session.access.is_some() {
            return Loan::Plain;
        }
        match (&session.trusted, &session.delegation) {
            (Some(trusted), _) if trusted.trust.redelegations > 0 => Loan::Redelegable,
            (Some(_), _) => Loan::Plain,
            (None, Some(delegation)) if !delegation.rules.is_empty() => Loan::ForRequests,
            (None, Some(delegation)) => match session.claim.credential() {
                // If the application credential created an EC2 key, a session of this key may not create other credentials.
                Some(id)
                    if delegation.unrestricted
                        && session.claim.methods == Methods::APPLICATION_CREDENTIAL =>
                {
                    Loan::Unrestricted(id)
                }
                _ => Loan::Plain,
            },
            (None, None) if session.claim.methods.are_in_person() => Loan::Nothing,
            (None, None) => Loan::Plain,
        }
    }

    fn of(identity: &IdentityPermit) -> Self {
        let principal = identity.principal();
        match (identity.session(), identity.token(), &principal.reach) {
            // A guest cannot make calls of an API.
            _ if principal.link.is_some() => Loan::ForRequests,
            (Some(session), ..) => Self::of_session(session),
            (None, None, _) => Loan::Nothing,
            (None, Some(_), Reach::Everything) if principal.narrowed_to.is_none() => Loan::Nothing,
            (None, Some(_), Reach::Nothing) => Loan::ForRequests,
            (None, Some(_), _) => Loan::Plain,
        }
    }
}

/// Whether the limits of a session (`Loan`) allow a call of this kind. Whether the roles of the session permit the call is not checked here.
pub(crate) fn lends(principal: &Principal, session: &Session, lending: Lending, about: &About<'_>) -> bool {
    let is_own = about.user == Some(&principal.user);
    let is_within = |lends: &Lends<'_>| {
        session.claim.scope.project().as_ref() == Some(lends.project)
            && lends.roles.iter().all(|role| holds(session, role))
    };
    match (Loan::of_session(session), lending) {
        (Loan::Nothing, _) => true,
        (Loan::ForRequests, lending) => lending == Lending::Sessions && is_own,
        (_, Lending::Sessions | Lending::Reads | Lending::Manages) => true,
        (_, Lending::People) => false,
        (Loan::Unrestricted(id), lending) => match (about.lineage, &about.lends) {
            (Some(lineage), _) => lineage.contains(&id),
            (None, Some(lends)) => is_own && is_within(lends),
            // For a list of keys, the permit limits the list to the keys that this credential made.
            (None, None) => lending == Lending::Keys,
        },
        (Loan::Redelegable, Lending::Trusts) => about.lends.as_ref().is_some_and(is_within),
        (Loan::Redelegable | Loan::Plain, Lending::Keys | Lending::Credentials | Lending::Trusts) => false,
    }
}

/// Whether a session has the role that a text names. A text in the form of an id is read as an id, and any other text as a name.
fn holds(session: &Session, said: &str) -> bool {
    match said.parse::<RoleId>() {
        Ok(id) => session.roles.iter().any(|held| held.id == id),
        Err(_) => session.has(said),
    }
}

/// Returns the application credential if a session is limited to the keys that this credential created. Returns `None` if the session has no such
/// limit.
pub(crate) fn only_made_by(session: &Session, lending: Lending) -> Option<CredentialId> {
    match (Loan::of_session(session), lending) {
        (Loan::Unrestricted(id), Lending::Keys) => Some(id),
        _ => None,
    }
}

/// Whether the visitor's credential may make Proxmox API calls of this kind. The privileges of the visitor are not checked.
pub(crate) fn lends_administration(identity: &IdentityPermit, lending: Lending) -> bool {
    match Loan::of(identity) {
        Loan::Nothing => true,
        Loan::ForRequests => false,
        Loan::Unrestricted(_) | Loan::Redelegable | Loan::Plain => {
            matches!(lending, Lending::Reads | Lending::Manages)
        }
    }
}
