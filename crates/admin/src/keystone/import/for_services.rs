//! Imports limits, policies and endpoint filters.

use super::{Left, ServiceRecord, Taking};
use crate::error::Error;
use crate::import::Imported;
use crate::keystone::names::check_name_with_blanks;
use crate::keystone::policies::check_policy;
use crate::keystone::unified_limits::{is_for, limits_of, put_limit};
use enfilade_facts::tables::{
    Domain, Endpoint, EndpointFilter, EndpointFilterKey, EndpointGroup, Limit, LimitOwner, Policy,
    PolicyAssociation, PolicyTarget, Project, RegionId, RegisteredLimit, Row, Selected, Service,
};
use enfilade_facts::vocabulary::{EndpointId, LimitId, ProjectId, RegisteredLimitId, ServiceId};

impl Taking<'_, '_> {
    pub(super) fn for_services(&mut self, record: &ServiceRecord) -> Result<Imported, Error> {
        let (kind, name, left) = match record {
            ServiceRecord::RegisteredLimit(id, row) => {
                let of = self.service_in(&row.service, row.region.as_ref());
                ("registered limit", format!("{} of {of}", row.resource), self.registered_limit(id, row)?)
            }
            ServiceRecord::Limit(id, row) => {
                let resource = self.called(&row.registered);
                let owner = match &row.owner {
                    LimitOwner::Project(id) => self.project_called(id),
                    LimitOwner::Domain(id) => format!("domain {}", self.called(id)),
                };
                ("limit", format!("{resource} of {owner}"), self.limit(id, row)?)
            }
            ServiceRecord::Policy(id, row) => {
                let left = match check_policy(row) {
                    Ok(()) => self.add(id, row)?,
                    Err(why) => Err(why.to_string()),
                };
                ("policy", id.to_string(), left)
            }
            ServiceRecord::Association(target, row) => {
                let of = match target {
                    PolicyTarget::Endpoint(id) => self.endpoint_called(id),
                    PolicyTarget::Service(id) => self.service_in(id, None),
                    PolicyTarget::InRegion(id, region) => self.service_in(id, Some(region)),
                };
                ("policy association", format!("{} of {of}", row.policy), self.association(target, row)?)
            }
            ServiceRecord::EndpointGroup(id, row) => {
                let left = match check_name_with_blanks("endpoint group", &row.name) {
                    Ok(()) => self.add(id, row)?,
                    Err(why) => Err(why.to_string()),
                };
                ("endpoint group", row.name.clone(), left)
            }
            ServiceRecord::EndpointFilter(key) => {
                let selected = match &key.selected {
                    Selected::Endpoint(id) => self.endpoint_called(id),
                    Selected::Group(id) => format!("endpoint group {}", self.called(id)),
                };
                let project = self.project_called(&key.project);
                ("endpoint filter", format!("{selected} for {project}"), self.endpoint_filter(key)?)
            }
        };
        Ok(Imported::of(kind, name, left.err()))
    }

    fn project_called(&self, id: &ProjectId) -> String {
        format!("project {}", self.called(id))
    }

    fn endpoint_called(&self, id: &EndpointId) -> String {
        format!("endpoint {}", self.called(id))
    }

    fn service_in(&self, id: &ServiceId, region: Option<&RegionId>) -> String {
        let region = region.map(|region| format!(" in region {region}")).unwrap_or_default();
        format!("service {}{region}", self.called(id))
    }

    fn registered_limit(&mut self, id: &RegisteredLimitId, row: &RegisteredLimit) -> Result<Left, Error> {
        if let Err(why) = check_name_with_blanks("resource", &row.resource) {
            return Ok(Err(why.to_string()));
        }
        if let Some(lacking) = self.lacking_service(&row.service, row.region.as_ref())? {
            return Ok(Err(lacking));
        }
        let region = row.region.as_ref();
        let known = self.view.list::<RegisteredLimit>(&[])?;
        let is_other = |(other, known): &(RegisteredLimitId, RegisteredLimit)| {
            other != id && is_for(known, &row.service, region, &row.resource)
        };
        let place = format!("{}{:?}{}", row.service, region.map(|region| &region.0), row.resource);
        if known.iter().any(is_other) || !self.is_first::<RegisteredLimit>(&place) {
            return Ok(Err("another registered limit in this store is for this resource".to_owned()));
        }
        self.add(id, row)
    }

    /// Imports a limit. Its value is not compared with the limits of other projects and domains: values are compared only when clients create or
    /// change limits.
    fn limit(&mut self, id: &LimitId, row: &Limit) -> Result<Left, Error> {
        let has_owner = match &row.owner {
            LimitOwner::Project(id) => self.has::<Project>(id)?,
            LimitOwner::Domain(id) => self.has::<Domain>(id)?,
        };
        if !has_owner {
            return Ok(Err("the project or domain of the limit does not exist in this store".to_owned()));
        }
        if !self.has::<RegisteredLimit>(&row.registered)? {
            return Ok(Err("the registered limit of the limit does not exist in this store".to_owned()));
        }
        let known = limits_of(self.view, &row.owner)?;
        let is_other = |(other, known): &(LimitId, Limit)| other != id && known.registered == row.registered;
        let place = format!("{}{:?}", row.registered, row.owner);
        if known.iter().any(is_other) || !self.is_first::<Limit>(&place) {
            let why = "the project or domain has another limit of this resource in this store";
            return Ok(Err(why.to_owned()));
        }
        let left = self.add(id, row)?;
        if left.is_ok() {
            put_limit(self.change, id, row);
        }
        Ok(left)
    }

    fn association(&mut self, target: &PolicyTarget, row: &PolicyAssociation) -> Result<Left, Error> {
        if !self.has::<Policy>(&row.policy)? {
            return Ok(Err(format!("the policy {} does not exist in this store", row.policy)));
        }
        let lacking = match target {
            PolicyTarget::Endpoint(id) => self.lacking_endpoint(id)?,
            PolicyTarget::Service(id) => self.lacking_service(id, None)?,
            PolicyTarget::InRegion(id, region) => self.lacking_service(id, Some(region))?,
        };
        match lacking {
            Some(lacking) => Ok(Err(lacking)),
            None => self.add(target, row),
        }
    }

    fn endpoint_filter(&mut self, key: &EndpointFilterKey) -> Result<Left, Error> {
        if !self.has::<Project>(&key.project)? {
            return Ok(Err("the project of the filter does not exist in this store".to_owned()));
        }
        let lacking = match &key.selected {
            Selected::Endpoint(id) => self.lacking_endpoint(id)?,
            Selected::Group(id) => (!self.has::<EndpointGroup>(id)?)
                .then(|| "the endpoint group of the filter does not exist in this store".to_owned()),
        };
        match lacking {
            Some(lacking) => Ok(Err(lacking)),
            None => self.add(key, &EndpointFilter),
        }
    }

    fn lacking_endpoint(&self, id: &EndpointId) -> Result<Option<String>, Error> {
        Ok((!self.has::<Endpoint>(id)?).then(|| format!("endpoint {id} does not exist in this store")))
    }

    fn lacking_service(&self, id: &ServiceId, region: Option<&RegionId>) -> Result<Option<String>, Error> {
        if !self.has::<Service>(id)? {
            return Ok(Some(format!("service {id} does not exist in this store")));
        }
        self.lacking_region(region)
    }

    /// Returns whether no earlier record of this change has this place, and marks the place as taken. A place describes what the record is for (such
    /// as service, region and resource). Two records must not have the same place.
    fn is_first<R: Row>(&mut self, place: &str) -> bool {
        // A place is longer than an id, so it is never equal to the key of a record in `taken`.
        self.made.taken.insert([&[R::TABLE as u8], place.as_bytes()].concat())
    }
}
