//! `enfilade role`.

use super::keystone::{find_project, find_with_name, require_domain};
use super::{defined_in, enabled, keeping_administrators, similar};
use crate::backup::schedule::is_gone;
use crate::cli::{Assignment, On, RoleCommand};
use crate::clock;
use crate::home::{Home, seed};
use crate::output::{self, counted};
use anyhow::bail;
use enfilade_admin::keystone::{
    self, RoleUse, define_role, grant_role, list_grants, list_named_roles, remove_named_role, role_use,
    take_role,
};
use enfilade_admin::{AssignmentSummary, ChangeContext, Target};
use enfilade_facts::tables::NamedRole;
use enfilade_facts::vocabulary::{ApplicationName, DatastoreName, Role, RoleId, RolePath};
use enfilade_facts::{At, Read as _, Source};
use enfilade_identity::{IdentityMemo, who_would};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;

pub(super) fn run(home: &Home, mut command: RoleCommand, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    // The answer contains the full names of project and group, because several domains may have a project or group with the same name.
    if let RoleCommand::Assign { assignment, .. } | RoleCommand::Remove { assignment, .. } = &mut command {
        assignment.auth_id = assignment.auth_id.parse::<Target>()?.to_string();
        if let Some(project) = &mut assignment.on.project {
            *project = find_with_name(home, project)?.1;
        }
    }
    match command {
        RoleCommand::Assign { assignment, no_propagate, before_creation, force } => {
            if let Some(name) = assignment.on.path.as_ref().and_then(RolePath::datastore)
                && !before_creation
            {
                require_datastore(home, &name)?;
            }
            if let Some(name) = assignment.on.path.as_ref().and_then(RolePath::application)
                && !before_creation
            {
                require_application(home, &name)?;
            }
            keeping_administrators(home, force, |ctx| assign(home, ctx, &assignment, !no_propagate, json))?;
        }
        RoleCommand::Remove { assignment, inherited, force } => {
            let Assignment { on, auth_id, role } = &assignment;
            let who: Target = auth_id.parse()?;
            let at = keeping_administrators(home, force, |ctx| match &on.path {
                Some(path) => Ok(enfilade_admin::remove_role(ctx, path, &who, role.parse()?)?),
                None => {
                    let on = named(home, on)?;
                    let on = if inherited { on.inherited()? } else { on };
                    Ok(take_role(ctx, &who, &on, role)?)
                }
            })?;
            let below = if inherited { ", inherited" } else { "" };
            let value = described(&assignment, at, None, &[]);
            output::done(json, &value, &format!("{auth_id} no longer has the role {role} on {on}{below}"));
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

fn described(assignment: &Assignment, at: At, without_effect: Option<&str>, others: &[Role]) -> Value {
    let Assignment { on, auth_id, role } = assignment;
    let others: Vec<&str> = others.iter().map(|role| role.name()).collect();
    json!({
        "path": on.path.as_ref().map(ToString::to_string), "project": on.project,
        "domain": on.domain.as_ref().map(ToString::to_string), "system": on.system,
        "auth_id": auth_id, "role": role, "without_effect": without_effect, "other_roles": others,
        "revision": at.revision.0,
    })
}

/// Assigns a role. Also prints the other roles on the path, and what limits the effect of the role: NoAccess, the roles of a token's owner, or a path
/// at which nothing exists.
fn assign(
    home: &Home,
    ctx: &ChangeContext<'_>,
    assignment: &Assignment,
    propagate: bool,
    json: bool,
) -> anyhow::Result<()> {
    let Assignment { on, auth_id, role } = assignment;
    let who: Target = auth_id.parse()?;
    let Some(path) = &on.path else {
        let at = grant_role(ctx, &who, &named(home, on)?, role)?;
        let value = described(assignment, at, None, &[]);
        output::done(json, &value, &format!("{auth_id} has the role {role} on {on}"));
        return Ok(());
    };
    let new: Role = role.parse()?;
    let at = enfilade_admin::assign_role(ctx, path, &who, new, propagate)?;
    let is_other = |row: &AssignmentSummary| {
        row.path == *path && with_realm(&row.who) == who.to_string() && row.role != new
    };
    let rows = enfilade_admin::list_roles(home.source())?;
    let others: Vec<Role> = rows.into_iter().filter(is_other).map(|row| row.role).collect();
    let remove = |role: Role| {
        let (path, who) = (output::word(path.as_str()), output::word(&who.to_string()));
        format!("enfilade role remove --path {path} --auth-id {who} {role}")
    };
    let without_effect = match others.contains(&Role::NoAccess) {
        true => Some(format!(
            "the role has no effect, because NoAccess is on the same path; to remove NoAccess: {}",
            remove(Role::NoAccess)
        )),
        false => without_effect(home, &who, path, new)?,
    };
    let text = match &without_effect {
        Some(why) => format!("the role {role} on {on} is assigned to {auth_id}, but {why}"),
        None if others.is_empty() || new == Role::NoAccess => {
            format!("{auth_id} has the role {role} on {on}")
        }
        None => {
            let names: Vec<&str> = others.iter().map(|role| role.name()).collect();
            let remove: Vec<String> = others.iter().map(|role| remove(*role)).collect();
            format!(
                "{auth_id} has the role {role} on {on} in addition to {}; to remove the other roles: {}",
                names.join(", "),
                remove.join("; ")
            )
        }
    };
    output::done(json, &described(assignment, at, without_effect.as_deref(), &others), &text);
    if let Some(place) = absent(home, path)? {
        output::note(&format!(
            "warning: {path} (`{}`) does not exist: check the path; the role applies when the path is created",
            place.display()
        ));
    }
    Ok(())
}

/// The missing file or folder to which the path of a role refers. `None` if something exists at the path, if the path is not below a datastore, or if
/// the directory of the datastore does not exist.
fn absent(home: &Home, path: &RolePath) -> anyhow::Result<Option<PathBuf>> {
    let Some(name) = path.datastore() else { return Ok(None) };
    let below = path.as_str().strip_prefix(&format!("/datastore/{name}/")).unwrap_or_default();
    let found = enfilade_admin::list_datastores(home.source())?.into_iter().find(|row| row.name == name);
    let root = found.map(|row| PathBuf::from(row.path)).filter(|root| !below.is_empty() && root.is_dir());
    Ok(root.map(|root| root.join(below)).filter(|place| is_gone(place)))
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

/// The name of a grantee, in the form of `acl.cfg`. If the name of a group contains no realm, this function adds the realm.
fn with_realm(who: &str) -> String {
    who.parse::<Target>().map_or_else(|_| who.to_owned(), |who| who.to_string())
}

/// Lists the role assignments on paths.
fn list_on_paths(source: &dyn Source, json: bool) -> anyhow::Result<()> {
    let rows = enfilade_admin::list_roles(source)?;
    if json {
        rows.iter().for_each(|row| {
            output::json_line(&json!({
                "path": row.path.to_string(), "auth_id": with_realm(&row.who), "role": row.role.name(),
                "propagate": row.propagate, "kept_in": row.is_mirrored.then_some("acl.cfg"), "fault": row.fault,
            }));
        });
        return Ok(());
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            let file = defined_in(row.is_mirrored, row.fault.as_deref(), "acl.cfg");
            let who = with_realm(&row.who);
            vec![row.path.to_string(), who, row.role.to_string(), enabled(row.propagate), file]
        })
        .collect();
    output::table(&["PATH", "WHO", "ROLE", "BELOW", "KEPT IN"], &rows);
    Ok(())
}

/// The reason why the role of an API token on a path grants only some of its rights, or none. `None` if the role has full effect. Also `None` for
/// users and groups.
fn without_effect(home: &Home, who: &Target, path: &RolePath, role: Role) -> anyhow::Result<Option<String>> {
    let Target::Token(owner, _) = who else { return Ok(None) };
    let token = who.to_string();
    let tokens = enfilade_admin::list_tokens(home.source(), Some(owner))?;
    let Some(found) = tokens.into_iter().find(|row| row.tokenid == token) else { return Ok(None) };
    if found.limited_to.is_some() {
        return Ok(Some("the role has no effect, because the token is limited to its project".to_owned()));
    }
    if !found.own_roles {
        return Ok(Some(format!(
            "the role has no effect, because the token has all roles of its owner; to limit the token to its own roles: enfilade token set {} \
             --own-roles",
            output::word(&token)
        )));
    }
    let memo = IdentityMemo::new(seed()?, MEMO_BYTES);
    let privileges = home.source().read(|view| {
        let owner = who_would(view, clock::now(), &owner.clone().into(), None, &memo)?;
        Ok::<_, anyhow::Error>(enfilade_access::privileges(view, clock::now(), &owner, path)?.0)
    })?;
    // If the owner is disabled or expired, `privileges` is an error, and counts as no privileges. The token of such an owner is refused anyway.
    let is_covered = privileges.is_ok_and(|privileges| privileges.covers(role.privileges()));
    Ok((!is_covered).then(|| {
        let owner = output::word(&owner.to_string());
        format!(
            "the role has full effect only if the owner of the token also has the privileges of the role on this path: enfilade role assign --path \
             {} --auth-id {owner} {role}",
            output::word(path.as_str())
        )
    }))
}

/// The size of the memo for identity checks during one command, in bytes.
const MEMO_BYTES: usize = 1 << 20;

/// Removes a role. Without `force`, refuses to remove an immutable role, such as a role that `enfilade bootstrap` made.
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
    let at = keeping_administrators(home, force, |ctx| Ok(remove_named_role(ctx, name)?))?;
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

/// Refuses an application that does not exist. A role on a mistyped name would grant nothing now, but would apply to a later application with this
/// name.
fn require_application(home: &Home, name: &ApplicationName) -> anyhow::Result<()> {
    let applications = enfilade_admin::list_applications(home.source())?;
    if applications.iter().any(|(known, _)| known == name) {
        return Ok(());
    }
    let similar = similar(applications.iter().map(|(known, _)| known.as_str()), name.as_str());
    bail!(
        "there is no application `{name}`{similar}; see `enfilade application list`; to assign roles before it is created, add --before-creation"
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
