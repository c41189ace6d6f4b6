//! How users of a Keystone server get roles on projects: by groups, role assignments and implied roles. With this information, the import checks
//! whether the users still have the roles that they delegated.

use super::CloudRecord;
use enfilade_facts::tables::{GrantKey, GrantScope, Grantee, Member, MembershipKey};
use enfilade_facts::vocabulary::{CredentialId, DomainId, GroupId, ProjectId, RoleId, UserId};
use std::collections::{BTreeMap, BTreeSet};

/// The records of the Keystone server that determine which roles its users have on projects.
#[derive(Default)]
pub(super) struct Ways {
    groups: BTreeMap<UserId, Vec<GroupId>>,
    grants: BTreeMap<Grantee, Vec<GrantKey>>,
    projects: BTreeMap<ProjectId, (DomainId, Option<ProjectId>)>,
    implied: BTreeMap<RoleId, Vec<RoleId>>,
    of_domains: BTreeSet<RoleId>,
    owners: BTreeMap<CredentialId, UserId>,
}

impl Ways {
    pub(super) fn of(things: &[CloudRecord]) -> Self {
        let mut ways = Ways::default();
        for thing in things {
            match thing {
                CloudRecord::Member(MembershipKey { member: Member::User(user), group }) => {
                    ways.groups.entry(*user).or_default().push(*group);
                }
                CloudRecord::Grant(key) => ways.grants.entry(key.who).or_default().push(*key),
                CloudRecord::Project(id, row) => drop(ways.projects.insert(*id, (row.domain, row.parent))),
                CloudRecord::Role(id, row) => {
                    ways.implied.insert(*id, row.implies.clone());
                    ways.of_domains.extend(row.domain.map(|_| *id));
                }
                CloudRecord::Credential(id, row) => drop(ways.owners.insert(*id, row.owner)),
                _ => {}
            }
        }
        ways
    }

    /// The groups of the user.
    pub(super) fn groups_of(&self, user: &UserId) -> &[GroupId] {
        self.groups.get(user).map_or(&[], Vec::as_slice)
    }

    /// The roles that the role implies.
    pub(super) fn implied_by(&self, role: &RoleId) -> &[RoleId] {
        self.implied.get(role).map_or(&[], Vec::as_slice)
    }

    /// Whether the role belongs to a domain.
    pub(super) fn is_of_domain(&self, role: &RoleId) -> bool {
        self.of_domains.contains(role)
    }

    /// The owner of an application credential.
    pub(super) fn owner_of(&self, credential: &CredentialId) -> Option<UserId> {
        self.owners.get(credential).copied()
    }

    /// The assignments to this user or group that give a role on the project, directly or inherited.
    pub(super) fn grants(&self, who: Grantee, project: ProjectId) -> impl Iterator<Item = &GrantKey> {
        let (domain, mut above) =
            self.projects.get(&project).map_or((None, None), |(domain, parent)| (Some(*domain), *parent));
        let mut outer = Vec::new();
        while let Some(id) = above.filter(|id| !outer.contains(id)) {
            outer.push(id);
            above = self.projects.get(&id).and_then(|(_, parent)| *parent);
        }
        let reaches = move |key: &&GrantKey| match &key.scope {
            GrantScope::Project(id) => *id == project,
            GrantScope::BelowProject(id) => outer.contains(id),
            GrantScope::BelowDomain(id) => Some(*id) == domain,
            GrantScope::Domain(_) | GrantScope::System => false,
        };
        self.grants.get(&who).into_iter().flatten().filter(reaches)
    }
}
