//! Policies that services store. An association (`OS-ENDPOINT-POLICY`) says for which endpoint, service or region a policy is meant.

use super::request_body::{RequestBody, invalid};
use super::resource::{Record, Resource, Store, created, described, permitted};
use super::schema::{Schema, Type};
use super::{ApiError, ApiResponse, Call, Outcome, listed};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, endpoints_of_policy, policy_of_endpoint, set_association};
use enfilade_facts::View;
use enfilade_facts::tables::{
    Endpoint, Policy, PolicyAssociation, PolicyTarget, Region, RegionId, ResourceKind, Service,
};
use enfilade_facts::vocabulary::PolicyId;
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use serde_json::{Value, json};

impl Resource for Policy {
    const SCHEMA: Schema = Schema {
        one: "policy",
        many: "policies",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("type", Type::Text, Type::Text),
            ("blob", Type::Text, Type::Text),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Policy);
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;

    fn attributes(&self) -> Value {
        json!({ "type": self.kind, "blob": self.blob })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.unless_empty()?;
        for (name, to) in [("type", &mut self.kind), ("blob", &mut self.blob)] {
            if given.has(name) {
                *to = text(given, name)?;
            }
        }
        Ok(())
    }

    fn create(call: &mut Call) -> Outcome {
        let permitted = permitted::<Policy>(call)?;
        let new = Policy { kind: text(&permitted.1, "type")?, blob: text(&permitted.1, "blob")? };
        created(call, permitted, &RecordId::New, &new)
    }
}

/// A required text. The text can be empty.
fn text(given: &RequestBody, name: &str) -> Result<String, Error> {
    let expected =
        || invalid(format!("Invalid input for field/attribute {name} of policy: expected a string."));
    given.text(name)?.flatten().ok_or_else(expected)
}

/// The kind of record for which the policy of an association is meant.
#[derive(Clone, Copy)]
enum Kind {
    Endpoint,
    Service,
    InRegion,
}

/// The association in a path. The parameters of the path are the policy, the endpoint or service, and the region.
struct Association {
    policy: PolicyId,
    target: PolicyTarget,
    is_set: bool,
}

/// Finds the association in the path. Each record that the path names must exist.
fn association(call: &mut Call, kind: Kind) -> Result<(Association, ApiPermit), ApiError> {
    let permit = call.allow(&About::default())?;
    let [policy, target, region] = [0, 1, 2].map(|at| call.decoded(at));
    let found = call.look(|view| {
        let policy = existing::<Policy>(view, &policy)?.0;
        let target = match kind {
            Kind::Endpoint => PolicyTarget::Endpoint(existing::<Endpoint>(view, &target)?.0),
            Kind::Service => PolicyTarget::Service(existing::<Service>(view, &target)?.0),
            Kind::InRegion => {
                let service = existing::<Service>(view, &target)?.0;
                PolicyTarget::InRegion(service, RegionId(existing::<Region>(view, &region)?.0.0))
            }
        };
        let is_set = view.get::<PolicyAssociation>(&target)?.is_some_and(|row| row.policy == policy);
        Ok(Association { policy, target, is_set })
    })?;
    Ok((found, permit))
}

/// The record with this id, or a 404 error if no record has the id.
pub(super) fn existing<R: Resource>(view: &View<'_>, said: &str) -> Result<(R::Key, R), ApiError> {
    R::find(view, said)?.ok_or_else(|| ApiError::missing(R::SCHEMA.one, said))
}

fn check(call: &mut Call, kind: Kind) -> Outcome {
    match association(call, kind)?.0.is_set {
        true => Ok(ApiResponse::no_content()),
        false => Err(ApiError::missing("policy association", &call.decoded(0))),
    }
}

fn set(call: &mut Call, kind: Kind, is_so: bool) -> Outcome {
    let (Association { policy, target, .. }, permit) = association(call, kind)?;
    call.save(&permit, |ctx| set_association(ctx, &target, &policy, is_so))?;
    Ok(ApiResponse::no_content())
}

/// The three calls of each kind of association: check, set and remove.
macro_rules! calls {
    ($($kind:ident: $check:ident, $set:ident, $remove:ident;)+) => {$(
        pub(super) fn $check(call: &mut Call) -> Outcome {
            check(call, Kind::$kind)
        }
        pub(super) fn $set(call: &mut Call) -> Outcome {
            set(call, Kind::$kind, true)
        }
        pub(super) fn $remove(call: &mut Call) -> Outcome {
            set(call, Kind::$kind, false)
        }
    )+};
}
calls! {
    Endpoint: check_endpoint, set_endpoint, remove_endpoint;
    Service: check_service, set_service, remove_service;
    InRegion: check_in_region, set_in_region, remove_in_region;
}

/// Lists the endpoints for which a policy is meant.
pub(super) fn list_endpoints(call: &mut Call) -> Outcome {
    let (Record { id, .. }, permit) = Policy::found(call)?;
    let rows = call.look(|view| {
        let endpoints = endpoints_of_policy(view, &id)?;
        endpoints
            .into_iter()
            .map(|row| described((view, call.now()), &call.base, row, &permit))
            .collect::<Result<_, _>>()
    })?;
    Ok(listed(call, "endpoints", rows))
}

/// Shows the policy of an endpoint.
pub(super) fn of_endpoint(call: &mut Call) -> Outcome {
    let (Record { id, row, .. }, permit) = Endpoint::found(call)?;
    let body = call.look(|view| match policy_of_endpoint(view, &id, &row)? {
        Some(policy) => described::<Policy>((view, call.now()), &call.base, policy, &permit),
        None => {
            let why = format!("No policy is associated with endpoint {id}.");
            Err(ApiError::Message(StatusCode::NOT_FOUND, why))
        }
    })?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "policy": body })))
}
