//! The catalog for commands: adds, finds, lists and removes services, regions and endpoints. Commands identify a service by its type and name.

use super::catalog::{add_region_to, check_url};
use super::names::check_name_with_blanks;
use super::resource::{claim_region, claim_service, delete};
use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use enfilade_facts::tables::{Endpoint, Interface, RegionId, Service};
use enfilade_facts::vocabulary::{EndpointId, ServiceId};
use enfilade_facts::{At, Read, Source};

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

/// Creates a service, or returns the existing service of this type and name.
///
/// # Errors
/// When the type or the name is not accepted, or the facts cannot be changed.
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
/// When the id is not accepted, or the facts cannot be changed.
pub fn add_region(ctx: &ChangeContext<'_>, id: &str) -> Result<At, Error> {
    let key = RegionId(id.to_owned());
    let ((), at) =
        ctx.commit(&format!("region add {id}"), |view, change| add_region_to(view, change, &key))?;
    Ok(at)
}

/// Sets the URL of the endpoint that has this service, interface and region. Creates the endpoint if it does not exist, and enables it if it is
/// disabled.
///
/// # Errors
/// When the service does not exist, the URL or the id of the region is not accepted, or the facts cannot be changed.
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
