//! Deletes the records that depended on a deleted record, in the background and in small commits. The deleted record itself is inaccessible
//! immediately.

use super::delegations::forget;
use super::endpoint_filters::{take_filters_of, take_selected};
use super::federation::forget_providers_of;
use super::oauth::{remove_access_tokens, take_tokens_of};
use super::trusts::remove_trusts;
use super::unified_limits::remove_limits_of;
use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::users::forget_user;
use enfilade_facts::tables::{
    Assignment, AssignmentKey, Binding, Domain, Extra, ExtraKey, Grant, GrantKey, GrantScope, Grantee, Group,
    Leaving, LeavingKey, LimitOwner, Member, Membership, MembershipKey, Name, NameKey, NameKind, NamedRole,
    Project, ResourceKind, Reverse, ReverseKey, Revocation, Revoked, Who,
};
use enfilade_facts::vocabulary::{DomainId, GroupId, ProjectId, RoleId};
use enfilade_facts::{Change, Read, View};
use std::ops::ControlFlow;

/// The approximate maximum number of records of one kind that one commit deletes. Other writers wait until the commit ends, so the commit must be
/// short.
const AT_ONCE: usize = 256;

/// The approximate number of assignments that [`sweep_role`] reads in one view.
const LOOKED_THROUGH: usize = 20_000;

/// Deletes some dependents of one deleted record. Returns `false` if no dependents were left. After `true`, more dependents are possibly left.
///
/// # Errors
/// When the facts cannot be changed.
pub fn sweep(ctx: &ChangeContext<'_>) -> Result<bool, Error> {
    let mut next = None;
    ctx.facts.read(|view| {
        view.page::<Leaving>(&[], None, |key, _| {
            next = Some(key);
            ControlFlow::Break(())
        })
    })??;
    let Some(key) = next else { return Ok(false) };
    match key {
        LeavingKey::Role(role) => sweep_role(ctx, &role)?,
        key => {
            ctx.commit("delete the dependents of a deleted record", |view, change| {
                let is_done = match key {
                    LeavingKey::Domain(id) => of_domain(view, change, &id)?,
                    LeavingKey::Project(id) => of_project(view, change, &id)?,
                    LeavingKey::Group(id) => {
                        let ended = view.get::<Revocation>(&Revoked::Group(id))?;
                        of_group(view, change, &id, ended.as_ref())?
                    }
                    LeavingKey::Selected(selected) => take_selected(view, change, &selected)?,
                    LeavingKey::Consumer(id) => take_tokens_of(view, change, &id)?,
                    LeavingKey::Role(_) => true,
                };
                if is_done {
                    change.delete::<Leaving>(&key);
                }
                Ok(())
            })?;
        }
    }
    Ok(true)
}

/// Deletes all dependents of all deleted records, for commands that wait until the end. There is no check whether an administrator remains, because
/// the dependents of deleted records give no rights any more.
///
/// # Errors
/// When the facts cannot be changed.
pub fn sweep_all(ctx: &ChangeContext<'_>) -> Result<(), Error> {
    let ctx = ChangeContext { keeps_administrators: false, ..*ctx };
    while sweep(&ctx)? {}
    Ok(())
}

fn names(view: &View<'_>, kind: NameKind, domain: &DomainId) -> Result<Vec<(NameKey, Name)>, Error> {
    let mut found = Vec::new();
    view.page::<Name>(&NameKey::all_of(kind, domain), None, |key, name| {
        found.push((key, name));
        if found.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

/// Deletes some dependents of a deleted domain: its users first, then its groups, projects and roles. Returns whether nothing is left.
fn of_domain(view: &View<'_>, change: &mut Change, id: &DomainId) -> Result<bool, Error> {
    // Deleted groups and roles get the revocation mark of the domain. A newer mark would also end later sessions of users who had these groups and
    // roles.
    let ended = view.get::<Revocation>(&Revoked::groups_of(id))?;
    let ended = ended.as_ref();
    let users = names(view, NameKind::User, id)?;
    for (key, name) in users.iter().take(AT_ONCE / 4) {
        change.delete::<Name>(key);
        forget_user(view, change, &name.user())?;
    }
    if !users.is_empty() {
        return Ok(false);
    }
    let groups = names(view, NameKind::Group, id)?;
    for (key, name) in &groups {
        change.delete::<Name>(key).remove_as_of::<Group>(&name.group(), ended);
        change.delete::<Extra>(&ExtraKey::of(ResourceKind::Group, &name.group()));
        change.put(&LeavingKey::Group(name.group()), &Leaving);
    }
    let projects = names(view, NameKind::Project, id)?;
    for (key, name) in &projects {
        change.delete::<Name>(key);
        let id = name.project();
        if let Some(row) = view.get::<Project>(&id)? {
            forget_project(change, &id, &row);
        }
    }
    let roles = names(view, NameKind::Role, id)?;
    for (key, name) in &roles {
        change
            .delete::<Name>(key)
            .remove_as_of::<NamedRole>(&name.role(), ended)
            .put(&LeavingKey::Role(name.role()), &Leaving);
    }
    // The change that deleted the domain also deleted its identity providers. A request that ran at the same time may have created another one.
    forget_providers_of(view, change, id)?;
    let has_no_limits = remove_limits_of(view, change, &LimitOwner::Domain(*id), AT_ONCE)?;
    let is_empty = groups.is_empty() && projects.is_empty() && roles.is_empty() && has_no_limits;
    Ok(is_empty && take_grants_on(view, change, &[GrantScope::Domain(*id), GrantScope::BelowDomain(*id)])?)
}

/// Adds the deletion of a project to a change. Its dependents are deleted in the background.
pub(super) fn forget_project(change: &mut Change, id: &ProjectId, row: &Project) {
    change.delete::<Project>(id).delete::<Extra>(&ExtraKey::of(ResourceKind::Project, id));
    if let Some(parent) = row.parent {
        change.delete::<Reverse>(&ReverseKey::Child(parent, *id));
    }
    change.put(&LeavingKey::Project(*id), &Leaving);
}

/// Deletes some dependents of a project that is deleted; returns whether nothing is left.
pub(super) fn of_project(view: &View<'_>, change: &mut Change, id: &ProjectId) -> Result<bool, Error> {
    if !take_grants_on(view, change, &[GrantScope::Project(*id), GrantScope::BelowProject(*id)])? {
        return Ok(false);
    }
    for (name, binding) in view.list::<Binding>(&[])? {
        if binding.project == *id {
            change.delete::<Binding>(&name);
        }
    }
    let mut credentials = Vec::new();
    view.page::<Reverse>(&ReverseKey::credentials_for(id), None, |key, _| {
        credentials.push(key);
        if credentials.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for key in &credentials {
        change.delete::<Reverse>(key);
        if let ReverseKey::For(_, credential) = key {
            forget(view, change, credential)?;
        }
    }
    remove_trusts(view, change, &ReverseKey::trusts_for(id))?;
    remove_access_tokens(view, change, &ReverseKey::access_for(id))?;
    let has_no_limits = remove_limits_of(view, change, &LimitOwner::Project(*id), AT_ONCE)?;
    let has_no_filters = take_filters_of(view, change, id)?;
    Ok(credentials.len() < AT_ONCE && has_no_limits && has_no_filters)
}

/// Deletes some memberships and roles of a group that is deleted; returns whether nothing is left. Each member gets the revocation mark of the group
/// (`ended`), because the members can no longer be found through the group.
pub(super) fn of_group(
    view: &View<'_>,
    change: &mut Change,
    id: &GroupId,
    ended: Option<&Revocation>,
) -> Result<bool, Error> {
    let mut left = AT_ONCE;
    let mut members = Vec::new();
    view.page::<Reverse>(&ReverseKey::members_of(id), None, |key, _| {
        members.push(key);
        left -= 1;
        if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for key in &members {
        let ReverseKey::Member(group, member) = key else { continue };
        let key = MembershipKey { member: *member, group: *group };
        match member {
            // The inner group was deleted earlier. The members of the inner group will get the older mark of that group, because a newer mark would
            // also end later sessions of the members.
            Member::Group(inner) if is_gone(view, inner)? => change.delete::<Membership>(&key),
            _ => change.remove_as_of::<Membership>(&key, ended),
        };
    }
    if left == 0 {
        return Ok(false);
    }
    for (key, _) in view.list::<Membership>(&Member::Group(*id).prefix())? {
        change.delete::<Membership>(&key);
    }
    let grants = view.list::<Grant>(&GrantKey::of(&Grantee::Group(*id)))?;
    for (key, _) in grants.iter().take(AT_ONCE) {
        change.delete::<Grant>(key);
    }
    if grants.len() > AT_ONCE {
        return Ok(false);
    }
    for key in AssignmentKey::all_of(view, &Who::Group(*id))? {
        change.delete::<Assignment>(&key);
    }
    Ok(true)
}

/// Whether a group was deleted, by itself or with its domain.
fn is_gone(view: &View<'_>, id: &GroupId) -> Result<bool, Error> {
    let Some(group) = view.get::<Group>(id)? else { return Ok(true) };
    Ok(view.get::<Domain>(&group.domain)?.is_none())
}

/// Deletes some role assignments on these scopes; returns whether none is left.
fn take_grants_on(view: &View<'_>, change: &mut Change, scopes: &[GrantScope]) -> Result<bool, Error> {
    let mut count = 0;
    for scope in scopes {
        view.page::<Reverse>(&ReverseKey::granted_on(scope), None, |key, _| {
            if let ReverseKey::Granted(scope, who, role) = key {
                change.delete::<Grant>(&GrantKey { who, scope, role });
                count += 1;
            }
            if count < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(count < AT_ONCE)
}

/// Deletes the assignments of a role. No index lists the assignments of a role, so all assignments are read, one part at a time.
fn sweep_role(ctx: &ChangeContext<'_>, role: &RoleId) -> Result<(), Error> {
    let mut after: Option<Vec<u8>> = None;
    loop {
        let (mut of_role, mut looked, mut last, mut is_over) = (Vec::new(), 0, None, true);
        ctx.facts.read(|view| {
            view.page::<Grant>(&[], after.as_deref(), |key, _| {
                // `group` is the key prefix of all assignments of one grantee on one scope. All keys with the same prefix belong to one part, because
                // the next part begins after all keys with the prefix `last`.
                let group = GrantKey::of_on(&key.who, &key.scope);
                if looked >= LOOKED_THROUGH && last.as_ref() != Some(&group) {
                    is_over = false;
                    return ControlFlow::Break(());
                }
                looked += 1;
                of_role.extend(Some(key).filter(|key| key.role == *role));
                last = Some(group);
                ControlFlow::Continue(())
            })
        })??;
        for some in of_role.chunks(AT_ONCE) {
            ctx.commit("delete assignments of a deleted role", |view, change| {
                let ended = view.get::<Revocation>(&Revoked::Role(*role))?;
                some.iter().for_each(|key| {
                    change.remove_as_of::<Grant>(key, ended.as_ref());
                });
                Ok(())
            })?;
        }
        if is_over {
            ctx.commit("all assignments of a deleted role are deleted", |_, change| {
                change.delete::<Leaving>(&LeavingKey::Role(*role));
                Ok(())
            })?;
            return Ok(());
        }
        after = last;
    }
}
