//! What a call is about: what the table of rules and lending ask of it.

use crate::bounds::Party;
use enfilade_facts::vocabulary::{CredentialId, DomainId, ProjectId, UserId};

/// What a call is about, as far as rules ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The domain it is in, or is.
    pub domain: Option<&'a DomainId>,
    /// The project.
    pub project: Option<&'a ProjectId>,
    /// The user.
    pub user: Option<&'a UserId>,
    /// The other user, where there are two: a trust has a trustor and a trustee.
    pub other_user: Option<&'a UserId>,
    /// What would be lent on: by a trust that is to be made, or a key.
    pub lends: Option<Lends<'a>>,
    /// The application credentials it is, or was made by, where it is one thing that lets somebody in; none of them where no record says
    /// which one makes it.
    pub lineage: Option<&'a [CredentialId]>,
    /// A second user or group.
    pub other: Other<'a>,
    /// A role that a domain's manager may not give ([`crate::manager_gives`]).
    pub high_role: bool,
    /// The users and groups that it changes.
    pub changes: &'a [Party<'a>],
}

/// Where a second user or group is that a call is about. One that is not there is to a domain's reader or manager like one of another domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Other<'a> {
    /// The call is about no second one.
    #[default]
    None,
    /// It is not there.
    Absent,
    /// In this domain.
    In(&'a DomainId),
}

impl<'a> Other<'a> {
    /// Of one that was looked up.
    pub fn found(domain: Option<&'a DomainId>) -> Self {
        domain.map_or(Other::Absent, Other::In)
    }
}

/// What would be lent on.
#[derive(Clone, Copy, Debug)]
pub struct Lends<'a> {
    /// The project.
    pub project: &'a ProjectId,
    /// The roles there, by id or name.
    pub roles: &'a [String],
}
