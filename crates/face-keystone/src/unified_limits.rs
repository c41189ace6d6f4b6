//! Registered limits, and the limits of projects and domains. The services enforce the limits.

use super::listing::{self, Each, Filters, plain};
use super::request_body::{RequestBody, invalid};
use super::resource::{Record, Resource, Store, add, described, permitted_batch};
use super::schema::{Schema, Type};
use super::{ApiError, ApiResponse, Call, Outcome, query};
use enfilade_admin::Error;
use enfilade_admin::keystone::{
    Made, NewLimit, create_limits, create_registered_limits, domain_of_owner, update_limit,
};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Key as _, Limit, LimitOwner, RegionId, RegisteredLimit, ResourceKind, Reverse, ReverseKey,
};
use enfilade_facts::vocabulary::{DomainId, LimitId, ProjectId, ServiceId};
use enfilade_passage::{About, ApiPermit, Scope};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;

impl Resource for RegisteredLimit {
    const SCHEMA: Schema = Schema {
        one: "registered_limit",
        many: "registered_limits",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("service_id", Type::Text, Type::Text),
            ("region_id", Type::TextOrNull, Type::TextOrNull),
            ("resource_name", Type::Text, Type::Text),
            ("default_limit", Type::Number, Type::Number),
            ("description", Type::TextOrNull, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::RegisteredLimit);
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;

    fn attributes(&self) -> Value {
        json!({
            "service_id": self.service.to_string(), "region_id": self.region.as_ref().map(|region| &region.0),
            "resource_name": self.resource, "default_limit": self.default, "description": self.description,
        })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.only(&["service_id", "region_id", "resource_name", "default_limit", "description"])?;
        if given.has("service_id") {
            self.service = given.needed_id("service_id")?;
        }
        if given.has("region_id") {
            self.region = region(given)?;
        }
        given.set("resource_name", &mut self.resource)?;
        self.default = given.limit("default_limit")?.unwrap_or(self.default);
        given.set_or_remove("description", &mut self.description)
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted_batch::<Self>(call)?;
        let new: Vec<_> = given.iter().map(registered_limit).collect::<Result<_, _>>()?;
        let made = call.save(&permit, |ctx| create_registered_limits(ctx, &new))?;
        let made = made.into_iter().map(|made| Self::described(&call.base, made.into(), &permit));
        Ok(batch::<Self>(made.collect()))
    }
}

fn region(given: &RequestBody) -> Result<Option<RegionId>, Error> {
    Ok(given.text("region_id")?.flatten().map(RegionId))
}

fn registered_limit(given: &RequestBody) -> Result<RegisteredLimit, Error> {
    let mut new = RegisteredLimit {
        service: given.needed_id("service_id")?,
        region: None,
        resource: given.needed("resource_name")?,
        default: given.needed_limit("default_limit")?,
        description: None,
    };
    new.change(given)?;
    Ok(new)
}

/// The response to a request that created several records. As in Keystone, the response contains no link to itself.
fn batch<R: Resource>(made: Vec<Value>) -> ApiResponse {
    let many = R::SCHEMA.many;
    ApiResponse::json(StatusCode::CREATED, &json!({ many: made }))
}

impl Resource for Limit {
    const SCHEMA: Schema = Schema {
        one: "limit",
        many: "limits",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("project_id", Type::TextOrNull, Type::TextOrNull),
            ("domain_id", Type::TextOrNull, Type::TextOrNull),
            ("service_id", Type::Text, Type::Text),
            ("region_id", Type::TextOrNull, Type::TextOrNull),
            ("resource_name", Type::Text, Type::Text),
            ("resource_limit", Type::Number, Type::Number),
            ("description", Type::TextOrNull, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = None;
    const STORE: Store<Self> = Store {
        change: |ctx, before, given| {
            given.only(&["resource_limit", "description"])?;
            let (value, description) = (given.limit("resource_limit")?, given.text("description")?);
            let saved = update_limit(ctx, &before.id, value, description)?;
            Ok(Record { id: saved.id, row: saved.row, extra: before.extra.clone() })
        },
        delete: |ctx, found| enfilade_admin::keystone::delete::<Limit>(ctx, &found.id).map(drop),
    };
    const HAS_OPTIONS: bool = false;

    fn attributes(&self) -> Value {
        let (project, domain) = match self.owner {
            LimitOwner::Project(id) => (Some(id.to_string()), None),
            LimitOwner::Domain(id) => (None, Some(id.to_keystone())),
        };
        json!({
            "project_id": project, "domain_id": domain, "resource_limit": self.value,
            "description": self.description,
        })
    }

    fn change(&mut self, _: &RequestBody) -> Result<(), Error> {
        Ok(())
    }

    /// The service, the region and the name of the resource. They are attributes of the registered limit, and a response shows them with the limit.
    fn extra(view: &View<'_>, id: &LimitId) -> Result<Map<String, Value>, ApiError> {
        let Some(limit) = view.get::<Limit>(id)? else { return Ok(Map::new()) };
        let Some(registered) = view.get::<RegisteredLimit>(&limit.registered)? else { return Ok(Map::new()) };
        let body = registered.attributes();
        let of_body = |name: &str| (name.to_owned(), body.get(name).cloned().unwrap_or_default());
        let all = ["service_id", "region_id", "resource_name"].map(of_body);
        Ok(all.into_iter().collect())
    }

    /// The limit in the path. If the limit is for a project, the rule needs the project and its domain. If the limit is for a domain, the rule needs
    /// the domain.
    fn found(call: &mut Call) -> Result<(Record<Self>, ApiPermit), ApiError> {
        let said = call.parameter(0).to_owned();
        let found = call.look(|view| {
            let Some((id, row)) = Self::find(view, &said)? else { return Ok(None) };
            let Some(domain) = domain_of_owner(view, &row.owner)? else { return Ok(None) };
            let extra = Self::extra(view, &id)?;
            Ok(Some((domain, Record { id, row, extra })))
        })?;
        let Some((domain, found)) = found else {
            return Err(Self::unseen(call, &said));
        };
        let project = match &found.row.owner {
            LimitOwner::Project(id) => Some(id),
            LimitOwner::Domain(_) => None,
        };
        let permit = call.allow(&About { domain: Some(&domain), project, ..About::default() })?;
        Ok((found, permit))
    }

    /// Lists limits. The scope of the session can restrict the list to the limits of a project, or to the limits of a domain and its projects.
    fn list(call: &mut Call) -> Outcome {
        let permit = call.allow(&About::default())?;
        let Some((only, within)) = seen(call, &permit) else {
            return Ok(listing::none(call, Self::SCHEMA.many));
        };
        // Services often ask for the limits of one project or domain. Then only the limits of this owner are read, and not all limits.
        let asked = match asked_owner(call) {
            Ok(asked) => asked,
            Err(NoSuchOwner) => return Ok(listing::none(call, Self::SCHEMA.many)),
        };
        let owner = match (only, asked) {
            (Some(only), Some(asked)) if only != asked => return Ok(listing::none(call, Self::SCHEMA.many)),
            (only, asked) => only.or(asked),
        };
        let after = call.marker(|text| {
            let id: LimitId = text.parse().ok()?;
            Some(owner.map_or_else(|| id.bytes().to_vec(), |owner| ReverseKey::LimitOf(owner, id).bytes()))
        })?;
        let (base, own, now) = (call.base.clone(), permit.clone(), call.now());
        let show = move |view: &View<'_>, id: LimitId, row: Limit, place: Vec<u8>, each: Each<'_>| {
            match domain_of_owner(view, &row.owner)? {
                Some(domain) if within.is_none_or(|within| within == domain) => {
                    Ok(each(place, described((view, now), &base, (id, row), &own)?))
                }
                _ => Ok::<_, ApiError>(ControlFlow::Continue(())),
            }
        };
        let source = move |view: &View<'_>, after: Option<&[u8]>, each: Each<'_>| match owner {
            None => listing::records::<Limit>(view, &[], after, |id, row| {
                show(view, id, row, id.bytes().to_vec(), &mut *each)
            }),
            Some(owner) => {
                listing::records::<Reverse>(view, &ReverseKey::limits_of(&owner), after, |key, _| {
                    let ReverseKey::LimitOf(_, id) = key else { return Ok(ControlFlow::Continue(())) };
                    match view.get::<Limit>(&id)? {
                        Some(row) => show(view, id, row, key.bytes(), &mut *each),
                        None => Ok(ControlFlow::Continue(())),
                    }
                })
            }
        };
        let filters = Filters::of(&call.head, &[]);
        listing::answer(call, Self::SCHEMA.many, &permit, filters, after, Box::new(source))
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted_batch::<Self>(call)?;
        let new: Vec<_> = given.iter().map(limit).collect::<Result<_, _>>()?;
        let made = call.save(&permit, |ctx| create_limits(ctx, &new))?;
        let bodies = new.iter().zip(made).map(|(new, made): (&NewLimit, Made<Limit>)| {
            let mut body = Self::described(&call.base, made.into(), &permit);
            add(&mut body, "service_id", json!(new.service.to_string()));
            add(&mut body, "region_id", json!(new.region.as_ref().map(|region| &region.0)));
            add(&mut body, "resource_name", json!(new.resource));
            body
        });
        Ok(batch::<Self>(bodies.collect()))
    }
}

/// The project or the domain to which the scope of the session restricts a list; both are `None` if the list is not restricted. The result is `None`
/// if the session is not permitted to see any limit.
fn seen(call: &Call, permit: &ApiPermit) -> Option<(Option<LimitOwner>, Option<DomainId>)> {
    match call.visit.identity().session()?.claim.scope {
        // As in Keystone, an administrator sees all limits, even in a session for a domain.
        _ if !permit.is_for_anybody() => Some((None, None)),
        Scope::Domain(id) => Some((None, Some(id))),
        Scope::Project(id) => Some((Some(LimitOwner::Project(id)), None)),
        Scope::System | Scope::Unscoped => None,
    }
}

/// The error if a filter by project or domain has a value that is not an id.
struct NoSuchOwner;

/// The project or domain in the filters of a list request.
fn asked_owner(call: &Call) -> Result<Option<LimitOwner>, NoSuchOwner> {
    let said = |name: &str| query(&call.head, name).map(plain).filter(|text| !text.is_empty());
    if let Some(text) = said("project_id") {
        let id: ProjectId = text.parse().map_err(|_| NoSuchOwner)?;
        return Ok(Some(LimitOwner::Project(id)));
    }
    let Some(text) = said("domain_id") else { return Ok(None) };
    DomainId::from_keystone(&text).map(|id| Some(LimitOwner::Domain(id))).map_err(|_| NoSuchOwner)
}

fn limit(given: &RequestBody) -> Result<NewLimit, Error> {
    given.only(&[
        "project_id",
        "domain_id",
        "service_id",
        "region_id",
        "resource_name",
        "resource_limit",
        "description",
    ])?;
    let (project, domain) = (given.text("project_id")?.flatten(), given.text("domain_id")?.flatten());
    let owner = match (project, domain) {
        // The id of the default domain is also accepted as the id of a project, because in Keystone each domain is a project.
        (Some(text), None) if text == DomainId::DEFAULT.to_keystone() => {
            LimitOwner::Domain(DomainId::DEFAULT)
        }
        (Some(_), None) => LimitOwner::Project(given.needed_id("project_id")?),
        (None, Some(text)) => {
            let wrong = |_| {
                invalid("Invalid input for field/attribute domain_id of limit: expected the id of a domain.")
            };
            LimitOwner::Domain(DomainId::from_keystone(&text).map_err(wrong)?)
        }
        _ => {
            let why = "Invalid input for field/attribute project_id of limit: expected either project_id or domain_id.";
            return Err(invalid(why));
        }
    };
    Ok(NewLimit {
        service: given.needed_id::<ServiceId>("service_id")?,
        region: region(given)?,
        resource: given.needed("resource_name")?,
        owner,
        value: given.needed_limit("resource_limit")?,
        description: given.text("description")?.flatten().filter(|text| !text.is_empty()),
    })
}

/// Shows how limits of domains restrict limits of projects.
pub(super) fn model(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let model = call.faces.limit_model();
    let body = json!({ "model": { "name": model.name(), "description": model.says() } });
    Ok(ApiResponse::json(StatusCode::OK, &body))
}
