//! Imports regions, services and endpoints.

use super::taken::has_other;
use super::{Left, Taking};
use crate::error::Error;
use crate::keystone::catalog::{check_service, check_url};
use crate::keystone::names::check_region_id;
use enfilade_facts::tables::{Endpoint, Region, RegionId, Service};
use enfilade_facts::vocabulary::{EndpointId, ServiceId};

impl Taking<'_, '_> {
    pub(super) fn region(&mut self, id: &RegionId, row: &Region) -> Result<Left, Error> {
        if let Err(why) = check_region_id(&id.0) {
            return Ok(Err(why.to_string()));
        }
        match self.lacking_region(row.parent.as_ref())? {
            Some(lacking) => Ok(Err(lacking)),
            None => self.add(id, row),
        }
    }

    pub(super) fn service(&mut self, id: &ServiceId, row: &Service) -> Result<Left, Error> {
        if let Err(why) = check_service(row) {
            return Ok(Err(why.to_string()));
        }
        match has_other(self.view, row, &self.plan.services)? {
            false => self.add(id, row),
            true => Ok(Err("another service in this store has this type and name".to_owned())),
        }
    }

    pub(super) fn endpoint(&mut self, id: &EndpointId, row: &Endpoint) -> Result<Left, Error> {
        if let Err(why) = check_url(&row.url) {
            return Ok(Err(why.to_string()));
        }
        if !self.has::<Service>(&row.service)? {
            return Ok(Err(format!("service {} does not exist in this store", row.service)));
        }
        match self.lacking_region(row.region.clone().map(RegionId).as_ref())? {
            Some(lacking) => Ok(Err(lacking)),
            None => self.add(id, row),
        }
    }

    /// Why a record cannot be in this region. `None` if it can.
    pub(super) fn lacking_region(&self, region: Option<&RegionId>) -> Result<Option<String>, Error> {
        Ok(match region {
            Some(region) if !self.has::<Region>(region)? => {
                Some(format!("region {region} does not exist in this store"))
            }
            _ => None,
        })
    }
}
