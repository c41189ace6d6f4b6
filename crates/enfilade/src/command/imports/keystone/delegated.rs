//! Reads delegated credentials: application credentials, trusts, OAuth consumers and their access tokens.

use super::super::cloud::Api;
use super::super::dump::{Dump, DumpedAccessToken};
use super::for_services::{shown, shown_for_system};
use super::{Asked, id, outer_first, text, unknown};
use enfilade_admin::Imported;
use enfilade_admin::keystone::{CloudCredential, CloudRecord};
use enfilade_facts::tables::{AccessRule, AccessToken, Consumer, Delegation, SharedSecret, Trust, Verifier};
use enfilade_facts::vocabulary::{
    AccessTokenId, MICROS_PER_SECOND, RoleId, UserId, from_rfc3339, micros_from_rfc3339,
};
use serde_json::Value;

/// The end of the year 9999: an access token here always has an end, and some of Keystone have none.
const NEVER: i64 = 253_402_300_799;

/// The ids of the roles in a list of roles; `None` if one of them cannot be read.
fn role_ids(rows: &[Value]) -> Option<Vec<RoleId>> {
    rows.iter().map(|role| id(role, "id")).collect()
}

/// A time in seconds, 0 if there is none, and at least 1 if there is one. `None` if it cannot be read.
fn end(row: &Value) -> Option<i64> {
    text(row, "expires_at").map_or(Some(0), |text| Some(from_rfc3339(&text)?.max(1)))
}

/// Adds the application credentials with their rights. The API does not show their secrets: without a dump the server refuses an application credential
/// until it gets a new secret.
pub(super) async fn application_credentials(
    api: &mut Api,
    asked: &mut Asked,
    users: &[Value],
    dump: &Dump,
) -> anyhow::Result<()> {
    for user in users {
        let Some(said) = text(user, "id") else { continue };
        let path = format!("users/{said}/application_credentials");
        let rows = match api.try_list(&path, "application_credentials").await? {
            Ok(rows) => rows,
            Err(refused) => {
                asked.left.push(unknown("application credential", &refused));
                continue;
            }
        };
        let owner: Option<UserId> = id(user, "id");
        for row in &rows {
            let verifier = verifier(asked, row, dump);
            asked.each("application credential", std::slice::from_ref(row), |row| {
                Some(CloudRecord::Credential(
                    id(row, "id")?,
                    Box::new(credential(row, owner?, verifier.clone())?),
                ))
            });
        }
    }
    Ok(())
}

/// The verifier of the secret. The hash of the dump is replaced by a fast one at the first use of a secret that Keystone generated.
fn verifier(asked: &mut Asked, row: &Value, dump: &Dump) -> Verifier {
    let Some(hash) = text(row, "id").and_then(|id| dump.secrets.get(&id)) else { return Verifier::Missing };
    match enfilade_identity::check_hash(hash) {
        Ok(()) => Verifier::Upgrading(hash.clone()),
        Err(why) => {
            let name = text(row, "name").unwrap_or_default();
            asked.left.push(Imported::left("secret of application credential", name, why.to_string()));
            Verifier::Missing
        }
    }
}

fn credential(row: &Value, owner: UserId, verifier: Verifier) -> Option<CloudCredential> {
    let list = |name: &str| row.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rule = |rule: &Value| {
        let (service, method, path) = (text(rule, "service")?, text(rule, "method")?, text(rule, "path")?);
        Some(AccessRule { id: id(rule, "id")?, service, method, path })
    };
    let micros = text(row, "expires_at").and_then(|text| micros_from_rfc3339(&text));
    let delegation = Delegation {
        project: id(row, "project_id")?,
        roles: role_ids(list("roles"))?,
        unrestricted: row.get("unrestricted").and_then(Value::as_bool).unwrap_or(false),
        // If an access rule cannot be read, the credential is left out: without its rules it would be valid for every request.
        rules: list("access_rules").iter().map(rule).collect::<Option<_>>()?,
        by: None,
        expires_micros: micros.filter(|micros| micros % MICROS_PER_SECOND != 0),
    };
    Some(CloudCredential {
        owner,
        name: text(row, "name")?,
        expires: end(row)?,
        comment: text(row, "description"),
        delegation,
        verifier,
    })
}

/// Adds the trusts. Those that are delegated again come after the trusts from which they come.
pub(super) async fn trusts(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let kind = "trust";
    let rows = shown_for_system(api, asked, "OS-TRUST/trusts", "trusts", kind).await?.unwrap_or_default();
    for row in outer_first(rows, "redelegated_trust_id") {
        let called = text(&row, "id").unwrap_or_default();
        if text(&row, "project_id").is_none() {
            let why = "the trust is for no project, so it delegates no role";
            asked.left.push(Imported::left(kind, called, why));
            continue;
        }
        // Keystone does not list the roles with the trusts. A trust that can no longer be used has no list, which the import reports.
        match api.list_in_widest_session(&format!("OS-TRUST/trusts/{called}/roles"), "roles").await? {
            Ok(roles) => asked.each(kind, &[row], |row| {
                Some(CloudRecord::Trust(id(row, "id")?, Box::new(trust(row, &roles)?)))
            }),
            Err(refused) => {
                let why = format!("Keystone refused to list the roles of the trust: {refused}");
                asked.left.push(Imported::left(kind, called, why));
            }
        }
    }
    Ok(())
}

fn trust(row: &Value, roles: &[Value]) -> Option<Trust> {
    // A number that is absent or null stays `None`; one that this server cannot hold makes the trust unreadable.
    let number = |name: &str| match row.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => Some(Some(value.as_u64()?)),
    };
    let parent = match text(row, "redelegated_trust_id") {
        Some(_) => Some(id(row, "redelegated_trust_id")?),
        None => None,
    };
    let uses = match number("remaining_uses")? {
        Some(uses) => Some(u32::try_from(uses).ok()?),
        None => None,
    };
    Some(Trust {
        trustor: id(row, "trustor_user_id")?,
        trustee: id(row, "trustee_user_id")?,
        project: id(row, "project_id")?,
        roles: role_ids(roles)?,
        impersonation: row.get("impersonation")?.as_bool()?,
        expires: end(row)?,
        uses,
        redelegations: u8::try_from(number("redelegation_count")?.unwrap_or(0)).ok()?,
        parent,
        by: None,
    })
}

/// Adds the OAuth consumers and the access tokens. Both come only with their secrets, which are only in a dump.
pub(super) async fn oauth(api: &mut Api, asked: &mut Asked, dump: &Dump) -> anyhow::Result<()> {
    let kind = "OAuth consumer";
    let rows = shown(api, asked, "OS-OAUTH1/consumers", "consumers", kind).await?.unwrap_or_default();
    for row in &rows {
        match text(row, "id").and_then(|id| dump.consumers.get(&id)) {
            Some(secret) => asked.each(kind, std::slice::from_ref(row), |row| {
                let secret = SharedSecret::try_from(secret.clone()).ok()?;
                Some(CloudRecord::Consumer(
                    id(row, "id")?,
                    Consumer { description: text(row, "description"), secret },
                ))
            }),
            None => {
                let why = "Keystone does not show the secrets of consumers: import with a dump that has the tables `consumer` and `access_token`, or create the consumer again";
                asked.left.push(Imported::left(kind, text(row, "id").unwrap_or_default(), why));
            }
        }
    }
    for token in &dump.access_tokens {
        match access_token(token) {
            Some((id, token)) => asked.things.push(CloudRecord::AccessToken(id, Box::new(token))),
            None => {
                let why = "an id or the secret is not 32 hexadecimal digits, or the end is not a time";
                asked.left.push(Imported::left("OAuth access token", token.id.as_str(), why));
            }
        }
    }
    Ok(())
}

fn access_token(dumped: &DumpedAccessToken) -> Option<(AccessTokenId, AccessToken)> {
    let roles: Vec<String> = serde_json::from_str(&dumped.roles).ok()?;
    let token = AccessToken {
        consumer: dumped.consumer.parse().ok()?,
        secret: SharedSecret::try_from(dumped.secret.clone()).ok()?,
        user: dumped.user.parse().ok()?,
        project: dumped.project.parse().ok()?,
        roles: roles.iter().map(|role| role.parse().ok()).collect::<Option<_>>()?,
        expires: dumped.expires.as_deref().map_or(Some(NEVER), from_rfc3339)?,
    };
    Some((dumped.id.parse().ok()?, token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hex(byte: &str) -> String {
        byte.repeat(16)
    }

    #[test]
    fn a_trust_keeps_its_terms() {
        let row = |more: Value| {
            let mut row = json!({
                "trustor_user_id": hex("01"), "trustee_user_id": hex("02"), "project_id": hex("03"),
                "impersonation": true, "expires_at": "2030-01-31T12:00:00.000000Z", "remaining_uses": null,
                "redelegation_count": 2, "redelegated_trust_id": hex("04"),
            });
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            row
        };
        let roles = [json!({ "id": hex("05") })];
        let read = trust(&row(json!({})), &roles).unwrap();
        assert!(read.impersonation && read.uses.is_none() && read.parent.is_some());
        assert_eq!((read.redelegations, read.expires, read.roles.len()), (2, 1_896_091_200, 1));
        let once = json!({ "remaining_uses": 1, "redelegation_count": null, "redelegated_trust_id": null, "expires_at": null });
        let read = trust(&row(once), &roles).unwrap();
        assert_eq!((read.uses, read.redelegations, read.parent, read.expires), (Some(1), 0, None, 0));
        // Terms that are not understood must not become wider ones.
        for bad in [
            json!({ "remaining_uses": -1 }),
            json!({ "remaining_uses": "x" }),
            json!({ "redelegation_count": 300 }),
            json!({ "redelegated_trust_id": "x" }),
            json!({ "expires_at": "soon" }),
            json!({ "impersonation": null }),
            json!({ "trustee_user_id": "x" }),
        ] {
            assert!(trust(&row(bad.clone()), &roles).is_none(), "{bad}");
        }
        assert!(trust(&row(json!({})), &[json!({ "id": "x" })]).is_none());
    }

    #[test]
    fn an_access_token_of_the_table() {
        let dumped = |secret: &str, roles: &str, expires: Option<&str>| DumpedAccessToken {
            id: hex("01"),
            secret: secret.to_owned(),
            user: hex("02"),
            project: hex("03"),
            roles: roles.to_owned(),
            consumer: hex("04"),
            expires: expires.map(str::to_owned),
        };
        let roles = json!([hex("05")]).to_string();
        let (_, token) = access_token(&dumped(&hex("06"), &roles, None)).unwrap();
        assert_eq!((token.expires, token.roles.len()), (NEVER, 1));
        let (_, token) =
            access_token(&dumped(&hex("06"), &roles, Some("2030-01-31T12:00:00.000000Z"))).unwrap();
        assert_eq!(token.expires, 1_896_091_200);
        for bad in [
            dumped("short", &roles, None),
            dumped(&hex("06"), "none", None),
            dumped(&hex("06"), "[1]", None),
            dumped(&hex("06"), &roles, Some("soon")),
        ] {
            assert!(access_token(&bad).is_none());
        }
    }
}
