//! Roles on paths.

use crate::desk::Desk;
use crate::error::Error;
use crate::look::{Names, Target, who};
use enfilade_facts::tables::{Assignment, AssignmentKey};
use enfilade_facts::vocabulary::{Role, RolePath};
use enfilade_facts::{At, Read, Source};

/// One role of somebody on a path, for listing.
#[derive(Clone, Debug)]
pub struct AssignmentSummary {
    /// Where.
    pub path: RolePath,
    /// Who.
    pub who: String,
    /// Which role.
    pub role: Role,
    /// Does it hold below the path, too?
    pub propagate: bool,
}

/// Gives somebody a role on a path.
///
/// # Errors
/// When there is nobody of that name, or the facts cannot be changed.
pub fn assign_role(
    desk: &Desk<'_>,
    path: &RolePath,
    target: &Target,
    role: Role,
    propagate: bool,
) -> Result<At, Error> {
    let what = format!("role assign {role} to {target} on {path}");
    edit(desk, &what, path, target, |assignment| {
        assignment.roles.retain(|(other, _)| *other != role);
        assignment.roles.push((role, propagate));
        assignment.roles.sort();
        Ok(())
    })
}

/// Takes a role on a path from somebody.
///
/// # Errors
/// When it was not given there, or the facts cannot be changed.
pub fn remove_role(desk: &Desk<'_>, path: &RolePath, target: &Target, role: Role) -> Result<At, Error> {
    let what = format!("role remove {role} from {target} on {path}");
    edit(desk, &what, path, target, |assignment| {
        let before = assignment.roles.len();
        assignment.roles.retain(|(other, _)| *other != role);
        if assignment.roles.len() == before {
            return Err(Error::Invalid(format!(
                "{target} has no role {role} on {path}; see `enfilade role list`"
            )));
        }
        Ok(())
    })
}

/// Every role on every path.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_roles(source: &dyn Source) -> Result<Vec<AssignmentSummary>, Error> {
    source.read(|view| {
        let names = Names::read(view)?;
        let rows = view.list::<Assignment>(&[])?;
        let summaries = rows.into_iter().flat_map(|(key, assignment)| {
            let who = names.who(&key.who);
            assignment.roles.into_iter().map(move |(role, propagate)| AssignmentSummary {
                path: key.path.clone(),
                who: who.clone(),
                role,
                propagate,
            })
        });
        Ok(summaries.collect())
    })?
}

fn edit(
    desk: &Desk<'_>,
    what: &str,
    path: &RolePath,
    target: &Target,
    edit: impl Fn(&mut Assignment) -> Result<(), Error>,
) -> Result<At, Error> {
    let ((), at) = desk.commit(what, |view, change| {
        let key = AssignmentKey { path: path.clone(), who: who(view, target)? };
        let before = view.get::<Assignment>(&key)?;
        let mut after = before.clone().unwrap_or_default();
        edit(&mut after)?;
        change.expect_unchanged(&key, before.as_ref());
        match after.roles.is_empty() {
            true => change.delete::<Assignment>(&key),
            false => change.put(&key, &after),
        };
        Ok(())
    })?;
    Ok(at)
}
