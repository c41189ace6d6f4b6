//! Roles on paths, resolved by the rules of Proxmox's `acl.cfg`. From the root to the leaf, the set of roles on a deeper node replaces the set on a
//! higher node. If a node assigns roles to the user itself, the roles of groups on that node are ignored. If a set contains NoAccess, its other roles
//! do not count.

use crate::ask::NodeKind;
use crate::view::View;
use enfilade_facts::tables::{Assignment, AssignmentKey, LinkPlace, LinkRights, Who};
use enfilade_facts::vocabulary::{AccessMask, Authid, Privileges, ProjectId, Role, RolePath, Ugid};
use enfilade_facts::{Clocks, SourceError};
use enfilade_identity::{Principal, Reach};
use std::collections::BTreeSet;
use std::fmt;

/// The roles that count for a principal on a path, and where they are assigned.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Resolved {
    /// The roles; empty if none are assigned.
    pub(crate) roles: Vec<Role>,
    /// The node on which the roles are assigned.
    pub(crate) node: String,
    /// The grantees: the user, groups that contain the user, or the token.
    pub(crate) to: Vec<Who>,
    /// The roles of a token that has roles of its own. The token has a right only if the roles of the token and the roles of the owner both grant it.
    pub(crate) of_token: Option<Box<Resolved>>,
    /// The roles on the project, if the session is for a project. These roles replace the roles on paths.
    pub(crate) of_project: Vec<String>,
    /// For a guest of a link: the only rights that the guest can have on the path. If the owner's roles skip an ACL, the ACL is also skipped for the
    /// guest.
    pub(crate) only: Option<AccessMask>,
}

/// For a datastore that is bound to a project: each role on the project, and the role that it gives in the datastore. A `manager` may also change
/// ACLs.
const OF_PROJECT: [(&str, Role); 4] = [
    ("reader", Role::DatastoreReader),
    ("member", Role::DatastorePowerUser),
    (MANAGER, Role::DatastorePowerUser),
    ("admin", Role::DatastoreAdmin),
];
const MANAGER: &str = "manager";

impl Resolved {
    /// Whether there are no roles.
    fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// The owner's roles and, if the token has roles of its own, the token's roles. A right is granted only if each of these sets of roles grants the
    /// right.
    fn each(&self) -> impl Iterator<Item = &Resolved> {
        std::iter::once(self).chain(self.of_token.as_deref())
    }

    /// Whether a role makes the datastore visible, and no role is NoAccess.
    pub(crate) fn lets_in(&self) -> bool {
        self.each().all(|resolved| lets_in(resolved.roles.iter().copied()))
    }

    /// Whether the roles skip the file's own ACL.
    pub(crate) fn skips_acl(&self) -> bool {
        let skips = |role: &Role| matches!(role, Role::Admin | Role::DatastoreAdmin);
        self.lets_in()
            && self.each().all(|resolved| resolved.only.is_some() || resolved.roles.iter().any(skips))
    }

    /// The rights that the roles grant on an object of this kind.
    pub(crate) fn rights(&self, kind: NodeKind) -> AccessMask {
        if !self.lets_in() {
            return AccessMask::NONE;
        }
        let rights = |resolved: &Resolved| {
            let first =
                resolved.of_project.iter().fold(AccessMask::NONE, |rights, name| rights | more_of(name));
            let all = resolved.roles.iter().fold(first, |rights, role| rights | rights_of(*role, kind));
            resolved.only.map_or(all, |only| all & only)
        };
        self.each().fold(AccessMask::ALL, |common, resolved| common & rights(resolved))
    }

    /// The privileges of administration that the roles give.
    pub(crate) fn privileges(&self) -> Privileges {
        let has_none =
            |resolved: &Resolved| resolved.only.is_some() || resolved.roles.contains(&Role::NoAccess);
        let of = |resolved: &Resolved| match has_none(resolved) {
            true => Privileges::NONE,
            false => resolved.roles.iter().fold(Privileges::NONE, |all, role| all | role.privileges()),
        };
        self.each().fold(Privileges::ALL, |common, resolved| common & of(resolved))
    }

    /// The roles in words.
    pub(crate) fn given(&self, view: &View<'_>, principal: &Principal) -> GivenRoles {
        let name = |who: &Who| match who {
            Who::User(_) => format!("user {}", principal.authid.user),
            Who::Token(_) => format!("token {}", principal.authid),
            Who::Group(group) => format!("group {}", view.group_name(group)),
            Who::Named(ugid) => format!("{ugid} in acl.cfg"),
        };
        let to = match self.of_project.as_slice() {
            [] => self.to.iter().map(name).collect(),
            roles => {
                vec![format!("the users with role {} on the datastore's project", roles.join(" and "))]
            }
        };
        GivenRoles {
            roles: self.roles.clone(),
            node: self.node.clone(),
            to,
            of_token: self.of_token.as_ref().map(|of_token| Box::new(of_token.given(view, principal))),
        }
    }
}

/// The roles that decided, their grantees, and the node on which they are assigned.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GivenRoles {
    /// The roles; empty if none are assigned.
    pub roles: Vec<Role>,
    /// The node of the path on which the roles are assigned.
    pub node: String,
    /// The grantees in words: the user, the groups or the token.
    pub to: Vec<String>,
    /// The roles of a token that has roles of its own.
    pub of_token: Option<Box<GivenRoles>>,
}

impl GivenRoles {
    /// The roles of the token, if the owner's roles grant the missing rights. Then only the roles of the token withhold these rights.
    pub fn limited_by_token(&self, missing: AccessMask, kind: NodeKind) -> Option<&[Role]> {
        let of_token = self.of_token.as_deref()?;
        let rights = self.roles.iter().fold(AccessMask::NONE, |rights, role| rights | rights_of(*role, kind));
        (lets_in(self.roles.iter().copied()) && rights.covers(missing)).then_some(&of_token.roles)
    }
}

impl fmt::Display for GivenRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.roles.is_empty() {
            true => f.write_str("no role")?,
            false => {
                let names: Vec<&str> = self.roles.iter().map(|role| role.name()).collect();
                write!(f, "role {} assigned to {} on {}", names.join("+"), self.to.join(" and "), self.node)?;
            }
        }
        match &self.of_token {
            Some(of_token) => write!(f, ", limited to the roles of the token: {of_token}"),
            None => Ok(()),
        }
    }
}

fn lets_in(mut roles: impl Iterator<Item = Role> + Clone) -> bool {
    roles.clone().any(Role::speaks_of_datastores) && roles.all(|role| role != Role::NoAccess)
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
        _ => AccessMask::NONE,
    }
}

/// The rights that a role on a project gives, but that the corresponding role in the datastore does not give (`OF_PROJECT` has the pairs of roles).
fn more_of(name: &str) -> AccessMask {
    if name == MANAGER { AccessMask::WRITE_ACL } else { AccessMask::NONE }
}

/// The least role on a path that grants these rights on an object of this kind.
pub fn least_role(missing: AccessMask, kind: NodeKind) -> Role {
    let ascending = [Role::DatastoreReader, Role::DatastoreBackup, Role::DatastorePowerUser];
    let least = ascending.into_iter().find(|role| rights_of(*role, kind).covers(missing));
    least.unwrap_or(Role::DatastoreAdmin)
}

/// The least role on a project that grants these rights on an object of this kind in the project's datastores.
pub fn least_role_on_project(missing: AccessMask, kind: NodeKind) -> &'static str {
    let grants = |(name, role): &(&str, Role)| (rights_of(*role, kind) | more_of(name)).covers(missing);
    OF_PROJECT.into_iter().find(grants).map_or("admin", |(name, _)| name)
}

/// The names to which NoAccess is assigned on exactly this node: the user, the token, or both. Other roles on this node give no rights to such a user
/// or token.
pub(crate) fn barred(
    view: &View<'_>,
    now: Clocks,
    principal: &Principal,
    node: &str,
) -> Result<Vec<Authid>, SourceError> {
    if principal.reach != Reach::Everything {
        return Ok(Vec::new());
    }
    let knows_acl_cfg = view.knows_acl_cfg(now)?;
    let mut rows = Vec::new();
    view.assignments(node, |key, assignment| rows.push((key, assignment)))?;
    rows.retain(|(key, assignment)| {
        let denies = assignment.roles.iter().any(|(role, _)| *role == Role::NoAccess);
        denies && !is_unknown(key, assignment, knows_acl_cfg)
    });
    let mut barred = Vec::new();
    for (key, _) in rows {
        let name = match speaks(view, principal, &key.who)? {
            Some(Speaks::User) => Authid::from(principal.authid.user.clone()),
            Some(Speaks::Token) => principal.authid.clone(),
            Some(Speaks::Group) | None => continue,
        };
        if !barred.contains(&name) {
            barred.push(name);
        }
    }
    Ok(barred)
}

/// The roles that count for a principal on a node of a path.
pub(crate) fn resolve(
    view: &View<'_>,
    now: Clocks,
    principal: &Principal,
    path: &str,
) -> Result<Resolved, SourceError> {
    walk(view, now, principal, path, |node| node == path)
}

/// The roles of a principal on an object below `directory`. The object and the directories between `directory` and the object must not have role
/// assignments.
pub(crate) fn resolve_below(
    view: &View<'_>,
    now: Clocks,
    principal: &Principal,
    directory: &str,
) -> Result<Resolved, SourceError> {
    walk(view, now, principal, directory, |_| false)
}

/// The kind of grantee of a role assignment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    User,
    Group,
    Token,
}

/// Whether an assignment applies to this principal, and for which kind of grantee. An assignment to a token counts only if the token has roles of its
/// own.
fn speaks(view: &View<'_>, principal: &Principal, who: &Who) -> Result<Option<Speaks>, SourceError> {
    let speaks = match who {
        Who::User(user) => (*user == principal.user).then_some(Speaks::User),
        Who::Group(group) => principal.is_in(group).then_some(Speaks::Group),
        Who::Token(token) => (principal.narrowed_to.as_ref() == Some(token)).then_some(Speaks::Token),
        Who::Named(Ugid::Authid(authid)) if authid.user != principal.authid.user => None,
        Who::Named(Ugid::Authid(authid)) => match &authid.token {
            None => Some(Speaks::User),
            token if principal.narrowed_to.is_some() && *token == principal.authid.token => {
                Some(Speaks::Token)
            }
            Some(_) => None,
        },
        Who::Named(Ugid::Group(group)) => {
            let group = view.group_named(group)?;
            group.is_some_and(|group| principal.is_in(&group)).then_some(Speaks::Group)
        }
    };
    Ok(speaks)
}

/// Whether this assignment is from `acl.cfg`, and the server does not know what the file contains for it at present.
pub(crate) fn is_unknown(key: &AssignmentKey, assignment: &Assignment, knows_acl_cfg: bool) -> bool {
    let refuses = assignment.fault.as_ref().is_some_and(|fault| fault.refuses) || !knows_acl_cfg;
    matches!(key.who, Who::Named(_)) && refuses
}

/// The roles of an assignment. While the content of `acl.cfg` is not known, every assignment of the file counts as NoAccess, because the new content
/// could assign NoAccess.
fn roles_of(key: &AssignmentKey, assignment: &Assignment, knows_acl_cfg: bool) -> Vec<(Role, bool)> {
    match is_unknown(key, assignment, knows_acl_cfg) {
        true => vec![(Role::NoAccess, true)],
        false => assignment.roles.clone(),
    }
}

fn walk(
    view: &View<'_>,
    now: Clocks,
    principal: &Principal,
    path: &str,
    is_leaf: impl Fn(&str) -> bool,
) -> Result<Resolved, SourceError> {
    match &principal.reach {
        Reach::Everything => {}
        Reach::Nothing => return Ok(Resolved::default()),
        Reach::Project { project, roles } => return in_project(view, project, roles, path),
    }
    let knows_acl_cfg = view.knows_acl_cfg(now)?;
    let (mut of_owner, mut of_token) = (Resolved::default(), Resolved::default());
    for node in RolePath::nodes_to(path) {
        let is_leaf = is_leaf(node);
        let mut rows = Vec::new();
        view.assignments(node, |key, assignment| rows.push((key, assignment)))?;
        let mut sets = [Resolved::default(), Resolved::default(), Resolved::default()];
        for (key, assignment) in rows {
            let set = match (speaks(view, principal, &key.who)?, &mut sets) {
                (Some(Speaks::User), [set, _, _]) => set,
                (Some(Speaks::Group), [_, set, _]) => set,
                (Some(Speaks::Token), [_, _, set]) => set,
                (None, _) => continue,
            };
            let before = set.roles.len();
            let roles = roles_of(&key, &assignment, knows_acl_cfg).into_iter();
            set.roles.extend(roles.filter(|(_, propagate)| *propagate || is_leaf).map(|(role, _)| role));
            if set.roles.len() > before {
                set.to.push(key.who);
            }
        }
        let [own, of_groups, token] = sets;
        for (set, so_far) in
            [(if own.is_empty() { of_groups } else { own }, &mut of_owner), (token, &mut of_token)]
        {
            if !set.is_empty() {
                *so_far = Resolved { node: node.to_owned(), ..set };
            }
        }
    }
    for resolved in [&mut of_owner, &mut of_token] {
        resolved.roles.sort_unstable();
        resolved.roles.dedup();
    }
    if let Some(place) = &principal.link {
        of_token = at_link(place, principal, path);
    }
    of_owner.of_token = principal.narrowed_to.is_some().then(|| Box::new(of_token));
    Ok(of_owner)
}

/// The rights that guests of a link have on a path. A guest of a link for reading can read the shared file, or the shared folder and everything below
/// it. A guest of a drop box can only traverse the shared folder and add files to it. A guest can only traverse the directories above the shared file
/// or folder. On all other paths, a link gives no rights.
fn at_link(place: &LinkPlace, principal: &Principal, path: &str) -> Resolved {
    let node = RolePath::of(&place.datastore, &place.path).to_string();
    let is_below = |one: &str, other: &str| {
        one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let (is_inside, is_above) = (is_below(path, &node), is_below(&node, path));
    let (role, only) = match place.rights {
        LinkRights::Read if is_inside => (Role::DatastoreReader, AccessMask::READ),
        LinkRights::Drop if path == node => {
            (Role::DatastoreBackup, AccessMask::ADD_FILE.and(AccessMask::TRAVERSE))
        }
        LinkRights::Read | LinkRights::Drop if is_above => (Role::DatastoreReader, AccessMask::TRAVERSE),
        LinkRights::Read | LinkRights::Drop => return Resolved::default(),
    };
    let to = principal.narrowed_to.map(Who::Token).into_iter().collect();
    Resolved { roles: vec![role], node, to, only: Some(only), ..Resolved::default() }
}

/// The roles of a session for a project. These roles count only in the datastores that are bound to the project.
fn in_project(
    view: &View<'_>,
    project: &ProjectId,
    roles: &[String],
    path: &str,
) -> Result<Resolved, SourceError> {
    let Some(node) = RolePath::nodes_to(path).nth(2) else { return Ok(Resolved::default()) };
    let name = node.strip_prefix("/datastore/").and_then(|name| name.parse().ok());
    let bound = name.map(|name| view.project_of(&name)).transpose()?.flatten();
    if bound.as_ref() != Some(project) {
        return Ok(Resolved::default());
    }
    let counts = OF_PROJECT.into_iter().filter(|(name, _)| roles.iter().any(|held| held == name));
    let (names, mut roles): (Vec<&str>, Vec<Role>) = counts.unzip();
    roles.sort_unstable();
    roles.dedup();
    let of_project = names.into_iter().map(str::to_owned).collect();
    Ok(Resolved { roles, node: node.to_owned(), of_project, ..Resolved::default() })
}

/// Whether an assignment strictly below the path gives this principal access there.
pub(crate) fn is_admitted_below(
    view: &View<'_>,
    now: Clocks,
    principal: &Principal,
    path: &str,
) -> Result<bool, SourceError> {
    if principal.reach != Reach::Everything {
        return Ok(false);
    }
    let mut nodes = Vec::new();
    view.assignments_below(path, |key, _| nodes.push(key))?;
    for key in nodes {
        if speaks(view, principal, &key.who)?.is_none() {
            continue;
        }
        // The roles on the node and the roles below it are both checked. If the roles on the node do not propagate, the roles of higher nodes apply
        // below the node.
        let node = key.path.as_str();
        let on = resolve(view, now, principal, node)?;
        if on.lets_in() || resolve_below(view, now, principal, node)?.lets_in() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of the nodes strictly below a path, those on which roles give this principal access, in the order of their paths. Returns at most `most` nodes. A
/// node that is below a returned node is left out.
pub(crate) fn admitted_below(
    view: &View<'_>,
    now: Clocks,
    principal: &Principal,
    path: &str,
    most: usize,
) -> Result<Vec<String>, SourceError> {
    let mut admitted: BTreeSet<String> = BTreeSet::new();
    if principal.reach != Reach::Everything {
        return Ok(Vec::new());
    }
    let mut nodes = Vec::new();
    view.assignments_below(path, |key, _| nodes.push(key))?;
    // The assignments are in the order of their nodes. In this order, a node comes before the nodes below the node.
    for key in nodes {
        let node = key.path.as_str();
        let is_reached = RolePath::nodes_to(node).any(|above| admitted.contains(above));
        if is_reached || speaks(view, principal, &key.who)?.is_none() {
            continue;
        }
        if resolve(view, now, principal, node)?.lets_in() {
            admitted.insert(node.to_owned());
        }
        if admitted.len() >= most {
            break;
        }
    }
    Ok(admitted.into_iter().collect())
}
