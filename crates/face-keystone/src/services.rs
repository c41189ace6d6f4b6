//! Services, their endpoints, and the regions of the endpoints.

use super::request_body::{RequestBody, invalid};
use super::resource::{Resource, Store, add, answer, created, edited, permitted};
use super::schema::{Schema, Type};
use super::{ApiError, Call, Outcome};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, save_endpoint};
use enfilade_facts::tables::{Endpoint, Interface, Region, RegionId, ResourceKind, Service};
use enfilade_facts::vocabulary::ServiceId;
use enfilade_passage::ApiPermit;
use hyper::StatusCode;
use serde_json::{Value, json};

impl Resource for Service {
    const SCHEMA: Schema = Schema {
        one: "service",
        many: "services",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("type", Type::Text, Type::Text),
            ("enabled", Type::Flag, Type::Flag),
            ("description", Type::None, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Service);
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;
    const DECODES_ID: bool = true;

    fn attributes(&self) -> Value {
        let mut body = json!({ "name": self.name, "type": self.kind, "enabled": self.enabled });
        if let Some(description) = &self.description {
            add(&mut body, "description", json!(description));
        }
        body
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.set("type", &mut self.kind)?;
        if let Some(name) = given.text("name")? {
            self.name = name.unwrap_or_default();
        }
        given.set_flag("enabled", &mut self.enabled)?;
        given.set_or_remove("description", &mut self.description)
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted::<Service>(call)?;
        let kind = given.needed("type")?;
        let new = Service { kind, name: String::new(), enabled: true, description: None };
        created(call, (permit, given), &RecordId::New, &new)
    }
}

impl Resource for Endpoint {
    const SCHEMA: Schema = Schema {
        one: "endpoint",
        many: "endpoints",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("service_id", Type::Text, Type::Text),
            ("interface", Type::Text, Type::Text),
            ("region", Type::TextOrNull, Type::None),
            ("region_id", Type::TextOrNull, Type::TextOrNull),
            ("url", Type::Text, Type::Text),
            ("enabled", Type::Flag, Type::Flag),
            ("links", Type::Object, Type::None),
            ("legacy_endpoint_id", Type::None, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Endpoint);
    const STORE: Store<Self> = Store {
        change: |ctx, found, given| {
            let (id, region) = (RecordId::Existing(found.id), old_region(given)?);
            Ok(save_endpoint(ctx, &id, region.as_ref(), &|before| edited(given, before, None))?.into())
        },
        ..Store::BY_ID
    };
    const HAS_OPTIONS: bool = false;
    const DECODES_ID: bool = true;

    fn attributes(&self) -> Value {
        let Endpoint { service, interface, region, url, enabled } = self;
        json!({
            "service_id": service.to_string(), "interface": interface.name(), "region": region, "region_id": region,
            "url": url, "enabled": enabled,
        })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        let (service, interface) = (service(given)?, interface(given)?);
        self.service = service.unwrap_or(self.service);
        self.interface = interface.unwrap_or(self.interface);
        if let Some(region) = given.text("region_id")?.or(given.text("region")?) {
            self.region = old_region(given)?.map(|region| region.0).or(region);
        }
        given.set("url", &mut self.url)?;
        given.set_flag("enabled", &mut self.enabled)
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted::<Endpoint>(call)?;
        let (service, interface, region) = (service(&given)?, interface(&given)?, old_region(&given)?);
        let needed = |name: &str| {
            invalid(format!("Invalid input for field/attribute {name} of endpoint: it is required."))
        };
        let new = Endpoint {
            service: service.ok_or_else(|| needed("service_id"))?,
            interface: interface.ok_or_else(|| needed("interface"))?,
            region: None,
            url: given.needed("url")?,
            enabled: true,
        };
        let build = |before: Option<(&Endpoint, &str)>| edited(&given, before, Some(&new));
        let saved = call.save(&permit, |ctx| save_endpoint(ctx, &RecordId::New, region.as_ref(), &build))?;
        Ok(answer(call, StatusCode::CREATED, saved.into(), &permit))
    }
}

/// The region in the old parameter `region`. As in Keystone, this parameter is used only if there is no `region_id`. If the region does not exist,
/// the call creates it.
fn old_region(given: &RequestBody) -> Result<Option<RegionId>, Error> {
    Ok(match given.text("region_id")?.flatten() {
        Some(_) => None,
        None => given.text("region")?.flatten().map(RegionId),
    })
}

fn service(given: &RequestBody) -> Result<Option<ServiceId>, Error> {
    Ok(given.id("service_id")?.flatten())
}

fn interface(given: &RequestBody) -> Result<Option<Interface>, Error> {
    Ok(given.text("interface")?.flatten().map(|text| text.parse()).transpose()?)
}

impl Resource for Region {
    const SCHEMA: Schema = Schema {
        one: "region",
        many: "regions",
        attributes: &[
            ("id", Type::Text, Type::TextOrNull),
            ("description", Type::Text, Type::TextOrNull),
            ("parent_region_id", Type::TextOrNull, Type::TextOrNull),
            ("links", Type::Object, Type::None),
            ("parent", Type::None, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Region);
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;
    const DECODES_ID: bool = true;

    fn attributes(&self) -> Value {
        let parent = self.parent.as_ref().map(|parent| parent.0.as_str());
        json!({ "description": self.description.as_deref().unwrap_or_default(), "parent_region_id": parent })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.set_or_remove("description", &mut self.description)?;
        if let Some(parent) = given.text("parent_region_id")? {
            self.parent = parent.map(RegionId);
        }
        Ok(())
    }

    fn create(call: &mut Call) -> Outcome {
        let permitted = permitted::<Region>(call)?;
        let id = permitted.1.text("id")?.flatten().filter(|id| !id.is_empty());
        let id = id.map_or(RecordId::New, |id| RecordId::NewWith(RegionId(id)));
        created(call, permitted, &id, &Region::default())
    }
}

/// Creates a region with the id in the path.
pub(super) fn put_region(call: &mut Call) -> Outcome {
    let permitted: (ApiPermit, RequestBody) = permitted::<Region>(call)?;
    let id = call.decoded(0);
    if permitted.1.text("id")?.flatten().is_some_and(|said| said != id) {
        return Err(ApiError::from(invalid("the id in the body differs from the id in the path")));
    }
    created(call, permitted, &RecordId::NewWith(RegionId(id)), &Region::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::link;

    #[test]
    fn a_regions_link_is_a_url() {
        let link = link::<Region>("https://x", "a b/ü#?%");
        assert_eq!(link, "https://x/v3/regions/a%20b%2F%C3%BC%23%3F%25");
    }
}
