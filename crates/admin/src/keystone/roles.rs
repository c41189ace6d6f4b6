//! Roles and role implications.

use super::extra::extra_of;
use super::leaving::sweep_all;
use super::names::check_role_name;
use super::resource::{Saving, StoredResource, claim, delete, put_and_end};
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
        if let Some(before) = at.before
            && self.name == NEVER_IMPLIED
            && before.name != NEVER_IMPLIED
        {
            // If a change makes another role imply this role, the change also claims this role. So if such a change and this change of the name are
            // made at the same time, they conflict.
            claim(at.view, at.change, at.id, before)?;
            let roles = at.view.list::<NamedRole>(&[])?;
            if let Some((_, prior)) = roles.iter().find(|(_, row)| row.implies.contains(at.id)) {
                return Err(Error::Refused(format!(
                    "the role cannot get the name {NEVER_IMPLIED}, because the role {} implies this role: first remove the implication",
                    prior.name
                )));
            }
        }
        at.take_name(|row| NameKey::role_of(row.domain.as_ref(), &row.name), self, &self.name, at.id.stored())
    }

    fn put(&self, change: &mut Change, id: &RoleId, before: Option<&Self>) {
        put_and_end(change, id, before, self);
    }

    /// The role grants nothing from this change on; its assignments are deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &RoleId) -> Result<(), Error> {
        // If a change makes another role imply this role, the change also claims this role. So if such a change and this deletion are made at the
        // same time, they conflict.
        claim(view, change, id, self)?;
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

/// The name of the role that no other role may imply, as by default in Keystone. If another role implied this role, every user with the other role
/// would be an administrator.
const NEVER_IMPLIED: &str = "admin";

/// Checks that a role may imply another role. As in Keystone, a role may not imply [`NEVER_IMPLIED`] or itself, and a role without a domain may not
/// imply a role of a domain.
pub(super) fn check_implied(
    (prior, row): (&RoleId, &NamedRole),
    (implied, other): (&RoleId, &NamedRole),
) -> Result<(), Error> {
    if other.name == NEVER_IMPLIED {
        let why = format!("{NEVER_IMPLIED} cannot be an implied role; assign the role directly");
        return Err(Error::Refused(why));
    }
    match prior == implied || other.domain.is_some() && row.domain.is_none() {
        true => Err(Error::Refused(
            "a role cannot imply itself, and a role without a domain cannot imply a role that belongs to a domain".to_owned(),
        )),
        false => Ok(()),
    }
}

/// Makes a role imply another role, if that is allowed. The implied role is claimed, because its name and its domain decide whether it may be
/// implied.
fn imply(
    view: &View<'_>,
    change: &mut Change,
    (id, row): (&RoleId, &mut NamedRole),
    implied: &RoleId,
) -> Result<(), Error> {
    let other = view.get::<NamedRole>(implied)?.ok_or_else(|| missing("role", implied))?;
    check_implied((id, &*row), (implied, &other))?;
    claim(view, change, implied, &other)?;
    if !row.implies.contains(implied) {
        row.implies.push(*implied);
    }
    Ok(())
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
/// When the name is taken, an implied role does not exist, is `admin` or belongs to a domain, or the facts cannot be changed.
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
        let mut row = NamedRole { name: name.to_owned(), domain: None, description, implies: Vec::new() };
        for implied in implies {
            imply(view, change, (&id, &mut row), &role_id(view, implied)?)?;
        }
        row.implies.sort();
        change.expect_absent::<Name>(&by_name).put(&by_name, &Name::new(id.stored(), name)).put(&id, &row);
        Ok(id)
    })
}

/// Makes a role imply another role.
///
/// # Errors
/// When one of the roles does not exist, the role is not allowed to imply the other role, or the facts cannot be changed.
pub fn add_implication(ctx: &ChangeContext<'_>, role: &str, implied: &str) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("role {role} implies {implied}"), |view, change| {
        let (id, implied) = (role_id(view, role)?, role_id(view, implied)?);
        let row = view.get::<NamedRole>(&id)?.ok_or_else(|| dangling("role", id))?;
        let mut edited = row.clone();
        imply(view, change, (&id, &mut edited), &implied)?;
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
/// When one of the roles does not exist, the role is not allowed to imply the other role, or the facts cannot be changed.
pub fn set_implied(
    ctx: &ChangeContext<'_>,
    role: &RoleId,
    implied: &RoleId,
    is_so: bool,
) -> Result<bool, Error> {
    let (changed, _) = ctx.commit(&format!("role {role} implies {implied}: {is_so}"), |view, change| {
        let row = view.get::<NamedRole>(role)?.ok_or_else(|| missing("role", role))?;
        view.get::<NamedRole>(implied)?.ok_or_else(|| missing("role", implied))?;
        let mut edited = row.clone();
        match is_so {
            true => imply(view, change, (role, &mut edited), implied)?,
            false => edited.implies.retain(|one| one != implied),
        }
        let changed = edited != row;
        change.replace(role, &row, &edited);
        Ok(changed)
    })?;
    Ok(changed)
}

/// Every role, sorted by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_named_roles(source: &dyn Source) -> Result<Vec<(RoleId, NamedRole)>, Error> {
    let mut roles = source.read(|view| view.list::<NamedRole>(&[]))??;
    roles.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    Ok(roles)
}
