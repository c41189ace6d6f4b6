//! The role `admin` on the system, on a domain or on a project. By Keystone's rules, a session with this role may make every call of Identity v3.

use crate::error::Error;
use enfilade_facts::View;
use enfilade_facts::tables::{Domain, Grant, GrantScope, Grantee, NamedRole, Project};
use enfilade_facts::vocabulary::{DomainId, ProjectId, RoleId};
use std::collections::BTreeSet;

/// The role that permits every call.
const ADMIN: &str = "admin";

/// The users and groups with one of the [`admin_roles`] on a scope for which sessions can be issued.
pub(super) fn with_admin(view: &View<'_>) -> Result<BTreeSet<Grantee>, Error> {
    let roles = admin_roles(view)?;
    let mut found = BTreeSet::new();
    for (key, _) in view.list::<Grant>(&[])? {
        if roles.contains(&key.role) && is_open(view, &key.scope)? {
            found.insert(key.who);
        }
    }
    Ok(found)
}

/// The role `admin` that belongs to no domain, and all roles that imply it, directly or through other roles.
fn admin_roles(view: &View<'_>) -> Result<BTreeSet<RoleId>, Error> {
    let rows = view.list::<NamedRole>(&[])?;
    let is_admin = |row: &NamedRole| row.name == ADMIN && row.domain.is_none();
    let mut found: BTreeSet<RoleId> =
        rows.iter().filter(|(_, row)| is_admin(row)).map(|(id, _)| *id).collect();
    loop {
        let before = found.len();
        let implying = rows.iter().filter(|(_, row)| row.implies.iter().any(|role| found.contains(role)));
        let implying: Vec<RoleId> = implying.map(|(id, _)| *id).collect();
        found.extend(implying);
        if found.len() == before {
            return Ok(found);
        }
    }
}

/// Whether sessions for a scope, or for projects below it, can be issued.
fn is_open(view: &View<'_>, scope: &GrantScope) -> Result<bool, Error> {
    let domain =
        |id: &DomainId| -> Result<bool, Error> { Ok(view.get::<Domain>(id)?.is_some_and(|row| row.enabled)) };
    let project = |id: &ProjectId| view.get::<Project>(id);
    match scope {
        GrantScope::System => Ok(true),
        GrantScope::Domain(id) | GrantScope::BelowDomain(id) => domain(id),
        GrantScope::Project(id) => match project(id)? {
            Some(row) => Ok(row.enabled && domain(&row.domain)?),
            None => Ok(false),
        },
        GrantScope::BelowProject(id) => project(id)?.map_or(Ok(false), |row| domain(&row.domain)),
    }
}
