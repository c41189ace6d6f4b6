//! The catalog: services, regions and endpoints.

use super::endpoint_filters::forget_selected;
use super::names::{check_name_with_blanks, check_region_id};
use super::policies::{forget_associations, regions_in};
use super::resource::{
    Build, RecordId, Saved, Saving, StoredResource, claim, claim_region, claim_service, save_with,
};
use super::unified_limits::unless_limited;
use crate::change_context::ChangeContext;
use crate::comment::check_comment;
use crate::error::{Error, missing};
use enfilade_facts::tables::{
    Endpoint, Extra, ExtraKey, PolicyTarget, Region, RegionId, ResourceKind, Selected, Service,
};
use enfilade_facts::vocabulary::{EndpointId, ServiceId};
use enfilade_facts::{Change, View};

/// The maximum number of parent regions that are checked for a cycle.
const REGION_DEPTH_MAX: usize = 64;

impl StoredResource for Service {
    const NAME: &'static str = "service";
    const KIND: ResourceKind = ResourceKind::Service;
    const DELETE: &'static str = "remove";

    fn called(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, _: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_comment(self.description.as_deref())?;
        check_service(self)
    }

    /// A service is deleted together with its endpoints. A service with registered limits is not deleted.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &ServiceId) -> Result<(), Error> {
        unless_limited(view, &format!("service {id}"), |row| row.service == *id)?;
        claim(view, change, id, self)?;
        change.delete::<Service>(id);
        for (endpoint, row) in view.list::<Endpoint>(&[])? {
            if row.service == *id {
                row.forget(view, change, &endpoint)?;
                change.delete::<Extra>(&ExtraKey::of(ResourceKind::Endpoint, &endpoint));
            }
        }
        forget_associations(view, change, |target, _| match target {
            PolicyTarget::Service(service) | PolicyTarget::InRegion(service, _) => service == id,
            PolicyTarget::Endpoint(_) => false,
        })
    }
}

impl StoredResource for Endpoint {
    const NAME: &'static str = "endpoint";
    const KIND: ResourceKind = ResourceKind::Endpoint;
    const DELETE: &'static str = "remove";

    fn called(&self) -> &str {
        &self.url
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_url(&self.url)?;
        claim_service(at.view, at.change, &self.service)?;
        match &self.region {
            Some(region) => claim_region(at.view, at.change, &RegionId(region.clone())),
            None => Ok(()),
        }
    }

    fn forget(&self, view: &View<'_>, change: &mut Change, id: &EndpointId) -> Result<(), Error> {
        // A change that sets a policy or filter for the endpoint also expects that the endpoint's record is unchanged. So if such a change is made at
        // the same time as this deletion, the two changes conflict.
        claim(view, change, id, self)?;
        change.delete::<Endpoint>(id);
        forget_selected(view, change, Selected::Endpoint(*id))?;
        forget_associations(view, change, |target, _| *target == PolicyTarget::Endpoint(*id))
    }
}

impl StoredResource for Region {
    const NAME: &'static str = "region";
    const KIND: ResourceKind = ResourceKind::Region;

    fn new_id(random: [u8; 16]) -> Option<RegionId> {
        Some(RegionId(format!("{:032x}", u128::from_ne_bytes(random))))
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        let id = at.id;
        check_region_id(&id.0)?;
        check_comment(self.description.as_deref())?;
        // A region must not contain itself, directly or through other regions.
        let mut above = self.parent.clone();
        for _ in 0..REGION_DEPTH_MAX {
            let Some(parent) = above else { break };
            if parent == *id {
                return Err(Error::Invalid("a region cannot be in itself".to_owned()));
            }
            let row = at.view.get::<Region>(&parent)?.ok_or_else(|| missing("region", &parent))?;
            // Two changes at the same time could put two regions into each other, or one change could delete a region while the other change puts a
            // region into it. Therefore the changes conflict, and the later change is built again on the result of the earlier change.
            claim(at.view, at.change, &parent, &row)?;
            above = row.parent;
        }
        Ok(())
    }

    /// A region is deleted together with the regions in it. The region is not deleted if this region or a region in it has endpoints or registered
    /// limits.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &RegionId) -> Result<(), Error> {
        let regions = view.list::<Region>(&[])?;
        let within = regions_in(&regions, id);
        let is_within = |region: Option<&str>| region.is_some_and(|region| within.contains(region));
        if view.list::<Endpoint>(&[])?.iter().any(|(_, row)| is_within(row.region.as_deref())) {
            return Err(Error::Refused(format!(
                "region {id} cannot be deleted: the region or a region in it has endpoints; delete these endpoints first"
            )));
        }
        unless_limited(view, &format!("region {id}"), |row| {
            is_within(row.region.as_ref().map(|region| region.0.as_str()))
        })?;
        for (region, row) in regions.iter().filter(|(region, _)| within.contains(region.0.as_str())) {
            claim(view, change, region, row)?;
            change.delete::<Region>(region).delete::<Extra>(&ExtraKey::of(ResourceKind::Region, region));
        }
        forget_associations(view, change, |target, _| match target {
            PolicyTarget::InRegion(_, region) => within.contains(region.0.as_str()),
            _ => false,
        })
    }
}

/// Adds a region to a change, if it does not exist.
pub(super) fn add_region_to(view: &View<'_>, change: &mut Change, id: &RegionId) -> Result<(), Error> {
    check_region_id(&id.0)?;
    if view.get::<Region>(id)?.is_none() {
        change.expect_absent::<Region>(id).put(id, &Region::default());
    }
    Ok(())
}

/// Creates or changes an endpoint. A region that does not exist is made in the same change.
///
/// # Errors
/// As [`save`](super::save).
pub fn save_endpoint(
    ctx: &ChangeContext<'_>,
    id: &RecordId<EndpointId>,
    region: Option<&RegionId>,
    build: Build<'_, Endpoint>,
) -> Result<Saved<EndpointId, Endpoint>, Error> {
    save_with(ctx, id, build, &|view, change| {
        region.map_or(Ok(()), |region| add_region_to(view, change, region))
    })
}

/// Checks the type and the name of a service. The name may be empty.
pub(super) fn check_service(row: &Service) -> Result<(), Error> {
    check_name_with_blanks("service type", &row.kind)?;
    if row.name.is_empty() { Ok(()) } else { check_name_with_blanks("service", &row.name) }
}

/// Checks the URL of an endpoint.
pub(super) fn check_url(url: &str) -> Result<(), Error> {
    if !(url.starts_with("http://") || url.starts_with("https://")) || url.len() > 1024 {
        return Err(Error::Invalid(format!(
            "`{url}` is not a valid URL; expected a URL that begins with http:// or https:// and has at most 1024 bytes"
        )));
    }
    Ok(())
}
