//! `enfilade role`.

use super::keystone::{find_project, require_domain};
use super::{defined_in, enabled, has_administrator, similar, warn_without_administrator};
use crate::cli::{Assignment, On, RoleCommand};
use crate::clock;
use crate::home::{Home, seed};
use crate::output::{self, counted};
use anyhow::bail;
use enfilade_admin::Target;
use enfilade_admin::keystone::{
    self, RoleUse, define_role, grant_role, list_grants, list_named_roles, remove_named_role, role_use,
    take_role,
};
use enfilade_facts::tables::NamedRole;
use enfilade_facts::vocabulary::{DatastoreName, Role, RoleId, RolePath};
use enfilade_facts::{At, Read as _, Source};
use enfilade_identity::{IdentityMemo, who_would};
use serde_json::{Value, json};
use std::fmt;

pub(super) fn run(home: &Home, command: RoleCommand, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    let said = |assignment: &Assignment, at: At, text: &str, without_effect: Option<&str>| {
        let on = &assignment.on;
        let value = json!({
            "path": on.path.as_ref().map(ToString::to_string), "project": on.project,
            "domain": on.domain.as_ref().map(ToString::to_string), "system": on.system,
            "auth_id": assignment.auth_id, "role": assignment.role, "without_effect": without_effect,
            "revision": at.revision.0,
        });
        output::done(json, &value, text);
    };
    match command {
        RoleCommand::Assign { assignment, no_propagate, before_creation } => {
            let Assignment { on, auth_id, role } = &assignment;
            if let Some(name) = on.path.as_ref().and_then(RolePath::datastore).filter(|_| !before_creation) {
                require_datastore(home, &name)?;
            }
            let (who, ctx) = (auth_id.parse()?, home.change_context());
            let (at, without_effect) = match &on.path {
                Some(path) => {
                    let role = role.parse()?;
                    let at = enfilade_admin::assign_role(&ctx, path, &who, role, !no_propagate)?;
                    (at, without_effect(home, &who, path, role)?)
                }
                None => (grant_role(&ctx, &who, &named(home, on)?, role)?, None),
            };
            let text = match &without_effect {
                Some(why) => format!("the role {role} on {on} is assigned to {auth_id}, but {why}"),
                None => format!("{auth_id} has the role {role} on {on}"),
            };
            said(&assignment, at, &text, without_effect.as_deref());
        }
        RoleCommand::Remove { assignment } => {
            let Assignment { on, auth_id, role } = &assignment;
            let (who, ctx, had_administrator) =
                (auth_id.parse()?, home.change_context(), has_administrator(home)?);
            let at = match &on.path {
                Some(path) => enfilade_admin::remove_role(&ctx, path, &who, role.parse()?)?,
                None => take_role(&ctx, &who, &named(home, on)?, role)?,
            };
            said(&assignment, at, &format!("{auth_id} no longer has the role {role} on {on}"), None);
            warn_without_administrator(home, had_administrator)?;
        }
        RoleCommand::Define { name, implies, description } => {
            let (id, at) = define_role(&home.change_context(), &name, description.as_deref(), &implies)?;
            let value = json!({ "role": name, "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("role {name} created"));
        }
        RoleCommand::Undefine { name, force } => undefine(home, &name, force, json)?,
        RoleCommand::List { named: true } => list_named(source, json)?,
        RoleCommand::List { named: false } => list_on_paths(source, json)?,
    }
    Ok(())
}

/// Lists the role assignments of Identity v3, and the defined roles.
fn list_named(source: &dyn Source, json: bool) -> anyhow::Result<()> {
    let rows = list_grants(source)?;
    if json {
        rows.iter().for_each(|row| {
            output::json_line(&json!({ "on": row.on, "auth_id": row.who, "role": row.role }));
        });
        return Ok(());
    }
    let rows: Vec<_> = rows.into_iter().map(|row| vec![row.on, row.who, row.role]).collect();
    output::table(&["ON", "WHO", "ROLE"], &rows);
    let roles = list_named_roles(source)?;
    let name_of = |id| roles.iter().find(|(known, _)| *known == id).map_or("?", |(_, row)| row.name.as_str());
    let row = |(id, row): &(RoleId, NamedRole)| {
        let implied: Vec<&str> = row.implies.iter().map(|id| name_of(*id)).collect();
        let implied = if implied.is_empty() { "-".to_owned() } else { implied.join(", ") };
        vec![row.name.clone(), implied, id.to_string()]
    };
    output::line("");
    output::table(&["ROLE", "IMPLIES", "ID"], &roles.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// Lists the role assignments on paths.
fn list_on_paths(source: &dyn Source, json: bool) -> anyhow::Result<()> {
    let rows = enfilade_admin::list_roles(source)?;
    if json {
        rows.iter().for_each(|row| {
            output::json_line(&json!({
                "path": row.path.to_string(), "auth_id": row.who, "role": row.role.name(),
                "propagate": row.propagate, "kept_in": row.is_mirrored.then_some("acl.cfg"), "fault": row.fault,
            }));
        });
        return Ok(());
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            let file = defined_in(row.is_mirrored, row.fault.as_deref(), "acl.cfg");
            vec![row.path.to_string(), row.who, row.role.to_string(), enabled(row.propagate), file]
        })
        .collect();
    output::table(&["PATH", "WHO", "ROLE", "BELOW", "KEPT IN"], &rows);
    Ok(())
}

/// Why a role on a path that was assigned to an API token grants nothing, or not everything. `None` for users and groups, and if the role counts.
fn without_effect(home: &Home, who: &Target, path: &RolePath, role: Role) -> anyhow::Result<Option<String>> {
    let Target::Token(owner, _) = who else { return Ok(None) };
    let token = who.to_string();
    let tokens = enfilade_admin::list_tokens(home.source(), Some(owner))?;
    let Some(found) = tokens.into_iter().find(|row| row.tokenid == token) else { return Ok(None) };
    if found.limited_to.is_some() {
        return Ok(Some("it has no effect: the token is limited to its project".to_owned()));
    }
    if !found.own_roles {
        return Ok(Some(format!(
            "it has no effect: the token has all roles of its owner; to limit it to its own roles: enfilade token set {} --own-roles",
            output::word(&token)
        )));
    }
    let memo = IdentityMemo::new(seed()?, MEMO_BYTES);
    let privileges = home.source().read(|view| {
        let owner = who_would(view, clock::now(), &owner.clone().into(), None, &memo)?;
        Ok::<_, anyhow::Error>(enfilade_access::privileges(view, clock::now(), &owner, path)?.0)
    })?;
    // A disabled or expired owner has no privileges now, and the token is refused.
    let is_covered = privileges.is_ok_and(|privileges| privileges.covers(role.privileges()));
    Ok((!is_covered).then(|| {
        let owner = output::word(&owner.to_string());
        format!("it has full effect only when its owner also has the privileges of the role there: enfilade role assign --path {} --auth-id {owner} {role}", output::word(path.as_str()))
    }))
}

/// The size of the memo for identity checks during one command, in bytes.
const MEMO_BYTES: usize = 1 << 20;

/// Removes a role. Without `force`, refuses an immutable role, such as a role of `enfilade bootstrap`.
fn undefine(home: &Home, name: &str, force: bool, json: bool) -> anyhow::Result<()> {
    let RoleUse { extra, assignments, implications } = role_use(home.source(), name)?;
    let with = format!(
        "{} and {}",
        counted(assignments, "assignment", "assignments"),
        counted(implications, "implication", "implications")
    );
    let extra: Value = serde_json::from_str(&extra).unwrap_or_default();
    if !force && extra.pointer("/options/immutable") == Some(&Value::Bool(true)) {
        bail!(
            "role `{name}` is immutable, so nothing was changed; to remove the role together with {with}, add --force"
        );
    }
    let at = remove_named_role(&home.change_context(), name)?;
    let value = json!({
        "role": name, "assignments": assignments, "implications": implications, "revision": at.revision.0,
    });
    output::done(json, &value, &format!("role {name} removed, with {with}"));
    Ok(())
}

/// Refuses a datastore that does not exist, because a role on a mistyped name would grant nothing.
fn require_datastore(home: &Home, name: &DatastoreName) -> anyhow::Result<()> {
    let datastores = enfilade_admin::list_datastores(home.source())?;
    if datastores.iter().any(|row| row.name == *name) {
        return Ok(());
    }
    let similar = similar(datastores.iter().map(|row| row.name.as_str()), name.as_str());
    bail!(
        "there is no datastore `{name}`{similar}; see `enfilade datastore list`; to assign roles before it is created, add --before-creation"
    )
}

/// The project, domain or system that the options name.
fn named(home: &Home, on: &On) -> anyhow::Result<keystone::On> {
    Ok(match (&on.project, &on.domain) {
        (Some(project), _) => keystone::On::Project(find_project(home, project)?),
        (None, Some(domain)) => {
            require_domain(home, domain)?;
            keystone::On::Domain(domain.clone())
        }
        (None, None) => keystone::On::System,
    })
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, &self.project, &self.domain) {
            (Some(path), ..) => write!(f, "{path}"),
            (_, Some(project), _) => write!(f, "project {project}"),
            (.., Some(domain)) => write!(f, "domain {domain}"),
            _ => f.write_str("the system"),
        }
    }
}
