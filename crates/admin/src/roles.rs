//! Roles on paths.

use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::resolve::{Names, Target, who};
use enfilade_facts::tables::{Assignment, AssignmentKey, FileName, Who};
use enfilade_facts::vocabulary::{Role, RolePath, Ugid, Userid};
use enfilade_facts::{At, Effect, Read, Source};
use enfilade_sources::files::acl_cfg::can_hold;
use std::collections::BTreeMap;

/// One role assignment on a path, for listing.
#[derive(Clone, Debug)]
pub struct AssignmentSummary {
    /// The path.
    pub path: RolePath,
    /// The name of the user, token or group.
    pub who: String,
    /// The role.
    pub role: Role,
    /// Whether the role also applies below the path.
    pub propagate: bool,
    /// Whether the assignment is mirrored from `acl.cfg`.
    pub is_mirrored: bool,
    /// The problem of the assignment's line in `acl.cfg`, if it has one.
    pub fault: Option<String>,
}

/// Whether a change of a role assignment gives rights or takes rights away. The change is an assignment, or, if `is_assigned` is false, a removal. A
/// role gives rights, except NoAccess, which takes away all other rights.
fn effect_of(role: Role, is_assigned: bool) -> Effect {
    if (role == Role::NoAccess) == is_assigned { Effect::Takes } else { Effect::Gives }
}

/// Refuses a role that has no effect in the tree of the path. Roles for applications count only on `/application` and below it. Of the other roles,
/// only Admin and NoAccess count there.
fn check_tree(path: &RolePath, role: Role) -> Result<(), Error> {
    let (is_below, is_for) = (path.is_of_applications(), role.is_for_applications());
    let counts_everywhere = matches!(role, Role::Admin | Role::NoAccess);
    if is_below == is_for || is_below && counts_everywhere {
        return Ok(());
    }
    Err(Error::Invalid(match is_below {
        true => format!(
            "the role {role} has no effect on {path}: expected ApplicationReader, ApplicationUser, ApplicationAdmin, Admin or NoAccess"
        ),
        false => format!(
            "the role {role} has no effect on {path}: assign it on /application, on /application/NAME or on a path below it"
        ),
    }))
}

/// Checks that a user, token or group exists, so that a role can be assigned to it.
///
/// # Errors
/// When it does not exist, or the facts cannot be read.
pub fn check_target(ctx: &ChangeContext<'_>, target: &Target) -> Result<(), Error> {
    ctx.facts.read(|view| who(view, target))?.map(drop)
}

/// Assigns a role on a path.
///
/// # Errors
/// When the role has no effect on the path, the user, token or group does not exist or is `root@pam`, or `acl.cfg` or the facts cannot be changed.
pub fn assign_role(
    ctx: &ChangeContext<'_>,
    path: &RolePath,
    target: &Target,
    role: Role,
    propagate: bool,
) -> Result<At, Error> {
    check_tree(path, role)?;
    let what = format!("role assign {role} to {target} on {path}");
    match location_of(ctx, path, target)? {
        Location::File(ugid) => ctx.write_through(&what, effect_of(role, true), &[FileName::Acl], |files| {
            files.acl(|acl| {
                acl.entries.entry((path.clone(), ugid)).or_default().insert(role, propagate);
                Ok(())
            })
        }),
        Location::Facts => edit(ctx, &what, path, target, |assignment| {
            assignment.roles.retain(|(other, _)| *other != role);
            assignment.roles.push((role, propagate));
            assignment.roles.sort();
            Ok(())
        }),
    }
}

/// Removes an assignment on a path.
///
/// # Errors
/// When the assignment does not exist, the user is `root@pam`, or `acl.cfg` or the facts cannot be changed.
pub fn remove_role(
    ctx: &ChangeContext<'_>,
    path: &RolePath,
    target: &Target,
    role: Role,
) -> Result<At, Error> {
    let what = format!("role remove {role} from {target} on {path}");
    let none = || Error::Invalid(format!("{target} has no role {role} on {path}; see `enfilade role list`"));
    match location_of(ctx, path, target)? {
        Location::File(ugid) => ctx.write_through(&what, effect_of(role, false), &[FileName::Acl], |files| {
            files.acl(|acl| {
                let entry = (path.clone(), ugid);
                let roles = acl.entries.get_mut(&entry).ok_or_else(none)?;
                roles.remove(&role).ok_or_else(none)?;
                if roles.is_empty() {
                    acl.entries.remove(&entry);
                }
                Ok(())
            })
        }),
        Location::Facts => edit(ctx, &what, path, target, |assignment| {
            let before = assignment.roles.len();
            assignment.roles.retain(|(other, _)| *other != role);
            if assignment.roles.len() == before { Err(none()) } else { Ok(()) }
        }),
    }
}

/// Removes all assignments on a path and below it.
///
/// # Errors
/// When `acl.cfg` or the facts cannot be changed.
pub(crate) fn remove_roles_on(ctx: &ChangeContext<'_>, path: &RolePath) -> Result<(), Error> {
    let what = format!("role remove all on {path}");
    let is_on = |other: &RolePath| other.nodes().any(|node| node == path.as_str());
    if ctx.uses(FileName::Acl)? {
        ctx.write_through(&what, Effect::Takes, &[FileName::Acl], |files| {
            files.acl(|acl| {
                acl.entries.retain(|(other, _), _| !is_on(other));
                Ok(())
            })
        })?;
    }
    ctx.commit(&what, |view, change| {
        for (key, row) in view.list::<Assignment>(&[])? {
            // Assignments that are mirrored from `acl.cfg` were removed with their lines.
            if is_on(&key.path) && !matches!(key.who, Who::Named(_)) {
                change.expect_unchanged(&key, Some(&row)).delete::<Assignment>(&key);
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(())
}

/// Every role assignment on every path.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_roles(source: &dyn Source) -> Result<Vec<AssignmentSummary>, Error> {
    source.read(|view| {
        let rows = view.list::<Assignment>(&[])?;
        let of_token = |(key, _): &(AssignmentKey, Assignment)| match key.who {
            Who::Token(id) => Some(id),
            _ => None,
        };
        let names = Names::read(view)?.with_tokens(view, rows.iter().filter_map(of_token))?;
        let summaries = rows.into_iter().flat_map(|(key, assignment)| {
            let who = names.who(&key.who);
            let is_mirrored = matches!(key.who, Who::Named(_));
            let fault = assignment.fault.map(|fault| fault.to_string());
            assignment.roles.into_iter().map(move |(role, propagate)| AssignmentSummary {
                path: key.path.clone(),
                who: who.clone(),
                role,
                propagate,
                is_mirrored,
                fault: fault.clone(),
            })
        });
        Ok(summaries.collect())
    })?
}

/// The users, tokens and groups that are in `acl.cfg` but do not exist, each with the number of its entries. `root@pam` is left out, because it has
/// every role even without a record.
///
/// # Errors
/// When the facts cannot be read.
pub fn roles_of_nobody(source: &dyn Source) -> Result<BTreeMap<String, usize>, Error> {
    source.read(|view| {
        let mut nobody = BTreeMap::new();
        for (key, _) in view.list::<Assignment>(&[])? {
            let Who::Named(named) = key.who else { continue };
            if named == Ugid::Authid(Userid::root_pam().into()) {
                continue;
            }
            match who(view, &Target::from(named.clone())) {
                Ok(_) => {}
                Err(Error::Missing { .. } | Error::Invalid(_)) => {
                    *nobody.entry(named.to_string()).or_default() += 1;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(nobody)
    })?
}

/// Where an assignment on a path is stored.
enum Location {
    /// In `acl.cfg`, under this name.
    File(Ugid),
    Facts,
}

/// Decides where an assignment is stored. If the facts already contain roles of the grantee on the path, the assignment is stored in the facts.
/// Otherwise the assignment is stored in `acl.cfg`, if this file is in use and can express the assignment.
fn location_of(ctx: &ChangeContext<'_>, path: &RolePath, target: &Target) -> Result<Location, Error> {
    if *target == Target::User(Userid::root_pam()) {
        return Err(Error::Invalid("root@pam always has every role, so its roles cannot be changed".into()));
    }
    let ugid = target.ugid().filter(|ugid| can_hold(path, ugid));
    let Some(ugid) = ugid.filter(|_| ctx.uses(FileName::Acl).unwrap_or(false)) else {
        return Ok(Location::Facts);
    };
    let has_facts = ctx.facts.read(|view| {
        let key = AssignmentKey { path: path.clone(), who: who(view, target)? };
        Ok::<_, Error>(view.get::<Assignment>(&key)?.is_some())
    })??;
    Ok(if has_facts { Location::Facts } else { Location::File(ugid) })
}

fn edit(
    ctx: &ChangeContext<'_>,
    what: &str,
    path: &RolePath,
    target: &Target,
    edit: impl Fn(&mut Assignment) -> Result<(), Error>,
) -> Result<At, Error> {
    let ((), at) = ctx.commit(what, |view, change| {
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
