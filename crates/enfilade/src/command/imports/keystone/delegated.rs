//! Reads delegated credentials: application credentials, trusts, OAuth consumers and their access tokens.

use super::super::cloud::Api;
use super::super::dump::{Dump, DumpedAccessToken};
use super::for_services::{shown, shown_for_system};
use super::{Asked, id, lost_factor, outer_first, term, text, unknown};
use enfilade_admin::Imported;
use enfilade_admin::keystone::{CloudCredential, CloudRecord};
use enfilade_facts::tables::{AccessRule, AccessToken, Consumer, Delegation, SharedSecret, Trust, Verifier};
use enfilade_facts::vocabulary::{
    AccessTokenId, MICROS_PER_SECOND, RoleId, UserId, from_rfc3339, micros_from_rfc3339,
};
use serde_json::Value;
use std::collections::HashMap;

/// If an access token never expires in Keystone, it gets this expiry: the end of the year 9999. On this server, every access token has an expiry.
const NEVER: i64 = 253_402_300_799;

/// The names of authentication methods.
const WITH_CREDENTIAL: &str = "application_credential";
const WITH_ACCESS_TOKEN: &str = "oauth1";

/// The ids of the roles in a list of roles; `None` if an id cannot be read.
fn role_ids(rows: &[Value]) -> Option<Vec<RoleId>> {
    rows.iter().map(|role| id(role, "id")).collect()
}

/// The expiry of a record in seconds since the epoch. The value is 0 if the record has no expiry, and otherwise at least 1. `None` if the expiry
/// cannot be read.
fn end(row: &Value) -> Option<i64> {
    Some(term(row, "expires_at", |end| from_rfc3339(end.as_str()?))?.map_or(0, |end| end.max(1)))
}

/// Adds the application credentials with their rights. The API does not show their secrets. Without a dump, the server refuses an application
/// credential until the credential gets a new secret.
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
            let verifier = verifier(asked, user, row, dump);
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

/// The verifier of an application credential: the hash in the dump, or `Missing` if the dump has no hash that may be imported. If Keystone generated
/// the secret, this server replaces the hash with a fast hash when the secret is first used.
fn verifier(asked: &mut Asked, user: &Value, row: &Value, dump: &Dump) -> Verifier {
    let Some(hash) = text(row, "id").and_then(|id| dump.secrets.get(&id)) else { return Verifier::Missing };
    let lost = lost_factor(user, WITH_CREDENTIAL, "make a new secret with `enfilade token regenerate`");
    let unusable = || enfilade_identity::check_hash(hash).err().map(|why| why.to_string());
    let Some(why) = lost.or_else(unusable) else { return Verifier::Upgrading(hash.clone()) };
    let name = text(row, "name").unwrap_or_default();
    asked.left.push(Imported::left("secret of application credential", name, why));
    Verifier::Missing
}

fn credential(row: &Value, owner: UserId, verifier: Verifier) -> Option<CloudCredential> {
    let list = |name: &str| Some(term(row, name, Value::as_array)?.map_or(&[][..], Vec::as_slice));
    let rule = |rule: &Value| {
        let (service, method, path) = (text(rule, "service")?, text(rule, "method")?, text(rule, "path")?);
        Some(AccessRule { id: id(rule, "id")?, service, method, path })
    };
    let micros = term(row, "expires_at", |end| micros_from_rfc3339(end.as_str()?))?;
    let delegation = Delegation {
        project: id(row, "project_id")?,
        roles: role_ids(list("roles")?)?,
        unrestricted: term(row, "unrestricted", Value::as_bool)?.unwrap_or(false),
        // If an access rule of a credential cannot be read, the credential is left out. Without access rules, the credential would be valid for every
        // request.
        rules: list("access_rules")?.iter().map(rule).collect::<Option<_>>()?,
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

/// Adds the trusts. If a trust was delegated from another trust, the other trust is added first.
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
        // Keystone's list of trusts does not contain the roles of the trusts. Keystone refuses to list the roles of a trust that can no longer be
        // used. Then the trust is left out, and the report contains the refusal.
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
    let uses = term(row, "remaining_uses", |uses| u32::try_from(uses.as_u64()?).ok())?;
    let parent = term(row, "redelegated_trust_id", |parent| parent.as_str()?.parse().ok())?;
    Some(Trust {
        trustor: id(row, "trustor_user_id")?,
        trustee: id(row, "trustee_user_id")?,
        project: id(row, "project_id")?,
        roles: role_ids(roles)?,
        impersonation: row.get("impersonation")?.as_bool()?,
        expires: end(row)?,
        uses,
        redelegations: term(row, "redelegation_count", |count| u8::try_from(count.as_u64()?).ok())?
            .unwrap_or(0),
        parent,
        by: None,
    })
}

/// Adds the OAuth consumers and the access tokens. Both need secrets that only a dump contains.
pub(super) async fn oauth(
    api: &mut Api,
    asked: &mut Asked,
    users: &[Value],
    dump: &Dump,
) -> anyhow::Result<()> {
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
    let users = by_id(users);
    for token in &dump.access_tokens {
        match access_token(token, &users) {
            Ok((id, token)) => asked.things.push(CloudRecord::AccessToken(id, Box::new(token))),
            Err(why) => {
                let called = token.id.as_deref().unwrap_or_default();
                asked.left.push(Imported::left("OAuth access token", called, why));
            }
        }
    }
    Ok(())
}

fn by_id(users: &[Value]) -> HashMap<UserId, &Value> {
    users.iter().filter_map(|user| Some((id(user, "id")?, user))).collect()
}

/// The access token, or the reason why it is left out.
fn access_token(
    dumped: &DumpedAccessToken,
    users: &HashMap<UserId, &Value>,
) -> Result<(AccessTokenId, AccessToken), String> {
    let read = read_access_token(dumped).ok_or(
        "the row of the dump cannot be read: expected ids of 32 hexadecimal digits (64 for a user of an LDAP directory), a secret of 32 hexadecimal digits, a list of the ids of roles, and an expiry with date and time; let the consumer get a new access token",
    )?;
    let user = users
        .get(&read.1.user)
        .ok_or("Keystone does not list the user of the access token, so the `multi_factor_auth_rules` of the user are unknown; let the consumer get a new access token")?;
    match lost_factor(user, WITH_ACCESS_TOKEN, "let the consumer get a new access token") {
        Some(why) => Err(why),
        None => Ok(read),
    }
}

fn read_access_token(dumped: &DumpedAccessToken) -> Option<(AccessTokenId, AccessToken)> {
    let roles: Vec<String> = serde_json::from_str(dumped.roles.as_deref()?).ok()?;
    let token = AccessToken {
        consumer: dumped.consumer.as_deref()?.parse().ok()?,
        secret: SharedSecret::try_from(dumped.secret.clone()?).ok()?,
        user: dumped.user.as_deref()?.parse().ok()?,
        project: dumped.project.as_deref()?.parse().ok()?,
        roles: roles.iter().map(|role| role.parse().ok()).collect::<Option<_>>()?,
        expires: dumped.expires.as_deref().map_or(Some(NEVER), from_rfc3339)?,
    };
    Some((dumped.id.as_deref()?.parse().ok()?, token))
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
        // If a term of a trust cannot be read, the trust must be left out. Without the term, the trust would give more rights.
        for bad in [
            json!({ "remaining_uses": -1 }),
            json!({ "remaining_uses": "x" }),
            json!({ "remaining_uses": 1.5 }),
            json!({ "redelegated_trust_id": 7 }),
            json!({ "redelegated_trust_id": "" }),
            json!({ "expires_at": 1 }),
            json!({ "expires_at": "" }),
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
    fn a_credential_keeps_its_terms() {
        let owner = UserId::from_bytes([2; 16]);
        let rule = json!({ "id": hex("07"), "service": "compute", "method": "GET", "path": "/x" });
        let row = |more: Value| {
            let mut row = json!({
                "project_id": hex("03"), "name": "ci", "roles": [{ "id": hex("05") }], "unrestricted": false,
                "expires_at": "2030-01-31T12:00:00.500000", "access_rules": [rule],
            });
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            credential(&row, owner, Verifier::Missing)
        };
        let read = row(json!({})).unwrap();
        assert_eq!((read.delegation.rules.len(), read.delegation.roles.len()), (1, 1));
        assert!(read.expires > 1 && read.delegation.expires_micros.is_some());
        let none = json!({ "unrestricted": null, "expires_at": null, "access_rules": null });
        let read = row(none).unwrap();
        assert!(!read.delegation.unrestricted && read.expires == 0 && read.delegation.rules.is_empty());
        for bad in [
            json!({ "access_rules": {} }),
            json!({ "access_rules": "x" }),
            json!({ "access_rules": [{ "path": "/x" }] }),
            json!({ "roles": "x" }),
            json!({ "unrestricted": "false" }),
            json!({ "unrestricted": 0 }),
            json!({ "expires_at": 1_896_091_200 }),
            json!({ "expires_at": "" }),
            json!({ "expires_at": "soon" }),
        ] {
            assert!(row(bad.clone()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_left_out_if_it_alone_was_not_enough() {
        let user = |rules: Value| json!({ "id": hex("02"), "options": { "multi_factor_auth_enabled": true, "multi_factor_auth_rules": rules } });
        let row = json!({ "id": "c", "name": "ci" });
        let hash = "$5$rounds=1000$salt$gdEupGonUIiJCMc1vfHpiFjFhRA3Jf3USQ7IYKjZitD".to_owned();
        let dump = Dump { secrets: [("c".to_owned(), hash)].into(), ..Dump::default() };
        for (rules, is_whole) in [
            (json!([]), true),
            (json!([["application_credential"], ["oauth1"], ["mapped"]]), true),
            // Under these rules, an application credential alone, or an access token alone, is not enough for a login. This is so in Keystone and on
            // this server. So both can be imported.
            (json!([["password", "totp"]]), true),
            (json!([["mapped"]]), false),
            (json!([["application_credential", "mapped"], ["oauth1", "mapped"]]), false),
        ] {
            let mut asked = Asked::default();
            let verifier = verifier(&mut asked, &user(rules.clone()), &row, &dump);
            assert_eq!(verifier != Verifier::Missing, is_whole, "{rules}");
            assert_eq!(asked.left.is_empty(), is_whole, "{rules}");
            assert_eq!(access_token(&dumped(), &by_id(&[user(rules.clone())])).is_ok(), is_whole, "{rules}");
        }
        assert!(access_token(&dumped(), &by_id(&[])).is_err(), "the rules are unknown");
    }

    fn dumped() -> DumpedAccessToken {
        DumpedAccessToken {
            id: Some(hex("01")),
            secret: Some(hex("06")),
            user: Some(hex("02")),
            project: Some(hex("03")),
            roles: Some(json!([hex("05")]).to_string()),
            consumer: Some(hex("04")),
            expires: None,
        }
    }

    #[test]
    fn an_access_token_of_the_table() {
        let dumped = |secret: &str, roles: &str, expires: Option<&str>| DumpedAccessToken {
            secret: Some(secret.to_owned()),
            roles: Some(roles.to_owned()),
            expires: expires.map(str::to_owned),
            ..dumped()
        };
        let users = [json!({ "id": hex("02") })];
        let users = by_id(&users);
        let access_token = |dumped: &DumpedAccessToken| access_token(dumped, &users);
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
            dumped(&hex("06"), &roles, Some("")),
            DumpedAccessToken { user: None, ..dumped(&hex("06"), &roles, None) },
        ] {
            assert!(access_token(&bad).is_err());
        }
    }
}
