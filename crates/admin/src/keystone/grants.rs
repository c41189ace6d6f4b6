//! Role assignments.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::resolve::{Names, Target, dangling, domain_id, group_id, role_id, user_id};
use enfilade_facts::tables::{Domain, Grant, GrantKey, GrantScope, Grantee, Group, NamedRole, Project, User};
use enfilade_facts::vocabulary::{NameInDomain, ProjectId, Realm, RoleId, UserId};
use enfilade_facts::{At, Read, Source, View};

/// The scope of a role assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// A project.
    Project(ProjectId),
    /// A domain, by name.
    Domain(Realm),
    /// The whole system.
    System,
    /// The projects below a project, which inherit the role.
    BelowProject(ProjectId),
    /// The projects of a domain, which inherit the role. The domain is given by name.
    BelowDomain(Realm),
}

impl On {
    /// The projects that inherit a role from this project or domain.
    ///
    /// # Errors
    /// For the system, from which no project inherits roles.
    pub fn inherited(self) -> Result<Self, Error> {
        match self {
            On::Project(id) | On::BelowProject(id) => Ok(On::BelowProject(id)),
            On::Domain(realm) | On::BelowDomain(realm) => Ok(On::BelowDomain(realm)),
            On::System => Err(Error::Invalid(
                "a role on the system cannot be an inherited role, because no project inherits it: name a project or a domain, or assign the role without inheritance".to_owned(),
            )),
        }
    }

    /// The name of the scope in the change log.
    fn said(&self, view: &View<'_>) -> Result<String, Error> {
        match self {
            On::Project(id) => name_of_scope(view, &GrantScope::Project(*id)),
            On::Domain(realm) => Ok(format!("domain {realm}")),
            On::System => Ok("system".to_owned()),
            On::BelowProject(id) => name_of_scope(view, &GrantScope::BelowProject(*id)),
            On::BelowDomain(realm) => Ok(format!("domain {realm}, inherited")),
        }
    }
}

/// A role assignment, for listing.
#[derive(Clone, Debug)]
pub struct GrantSummary {
    /// The name of the role.
    pub role: String,
    /// The user or group: `user@realm` or `@group@realm`.
    pub who: String,
    /// The scope, such as `project NAME@DOMAIN`, `domain NAME` or `system`. If projects inherit the role, the text ends with `, inherited`.
    pub on: String,
    /// The record's key.
    pub key: GrantKey,
}

fn key_of(view: &View<'_>, who: &Target, on: &On, role: &str) -> Result<GrantKey, Error> {
    let (who, scope) = grantee_and_scope(view, who, on)?;
    Ok(GrantKey { who, scope, role: role_id(view, role)? })
}

/// Refuses a role of one domain on a project of another domain, as Keystone does.
fn check_domains(view: &View<'_>, key: &GrantKey) -> Result<(), Error> {
    let (GrantScope::Project(id) | GrantScope::BelowProject(id)) = &key.scope else { return Ok(()) };
    let of_role = view.get::<NamedRole>(&key.role)?.and_then(|row| row.domain);
    let of_project = view.get::<Project>(id)?.map(|row| row.domain);
    match of_role.is_some() && of_role != of_project {
        true => Err(Error::Refused(format!(
            "role {} and project {id} are in different domains; assign a role of the project's domain, or a role without a domain",
            key.role
        ))),
        false => Ok(()),
    }
}

/// The existing assignment of a role. `role` is the id or the name of the role, which may belong to a domain.
fn held_key(view: &View<'_>, who: &Target, on: &On, role: &str) -> Result<GrantKey, Error> {
    let (grantee, scope) = grantee_and_scope(view, who, on)?;
    let mut found = Vec::new();
    for (key, _) in view.list::<Grant>(&GrantKey::of_on(&grantee, &scope))? {
        let row = view.get::<NamedRole>(&key.role)?;
        if key.role.to_string() == role || row.is_some_and(|row| row.name == role) {
            found.push(key);
        }
    }
    match found.as_slice() {
        [key] => Ok(*key),
        [] => {
            role_id(view, role)?;
            let hint = "see `enfilade role list --named`; for an inherited assignment, add --inherited";
            Err(Error::Missing { what: "assignment", name: format!("{role} of {who}"), hint })
        }
        several => {
            let ids: Vec<String> = several.iter().map(|key| key.role.to_string()).collect();
            Err(Error::Invalid(format!(
                "{who} has several roles with the name `{role}` in this scope; use one of these ids: {}",
                ids.join(", ")
            )))
        }
    }
}

fn grantee_and_scope(view: &View<'_>, who: &Target, on: &On) -> Result<(Grantee, GrantScope), Error> {
    let who = match who {
        Target::User(user) => Grantee::User(user_id(view, user)?),
        Target::Group(group) => Grantee::Group(group_id(view, group)?),
        Target::Token(..) => {
            let why = "this role can be assigned only to a user or group, not to an API token; to limit a token to a project, create the token with `enfilade token create --project`";
            return Err(Error::Invalid(why.into()));
        }
    };
    let existing = |project: &ProjectId| match view.get::<Project>(project)? {
        Some(_) => Ok(*project),
        None => Err(dangling("project", project)),
    };
    let scope = match on {
        On::Project(project) => GrantScope::Project(existing(project)?),
        On::BelowProject(project) => GrantScope::BelowProject(existing(project)?),
        On::Domain(realm) => GrantScope::Domain(domain_id(view, realm)?),
        On::BelowDomain(realm) => GrantScope::BelowDomain(domain_id(view, realm)?),
        On::System => GrantScope::System,
    };
    Ok((who, scope))
}

/// Assigns a role. If the role is already assigned, this is not an error.
///
/// # Errors
/// When the user, group, scope or role does not exist, the role and the project are in different domains, or the facts cannot be changed.
pub fn grant_role(ctx: &ChangeContext<'_>, who: &Target, on: &On, role: &str) -> Result<At, Error> {
    let on_it = ctx.facts.read(|view| on.said(view))??;
    let ((), at) = ctx.commit(&format!("role assign {role} to {who} on {on_it}"), |view, change| {
        let key = key_of(view, who, on, role)?;
        check_domains(view, &key)?;
        change.put(&key, &Grant);
        Ok(())
    })?;
    Ok(at)
}

/// Removes a role assignment.
///
/// # Errors
/// When the role assignment does not exist, or the facts cannot be changed.
pub fn take_role(ctx: &ChangeContext<'_>, who: &Target, on: &On, role: &str) -> Result<At, Error> {
    let on_it = ctx.facts.read(|view| on.said(view))??;
    let ((), at) = ctx.commit(&format!("role remove {role} from {who} on {on_it}"), |view, change| {
        change.remove::<Grant>(&held_key(view, who, on, role)?);
        Ok(())
    })?;
    Ok(at)
}

/// Assigns a role if `is_so` is set; otherwise removes the role assignment. Returns whether that changed anything.
///
/// # Errors
/// When the role to assign and the project are in different domains, or the facts cannot be changed.
pub fn set_grant(ctx: &ChangeContext<'_>, key: &GrantKey, is_so: bool) -> Result<bool, Error> {
    let verb = if is_so { "assigned" } else { "removed" };
    let (changed, _) = ctx.commit(&format!("role {} {verb}", key.role), |view, change| {
        let was = view.get::<Grant>(key)?.is_some();
        match is_so {
            true => {
                check_domains(view, key)?;
                change.expect_present::<NamedRole>(&key.role);
                match &key.who {
                    Grantee::User(id) => change.expect_present::<User>(id),
                    Grantee::Group(id) => change.expect_present::<Group>(id),
                };
                change.put(key, &Grant)
            }
            false if was => change.remove::<Grant>(key),
            false => change,
        };
        Ok(was != is_so)
    })?;
    Ok(changed)
}

/// Every role assignment.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_grants(source: &dyn Source) -> Result<Vec<GrantSummary>, Error> {
    source.read(|view| {
        let names = Names::read(view)?;
        let mut grants = Vec::new();
        for (key, _) in view.list::<Grant>(&[])? {
            let who = match &key.who {
                Grantee::User(id) => names.user(id),
                Grantee::Group(id) => names.group(id),
            };
            let on = name_of_scope(view, &key.scope)?;
            let role = view.get::<NamedRole>(&key.role)?.map_or_else(|| key.role.to_string(), |row| row.name);
            grants.push(GrantSummary { role, who, on, key });
        }
        grants.sort_by(|a, b| (&a.on, &a.who, &a.role).cmp(&(&b.on, &b.who, &b.role)));
        Ok(grants)
    })?
}

/// The name of a scope: `project NAME@DOMAIN`, `domain NAME` or `system`. A scope of all projects below a project or in a domain has the ending `,
/// inherited`.
pub(crate) fn name_of_scope(view: &View<'_>, scope: &GrantScope) -> Result<String, Error> {
    let domain_name = |id| view.get::<Domain>(id).map(|row| row.map(|row| row.name));
    let inherited = |scope| Ok::<_, Error>(format!("{}, inherited", name_of_scope(view, &scope)?));
    Ok(match scope {
        GrantScope::System => "system".to_owned(),
        GrantScope::BelowProject(id) => inherited(GrantScope::Project(*id))?,
        GrantScope::BelowDomain(id) => inherited(GrantScope::Domain(*id))?,
        GrantScope::Domain(id) => {
            domain_name(id)?.map_or_else(|| format!("domain {id}"), |name| format!("domain {name}"))
        }
        GrantScope::Project(id) => match view.get::<Project>(id)? {
            Some(row) => match domain_name(&row.domain)? {
                Some(domain) => format!("project {}", NameInDomain { name: row.name, domain }),
                None => format!("project {}", row.name),
            },
            None => format!("project {id}"),
        },
    })
}

/// Whether a user has a role on a project: directly, by a group, or inherited.
///
/// # Errors
/// When the facts cannot be read.
pub fn has_role_on(view: &View<'_>, user: &UserId, project: &ProjectId) -> Result<bool, Error> {
    Ok(!enfilade_identity::roles_of(view, user, project, None)?.is_empty())
}

/// The roles that a user has on a project, by id and name: assigned, inherited and implied roles.
///
/// # Errors
/// When the facts cannot be read.
pub fn held_roles(
    source: &dyn Source,
    user: &UserId,
    project: &ProjectId,
) -> Result<Vec<(RoleId, String)>, Error> {
    source.read(|view| {
        let held = enfilade_identity::roles_of(view, user, project, None)?;
        Ok(held.into_iter().map(|role| (role.id, role.name)).collect())
    })?
}
