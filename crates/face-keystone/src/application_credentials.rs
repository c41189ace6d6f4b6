//! Application credentials: API tokens that are limited to a project.

use super::listing::plain;
use super::render::access_rule;
use super::{ApiError, ApiResponse, Call, Outcome};
use enfilade_admin::keystone::{
    ApplicationCredential, NewApplicationCredential, WantedRule, access_rules_of, application_credentials_of,
    create_application_credential, delete_access_rule, delete_application_credential, lineage_of,
    list_named_roles,
};
use enfilade_facts::tables::AccessRule;
use enfilade_facts::vocabulary::{
    CredentialId, MICROS_PER_SECOND, Secret, UserId, micros_from_rfc3339, to_rfc3339,
};
use enfilade_passage::{About, ApiPermit, HeldRole, Lends};
use hyper::StatusCode;
use serde_json::{Value, json};

fn user(call: &Call) -> Result<UserId, ApiError> {
    call.parameter(0).parse().map_err(|_| ApiError::missing("user", call.parameter(0)))
}

/// Returns the permit of door 4 (access) for a call about a user's credentials.
fn allow(call: &mut Call, user: &UserId) -> Result<ApiPermit, ApiError> {
    call.allow(&About { user: Some(user), ..About::default() })
}

fn of_user(call: &Call, user: &UserId) -> Result<Vec<ApplicationCredential>, ApiError> {
    Ok(application_credentials_of(call.faces.house().source(), user)?)
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let user = user(call)?;
    allow(call, &user)?;
    let wanted = call.query("name").map(plain);
    let mut rows = Vec::new();
    for one in of_user(call, &user)? {
        if wanted.as_deref().is_none_or(|name| name == one.credential.name.as_str()) {
            rows.push(body(call, &one, None)?);
        }
    }
    let url = format!("{}/v3/users/{user}/application_credentials", call.base);
    let links = json!({ "self": url, "next": null, "previous": null });
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "application_credentials": rows, "links": links })))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let user = user(call)?;
    allow(call, &user)?;
    let id = call.parameter(1).to_owned();
    let found = of_user(call, &user)?.into_iter().find(|one| one.id.to_string() == id);
    let found = found.ok_or_else(|| ApiError::missing("application credential", &id))?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "application_credential": body(call, &found, None)? })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let user = user(call)?;
    let id = call.parameter(1).parse::<CredentialId>();
    let lineage = match &id {
        Ok(id) => call.look(|view| Ok(lineage_of(view, id)?))?,
        Err(_) => Vec::new(),
    };
    let permit = call.allow(&About { user: Some(&user), lineage: Some(&lineage), ..About::default() })?;
    let id = id.map_err(|_| ApiError::missing("application credential", call.parameter(1)))?;
    call.change(&permit, |ctx| delete_application_credential(ctx, &user, &id))?;
    Ok(ApiResponse::no_content())
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let user = user(call)?;
    let own = call.visit.identity().session().and_then(|session| session.claim.scope.project());
    // The question to door 4 (access) contains no roles. The code below takes the roles of the new credential from the roles of the session.
    let lends = own.as_ref().map(|project| Lends { project, roles: &[] });
    let permit = call.allow(&About { user: Some(&user), lends, ..About::default() })?;
    let value = call.json()?;
    let given = value.get("application_credential");
    let given =
        given.ok_or_else(|| ApiError::invalid("Expecting to find application_credential in the body."))?;
    let session = call.visit.identity().session();
    let project = own.ok_or_else(|| {
        ApiError::invalid("the session is not project-scoped; request a project-scoped token")
    })?;
    let held: &[HeldRole] = session.map_or(&[], |session| session.roles.as_slice());
    let new = NewApplicationCredential {
        owner: user,
        name: name(given)?,
        project,
        roles: roles(given, held)?,
        unrestricted: flag(given, "unrestricted")?,
        rules: rules(given)?,
        by: session.and_then(|session| session.claim.credential()),
        expires_micros: expires(given, call.now())?,
        comment: text(given, "description").map(str::to_owned),
        secret: match text(given, "secret") {
            None => None,
            Some(text) => Some(
                Secret::new(text.as_bytes())
                    .ok_or_else(|| ApiError::invalid("secret: expected 1 to 511 bytes without NUL"))?,
            ),
        },
    };
    let key = call.faces.house().hash_key();
    let (made, secret, _) = call.change(&permit, |ctx| create_application_credential(ctx, key, &new))?;
    let secret = secret.as_deref().or_else(|| text(given, "secret"));
    let body = body(call, &made, secret)?;
    Ok(ApiResponse::json(StatusCode::CREATED, &json!({ "application_credential": body })))
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

fn name(given: &Value) -> Result<enfilade_facts::vocabulary::TokenName, ApiError> {
    let name = text(given, "name")
        .ok_or_else(|| ApiError::invalid("Expecting to find name in application_credential."))?;
    name.parse().map_err(|why| ApiError::invalid(format!("{why}")))
}

fn flag(given: &Value, name: &str) -> Result<bool, ApiError> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(yes)) => Ok(*yes),
        Some(_) => Err(ApiError::invalid(format!("{name}: expected true or false"))),
    }
}

/// The roles of the new credential: the roles in the request, or all roles of the session if the request contains no roles. The session must have
/// each requested role.
fn roles(given: &Value, held: &[HeldRole]) -> Result<Vec<String>, ApiError> {
    let wanted = given.get("roles").and_then(Value::as_array).filter(|roles| !roles.is_empty());
    let Some(wanted) = wanted else { return Ok(held.iter().map(|role| role.id.to_string()).collect()) };
    let find = |role: &Value| {
        let (id, name) = (text(role, "id"), text(role, "name"));
        let found = held
            .iter()
            .find(|held| id.map_or_else(|| name == Some(held.name.as_str()), |id| held.id.to_string() == id));
        let said = id.or(name).unwrap_or("?");
        found.map(|held| held.id.to_string()).ok_or_else(|| {
            ApiError::invalid(format!(
                "roles: the session does not have the role `{said}`; an application credential can only get roles of the session"
            ))
        })
    };
    wanted.iter().map(find).collect()
}

fn rules(given: &Value) -> Result<Vec<WantedRule>, ApiError> {
    match given.get("access_rules") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(rules)) => rules.iter().map(rule).collect(),
        // Any other value is refused. If it were ignored, the credential would have no rules, and would be valid for all requests.
        Some(_) => Err(ApiError::invalid("access_rules: expected a list")),
    }
}

/// Reads one access rule: the id of an existing rule of the owner, or the attributes of a new rule. If the object has an id, its other attributes are
/// ignored, as in Keystone.
fn rule(rule: &Value) -> Result<WantedRule, ApiError> {
    if let Some(id) = rule.get("id") {
        let id = id.as_str().ok_or_else(|| ApiError::invalid("access_rules: expected a string as id"))?;
        let missing = |_| ApiError::missing("access rule", id);
        return id.parse().map(WantedRule::Id).map_err(missing);
    }
    let field = |name: &str| {
        let text = text(rule, name).filter(|text| !text.is_empty() && text.len() <= 255);
        text.map(str::to_owned).ok_or_else(|| {
            ApiError::invalid(format!(
                "access_rules: expected an id, or service, method and path; {name} is not a string of 1 to 255 bytes"
            ))
        })
    };
    let (service, method, path) = (field("service")?, field("method")?, field("path")?);
    let is_method = ["POST", "GET", "HEAD", "PATCH", "PUT", "DELETE"].contains(&method.as_str());
    match is_method && path.starts_with('/') {
        true => Ok(WantedRule::Request { service, method, path }),
        false => Err(ApiError::invalid(
            "access_rules: expected a method (POST, GET, HEAD, PATCH, PUT or DELETE) and a path that begins with `/`",
        )),
    }
}

/// The requested expiry in microseconds since the epoch. 0 means that the credential never expires.
fn expires(given: &Value, now: i64) -> Result<i64, ApiError> {
    match given.get("expires_at") {
        None | Some(Value::Null) => Ok(0),
        Some(value) => {
            let micros = value.as_str().and_then(micros_from_rfc3339);
            // The credential expires at the requested time, rounded down to a whole second.
            let micros = micros.filter(|micros| now < micros.div_euclid(MICROS_PER_SECOND));
            micros.ok_or_else(|| {
                ApiError::invalid(
                    "expires_at: expected a date and time in the future, such as 2030-01-31T12:00:00Z",
                )
            })
        }
    }
}

fn body(call: &Call, one: &ApplicationCredential, secret: Option<&str>) -> Result<Value, ApiError> {
    let named = list_named_roles(call.faces.house().source())?;
    let role = |id: &_| {
        let name = named.iter().find(|(known, _)| known == id).map(|(_, row)| row.name.as_str());
        json!({ "id": id.to_string(), "name": name, "domain_id": null })
    };
    let (credential, delegation) = (&one.credential, &one.delegation);
    let url = format!("{}/v3/users/{}/application_credentials/{}", call.base, credential.owner, one.id);
    let time = to_rfc3339(credential.expires);
    let expires = format!("{}.{:06}", time.trim_end_matches('Z'), one.expires_micros());
    let mut value = json!({
        "id": one.id.to_string(), "name": credential.name.as_str(), "description": credential.comment,
        "project_id": delegation.project.to_string(), "user_id": credential.owner.to_string(),
        "roles": delegation.roles.iter().map(role).collect::<Vec<_>>(),
        "expires_at": (credential.expires != 0).then_some(expires),
        "unrestricted": delegation.unrestricted, "system": null, "links": { "self": url },
    });
    if let Some(map) = value.as_object_mut() {
        if !delegation.rules.is_empty() {
            map.insert("access_rules".to_owned(), delegation.rules.iter().map(access_rule).collect());
        }
        if let Some(secret) = secret {
            map.insert("secret".to_owned(), Value::String(secret.to_owned()));
        }
    }
    Ok(value)
}

/// Returns the user of the path, and the permit of door 4 (access) for a call about the access rules of this user.
fn allow_rules(call: &mut Call) -> Result<(UserId, ApiPermit), ApiError> {
    let (user, domain) = super::users::of_path(call, 0)?;
    let permit = call.allow(&About { user: Some(&user), domain: domain.as_ref(), ..About::default() })?;
    super::users::existing(call, &user)?;
    Ok((user, permit))
}

fn rules_of(call: &Call, user: &UserId) -> Result<Vec<AccessRule>, ApiError> {
    Ok(access_rules_of(call.faces.house().source(), user)?)
}

fn rule_body(call: &Call, rule: &AccessRule) -> Value {
    let mut body = access_rule(rule);
    let url = format!("{}/v3/users/{}/access_rules/{}", call.base, call.parameter(0), rule.id);
    if let Some(map) = body.as_object_mut() {
        map.insert("links".to_owned(), json!({ "self": url }));
    }
    body
}

pub(super) fn list_rules(call: &mut Call) -> Outcome {
    let (user, _) = allow_rules(call)?;
    let filters = super::listing::Filters::of(&call.head, &[]);
    let rules = rules_of(call, &user)?;
    let rows = rules.iter().map(|rule| rule_body(call, rule)).filter(|row| filters.hold(row)).collect();
    Ok(super::listed(call, "access_rules", rows))
}

pub(super) fn show_rule(call: &mut Call) -> Outcome {
    let (user, _) = allow_rules(call)?;
    let said = call.parameter(1);
    let rules = rules_of(call, &user)?;
    let found = rules.iter().find(|rule| rule.id.to_string() == said);
    let rule = found.ok_or_else(|| ApiError::missing("access rule", said))?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "access_rule": rule_body(call, rule) })))
}

pub(super) fn delete_rule(call: &mut Call) -> Outcome {
    let (user, permit) = allow_rules(call)?;
    let id = call.parameter(1).parse().map_err(|_| ApiError::missing("access rule", call.parameter(1)))?;
    call.change(&permit, |ctx| delete_access_rule(ctx, &user, &id))?;
    Ok(ApiResponse::no_content())
}
