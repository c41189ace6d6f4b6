//! Roles and role implications.

use super::listing::plain;
use super::request_body::{RequestBody, invalid};
use super::resource::{Record, Resource, Selection, Store, answer, created, link, list, permitted};
use super::schema::{Schema, Type};
use super::{ApiError, ApiResponse, Call, Outcome, query};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, set_implied};
use enfilade_facts::View;
use enfilade_facts::tables::{Domain, NamedRole, ResourceKind};
use enfilade_facts::vocabulary::RoleId;
use enfilade_passage::{About, ApiPermit, manager_gives};
use hyper::StatusCode;
use serde_json::{Value, json};

impl Resource for NamedRole {
    const SCHEMA: Schema = Schema {
        one: "role",
        many: "roles",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("domain_id", Type::None, Type::TextOrNull),
            ("description", Type::None, Type::TextOrNull),
            ("options", Type::None, Type::Object),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Role);
    const STORE: Store<Self> = Store::BY_ID;
    const FILTERS: &'static [&'static str] = &["domain_id"];

    fn attributes(&self) -> Value {
        let domain = self.domain.map(|domain| domain.to_keystone());
        json!({ "name": self.name, "domain_id": domain, "description": self.description })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.set("name", &mut self.name)?;
        given.set_or_remove("description", &mut self.description)
    }

    fn keeps(&self, given: &RequestBody) -> Result<(), Error> {
        let domain = self.domain.map(|domain| domain.to_keystone());
        match given.keeps("domain_id", domain.as_deref())? {
            true => Ok(()),
            false => Err(invalid("the domain of a role cannot be changed")),
        }
    }

    fn about<'a>(&'a self, _: &'a RoleId) -> About<'a> {
        About { domain: self.domain.as_ref(), high_role: !manager_gives(self), ..About::default() }
    }

    /// Selects the roles of a domain. Without `domain_id` only global roles are listed, as in Keystone.
    fn selection(call: &Call) -> Result<Selection<Self>, ApiError> {
        let domain = query(&call.head, "domain_id").map(plain).unwrap_or_default();
        Ok(Box::new(move |row| row.domain.map(|domain| domain.to_keystone()).unwrap_or_default() == domain))
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted::<NamedRole>(call)?;
        let domain = match given.text("domain_id")?.flatten() {
            None => None,
            Some(said) => {
                let missing = || ApiError::missing("domain", &said);
                Some(call.look(|view| Domain::find(view, &said)?.ok_or_else(missing))?.0)
            }
        };
        let new = NamedRole { name: given.needed("name")?, domain, description: None, implies: Vec::new() };
        created(call, (permit, given), &RecordId::New, &new)
    }

    /// If the role belongs to a domain, a second rule must also permit the call, as in Keystone.
    fn show(call: &mut Call) -> Outcome {
        let (found, permit) = Self::found(call)?;
        if found.row.domain.is_some() {
            call.allow_by("get_domain_role", &About::default())?;
        }
        Ok(answer(call, StatusCode::OK, found, &permit))
    }

    fn list(call: &mut Call) -> Outcome {
        if query(&call.head, "domain_id").is_some_and(|text| !text.is_empty()) {
            call.allow_by("list_domain_roles", &About::default())?;
        }
        list::<Self>(call)
    }
}

fn short(base: &str, id: &RoleId, row: &NamedRole) -> Value {
    let id = id.to_string();
    json!({ "id": id, "name": row.name, "links": { "self": link::<NamedRole>(base, &id) } })
}

fn inference(base: &str, view: &View<'_>, prior: (&RoleId, &NamedRole)) -> Result<Value, ApiError> {
    let mut implies = Vec::new();
    for id in &prior.1.implies {
        implies.extend(view.get::<NamedRole>(id)?.map(|row| short(base, id, &row)));
    }
    Ok(json!({ "prior_role": short(base, prior.0, prior.1), "implies": implies }))
}

/// Lists all role implications.
pub(super) fn inferences(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let rows: Vec<Value> = call.look(|view| {
        let roles = view.list::<NamedRole>(&[])?;
        let implying = roles.iter().filter(|(_, row)| !row.implies.is_empty());
        implying.map(|(id, row)| inference(&call.base, view, (id, row))).collect()
    })?;
    // As in Keystone, this list has no links.
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "role_inferences": rows })))
}

pub(super) fn list_implied(call: &mut Call) -> Outcome {
    let (Record { id, row, .. }, _) = NamedRole::found(call)?;
    let told = call.look(|view| inference(&call.base, view, (&id, &row)))?;
    let links = json!({ "self": format!("{}/v3/roles/{id}/implies", call.base) });
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "role_inference": told, "links": links })))
}

/// A role and its id.
type Role = (RoleId, NamedRole);

/// The two roles in the path, and the permit for the call.
fn both(call: &mut Call) -> Result<(Role, Role, ApiPermit), ApiError> {
    let (prior, permit) = NamedRole::found(call)?;
    let said = call.parameter(1);
    let missing = || ApiError::missing("role", said);
    let implied = call.look(|view| NamedRole::find(view, said)?.ok_or_else(missing))?;
    Ok(((prior.id, prior.row), implied, permit))
}

fn told(call: &Call, prior: &Role, implied: &Role) -> Value {
    json!({
        "role_inference": {
            "prior_role": short(&call.base, &prior.0, &prior.1),
            "implies": short(&call.base, &implied.0, &implied.1),
        },
        "links": { "self": format!("{}/v3/roles/{}/implies/{}", call.base, prior.0, implied.0) },
    })
}

pub(super) fn show_implied(call: &mut Call) -> Outcome {
    let (prior, implied, _) = both(call)?;
    match prior.1.implies.contains(&implied.0) {
        true => Ok(ApiResponse::json(StatusCode::OK, &told(call, &prior, &implied))),
        false => Err(ApiError::missing("implied role", call.parameter(1))),
    }
}

/// As in Keystone, the response to HEAD has no content, and HEAD has a separate authorization rule.
pub(super) fn check_implied(call: &mut Call) -> Outcome {
    show_implied(call).map(|_| ApiResponse::no_content())
}

pub(super) fn imply(call: &mut Call) -> Outcome {
    let (prior, implied, permit) = both(call)?;
    match call.save(&permit, |ctx| set_implied(ctx, &prior.0, &implied.0, true))? {
        true => Ok(ApiResponse::json(StatusCode::CREATED, &told(call, &prior, &implied))),
        false => {
            let why = format!("Conflict: role {} implies {} already.", prior.0, implied.0);
            Err(ApiError::Message(StatusCode::CONFLICT, why))
        }
    }
}

pub(super) fn delete_implied(call: &mut Call) -> Outcome {
    let (prior, implied, permit) = both(call)?;
    let was = call.save(&permit, |ctx| set_implied(ctx, &prior.0, &implied.0, false))?;
    if was {
        Ok(ApiResponse::no_content())
    } else {
        Err(ApiError::missing("implied role", call.parameter(1)))
    }
}
