//! The administrators of the cloud: the users with the role `admin` on the system, on a domain or on a project. By Keystone's rules, a session with this
//! role may make every call of Identity v3.

use super::{Administrator, Loss, Without, holders, takes_last};
use crate::error::Error;
use enfilade_facts::tables::{Domain, Grant, GrantScope, Grantee, NamedRole, Project};
use enfilade_facts::vocabulary::{DomainId, ProjectId, RoleId, Userid};
use enfilade_facts::{Read, Source, View};
use std::collections::BTreeSet;

/// The role that permits every call.
const ADMIN: &str = "admin";

/// The administrators of the cloud who can log in, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn cloud_administrators(source: &dyn Source, now: i64) -> Result<Vec<Userid>, Error> {
    source.read(|view| found(view, now, &Without::default()))?
}

/// Whether an administrator of the cloud can log in now, and none could after the change. False for a change of records that do not exist.
///
/// # Errors
/// When the facts cannot be read.
pub fn takes_last_cloud_administrator(source: &dyn Source, loss: &Loss<'_>, now: i64) -> Result<bool, Error> {
    takes_last(source, loss, |view, without| Ok(!found(view, now, without)?.is_empty()))
}

fn found(view: &View<'_>, now: i64, without: &Without) -> Result<Vec<Userid>, Error> {
    let roles = admin_roles(view)?;
    let (mut users, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for (key, _) in view.list::<Grant>(&[])? {
        let counts = roles.contains(&key.role) && without.grant != Some(key);
        if !counts || !is_open(view, &key.scope, without)? {
            continue;
        }
        match key.who {
            Grantee::User(id) => drop(users.insert(id)),
            Grantee::Group(id) => drop(groups.insert(id)),
        }
    }
    let holders = holders(view, now, without, users, groups)?;
    let mut found: Vec<Userid> =
        holders.into_iter().filter(Administrator::can_log_in).map(|holder| holder.name).collect();
    found.sort();
    Ok(found)
}

/// The roles named `admin`, and all roles that imply one of them.
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
fn is_open(view: &View<'_>, scope: &GrantScope, without: &Without) -> Result<bool, Error> {
    let domain = |id: &DomainId| -> Result<bool, Error> {
        Ok(without.domain != Some(*id) && view.get::<Domain>(id)?.is_some_and(|row| row.enabled))
    };
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
