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
    /// To whom: the user, or groups.
    pub(crate) whose: &'static str,
}

impl Resolved {
    /// Whether nobody gave any role.
    pub(crate) fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// Whether the file's own ACL does not count.
    pub(crate) fn skips_acl(&self) -> bool {
        !self.roles.contains(&Role::NoAccess)
            && self.roles.iter().any(|role| matches!(role, Role::Admin | Role::DatastoreAdmin))
    }

    /// What they grant on something of this kind.
    pub(crate) fn rights(&self, kind: NodeKind) -> AccessMask {
        if self.roles.contains(&Role::NoAccess) {
            return AccessMask::NONE;
        }
        self.roles.iter().fold(AccessMask::NONE, |rights, role| rights | rights_of(*role, kind))
    }
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no role");
        }
        let names: Vec<&str> = self.roles.iter().map(|role| role.name()).collect();
        write!(f, "role {} of {} on {}", names.join("+"), self.whose, self.node)
    }
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
    let mut resolved = Resolved::default();
    for node in path.nodes() {
        let is_leaf = node == path.as_str();
        let (mut own, mut of_groups) = (Vec::new(), Vec::new());
        view.assignments(node, |key, assignment| {
            let roles =
                assignment.roles.iter().filter(|(_, propagate)| *propagate || is_leaf).map(|(role, _)| *role);
            match key.who {
                Who::User(user) if user == principal.user => own.extend(roles),
                Who::Group(group) if principal.is_in(&group) => of_groups.extend(roles),
                Who::User(_) | Who::Group(_) => {}
            }
        })?;
        let (roles, whose) = if own.is_empty() { (of_groups, "a group") } else { (own, "the user") };
        if !roles.is_empty() {
            resolved = Resolved { roles, node: node.to_owned(), whose };
        }
    }
    resolved.roles.sort_unstable();
    resolved.roles.dedup();
    Ok(resolved)
}

/// Whether the row gives this principal anything.
pub(crate) fn concerns(principal: &Principal, key: &AssignmentKey, assignment: &Assignment) -> bool {
    let mine = match &key.who {
        Who::User(user) => *user == principal.user,
        Who::Group(group) => principal.is_in(group),
    };
    mine && assignment.roles.iter().any(|(role, _)| *role != Role::NoAccess)
}
