//! Registered limits, and the limits of projects and domains.

use super::names::check_name_with_blanks;
use super::resource::{RecordId, Saved, Saving, StoredResource, claim, in_brackets, save};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::Error;
use crate::limit_model::LimitModel;
use enfilade_facts::tables::{
    Domain, Limit, LimitOwner, Project, Region, RegionId, RegisteredLimit, ResourceKind, Reverse, ReverseKey,
    Service,
};
use enfilade_facts::vocabulary::{DomainId, LimitId, RegisteredLimitId, ServiceId};
use enfilade_facts::{Change, View};
use std::ops::ControlFlow;

/// No limit.
const UNLIMITED: i32 = -1;

/// A record with its id.
pub type Made<R> = Saved<<R as enfilade_facts::tables::Row>::Key, R>;

/// The error for a field of a limit that names a record which does not exist.
fn wrong(what: &str, field: &str, id: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("Invalid input for field/attribute {field} of {what}: there is no `{id}`."))
}

impl StoredResource for RegisteredLimit {
    const NAME: &'static str = "registered limit";
    const KIND: ResourceKind = ResourceKind::RegisteredLimit;

    fn called(&self) -> &str {
        &self.resource
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        if let Some(before) = at.before {
            unless_used(at.view, at.change, at.id, before)?;
        }
        expect_new(self, at.view, at.change, at.before.map(|_| at.id))
    }

    fn forget(&self, view: &View<'_>, change: &mut Change, id: &RegisteredLimitId) -> Result<(), Error> {
        unless_used(view, change, id, self)?;
        change.delete::<RegisteredLimit>(id);
        Ok(())
    }
}

/// Refuses to change or delete a registered limit of which projects or domains have limits.
fn unless_used(
    view: &View<'_>,
    change: &mut Change,
    id: &RegisteredLimitId,
    row: &RegisteredLimit,
) -> Result<(), Error> {
    if view.any::<Reverse>(&ReverseKey::limits_from(id))? {
        return Err(Error::Refused(format!(
            "the registered limit {id} cannot be changed or deleted: projects or domains have limits of it; delete those first"
        )));
    }
    // A limit that is made meanwhile claims the registered limit, too.
    claim(view, change, id, row)
}

/// Checks a registered limit: its service and region exist, and no other registered limit is for the same resource.
fn expect_new(
    row: &RegisteredLimit,
    view: &View<'_>,
    change: &mut Change,
    id: Option<&RegisteredLimitId>,
) -> Result<(), Error> {
    let what = "registered_limit";
    check_name_with_blanks("resource", &row.resource)?;
    check_comment(row.description.as_deref())?;
    let service = view.get::<Service>(&row.service)?;
    // Two registered limits of one service that are made at the same time conflict.
    claim(view, change, &row.service, &service.ok_or_else(|| wrong(what, "service_id", row.service))?)?;
    if let Some(region) = &row.region {
        let found = view.get::<Region>(region)?;
        claim(view, change, region, &found.ok_or_else(|| wrong(what, "region_id", region))?)?;
    }
    match registered_for(view, &row.service, row.region.as_ref(), &row.resource)? {
        Some((other, _)) if Some(&other) != id => Err(taken(row)),
        _ => Ok(()),
    }
}

fn taken(row: &RegisteredLimit) -> Error {
    let hint = "change that one, or choose another service, region or resource name";
    Error::Exists { what: "registered limit", name: row.resource.clone(), hint }
}

/// Whether a registered limit is for this resource of a service in a region.
pub(super) fn is_for(
    row: &RegisteredLimit,
    service: &ServiceId,
    region: Option<&RegionId>,
    resource: &str,
) -> bool {
    (row.service, row.region.as_ref(), row.resource.as_str()) == (*service, region, resource)
}

/// The registered limit for a resource of a service in a region.
fn registered_for(
    view: &View<'_>,
    service: &ServiceId,
    region: Option<&RegionId>,
    resource: &str,
) -> Result<Option<(RegisteredLimitId, RegisteredLimit)>, Error> {
    let all = view.list::<RegisteredLimit>(&[])?;
    Ok(all.into_iter().find(|(_, row)| is_for(row, service, region, resource)))
}

/// Creates registered limits: all or none.
///
/// # Errors
/// When a service or region does not exist, a registered limit for the same resource exists, or the facts cannot be changed.
pub fn create_registered_limits(
    ctx: &ChangeContext<'_>,
    new: &[RegisteredLimit],
) -> Result<Vec<Made<RegisteredLimit>>, Error> {
    let (made, _) = ctx.commit("registered limit create", |view, change| {
        let mut made: Vec<Made<RegisteredLimit>> = Vec::new();
        for row in new {
            let is_same = |other: &Made<RegisteredLimit>| {
                is_for(&other.row, &row.service, row.region.as_ref(), &row.resource)
            };
            if made.iter().any(is_same) {
                return Err(taken(row));
            }
            expect_new(row, view, change, None)?;
            let id = RegisteredLimitId::from_bytes(random()?);
            change.put(&id, row);
            made.push(Saved { id, row: row.clone(), extra: String::new() });
        }
        let said = made.iter().map(|made| format!("{}{}", made.id, in_brackets(&made.row.resource)));
        change.describe(format!("registered limit create {}", said.collect::<Vec<_>>().join(", ")));
        Ok(made)
    })?;
    Ok(made)
}

/// Refuses to delete a service or regions while registered limits refer to them.
pub(super) fn unless_limited(
    view: &View<'_>,
    what: &str,
    is_of_it: impl Fn(&RegisteredLimit) -> bool,
) -> Result<(), Error> {
    match view.list::<RegisteredLimit>(&[])?.iter().find(|(_, row)| is_of_it(row)) {
        Some((id, _)) => Err(Error::Refused(format!(
            "{what} cannot be deleted: the registered limit {id} is for it; delete that one first"
        ))),
        None => Ok(()),
    }
}

/// A limit to create.
#[derive(Clone, Debug)]
pub struct NewLimit {
    /// The service.
    pub service: ServiceId,
    /// The region.
    pub region: Option<RegionId>,
    /// The name of the resource.
    pub resource: String,
    /// The project or domain. A project whose id is that of a domain stands for the domain.
    pub owner: LimitOwner,
    /// The limit; -1 is no limit.
    pub value: i32,
    /// A description.
    pub description: Option<String>,
}

impl StoredResource for Limit {
    const NAME: &'static str = "limit";
    const KIND: ResourceKind = ResourceKind::Limit;

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_comment(self.description.as_deref())?;
        let registered = at.view.get::<RegisteredLimit>(&self.registered)?.ok_or_else(no_reference)?;
        fits(at.view, at.limit_model, &registered, self, &[])?;
        // Of two limits of one resource that change at the same time, the second is checked against the first.
        claim(at.view, at.change, &self.registered, &registered)
    }

    fn forget(&self, _: &View<'_>, change: &mut Change, id: &LimitId) -> Result<(), Error> {
        remove_limit(change, id, self);
        Ok(())
    }
}

/// Adds a new limit to a change.
pub(super) fn put_limit(change: &mut Change, id: &LimitId, row: &Limit) {
    change.put(id, row).put(&ReverseKey::LimitOf(row.owner, *id), &Reverse);
    change.put(&ReverseKey::LimitFrom(row.registered, *id), &Reverse);
}

fn remove_limit(change: &mut Change, id: &LimitId, row: &Limit) {
    change.delete::<Limit>(id).delete::<Reverse>(&ReverseKey::LimitOf(row.owner, *id));
    change.delete::<Reverse>(&ReverseKey::LimitFrom(row.registered, *id));
}

fn no_reference() -> Error {
    let why = "Unable to create a limit that has no corresponding registered limit: create that one first.";
    Error::Refused(why.to_owned())
}

/// The limits of a project or domain.
///
/// # Errors
/// When the facts cannot be read.
pub fn limits_of(view: &View<'_>, owner: &LimitOwner) -> Result<Vec<(LimitId, Limit)>, Error> {
    let mut found = Vec::new();
    for (key, _) in view.list::<Reverse>(&ReverseKey::limits_of(owner))? {
        if let ReverseKey::LimitOf(_, id) = key {
            found.extend(view.get::<Limit>(&id)?.map(|row| (id, row)));
        }
    }
    Ok(found)
}

/// The domain of a project or domain that has a limit; `None` if the project or domain no longer exists.
///
/// # Errors
/// When the facts cannot be read.
pub fn domain_of_owner(view: &View<'_>, owner: &LimitOwner) -> Result<Option<DomainId>, Error> {
    let domain = match owner {
        LimitOwner::Domain(id) => Some(*id),
        LimitOwner::Project(id) => view.get::<Project>(id)?.map(|row| row.domain),
    };
    match domain {
        Some(domain) => Ok(view.get::<Domain>(&domain)?.map(|_| domain)),
        None => Ok(None),
    }
}

/// Deletes limits of a project or domain, at most `max` in one change; returns whether none is left.
pub(super) fn remove_limits_of(
    view: &View<'_>,
    change: &mut Change,
    owner: &LimitOwner,
    max: usize,
) -> Result<bool, Error> {
    let mut found = Vec::new();
    view.page::<Reverse>(&ReverseKey::limits_of(owner), None, |key, _| {
        found.push(key);
        if found.len() < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    for key in &found {
        change.delete::<Reverse>(key);
        if let ReverseKey::LimitOf(_, id) = key
            && let Some(row) = view.get::<Limit>(id)?
        {
            remove_limit(change, id, &row);
        }
    }
    Ok(found.len() < max)
}

/// Creates limits: all or none.
///
/// # Errors
/// When a record that a limit names does not exist, no registered limit is for its resource, the project or domain has a limit of this resource, the
/// limit does not fit those of other projects or domains, or the facts cannot be changed.
pub fn create_limits(ctx: &ChangeContext<'_>, new: &[NewLimit]) -> Result<Vec<Made<Limit>>, Error> {
    let (made, _) = ctx.commit("limit create", |view, change| {
        let mut rows: Vec<(Limit, RegisteredLimit)> = Vec::new();
        for one in new {
            let owner = expect_named(view, change, one)?;
            let found = registered_for(view, &one.service, one.region.as_ref(), &one.resource)?;
            let (registered, of) = found.ok_or_else(no_reference)?;
            let row = Limit { registered, owner, value: one.value, description: one.description.clone() };
            let is_same = |other: &Limit| (other.registered, other.owner) == (registered, owner);
            if rows.iter().any(|(other, _)| is_same(other))
                || limits_of(view, &owner)?.iter().any(|(_, other)| is_same(other))
            {
                let hint = "change the existing limit of the project or domain";
                return Err(Error::Exists { what: "limit", name: one.resource.clone(), hint });
            }
            claim(view, change, &registered, &of)?;
            rows.push((row, of));
        }
        let all: Vec<Limit> = rows.iter().map(|(row, _)| row.clone()).collect();
        let (mut made, mut said) = (Vec::new(), Vec::new());
        for (row, registered) in rows {
            check_comment(row.description.as_deref())?;
            fits(view, ctx.limit_model, &registered, &row, &all)?;
            let id = LimitId::from_bytes(random()?);
            put_limit(change, &id, &row);
            said.push(format!("{id}{}", in_brackets(&registered.resource)));
            made.push(Saved { id, row, extra: String::new() });
        }
        change.describe(format!("limit create {}", said.join(", ")));
        Ok(made)
    })?;
    Ok(made)
}

/// The project or domain of a new limit. The service and the region must exist, too.
fn expect_named(view: &View<'_>, change: &mut Change, new: &NewLimit) -> Result<LimitOwner, Error> {
    let what = "limit";
    if view.get::<Service>(&new.service)?.is_none() {
        return Err(wrong(what, "service_id", new.service));
    }
    if let Some(region) = &new.region
        && view.get::<Region>(region)?.is_none()
    {
        return Err(wrong(what, "region_id", region));
    }
    if let LimitOwner::Project(id) = &new.owner
        && view.get::<Project>(id)?.is_some()
    {
        change.expect_present::<Project>(id);
        return Ok(new.owner);
    }
    let (field, domain) = match &new.owner {
        LimitOwner::Project(id) => ("project_id", DomainId::from_bytes(*id.bytes())),
        LimitOwner::Domain(id) => ("domain_id", *id),
    };
    view.get::<Domain>(&domain)?.ok_or_else(|| wrong(what, field, domain.to_keystone()))?;
    change.expect_present::<Domain>(&domain);
    Ok(LimitOwner::Domain(domain))
}

/// Changes the value or the description of a limit.
///
/// # Errors
/// When the limit does not exist or does not fit those of other projects or domains, or the facts cannot be changed.
pub fn update_limit(
    ctx: &ChangeContext<'_>,
    id: &LimitId,
    value: Option<i32>,
    description: Option<Option<String>>,
) -> Result<Made<Limit>, Error> {
    save(ctx, &RecordId::Existing(*id), &|before| {
        let mut row = before.ok_or_else(no_reference)?.0.clone();
        row.value = value.unwrap_or(row.value);
        row.description = description.clone().unwrap_or(row.description);
        Ok((row, String::new()))
    })
}

/// Whether a limit allows more than another.
fn exceeds(limit: i32, bound: i32) -> bool {
    bound != UNLIMITED && (limit == UNLIMITED || limit > bound)
}

/// Checks a limit against those of the parent and of the projects below, if the model asks for that. `others` are limits of the same request.
fn fits(
    view: &View<'_>,
    model: LimitModel,
    registered: &RegisteredLimit,
    row: &Limit,
    others: &[Limit],
) -> Result<(), Error> {
    if model == LimitModel::Flat {
        return Ok(());
    }
    let refused = |why: &str| {
        let (value, resource) = (row.value, &registered.resource);
        let why = format!("Invalid resource limit: the limit {value} of {resource} is {why}.");
        Err(Error::Refused(why))
    };
    let LimitOwner::Domain(domain) = &row.owner else {
        let LimitOwner::Project(id) = &row.owner else { return Ok(()) };
        let project = view.get::<Project>(id)?.ok_or_else(|| wrong("limit", "project_id", id))?;
        let parent = project.parent.map_or(LimitOwner::Domain(project.domain), LimitOwner::Project);
        let is_parents = |other: &&Limit| (other.owner, other.registered) == (parent, row.registered);
        let bound = match others.iter().find(is_parents) {
            Some(other) => other.value,
            None => {
                let own = limits_of(view, &parent)?.into_iter().find(|(_, own)| is_parents(&own));
                own.map_or(registered.default, |(_, own)| own.value)
            }
        };
        return if exceeds(row.value, bound) { refused("larger than that of the parent") } else { Ok(()) };
    };
    for (key, _) in view.list::<Reverse>(&ReverseKey::limits_from(&row.registered))? {
        if let ReverseKey::LimitFrom(_, id) = key
            && let Some(other) = view.get::<Limit>(&id)?
            && matches!(other.owner, LimitOwner::Project(_))
            && domain_of_owner(view, &other.owner)?.as_ref() == Some(domain)
            && exceeds(other.value, row.value)
        {
            return refused("smaller than that of a project in the domain");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_one_is_no_limit() {
        for (limit, bound, expected) in [
            (1, 2, false),
            (2, 2, false),
            (3, 2, true),
            (-1, 2, true),
            (3, -1, false),
            (-1, -1, false),
            (1, 0, true),
        ] {
            assert_eq!(exceeds(limit, bound), expected, "{limit} under {bound}");
        }
    }
}
