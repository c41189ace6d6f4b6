//! Roles on paths, resolved as Proxmox's `acl.cfg` is: from the root to the leaf, a deeper set replaces a higher one,
//! a user's own set wins over the groups', and NoAccess wins inside a set.

use crate::ask::NodeKind;
use crate::view::View;
use enfilade_facts::SourceError;
use enfilade_facts::tables::{Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{AccessMask, Role, RolePath};
use enfilade_identity::Principal;
use std::fmt;

/// The set of roles that counts, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Resolved {
    /// The roles; empty where nobody gave any.
    pub(crate) roles: Vec<Role>,
    /// The node they were given on.
    pub(crate) node: String,
    /// To whom: the user, or groups the user is in.
    pub(crate) to: Vec<Who>,
}

impl Resolved {
    /// Whether nobody gave any role.
    pub(crate) fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// Whether there is a role, and none of them is NoAccess.
    pub(crate) fn lets_in(&self) -> bool {
        lets_in(self.roles.iter().copied())
    }

    /// Whether the file's own ACL does not count.
    pub(crate) fn skips_acl(&self) -> bool {
        self.lets_in() && self.roles.iter().any(|role| matches!(role, Role::Admin | Role::DatastoreAdmin))
    }

    /// What they grant on something of this kind.
    pub(crate) fn rights(&self, kind: NodeKind) -> AccessMask {
        if !self.lets_in() {
            return AccessMask::NONE;
        }
        self.roles.iter().fold(AccessMask::NONE, |rights, role| rights | rights_of(*role, kind))
    }

    /// The same in words.
    pub(crate) fn given(&self, view: &View<'_>, principal: &Principal) -> GivenRoles {
        let name = |who: &Who| match who {
            Who::User(_) => format!("user {}", principal.authid.user),
            Who::Group(group) => format!("group {}", view.group_name(group)),
        };
        GivenRoles {
            roles: self.roles.clone(),
            node: self.node.clone(),
            to: self.to.iter().map(name).collect(),
        }
    }
}

/// The roles that decided, to whom they were given, and on which node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GivenRoles {
    /// The roles; empty where nobody gave any.
    pub roles: Vec<Role>,
    /// The node of the path they were given on.
    pub node: String,
    /// The user, or the groups, by name.
    pub to: Vec<String>,
}

impl fmt::Display for GivenRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.roles.is_empty() {
            return f.write_str("no role");
        }
        let names: Vec<&str> = self.roles.iter().map(|role| role.name()).collect();
        write!(f, "role {} assigned to {} on {}", names.join("+"), self.to.join(" and "), self.node)
    }
}

fn lets_in(mut roles: impl Iterator<Item = Role> + Clone) -> bool {
    roles.clone().next().is_some() && roles.all(|role| role != Role::NoAccess)
}

fn rights_of(role: Role, kind: NodeKind) -> AccessMask {
    let create = match kind {
        NodeKind::Directory => AccessMask::ADD_FILE.and(AccessMask::ADD_SUBDIRECTORY),
        NodeKind::File => AccessMask::NONE,
    };
    match role {
        Role::Admin | Role::DatastoreAdmin => AccessMask::ALL,
        Role::DatastoreReader => AccessMask::READ,
        Role::DatastoreBackup => AccessMask::READ | create,
        Role::DatastorePowerUser => AccessMask::ALL & !(AccessMask::WRITE_ACL | AccessMask::WRITE_OWNER),
        Role::DatastoreAudit | Role::NoAccess => AccessMask::NONE,
    }
}

/// The roles that count for a principal on a path.
pub(crate) fn resolve(
    view: &View<'_>,
    principal: &Principal,
    path: &RolePath,
) -> Result<Resolved, SourceError> {
    walk(view, principal, path, |node| node == path.as_str())
}

/// The roles that count for a principal on what is directly in `directory` and has no assignment of its own.
pub(crate) fn resolve_below(
    view: &View<'_>,
    principal: &Principal,
    directory: &RolePath,
) -> Result<Resolved, SourceError> {
    walk(view, principal, directory, |_| false)
}

fn walk(
    view: &View<'_>,
    principal: &Principal,
    path: &RolePath,
    is_leaf: impl Fn(&str) -> bool,
) -> Result<Resolved, SourceError> {
    let mut resolved = Resolved::default();
    for node in path.nodes() {
        let is_leaf = is_leaf(node);
        let (mut own, mut of_groups) = (Resolved::default(), Resolved::default());
        view.assignments(node, |key, assignment| {
            let set = match key.who {
                Who::User(user) if user == principal.user => &mut own,
                Who::Group(group) if principal.is_in(&group) => &mut of_groups,
                Who::User(_) | Who::Group(_) => return,
            };
            let before = set.roles.len();
            let holds = assignment.roles.iter().filter(|(_, propagate)| *propagate || is_leaf);
            set.roles.extend(holds.map(|(role, _)| *role));
            if set.roles.len() > before {
                set.to.push(key.who);
            }
        })?;
        let set = if own.is_empty() { of_groups } else { own };
        if !set.is_empty() {
            resolved = Resolved { node: node.to_owned(), ..set };
        }
    }
    resolved.roles.sort_unstable();
    resolved.roles.dedup();
    Ok(resolved)
}

/// Whether the row gives this principal anything, on its node or below it.
pub(crate) fn concerns(principal: &Principal, key: &AssignmentKey, assignment: &Assignment) -> bool {
    let mine = match &key.who {
        Who::User(user) => *user == principal.user,
        Who::Group(group) => principal.is_in(group),
    };
    let all = assignment.roles.iter();
    mine && (lets_in(all.clone().map(|(role, _)| *role))
        || lets_in(all.filter(|(_, propagate)| *propagate).map(|(role, _)| *role)))
}
