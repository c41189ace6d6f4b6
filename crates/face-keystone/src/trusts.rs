//! Trusts. The trustor creates and deletes a trust. The trustor and the trustee may read it.

use super::render::time;
use super::{ApiError, ApiResponse, Call, Outcome};
use enfilade_admin::keystone::{
    NewTrust, create_trust, delete_trust, find_trust, list_named_roles, list_trusts,
};
use enfilade_facts::limits::REDELEGATIONS_MAX;
use enfilade_facts::tables::{NamedRole, Trust};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, RoleId, TrustId, UserId, from_rfc3339};
use enfilade_passage::{About, Lends};
use hyper::StatusCode;
use serde_json::{Value, json};

/// The trust with the id in the URL, if the caller may see the trust. If the trust is absent, the rule is checked as if the trust belonged to the
/// caller, because it is possible that the caller deleted the trust. So the call is refused only if the session is not permitted to see any trust.
fn seen(call: &mut Call) -> Result<(TrustId, Trust), ApiError> {
    let id = call.parameter(0).parse::<TrustId>().ok();
    let trust = match &id {
        Some(id) => find_trust(call.faces.house().source(), id)?,
        None => None,
    };
    let own = call.visit.principal().user;
    let absent = About { user: Some(&own), ..About::default() };
    let is_seen = call.allow_by("get_trust", &trust.as_ref().map_or(absent, parties)).is_ok();
    match id.zip(trust) {
        Some(found) if is_seen => Ok(found),
        _ => {
            let missing = ApiError::missing("trust", call.parameter(0));
            Err(call.unseen(&absent, true, missing))
        }
    }
}

/// The trust in the path, for a call that reads it.
fn read_trust(call: &mut Call) -> Result<(TrustId, Trust), ApiError> {
    let (id, trust) = seen(call)?;
    call.allow(&parties(&trust))?;
    Ok((id, trust))
}

/// The properties of a trust for the rule: both the trustor and the trustee may read it.
fn parties(trust: &Trust) -> About<'_> {
    About { user: Some(&trust.trustor), other_user: Some(&trust.trustee), ..About::default() }
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let id_of = |name| call.query(name).map(|text| text.parse::<UserId>()).transpose();
    let no_id = |_| ApiError::invalid("expected the id of a user: 32 or 64 lower-case hexadecimal digits");
    let trustor = id_of("trustor_user_id").map_err(no_id)?;
    let trustee = id_of("trustee_user_id").map_err(no_id)?;
    call.allow(&About { user: trustor.as_ref(), other_user: trustee.as_ref(), ..About::default() })?;
    let is_wanted = |trust: &Trust| {
        trustor.is_none_or(|id| id == trust.trustor) && trustee.is_none_or(|id| id == trust.trustee)
    };
    let named = list_named_roles(call.faces.house().source())?;
    let trusts = list_trusts(call.faces.house().source())?;
    let wanted = trusts.iter().filter(|(_, trust)| is_wanted(trust));
    let rows: Vec<Value> = wanted.map(|(id, trust)| described(call, id, trust, &named)).collect();
    let links =
        json!({ "self": format!("{}/v3/OS-TRUST/trusts", call.base), "next": null, "previous": null });
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "trusts": rows, "links": links })))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (id, trust) = read_trust(call)?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "trust": body(call, &id, &trust)? })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let (id, trust) = seen(call)?;
    let lineage: Vec<CredentialId> = trust.by.into_iter().collect();
    let permit =
        call.allow(&About { user: Some(&trust.trustor), lineage: Some(&lineage), ..About::default() })?;
    call.change(&permit, |ctx| delete_trust(ctx, &id))?;
    Ok(ApiResponse::no_content())
}

pub(super) fn create(call: &mut Call) -> Outcome {
    let value = call.json()?;
    let given =
        value.get("trust").ok_or_else(|| ApiError::invalid("Expecting to find trust in the body."))?;
    let mut new = read(given, call.faces.house().now().unix_seconds)?;
    // A session that was issued for a trust can delegate rights again only by redelegating that trust.
    let session = call.visit.identity().session();
    new.parent = session.and_then(|session| session.claim.trust());
    new.by = session.and_then(|session| session.claim.credential());
    let lends = Some(Lends { project: &new.project, roles: &new.roles });
    let permit = call.allow(&About { user: Some(&new.trustor), lends, ..About::default() })?;
    let (id, trust, _) = call.change(&permit, |ctx| create_trust(ctx, &new))?;
    Ok(ApiResponse::json(StatusCode::CREATED, &json!({ "trust": body(call, &id, &trust)? })))
}

fn read(given: &Value, now: i64) -> Result<NewTrust, ApiError> {
    let text = |name: &str| given.get(name).and_then(Value::as_str);
    let wrong = |name: &str| ApiError::invalid(format!("trust.{name}: expected an id"));
    let user = |name: &str| text(name).and_then(|id| id.parse::<UserId>().ok()).ok_or_else(|| wrong(name));
    let number = |name: &str| match given.get(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => {
            let number =
                value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
            let wrong = || ApiError::invalid(format!("trust.{name}: expected a number, 1 or more"));
            number.map(Some).ok_or_else(wrong)
        }
    };
    let redelegates = given.get("allow_redelegation").and_then(Value::as_bool).unwrap_or(false);
    let redelegations = match (redelegates, given.get("redelegation_count").filter(|value| !value.is_null()))
    {
        (false, _) => 0,
        (true, None) => REDELEGATIONS_MAX,
        (true, Some(value)) => value
            .as_u64()
            .and_then(|count| u8::try_from(count).ok())
            .ok_or_else(|| ApiError::invalid("trust.redelegation_count: expected a number from 0 to 255"))?,
    };
    let impersonation = given.get("impersonation").and_then(Value::as_bool);
    let impersonation =
        impersonation.ok_or_else(|| ApiError::invalid("trust.impersonation: expected true or false"))?;
    let expires = match given.get("expires_at").filter(|value| !value.is_null()) {
        None => 0,
        Some(value) => {
            let seconds = value.as_str().and_then(from_rfc3339).filter(|seconds| now < *seconds);
            seconds.ok_or_else(|| {
                ApiError::invalid(
                    "trust.expires_at: expected a date and time in the future, such as 2030-01-31T12:00:00Z",
                )
            })?
        }
    };
    Ok(NewTrust {
        trustor: user("trustor_user_id")?,
        trustee: user("trustee_user_id")?,
        project: text("project_id")
            .and_then(|id| id.parse::<ProjectId>().ok())
            .ok_or_else(|| wrong("project_id"))?,
        roles: said_roles(given, "trust.roles")?,
        impersonation,
        expires,
        uses: number("remaining_uses")?,
        redelegations,
        parent: None,
        by: None,
    })
}

/// The ids or names of the roles in a list named `roles`. `place` is the position of the list in the body.
pub(super) fn said_roles(given: &Value, place: &str) -> Result<Vec<String>, ApiError> {
    let roles = given.get("roles").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let role = |role: &Value| {
        let said = ["id", "name"].into_iter().find_map(|name| role.get(name)?.as_str());
        let expected = || ApiError::invalid(format!("{place}: expected the id or the name of each role"));
        said.map(str::to_owned).ok_or_else(expected)
    };
    roles.iter().map(role).collect()
}

fn body(call: &Call, id: &TrustId, trust: &Trust) -> Result<Value, ApiError> {
    Ok(described(call, id, trust, &list_named_roles(call.faces.house().source())?))
}

fn described(call: &Call, id: &TrustId, trust: &Trust, named: &[(RoleId, NamedRole)]) -> Value {
    let url = format!("{}/v3/OS-TRUST/trusts/{id}", call.base);
    let links = json!({ "self": format!("{url}/roles"), "next": null, "previous": null });
    json!({
        "id": id.to_string(), "trustor_user_id": trust.trustor.to_string(),
        "trustee_user_id": trust.trustee.to_string(), "project_id": trust.project.to_string(),
        "impersonation": trust.impersonation, "roles": trust.roles.iter().map(|id| role(call, id, named)).collect::<Vec<_>>(),
        "roles_links": links, "expires_at": (trust.expires != 0).then(|| time(trust.expires)),
        "deleted_at": null, "remaining_uses": trust.uses, "redelegation_count": trust.redelegations,
        "redelegated_trust_id": trust.parent.map(|id| id.to_string()), "links": { "self": url },
    })
}

pub(super) fn list_roles(call: &mut Call) -> Outcome {
    let (_, trust) = read_trust(call)?;
    let named = list_named_roles(call.faces.house().source())?;
    let rows = trust.roles.iter().map(|id| role(call, id, &named)).collect();
    Ok(super::listed(call, "roles", rows))
}

pub(super) fn show_role(call: &mut Call) -> Outcome {
    let (_, trust) = read_trust(call)?;
    let named = list_named_roles(call.faces.house().source())?;
    let id = trust.roles.iter().find(|id| id.to_string() == call.parameter(1));
    let id = id.ok_or_else(|| ApiError::missing("role", call.parameter(1)))?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "role": role(call, id, &named) })))
}

/// A delegated role.
pub(super) fn role(call: &Call, id: &RoleId, named: &[(RoleId, NamedRole)]) -> Value {
    let name = named.iter().find(|(known, _)| known == id).map(|(_, row)| row.name.as_str());
    json!({ "id": id.to_string(), "name": name, "links": { "self": format!("{}/v3/roles/{id}", call.base) } })
}
