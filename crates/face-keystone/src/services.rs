//! Services, their endpoints, and the regions those are in.

use super::given::{Given, invalid, with_extra};
use super::listing::{self, Filters, plain};
use super::{Call, Outcome, Said, Trouble};
use enfilade_admin::Error;
use enfilade_admin::keystone::{
    delete_region, extra_of, remove_endpoint, remove_service, save_endpoint, save_region, save_service,
};
use enfilade_faces::percent::push_name;
use enfilade_facts::View;
use enfilade_facts::tables::{Endpoint, Interface, Key as _, Region, RegionId, Service, ThingKind};
use enfilade_facts::vocabulary::{EndpointId, ServiceId};
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

const SERVICE: [&str; 4] = ["name", "type", "enabled", "description"];
const ENDPOINT: [&str; 7] =
    ["service_id", "interface", "region", "region_id", "url", "enabled", "legacy_endpoint_id"];
const REGION: [&str; 3] = ["description", "parent_region_id", "parent"];

fn service_body(base: &str, id: &ServiceId, row: &Service, extra: &str) -> Value {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.to_string()));
    body.insert("name".to_owned(), json!(row.name));
    body.insert("type".to_owned(), json!(row.kind));
    body.insert("enabled".to_owned(), json!(row.enabled));
    if let Some(description) = &row.description {
        body.insert("description".to_owned(), json!(description));
    }
    without_options(with_extra(body, extra, format!("{base}/v3/services/{id}")))
}

fn endpoint_body(base: &str, id: &EndpointId, row: &Endpoint, extra: &str) -> Value {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.to_string()));
    body.insert("service_id".to_owned(), json!(row.service.to_string()));
    body.insert("interface".to_owned(), json!(row.interface.name()));
    body.insert("region".to_owned(), json!(row.region));
    body.insert("region_id".to_owned(), json!(row.region));
    body.insert("url".to_owned(), json!(row.url));
    body.insert("enabled".to_owned(), json!(row.enabled));
    without_options(with_extra(body, extra, format!("{base}/v3/endpoints/{id}")))
}

fn region_body(base: &str, id: &RegionId, row: &Region, extra: &str) -> Value {
    let mut body = Map::new();
    body.insert("id".to_owned(), json!(id.0));
    body.insert("description".to_owned(), json!(row.description.as_deref().unwrap_or_default()));
    body.insert("parent_region_id".to_owned(), json!(row.parent.as_ref().map(|parent| parent.0.as_str())));
    // Its id is any text.
    let mut link = format!("{base}/v3/regions/");
    push_name(&mut link, id.0.as_str());
    without_options(with_extra(body, extra, link))
}

/// Records of the catalog have no domain.
fn without_options(mut body: Value) -> Value {
    if let Some(map) = body.as_object_mut() {
        map.remove("options");
    }
    body
}

/// The record the path names, and the permit for the call.
fn found<R: enfilade_facts::tables::Row>(
    call: &mut Call,
    (kind, what): (ThingKind, &'static str),
    parse: impl Fn(&str) -> Option<R::Key>,
) -> Result<(R::Key, R, String, ApiPermit), Trouble> {
    let permit = call.allow(&About::default())?;
    let said = plain(call.parameter(0));
    let found = call.look(|view| {
        let Some(key) = parse(&said) else { return Ok(None) };
        let Some(row) = view.get::<R>(&key)? else { return Ok(None) };
        let extra = extra_of(view, kind, &key)?;
        Ok(Some((key, row, extra)))
    })?;
    let (key, row, extra) = found.ok_or_else(|| Trouble::missing(what, &said))?;
    Ok((key, row, extra, permit))
}

fn list<R: enfilade_facts::tables::Row + 'static>(
    call: &mut Call,
    many: &'static str,
    kind: ThingKind,
    parse: impl Fn(&str) -> Option<R::Key>,
    body: fn(&str, &R::Key, &R, &str) -> Value,
) -> Outcome {
    let permit = call.allow(&About::default())?;
    let base = call.base.clone();
    let after = call.marker(|text| parse(text).map(|key| key.bytes()))?;
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: listing::Each<'_>| {
        listing::records::<R>(view, &[], after, |key, row| {
            let extra = extra_of(view, kind, &key)?;
            Ok(each(key.bytes(), body(&base, &key, &row, &extra)))
        })
    };
    listing::answer(call, many, &permit, Filters::of(&call.head, &[]), after, Box::new(source))
}

fn service_id(text: &str) -> Option<ServiceId> {
    text.parse().ok()
}

fn endpoint_id(text: &str) -> Option<EndpointId> {
    text.parse().ok()
}

fn region_id(text: &str) -> Option<RegionId> {
    Some(RegionId(text.to_owned()))
}

pub(super) fn list_services(call: &mut Call) -> Outcome {
    list::<Service>(call, "services", ThingKind::Service, service_id, service_body)
}

pub(super) fn show_service(call: &mut Call) -> Outcome {
    let (id, row, extra, _) = found::<Service>(call, (ThingKind::Service, "service"), service_id)?;
    Ok(Said::json(StatusCode::OK, &json!({ "service": service_body(&call.base, &id, &row, &extra) })))
}

fn service(given: &Given, before: Option<(&Service, &str)>) -> Result<(Service, String), Error> {
    let (mut row, extra) = match before {
        Some((row, extra)) => (row.clone(), extra),
        None => (
            Service { kind: given.needed("type")?, name: String::new(), enabled: true, description: None },
            "",
        ),
    };
    if given.has("type") {
        row.kind = given.needed("type")?;
    }
    if let Some(name) = given.text("name")? {
        row.name = name.unwrap_or_default();
    }
    row.enabled = given.flag("enabled")?.unwrap_or(row.enabled);
    if let Some(description) = given.text("description")? {
        row.description = description.filter(|text| !text.is_empty());
    }
    Ok((row, given.extra(&SERVICE, extra)?))
}

pub(super) fn create_service(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = Given::of(call, "service")?;
    let made = call.save(&permit, |desk| save_service(desk, None, &|before| service(&given, before)))?;
    let body = service_body(&call.base, &made.id, &made.row, &made.extra);
    Ok(Said::json(StatusCode::CREATED, &json!({ "service": body })))
}

pub(super) fn update_service(call: &mut Call) -> Outcome {
    let (id, .., permit) = found::<Service>(call, (ThingKind::Service, "service"), service_id)?;
    let given = Given::of(call, "service")?;
    let saved = call.save(&permit, |desk| save_service(desk, Some(id), &|before| service(&given, before)))?;
    Ok(Said::json(
        StatusCode::OK,
        &json!({ "service": service_body(&call.base, &id, &saved.row, &saved.extra) }),
    ))
}

pub(super) fn delete_service(call: &mut Call) -> Outcome {
    let (id, .., permit) = found::<Service>(call, (ThingKind::Service, "service"), service_id)?;
    call.save(&permit, |desk| remove_service(desk, &id))?;
    Ok(Said::nothing())
}

pub(super) fn list_endpoints(call: &mut Call) -> Outcome {
    list::<Endpoint>(call, "endpoints", ThingKind::Endpoint, endpoint_id, endpoint_body)
}

pub(super) fn show_endpoint(call: &mut Call) -> Outcome {
    let (id, row, extra, _) = found::<Endpoint>(call, (ThingKind::Endpoint, "endpoint"), endpoint_id)?;
    Ok(Said::json(StatusCode::OK, &json!({ "endpoint": endpoint_body(&call.base, &id, &row, &extra) })))
}

fn endpoint(given: &Given, before: Option<(&Endpoint, &str)>) -> Result<(Endpoint, String), Error> {
    let service = given.id::<ServiceId>("service_id")?.flatten();
    let interface = given.text("interface")?.flatten().map(|text| text.parse::<Interface>()).transpose()?;
    let (mut row, extra) = match before {
        Some((row, extra)) => (row.clone(), extra),
        None => {
            let needed = |name: &str| {
                invalid(format!("Invalid input for field/attribute {name} of endpoint: it is required."))
            };
            let row = Endpoint {
                service: service.ok_or_else(|| needed("service_id"))?,
                interface: interface.ok_or_else(|| needed("interface"))?,
                region: None,
                url: given.needed("url")?,
                enabled: true,
            };
            (row, "")
        }
    };
    row.service = service.unwrap_or(row.service);
    row.interface = interface.unwrap_or(row.interface);
    if let Some(region) = given.text("region_id")?.or(given.text("region")?) {
        row.region = region;
    }
    if given.has("url") {
        row.url = given.needed("url")?;
    }
    row.enabled = given.flag("enabled")?.unwrap_or(row.enabled);
    Ok((row, given.extra(&ENDPOINT, extra)?))
}

pub(super) fn create_endpoint(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = Given::of(call, "endpoint")?;
    // With the old parameter `region` a missing region is created (as in Keystone).
    if let (Some(Some(region)), false) = (given.text("region")?, given.has("region_id")) {
        let made = call.save(&permit, |desk| {
            let keep = |before: Option<(&Region, &str)>| {
                Ok(before.map_or((Region::default(), String::new()), |(row, extra)| {
                    (row.clone(), extra.to_owned())
                }))
            };
            save_region(desk, &RegionId(region.clone()), false, &keep)
        })?;
        drop(made);
    }
    let made = call.save(&permit, |desk| save_endpoint(desk, None, &|before| endpoint(&given, before)))?;
    let body = endpoint_body(&call.base, &made.id, &made.row, &made.extra);
    Ok(Said::json(StatusCode::CREATED, &json!({ "endpoint": body })))
}

pub(super) fn update_endpoint(call: &mut Call) -> Outcome {
    let (id, .., permit) = found::<Endpoint>(call, (ThingKind::Endpoint, "endpoint"), endpoint_id)?;
    let given = Given::of(call, "endpoint")?;
    let saved =
        call.save(&permit, |desk| save_endpoint(desk, Some(id), &|before| endpoint(&given, before)))?;
    let body = endpoint_body(&call.base, &id, &saved.row, &saved.extra);
    Ok(Said::json(StatusCode::OK, &json!({ "endpoint": body })))
}

pub(super) fn delete_endpoint(call: &mut Call) -> Outcome {
    let (id, .., permit) = found::<Endpoint>(call, (ThingKind::Endpoint, "endpoint"), endpoint_id)?;
    call.save(&permit, |desk| remove_endpoint(desk, &id))?;
    Ok(Said::nothing())
}

pub(super) fn list_regions(call: &mut Call) -> Outcome {
    list::<Region>(call, "regions", ThingKind::Region, region_id, region_body)
}

pub(super) fn show_region(call: &mut Call) -> Outcome {
    let (id, row, extra, _) = found::<Region>(call, (ThingKind::Region, "region"), region_id)?;
    Ok(Said::json(StatusCode::OK, &json!({ "region": region_body(&call.base, &id, &row, &extra) })))
}

fn region(given: &Given, before: Option<(&Region, &str)>) -> Result<(Region, String), Error> {
    let (mut row, extra) = before.map_or((Region::default(), ""), |(row, extra)| (row.clone(), extra));
    if let Some(description) = given.text("description")? {
        row.description = description.filter(|text| !text.is_empty());
    }
    if let Some(parent) = given.text("parent_region_id")? {
        row.parent = parent.map(RegionId);
    }
    Ok((row, given.extra(&REGION, extra)?))
}

pub(super) fn create_region(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = Given::of(call, "region")?;
    let id = match given.text("id")?.flatten().filter(|id| !id.is_empty()) {
        Some(id) => id,
        None => call
            .faces
            .house()
            .random()
            .map(|bytes| format!("{:032x}", u128::from_ne_bytes(bytes)))
            .ok_or(enfilade_faces::Wire::Worker)?,
    };
    let id = RegionId(id);
    let (made, _) =
        call.save(&permit, |desk| save_region(desk, &id, true, &|before| region(&given, before)))?;
    Ok(Said::json(
        StatusCode::CREATED,
        &json!({ "region": region_body(&call.base, &id, &made.row, &made.extra) }),
    ))
}

pub(super) fn put_region(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = Given::of(call, "region")?;
    let id = RegionId(plain(call.parameter(0)));
    if given.text("id")?.flatten().is_some_and(|said| said != id.0) {
        return Err(invalid("the id in the body differs from the id in the path").into());
    }
    let (made, _) =
        call.save(&permit, |desk| save_region(desk, &id, true, &|before| region(&given, before)))?;
    Ok(Said::json(
        StatusCode::CREATED,
        &json!({ "region": region_body(&call.base, &id, &made.row, &made.extra) }),
    ))
}

pub(super) fn update_region(call: &mut Call) -> Outcome {
    let (id, .., permit) = found::<Region>(call, (ThingKind::Region, "region"), region_id)?;
    let given = Given::of(call, "region")?;
    let (saved, _) =
        call.save(&permit, |desk| save_region(desk, &id, false, &|before| region(&given, before)))?;
    Ok(Said::json(
        StatusCode::OK,
        &json!({ "region": region_body(&call.base, &id, &saved.row, &saved.extra) }),
    ))
}

pub(super) fn delete_region_of_path(call: &mut Call) -> Outcome {
    let (id, .., permit) = found::<Region>(call, (ThingKind::Region, "region"), region_id)?;
    call.save(&permit, |desk| delete_region(desk, &id))?;
    Ok(Said::nothing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regions_link_is_a_url() {
        let body = region_body("https://x", &RegionId("a b/ü#?%".to_owned()), &Region::default(), "");
        assert_eq!(body["links"]["self"], "https://x/v3/regions/a%20b%2F%C3%BC%23%3F%25");
    }
}
