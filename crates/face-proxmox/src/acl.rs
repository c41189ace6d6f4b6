//! `/access/acl`, `/access/roles`, `/access/permissions`.

use super::{ApiError, ApiResponse, Call, Outcome, digest};
use enfilade_admin::{AssignmentSummary, Target};
use enfilade_facts::vocabulary::{Authid, Privileges, Role, RolePath};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const PATH: &str = "/access/acl";

fn shown(row: &AssignmentSummary) -> Value {
    let (ugid, kind) = match row.who.strip_prefix('@') {
        Some(group) => (group.trim_end_matches("@local"), "group"),
        None => (row.who.as_str(), "user"),
    };
    json!({
        "path": row.path.to_string(), "ugid": ugid, "ugid_type": kind, "propagate": row.propagate,
        "roleid": row.role.name(),
    })
}

fn all(call: &Call) -> Result<Vec<AssignmentSummary>, ApiError> {
    Ok(enfilade_admin::list_roles(call.faces.house().source())?)
}

/// Lists all role assignments if the caller has `Sys.Audit`. Otherwise lists only the assignments to the caller's own tokens. `path` restricts the
/// list to this path and the paths below it. If `exact` is set, the list is restricted to this path alone.
pub(super) fn list(call: &mut Call) -> Outcome {
    call.params.only(&["path", "exact"])?;
    call.permit(PATH, Privileges::NONE, None)?;
    let sees_all = call.permit(PATH, Privileges::SYS_AUDIT, None).is_ok();
    let own = call.visit.principal().authid.user.clone();
    let rows = all(call)?;
    let all = Value::Array(rows.iter().map(shown).collect());
    let path = call.params.get("path")?.map(super::parsed::<RolePath>).transpose()?;
    let is_exact = call.params.flag("exact")?.unwrap_or(false);
    let is_asked = |row: &&AssignmentSummary| match &path {
        None => true,
        Some(path) if is_exact => row.path == *path,
        Some(path) => {
            let below = path.as_str().trim_end_matches('/').len();
            row.path == *path
                || row.path.as_str().starts_with(path.as_str())
                    && row.path.as_str().as_bytes().get(below) == Some(&b'/')
        }
    };
    // The text before a `!` is not always the name of a user, because the name of a user can itself contain `!`. So the whole text is parsed.
    let is_own = |who: &str| who.parse::<Authid>().is_ok_and(|who| who.token.is_some() && who.user == own);
    let is_seen = |row: &&AssignmentSummary| sees_all || is_own(&row.who);
    let value = Value::Array(rows.iter().filter(is_seen).filter(is_asked).map(shown).collect());
    Ok(ApiResponse { value, digest: Some(digest(&all)) })
}

/// Assigns or removes a role. The caller needs `Permissions.Modify`. A user who is logged in without an API token needs no privilege to change the
/// roles of their own tokens.
pub(super) fn change(call: &mut Call) -> Outcome {
    call.params.only(&["path", "role", "propagate", "auth-id", "group", "delete", "digest"])?;
    let target: Target = match (call.params.get("auth-id")?, call.params.get("group")?) {
        (Some(authid), None) if !authid.starts_with('@') => super::parsed(authid)?,
        (None, Some(group)) => super::parsed(&format!("@{group}"))?,
        _ => return Err("parameter 'auth-id': expected either an auth id or a group".to_owned().into()),
    };
    let own = match &target {
        Target::Token(user, _) => Some(user.clone()),
        Target::User(_) | Target::Group(_) => None,
    };
    let permit = call.permit(PATH, Privileges::PERMISSIONS_MODIFY, own.as_ref())?;
    call.check_digest(&digest(&Value::Array(all(call)?.iter().map(shown).collect())))?;
    let path: RolePath = super::parsed(call.params.need("path")?)?;
    let role: Role = super::parsed(call.params.need("role")?)?;
    let propagate = call.params.flag("propagate")?.unwrap_or(true);
    let is_removed = call.params.flag("delete")?.unwrap_or(false);
    call.change(&permit, |ctx| match is_removed {
        true => enfilade_admin::remove_role(ctx, &path, &target, role),
        false => enfilade_admin::assign_role(ctx, &path, &target, role, propagate),
    })?;
    Ok(Value::Null.into())
}

/// Lists every role and its privileges.
pub(super) fn roles(_: &mut Call) -> Outcome {
    let role =
        |role: Role| json!({ "roleid": role.name(), "privs": role.privileges().names().collect::<Vec<_>>() });
    Ok(Value::Array(Role::ALL.into_iter().map(role).collect()).into())
}

/// Lists the privileges of the caller, or of another user or token. If the call names a path, lists the privileges on this path. Otherwise lists the
/// privileges on Proxmox's top-level paths and on every path with a role. A path without privileges is left out. Each privilege has a flag that says
/// whether it also applies below the path.
pub(super) fn permissions(call: &mut Call) -> Outcome {
    call.params.only(&["auth-id", "path"])?;
    let own = call.visit.principal().authid.clone();
    let other = call.params.get("auth-id")?.map(super::parsed::<Authid>).transpose()?;
    let other = other.filter(|other| *other != own);
    let leave = match &other {
        None => None,
        Some(other) => {
            // A user needs no privilege to see the privileges of their own tokens.
            let user = other.token.as_ref().map(|_| other.user.clone());
            Some(call.permit("/access", Privileges::SYS_AUDIT, user.as_ref())?)
        }
    };
    let paths: BTreeSet<String> = match call.params.get("path")? {
        Some(path) => BTreeSet::from([path.to_owned()]),
        None => {
            let trees = ["/", "/access", "/datastore", "/remote", "/system", "/tape"].map(str::to_owned);
            trees.into_iter().chain(all(call)?.into_iter().map(|row| row.path.to_string())).collect()
        }
    };
    let mut found = Map::new();
    for path in paths {
        let at: RolePath = super::parsed(&path)?;
        let (here, below) = match (&other, &leave) {
            (Some(other), Some(leave)) => call.visit.privileges_of(leave, other, &at)?,
            _ => call.visit.privileges(&at)?,
        };
        let held: Map<String, Value> = here
            .names()
            .map(|name| (name.to_owned(), Value::Bool(below.names().any(|other| other == name))))
            .collect();
        if !held.is_empty() {
            found.insert(path, Value::Object(held));
        }
    }
    Ok(Value::Object(found).into())
}
