//! Reads identity providers, their protocols, mappings and service providers.

use super::super::cloud::Api;
use super::for_services::shown;
use super::{Asked, domain, text};
use enfilade_admin::keystone::{CloudRecord, FederationRecord};
use enfilade_faces::percent::push_name;
use enfilade_facts::tables::{
    IdentityProvider, IdentityProviderId, Mapping, MappingId, Protocol, ProtocolKey, ServiceProvider,
    ServiceProviderId,
};
use serde_json::Value;

/// Adds the records of federation. The caller has already added the domains, which the identity providers need.
pub(super) async fn federation(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let kind = "mapping";
    let rows = shown(api, asked, "OS-FEDERATION/mappings", "mappings", kind).await?.unwrap_or_default();
    asked.each(kind, &rows, |row| Some(CloudRecord::Federation(mapping(row)?)));
    let kind = "identity provider";
    let path = "OS-FEDERATION/identity_providers";
    let rows = shown(api, asked, path, "identity_providers", kind).await?.unwrap_or_default();
    asked.each(kind, &rows, |row| Some(CloudRecord::Federation(provider(row)?)));
    for id in rows.iter().filter_map(|row| text(row, "id")) {
        let mut path = format!("{path}/");
        push_name(&mut path, &id);
        path.push_str("/protocols");
        let kind = "protocol";
        let rows = shown(api, asked, &path, "protocols", kind).await?.unwrap_or_default();
        asked.each(kind, &rows, |row| Some(CloudRecord::Federation(protocol(&id, row)?)));
    }
    let kind = "service provider";
    let path = "OS-FEDERATION/service_providers";
    let rows = shown(api, asked, path, "service_providers", kind).await?.unwrap_or_default();
    asked.each(kind, &rows, |row| Some(CloudRecord::Federation(service_provider(row)?)));
    Ok(())
}

/// Whether a provider is enabled. As in Keystone, a provider without the field `enabled` is disabled.
fn is_enabled(row: &Value) -> bool {
    row.get("enabled").and_then(Value::as_bool).unwrap_or(false)
}

fn mapping(row: &Value) -> Option<FederationRecord> {
    let schema_version = text(row, "schema_version").unwrap_or_else(|| "1.0".to_owned());
    let rules = row.get("rules")?;
    enfilade_keystone::check_mapping_rules(&schema_version, rules).ok()?;
    let mapping = Mapping { rules: rules.to_string(), schema_version };
    Some(FederationRecord::Mapping(MappingId(text(row, "id")?), mapping))
}

fn provider(row: &Value) -> Option<FederationRecord> {
    let mut remote_ids = Vec::new();
    for id in row.get("remote_ids").and_then(Value::as_array).into_iter().flatten() {
        remote_ids.push(id.as_str()?.to_owned());
    }
    remote_ids.sort();
    let authorization_ttl = match row.get("authorization_ttl") {
        None | Some(Value::Null) => None,
        Some(minutes) => Some(u32::try_from(minutes.as_u64()?).ok()?),
    };
    let provider = IdentityProvider {
        domain: domain(row, "domain_id")?,
        enabled: is_enabled(row),
        description: text(row, "description"),
        remote_ids,
        authorization_ttl,
    };
    Some(FederationRecord::IdentityProvider(IdentityProviderId(text(row, "id")?), provider))
}

fn protocol(provider: &str, row: &Value) -> Option<FederationRecord> {
    let provider = IdentityProviderId(provider.to_owned());
    let key = ProtocolKey { provider, protocol: text(row, "id")? };
    let mapping = MappingId(text(row, "mapping_id")?);
    let remote_id_attribute = text(row, "remote_id_attribute");
    Some(FederationRecord::Protocol(key, Protocol { mapping, remote_id_attribute }))
}

fn service_provider(row: &Value) -> Option<FederationRecord> {
    let provider = ServiceProvider {
        auth_url: text(row, "auth_url")?,
        sp_url: text(row, "sp_url")?,
        enabled: is_enabled(row),
        description: text(row, "description"),
        relay_state_prefix: text(row, "relay_state_prefix").unwrap_or_default(),
    };
    Some(FederationRecord::ServiceProvider(ServiceProviderId(text(row, "id")?), provider))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_that_is_not_understood_is_left_out() {
        let domain = "0123456789abcdef0123456789abcdef";
        for (row, is_read) in [
            (json!({ "id": "a", "domain_id": domain, "remote_ids": ["x"] }), true),
            (json!({ "id": "a", "domain_id": domain, "authorization_ttl": null }), true),
            (json!({ "id": "a", "domain_id": domain, "remote_ids": [1] }), false),
            (json!({ "id": "a", "domain_id": domain, "authorization_ttl": -1 }), false),
            (json!({ "id": "a", "domain_id": "x" }), false),
            (json!({ "domain_id": domain }), false),
        ] {
            assert_eq!(provider(&row).is_some(), is_read, "{row}");
        }
        let rules = json!([{ "local": [], "remote": [{ "type": "x" }] }]);
        assert!(mapping(&json!({ "id": "m", "rules": rules })).is_some());
        assert!(mapping(&json!({ "id": "m", "rules": [] })).is_none());
        assert!(mapping(&json!({ "id": "m", "rules": rules, "schema_version": "7" })).is_none());
        assert!(protocol("a", &json!({ "id": "saml2", "mapping_id": "m" })).is_some());
        assert!(protocol("a", &json!({ "id": "saml2" })).is_none());
        assert!(service_provider(&json!({ "id": "s", "auth_url": "x:y", "sp_url": "x:y" })).is_some());
    }
}
