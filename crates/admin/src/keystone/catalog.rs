//! The catalog: services, regions and endpoints.

use super::endpoint_filters::forget_selected;
use super::names::{check_name_with_blanks, check_region_id};
use super::policies::{forget_associations, regions_in};
use super::resource::{
    Build, RecordId, Saved, Saving, StoredResource, claim, claim_region, claim_service, delete, save_with,
};
use super::unified_limits::unless_limited;
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::{Error, missing};
use enfilade_facts::tables::{
    Endpoint, Extra, ExtraKey, Interface, PolicyTarget, Region, RegionId, ResourceKind, Selected, Service,
};
use enfilade_facts::vocabulary::{EndpointId, ServiceId};
use enfilade_facts::{At, Change, Read, Source, View};

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
        // If a policy or filter is set for the endpoint at the same time, that change claims the endpoint, too, so the changes conflict.
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
            // If two changes at the same time would put regions into each other, or one of them deletes a parent, the changes conflict, and the
            // second is built again.
            claim(at.view, at.change, &parent, &row)?;
            above = row.parent;
        }
        Ok(())
    }

    /// A region is deleted together with the regions in it. It is not deleted if it or a region in it has endpoints or registered limits.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &RegionId) -> Result<(), Error> {
        let regions = view.list::<Region>(&[])?;
        let within = regions_in(&regions, id);
        let is_within = |region: Option<&str>| region.is_some_and(|region| within.contains(region));
        if view.list::<Endpoint>(&[])?.iter().any(|(_, row)| is_within(row.region.as_deref())) {
            return Err(Error::Refused(format!(
                "region {id} cannot be deleted: it or a region in it has endpoints; delete those first"
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

/// A service, for listing.
#[derive(Clone, Debug)]
pub struct CatalogSummary {
    /// The id of the service.
    pub id: ServiceId,
    /// The service.
    pub service: Service,
    /// The endpoints of the service.
    pub endpoints: Vec<CatalogEntry>,
}

/// An endpoint, for listing.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    /// The id of the endpoint.
    pub id: EndpointId,
    /// The endpoint.
    pub endpoint: Endpoint,
}

/// A service that [`add_service`] created or found.
#[derive(Clone, Copy, Debug)]
pub struct AddedService {
    /// The id of the service.
    pub id: ServiceId,
    /// Whether the service was created; otherwise it existed before.
    pub is_new: bool,
}

/// Creates a service, or returns the existing one of this type and name.
///
/// # Errors
/// When the facts cannot be changed.
pub fn add_service(ctx: &ChangeContext<'_>, kind: &str, name: &str) -> Result<(AddedService, At), Error> {
    check_name_with_blanks("service", name)?;
    check_name_with_blanks("service type", kind)?;
    ctx.commit(&format!("service add {kind} {name}"), |view, change| {
        let same = |(_, row): &(ServiceId, Service)| row.kind == kind && row.name == name;
        if let Some((id, _)) = view.list::<Service>(&[])?.into_iter().find(same) {
            return Ok(AddedService { id, is_new: false });
        }
        let id = ServiceId::from_bytes(random()?);
        let row = Service { kind: kind.into(), name: name.into(), enabled: true, description: None };
        change.put(&id, &row);
        Ok(AddedService { id, is_new: true })
    })
}

/// Finds a service by id, or by a name that only one service has.
///
/// # Errors
/// When no service or more than one matches, or the facts cannot be read.
pub fn find_service(source: &dyn Source, text: &str) -> Result<ServiceId, Error> {
    let services = source.read(|view| view.list::<Service>(&[]))??;
    if let Some((id, _)) = services.iter().find(|(id, _)| id.to_string() == text) {
        return Ok(*id);
    }
    let named: Vec<_> = services.iter().filter(|(_, row)| row.name == text).collect();
    match named.as_slice() {
        [] => Err(Error::Missing {
            what: "service",
            name: text.to_owned(),
            hint: "see `enfilade catalog list`; expected a name or an id",
        }),
        [(id, _)] => Ok(*id),
        all => {
            let ids: Vec<String> = all.iter().map(|(id, row)| format!("{id} ({})", row.kind)).collect();
            Err(Error::Invalid(format!(
                "several services have the name `{text}`; expected one of these ids: {}",
                ids.join(", ")
            )))
        }
    }
}

/// Creates a region, if it does not exist.
///
/// # Errors
/// When the facts cannot be changed.
pub fn add_region(ctx: &ChangeContext<'_>, id: &str) -> Result<At, Error> {
    let key = RegionId(id.to_owned());
    let ((), at) =
        ctx.commit(&format!("region add {id}"), |view, change| add_region_to(view, change, &key))?;
    Ok(at)
}

/// Adds a region to a change, if it does not exist.
fn add_region_to(view: &View<'_>, change: &mut Change, id: &RegionId) -> Result<(), Error> {
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
            "`{url}` is not a valid URL; expected http:// or https://, and at most 1024 bytes"
        )));
    }
    Ok(())
}

/// Sets the URL of the endpoint that has this service, interface and region. Creates the endpoint if it does not exist.
///
/// # Errors
/// When the service does not exist, the URL is not an HTTP URL, or the facts cannot be changed.
pub fn add_endpoint(
    ctx: &ChangeContext<'_>,
    service: &ServiceId,
    interface: Interface,
    region: Option<&str>,
    url: &str,
) -> Result<(EndpointId, At), Error> {
    check_url(url)?;
    let region = region.map(str::to_owned);
    ctx.commit(&format!("endpoint add {interface} {url}"), |view, change| {
        claim_service(view, change, service).map_err(see_catalog)?;
        if let Some(region) = region.clone().map(RegionId) {
            add_region_to(view, change, &region)?;
            claim_region(view, change, &region)?;
        }
        let same = |(_, row): &(EndpointId, Endpoint)| {
            (row.service, row.interface, &row.region) == (*service, interface, &region)
        };
        let found = view.list::<Endpoint>(&[])?.into_iter().find(same);
        let id = found.map_or_else(|| random().map(EndpointId::from_bytes), |(id, _)| Ok(id))?;
        let row =
            Endpoint { service: *service, interface, region: region.clone(), url: url.into(), enabled: true };
        change.put(&id, &row);
        Ok(id)
    })
}

/// Removes a service with its endpoints.
///
/// # Errors
/// When the service does not exist, or the facts cannot be changed.
pub fn remove_service(ctx: &ChangeContext<'_>, id: &ServiceId) -> Result<At, Error> {
    delete::<Service>(ctx, id).map_err(see_catalog)
}

/// Removes an endpoint.
///
/// # Errors
/// When the endpoint does not exist, or the facts cannot be changed.
pub fn remove_endpoint(ctx: &ChangeContext<'_>, id: &EndpointId) -> Result<At, Error> {
    delete::<Endpoint>(ctx, id).map_err(see_catalog)
}

fn see_catalog(why: Error) -> Error {
    match why {
        Error::Missing { what, name, .. } => {
            Error::Missing { what, name, hint: "see `enfilade catalog list`" }
        }
        other => other,
    }
}

/// Every service with its endpoints, sorted by type and name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_catalog(source: &dyn Source) -> Result<Vec<CatalogSummary>, Error> {
    source.read(|view| {
        let endpoints = view.list::<Endpoint>(&[])?;
        let mut services: Vec<_> = view
            .list::<Service>(&[])?
            .into_iter()
            .map(|(id, service)| {
                let of_it = endpoints.iter().filter(|(_, endpoint)| endpoint.service == id);
                let mut endpoints: Vec<_> =
                    of_it.map(|(id, row)| CatalogEntry { id: *id, endpoint: row.clone() }).collect();
                endpoints.sort_by(|a, b| {
                    let key =
                        |entry: &CatalogEntry| (entry.endpoint.region.clone(), entry.endpoint.interface);
                    key(a).cmp(&key(b))
                });
                CatalogSummary { id, service, endpoints }
            })
            .collect();
        services.sort_by(|a, b| (&a.service.kind, &a.service.name).cmp(&(&b.service.kind, &b.service.name)));
        Ok(services)
    })?
}
