//! Registered limits, and the limits of projects and domains.

use super::names::check_name_with_blanks;
use super::resource::{RecordId, Saved, Saving, StoredResource, claim, in_brackets, save};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::Error;
use crate::limit_model::LimitModel;
use enfilade_facts::tables::{
    Domain, Limit, LimitOwner, Name, NameKey, NameKind, Project, Region, RegionId, RegisteredLimit,
    ResourceKind, Reverse, ReverseKey, Service,
};
use enfilade_facts::vocabulary::{DomainId, LimitId, ProjectId, RegisteredLimitId, ServiceId};
use enfilade_facts::{Change, View};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

/// No limit.
const UNLIMITED: i32 = -1;

/// A record with its id.
pub type Made<R> = Saved<<R as enfilade_facts::tables::Row>::Key, R>;

/// The error if a field of a limit contains the id of a record that does not exist.
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
        expect_new(self, at.view, at.change)?;
        match registered(at.view)?.get(&resource_of(self)) {
            Some((other, _)) if at.before.is_none() || other != at.id => Err(taken(self)),
            _ => Ok(()),
        }
    }

    fn forget(&self, view: &View<'_>, change: &mut Change, id: &RegisteredLimitId) -> Result<(), Error> {
        unless_used(view, change, id, self)?;
        change.delete::<RegisteredLimit>(id);
        Ok(())
    }
}

/// Refuses to change or delete a registered limit while projects or domains have limits that belong to it.
fn unless_used(
    view: &View<'_>,
    change: &mut Change,
    id: &RegisteredLimitId,
    row: &RegisteredLimit,
) -> Result<(), Error> {
    if view.any::<Reverse>(&ReverseKey::limits_from(id))? {
        return Err(Error::Refused(format!(
            "the registered limit {id} cannot be changed or deleted: limits of projects or domains belong to it; delete these limits first"
        )));
    }
    // A change that creates a limit for the registered limit also claims the registered limit. So if such a change is made at the same time as
    // this change or deletion, they conflict.
    claim(view, change, id, row)
}

/// Checks the texts of a registered limit, and that its service and its region exist.
fn expect_new(row: &RegisteredLimit, view: &View<'_>, change: &mut Change) -> Result<(), Error> {
    let what = "registered_limit";
    check_name_with_blanks("resource", &row.resource)?;
    check_comment(row.description.as_deref())?;
    let service = view.get::<Service>(&row.service)?;
    // If two registered limits of one service are created at the same time, the changes conflict.
    claim(view, change, &row.service, &service.ok_or_else(|| wrong(what, "service_id", row.service))?)?;
    if let Some(region) = &row.region {
        let found = view.get::<Region>(region)?;
        claim(view, change, region, &found.ok_or_else(|| wrong(what, "region_id", region))?)?;
    }
    Ok(())
}

fn taken(row: &RegisteredLimit) -> Error {
    let hint = "change the existing one, or choose another service, region or resource name";
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

/// A resource: its service, its region and its name. Each resource has at most one registered limit.
type Resource = (ServiceId, Option<RegionId>, String);

fn resource_of(row: &RegisteredLimit) -> Resource {
    (row.service, row.region.clone(), row.resource.clone())
}

/// Every registered limit, by its resource. The table is read only once, even if a request contains many resources.
fn registered(view: &View<'_>) -> Result<BTreeMap<Resource, (RegisteredLimitId, RegisteredLimit)>, Error> {
    let all = view.list::<RegisteredLimit>(&[])?;
    Ok(all.into_iter().map(|(id, row)| (resource_of(&row), (id, row))).collect())
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
        let (mut known, mut made) = (registered(view)?, Vec::<Made<RegisteredLimit>>::new());
        for row in new {
            expect_new(row, view, change)?;
            let id = RegisteredLimitId::from_bytes(random()?);
            if known.insert(resource_of(row), (id, row.clone())).is_some() {
                return Err(taken(row));
            }
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
            "{what} cannot be deleted: the registered limit {id} refers to it; delete the registered limit first"
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
    /// The project or domain. If the id of the project is the id of a domain, the limit is for the domain.
    pub owner: LimitOwner,
    /// The limit; -1 means no limit.
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
        let mut known = Known::new(at.view);
        known.set(self)?;
        known.fits(at.limit_model, &registered, self)?;
        // If two limits of one resource change at the same time, the changes conflict, and the later change is checked again on the result of the
        // earlier change.
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
/// When a record to which a limit refers does not exist, the resource has no registered limit, the project or domain already has a limit of this
/// resource, the limit does not fit the limits of other projects or domains, or the facts cannot be changed.
pub fn create_limits(ctx: &ChangeContext<'_>, new: &[NewLimit]) -> Result<Vec<Made<Limit>>, Error> {
    let (made, _) = ctx.commit("limit create", |view, change| {
        let (resources, mut known) = (registered(view)?, Known::new(view));
        let mut rows: Vec<(Limit, &RegisteredLimit)> = Vec::new();
        for one in new {
            check_comment(one.description.as_deref())?;
            let owner = expect_named(view, change, one)?;
            let resource = (one.service, one.region.clone(), one.resource.clone());
            let (registered, of) = resources.get(&resource).ok_or_else(no_reference)?;
            let (registered, description) = (*registered, one.description.clone());
            let row = Limit { registered, owner, value: one.value, description };
            if known.set(&row)?.is_some() {
                let hint = "change the existing limit of the project or domain";
                return Err(Error::Exists { what: "limit", name: one.resource.clone(), hint });
            }
            claim(view, change, &registered, of)?;
            rows.push((row, of));
        }
        let (mut made, mut said) = (Vec::new(), Vec::new());
        for (row, registered) in rows {
            known.fits(ctx.limit_model, registered, &row)?;
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

/// Returns the project or domain of a new limit. Checks that it exists, and that the service and the region exist.
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
/// When the limit does not exist or does not fit the limits of other projects or domains, or the facts cannot be changed.
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

/// Whether a limit allows more than the limit `bound`.
fn exceeds(limit: i32, bound: i32) -> bool {
    bound != UNLIMITED && (limit == UNLIMITED || limit > bound)
}

/// The limits of one project or domain, each under the id of its registered limit.
type Values = BTreeMap<RegisteredLimitId, i32>;

/// The limits that projects and domains will have after a change. The limits of each project or domain are read only once.
struct Known<'v, 'd> {
    view: &'v View<'d>,
    own: BTreeMap<LimitOwner, Values>,
    /// For a project, the highest limits of its direct children. For a domain, the highest limits of all its projects.
    below: BTreeMap<LimitOwner, Values>,
}

impl<'v, 'd> Known<'v, 'd> {
    fn new(view: &'v View<'d>) -> Self {
        Known { view, own: BTreeMap::new(), below: BTreeMap::new() }
    }

    fn own(&mut self, owner: LimitOwner) -> Result<&mut Values, Error> {
        Ok(match self.own.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let own = limits_of(self.view, &owner)?.into_iter();
                place.insert(own.map(|(_, row)| (row.registered, row.value)).collect())
            }
        })
    }

    /// Records a limit of the change. Returns the limit that the project or domain had for this resource. The caller records all limits of the change
    /// before it calls [`Known::fits`] for the first limit.
    fn set(&mut self, row: &Limit) -> Result<Option<i32>, Error> {
        Ok(self.own(row.owner)?.insert(row.registered, row.value))
    }

    /// The direct children of a project, or all projects of a domain.
    fn projects_below(&self, owner: &LimitOwner) -> Result<Vec<ProjectId>, Error> {
        Ok(match owner {
            LimitOwner::Project(id) => {
                let keys = self.view.list::<Reverse>(&ReverseKey::children_of(id))?.into_iter();
                keys.filter_map(|(key, _)| match key {
                    ReverseKey::Child(_, child) => Some(child),
                    _ => None,
                })
                .collect()
            }
            LimitOwner::Domain(id) => {
                let names = self.view.list::<Name>(&NameKey::all_of(NameKind::Project, id))?;
                names.into_iter().map(|(_, name)| name.project()).collect()
            }
        })
    }

    /// The highest limit that a project below `owner` ([`Known::projects_below`]) has for a resource.
    fn highest_below(&mut self, owner: LimitOwner, of: &RegisteredLimitId) -> Result<Option<i32>, Error> {
        if let Some(highest) = self.below.get(&owner) {
            return Ok(highest.get(of).copied());
        }
        let mut highest = Values::new();
        for project in self.projects_below(&owner)? {
            for (registered, value) in &*self.own(LimitOwner::Project(project))? {
                let known = highest.entry(*registered).or_insert(*value);
                if exceeds(*value, *known) {
                    *known = *value;
                }
            }
        }
        let found = highest.get(of).copied();
        self.below.insert(owner, highest);
        Ok(found)
    }

    /// Checks a limit, unless the model is flat. The limit must not be larger than the limit of the parent or of the domain, and not smaller than the
    /// limit of a project below. If the parent or the domain has no limit for the resource, the default of the registered limit counts instead.
    fn fits(&mut self, model: LimitModel, registered: &RegisteredLimit, row: &Limit) -> Result<(), Error> {
        if model == LimitModel::Flat {
            return Ok(());
        }
        let refused = |why: &str| {
            let (value, resource) = (row.value, &registered.resource);
            let why = format!("Invalid resource limit: the limit {value} of {resource} is {why}.");
            Err(Error::Refused(why))
        };
        if let LimitOwner::Project(id) = &row.owner {
            let project = self.view.get::<Project>(id)?.ok_or_else(|| wrong("limit", "project_id", id))?;
            let domain = LimitOwner::Domain(project.domain);
            let parent = project.parent.map_or(domain, LimitOwner::Project);
            // If the parent is a project, the limit of the domain is checked, too, because the default that counts for the parent can be larger than
            // the limit of the domain.
            for (above, why) in [
                (
                    parent,
                    "larger than that of the parent (if the parent has no limit, the default of the registered limit counts)",
                ),
                (
                    domain,
                    "larger than that of the domain (if the domain has no limit, the default of the registered limit counts)",
                ),
            ] {
                let bound = self.own(above)?.get(&row.registered).copied().unwrap_or(registered.default);
                if exceeds(row.value, bound) {
                    return refused(why);
                }
            }
        }
        match self.highest_below(row.owner, &row.registered)? {
            Some(highest) if exceeds(highest, row.value) => refused("smaller than that of a project below"),
            _ => Ok(()),
        }
    }
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
