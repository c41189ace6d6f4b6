//! Roles and role implications.

use super::extra::extra_of;
use super::leaving::sweep_all;
use super::names::check_role_name;
use super::resource::{Saving, StoredResource, delete, put_and_end};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::{Error, missing};
use crate::resolve::{dangling, role_id};
use enfilade_facts::tables::{Domain, Grant, Leaving, LeavingKey, Name, NameKey, NamedRole, ResourceKind};
use enfilade_facts::vocabulary::RoleId;
use enfilade_facts::{At, Change, Read, Source, View};

impl StoredResource for NamedRole {
    const NAME: &'static str = "role";
    const KIND: ResourceKind = ResourceKind::Role;

    fn called(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_role_name(&self.name)?;
        check_comment(self.description.as_deref())?;
        if at.before.is_some_and(|before| before.domain != self.domain) {
            return Err(Error::Refused("the domain of a role cannot be changed".to_owned()));
        }
        if let Some(domain) = &self.domain {
            at.view.get::<Domain>(domain)?.ok_or_else(|| missing("domain", domain))?;
            at.change.expect_present::<Domain>(domain);
        }
        at.take_name(|row| NameKey::role_of(row.domain.as_ref(), &row.name), self, &self.name, *at.id.bytes())
    }

    fn put(&self, change: &mut Change, id: &RoleId, before: Option<&Self>) {
        put_and_end(change, id, before, self);
    }

    /// The role grants nothing from this change on; its assignments are deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &RoleId) -> Result<(), Error> {
        change.remove::<NamedRole>(id);
        change.delete::<Name>(&NameKey::role_of(self.domain.as_ref(), &self.name));
        change.put(&LeavingKey::Role(*id), &Leaving);
        for (other, row) in view.list::<NamedRole>(&[])? {
            if other != *id && row.implies.contains(id) {
                let mut edited = row.clone();
                edited.implies.retain(|implied| implied != id);
                change.replace(&other, &row, &edited);
            }
        }
        Ok(())
    }
}

/// The role that no role implies (as by default in Keystone): otherwise every user with the other role is an administrator.
const NEVER_IMPLIED: &str = "admin";

/// Refuses to let a role imply [`NEVER_IMPLIED`].
fn check_implied(view: &View<'_>, implied: &RoleId) -> Result<(), Error> {
    match view.get::<NamedRole>(implied)?.is_some_and(|row| row.name == NEVER_IMPLIED) {
        true => {
            Err(Error::Refused(format!("{NEVER_IMPLIED} cannot be an implied role; assign the role itself")))
        }
        false => Ok(()),
    }
}

/// Creates a role that implies no other role.
///
/// # Errors
/// As [`define_role`].
pub fn add_role(
    ctx: &ChangeContext<'_>,
    name: &str,
    description: Option<&str>,
) -> Result<(RoleId, At), Error> {
    define_role(ctx, name, description, &[])
}

/// Creates a role that implies these roles, in one change.
///
/// # Errors
/// When the name is taken, an implied role does not exist or is `admin`, or the facts cannot be changed.
pub fn define_role(
    ctx: &ChangeContext<'_>,
    name: &str,
    description: Option<&str>,
    implies: &[String],
) -> Result<(RoleId, At), Error> {
    check_role_name(name)?;
    check_comment(description)?;
    ctx.commit(&format!("role define {name}"), |view, change| {
        let by_name = NameKey::role(name);
        if view.get::<Name>(&by_name)?.is_some() {
            let hint = "choose another name";
            return Err(Error::Exists { what: "role", name: name.to_owned(), hint });
        }
        let id = RoleId::from_bytes(random()?);
        let description = description.map(str::to_owned);
        let mut implied: Vec<RoleId> =
            implies.iter().map(|role| role_id(view, role)).collect::<Result<_, _>>()?;
        implied.sort();
        implied.dedup();
        for role in &implied {
            check_implied(view, role)?;
            change.expect_present::<NamedRole>(role);
        }
        let row = NamedRole { name: name.to_owned(), domain: None, description, implies: implied };
        change.expect_absent::<Name>(&by_name).put(&by_name, &Name::new(*id.bytes(), name)).put(&id, &row);
        Ok(id)
    })
}

/// Makes a role imply another.
///
/// # Errors
/// When one of the roles does not exist, the implied role is `admin`, or the facts cannot be changed.
pub fn add_implication(ctx: &ChangeContext<'_>, role: &str, implied: &str) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("role {role} implies {implied}"), |view, change| {
        let (id, implied) = (role_id(view, role)?, role_id(view, implied)?);
        check_implied(view, &implied)?;
        let row = view.get::<NamedRole>(&id)?.ok_or_else(|| dangling("role", id))?;
        let mut edited = row.clone();
        if !edited.implies.contains(&implied) {
            edited.implies.push(implied);
        }
        change.expect_same(&id, &row).put(&id, &edited);
        Ok(())
    })?;
    Ok(at)
}

/// The records that are removed together with a role.
#[derive(Clone, Debug)]
pub struct RoleUse {
    /// The additional attributes of the role: a JSON object, or an empty text.
    pub extra: String,
    /// The number of assignments of the role.
    pub assignments: usize,
    /// The number of implications: roles that this role implies, and roles that imply it.
    pub implications: usize,
}

/// Counts the records that are removed together with a role.
///
/// # Errors
/// When the role does not exist, or the facts cannot be read.
pub fn role_use(source: &dyn Source, name: &str) -> Result<RoleUse, Error> {
    source.read(|view| {
        let id = role_id(view, name)?;
        let assignments = view.list::<Grant>(&[])?.iter().filter(|(key, _)| key.role == id).count();
        let implications = |(other, row): &(RoleId, NamedRole)| match *other == id {
            true => row.implies.len(),
            false => row.implies.iter().filter(|implied| **implied == id).count(),
        };
        let implications = view.list::<NamedRole>(&[])?.iter().map(implications).sum();
        Ok(RoleUse { extra: extra_of(view, ResourceKind::Role, &id)?, assignments, implications })
    })?
}

/// Removes a role with all its assignments.
///
/// # Errors
/// When the role does not exist, or the facts cannot be changed.
pub fn remove_named_role(ctx: &ChangeContext<'_>, name: &str) -> Result<At, Error> {
    let id = ctx.facts.read(|view| role_id(view, name))??;
    delete::<NamedRole>(ctx, &id)?;
    sweep_all(ctx)?;
    Ok(ctx.facts.at())
}

/// Makes a role imply another role, or removes the implication; returns whether that changed anything.
///
/// # Errors
/// When one of the roles does not exist, the role would imply itself or `admin`, or without a domain a role of a domain, or the facts cannot be changed.
pub fn set_implied(
    ctx: &ChangeContext<'_>,
    role: &RoleId,
    implied: &RoleId,
    is_so: bool,
) -> Result<bool, Error> {
    let (changed, _) = ctx.commit(&format!("role {role} implies {implied}: {is_so}"), |view, change| {
        let row = view.get::<NamedRole>(role)?.ok_or_else(|| missing("role", role))?;
        let other = view.get::<NamedRole>(implied)?.ok_or_else(|| missing("role", implied))?;
        if is_so {
            check_implied(view, implied)?;
        }
        if is_so && (role == implied || other.domain.is_some() && row.domain.is_none()) {
            let why = "a role cannot imply itself, and only a role of a domain can imply a role of a domain";
            return Err(Error::Refused(why.to_owned()));
        }
        let mut edited = row.clone();
        edited.implies.retain(|one| one != implied);
        if is_so {
            edited.implies.push(*implied);
        }
        let changed = edited != row;
        change.replace(role, &row, &edited);
        Ok(changed)
    })?;
    Ok(changed)
}

/// Every role, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_named_roles(source: &dyn Source) -> Result<Vec<(RoleId, NamedRole)>, Error> {
    let mut roles = source.read(|view| view.list::<NamedRole>(&[]))??;
    roles.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    Ok(roles)
}
