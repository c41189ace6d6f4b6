//! The catalog: services, regions and endpoints.

use super::names::check_name;
use crate::desk::{Desk, random};
use crate::error::Error;
use enfilade_facts::tables::{Endpoint, Interface, Region, RegionId, Service};
use enfilade_facts::vocabulary::{EndpointId, ServiceId};
use enfilade_facts::{At, Read, Source};

/// A service, for listing.
#[derive(Clone, Debug)]
pub struct CatalogSummary {
    /// Its id.
    pub id: ServiceId,
    /// The service.
    pub service: Service,
    /// Where it is.
    pub endpoints: Vec<CatalogEntry>,
}

/// An endpoint, for listing.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    /// Its id.
    pub id: EndpointId,
    /// The endpoint.
    pub endpoint: Endpoint,
}

/// Makes a service; where there is one of this kind and name already, that is it.
///
/// # Errors
/// When the facts cannot be changed.
pub fn add_service(desk: &Desk<'_>, kind: &str, name: &str) -> Result<(ServiceId, At), Error> {
    check_name("service", name)?;
    check_name("service's kind", kind)?;
    desk.commit(&format!("service add {kind} {name}"), |view, change| {
        let same = |(_, row): &(ServiceId, Service)| row.kind == kind && row.name == name;
        if let Some((id, _)) = view.list::<Service>(&[])?.into_iter().find(same) {
            return Ok(id);
        }
        let id = ServiceId::from_bytes(random()?);
        let row = Service { kind: kind.into(), name: name.into(), enabled: true, description: None };
        change.put(&id, &row);
        Ok(id)
    })
}

/// Makes a region, if it is not there.
///
/// # Errors
/// When the facts cannot be changed.
pub fn add_region(desk: &Desk<'_>, id: &str) -> Result<At, Error> {
    check_name("region", id)?;
    let key = RegionId(id.to_owned());
    let ((), at) = desk.commit(&format!("region add {id}"), |view, change| {
        if view.get::<Region>(&key)?.is_none() {
            change.put(&key, &Region::default());
        }
        Ok(())
    })?;
    Ok(at)
}

/// Where a service may be.
pub(super) fn check_url(url: &str) -> Result<(), Error> {
    if !(url.starts_with("http://") || url.starts_with("https://")) || url.len() > 1024 {
        return Err(Error::Invalid(format!("`{url}` is no address; expected http:// or https://")));
    }
    Ok(())
}

/// Says where a service is; where there is an endpoint of this service, interface and region already, it moves.
///
/// # Errors
/// When there is no such service, the address is none, or the facts cannot be changed.
pub fn add_endpoint(
    desk: &Desk<'_>,
    service: &ServiceId,
    interface: Interface,
    region: Option<&str>,
    url: &str,
) -> Result<(EndpointId, At), Error> {
    check_url(url)?;
    let region = region.map(str::to_owned);
    if let Some(region) = &region {
        add_region(desk, region)?;
    }
    desk.commit(&format!("endpoint add {interface} {url}"), |view, change| {
        change.expect_present::<Service>(service);
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
/// When there is none, or the facts cannot be changed.
pub fn remove_service(desk: &Desk<'_>, id: &ServiceId) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("service remove {id}"), |view, change| {
        if view.get::<Service>(id)?.is_none() {
            return Err(missing("service", id));
        }
        change.delete::<Service>(id);
        for (endpoint, row) in view.list::<Endpoint>(&[])? {
            if row.service == *id {
                change.delete::<Endpoint>(&endpoint);
            }
        }
        Ok(())
    })?;
    Ok(at)
}

/// Removes an endpoint.
///
/// # Errors
/// When there is none, or the facts cannot be changed.
pub fn remove_endpoint(desk: &Desk<'_>, id: &EndpointId) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("endpoint remove {id}"), |view, change| {
        if view.get::<Endpoint>(id)?.is_none() {
            return Err(missing("endpoint", id));
        }
        change.delete::<Endpoint>(id);
        Ok(())
    })?;
    Ok(at)
}

fn missing(what: &'static str, id: impl std::fmt::Display) -> Error {
    Error::Missing { what, name: id.to_string(), hint: "see `enfilade catalog list`" }
}

/// Every service with its endpoints, by kind.
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
