//! The ways by which users of a Keystone have roles on projects, to see whether an application credential still has a user with a role.

use super::CloudRecord;
use enfilade_facts::tables::{GrantKey, GrantScope, Grantee, Member, MembershipKey};
use enfilade_facts::vocabulary::{DomainId, GroupId, ProjectId, UserId};
use std::collections::BTreeMap;

/// The ways by which users of the source have roles on projects.
pub(super) struct Ways {
    groups: BTreeMap<UserId, Vec<GroupId>>,
    grants: BTreeMap<Grantee, Vec<GrantKey>>,
    projects: BTreeMap<ProjectId, (DomainId, Option<ProjectId>)>,
}

impl Ways {
    pub(super) fn of(things: &[CloudRecord]) -> Self {
        let mut ways = Ways { groups: BTreeMap::new(), grants: BTreeMap::new(), projects: BTreeMap::new() };
        for thing in things {
            match thing {
                CloudRecord::Member(MembershipKey { member: Member::User(user), group }) => {
                    ways.groups.entry(*user).or_default().push(*group);
                }
                CloudRecord::Grant(key) => ways.grants.entry(key.who).or_default().push(*key),
                CloudRecord::Project(id, row) => drop(ways.projects.insert(*id, (row.domain, row.parent))),
                _ => {}
            }
        }
        ways
    }

    /// The groups of the user.
    pub(super) fn groups_of(&self, user: &UserId) -> &[GroupId] {
        self.groups.get(user).map_or(&[], Vec::as_slice)
    }

    /// The assignments that give a role on the project to the user, or to this group of the user.
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
