//! The resources that a call is about, as far as door 4 needs them to judge the call.

use crate::bounds::Party;
use enfilade_facts::vocabulary::{CredentialId, DomainId, ProjectId, UserId};

/// The resources that a call is about, as far as rules need them.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The domain of the resource. For a resource that is a domain, this is the id of that domain.
    pub domain: Option<&'a DomainId>,
    /// The project.
    pub project: Option<&'a ProjectId>,
    /// The user.
    pub user: Option<&'a UserId>,
    /// Another user that the call is about. For example, a call about a trust is about two users: the trustor and the trustee.
    pub other_user: Option<&'a UserId>,
    /// The project and roles that the call would delegate with the trust, key or credential that it creates.
    pub lends: Option<Lends<'a>>,
    /// For a call about one credential: the application credentials with which it was created, and the credential itself if it is an application
    /// credential. Empty if no application credential is recorded. `None` if the call is not about one existing credential.
    pub lineage: Option<&'a [CredentialId]>,
    /// The domain of another resource that the call is about, for example of the user that the call adds to a group.
    pub other: Other<'a>,
    /// The domain of the role, if the call is about a role. [`Other::None`] if the call is about no role, or the role is in no domain.
    pub role: Other<'a>,
    /// Whether the call is about a role that the manager of a domain may not give ([`crate::manager_gives`]).
    pub high_role: bool,
    /// The users and groups that the call changes.
    pub changes: &'a [Party<'a>],
}

/// A call can be about a user, group or role in addition to its main resource. This is the domain of this user, group or role. A reader or manager of
/// a domain gets the same answer for a user, group or role that does not exist as for a user, group or role of another domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Other<'a> {
    /// The call is about no other user or group, and about no role that is in a domain.
    #[default]
    None,
    /// The user, group or role does not exist.
    Absent,
    /// The user, group or role is in this domain.
    In(&'a DomainId),
}

impl<'a> Other<'a> {
    /// Converts the result of a lookup of a user or group: the domain, or `None` if the user or group does not exist.
    pub fn found(domain: Option<&'a DomainId>) -> Self {
        domain.map_or(Other::Absent, Other::In)
    }
}

/// The project and roles that a call would delegate.
#[derive(Clone, Copy, Debug)]
pub struct Lends<'a> {
    /// The project.
    pub project: &'a ProjectId,
    /// The roles on the project, by id or name.
    pub roles: &'a [String],
}
