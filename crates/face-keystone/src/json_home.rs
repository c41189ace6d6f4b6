//! The JSON-home document (draft-nottingham-json-home-03), with Keystone's names.

use super::routes::V3;
use serde_json::{Map, Value, json};

const DOCS: &str = "https://docs.openstack.org/api/openstack-identity/3";

/// The paths with a relation that cannot be derived from the words of the path, each with its relation.
const OTHERS: [(&str, &str); 24] = [
    ("/domains/config/default", "domain_config_default"),
    ("/domains/config/{group}/default", "domain_config_default_group"),
    ("/domains/config/{group}/{option}/default", "domain_config_default_option"),
    ("/domains/{domain_id}/config/{group}", "domain_config_group"),
    ("/domains/{domain_id}/config/{group}/{option}", "domain_config_option"),
    ("/ec2tokens", "ext/OS-EC2/1.0/rel/ec2tokens"),
    ("/s3tokens", "ext/s3tokens/1.0/rel/s3tokens"),
    ("/limits/model", "limit_model"),
    ("/policies/{policy_id}/OS-ENDPOINT-POLICY/endpoints/{endpoint_id}", "endpoint_policy_association"),
    ("/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}", "service_policy_association"),
    (
        "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}/regions/{region_id}",
        "region_and_service_policy_association",
    ),
    ("/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/endpoints", "endpoints_in_endpoint_group"),
    ("/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects", "projects_associated_with_endpoint_group"),
    (
        "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects/{project_id}",
        "endpoint_group_to_project_association",
    ),
    ("/OS-OAUTH1/request_token", "request_tokens"),
    ("/OS-OAUTH1/access_token", "access_tokens"),
    ("/OS-OAUTH1/authorize/{request_token_id}", "authorize_request_token"),
    ("/roles/{prior_role_id}/implies", "implied_roles"),
    ("/roles/{prior_role_id}/implies/{implied_role_id}", "implied_role"),
    ("/users/{user_id}/access_rules", "access_rules"),
    ("/users/{user_id}/access_rules/{access_rule_id}", "access_rule"),
    ("/users/{user_id}/application_credentials", "application_credentials"),
    ("/users/{user_id}/application_credentials/{application_credential_id}", "application_credential"),
    ("/users/{user_id}/password", "user_change_password"),
];

/// A word in the singular.
fn singular(word: &str) -> String {
    match (word.strip_suffix("ies"), word.strip_suffix('s')) {
        (Some(start), _) => format!("{start}y"),
        (None, Some(start)) => start.to_owned(),
        (None, None) => word.to_owned(),
    }
}

/// The relation of a path, relative to `DOCS`. It consists of the words of the path. A word before an id is in the singular.
fn relation(path: &str) -> String {
    let (extensions, words): (Vec<&str>, Vec<&str>) =
        path.split('/').filter(|part| !part.is_empty()).partition(|part| part.starts_with("OS-"));
    let is_id = |at: usize| words.get(at).is_some_and(|part| part.starts_with('{'));
    let own = || {
        let own = words.iter().enumerate().filter(|(at, _)| !is_id(*at));
        let own = own.map(|(at, word)| if is_id(at + 1) { singular(word) } else { (*word).to_owned() });
        own.collect::<Vec<_>>().join("_")
    };
    let other = OTHERS.iter().find(|(known, _)| *known == path).map(|(_, name)| (*name).to_owned());
    match (other, extensions.first()) {
        (Some(whole), _) if whole.starts_with("ext/") => whole,
        (name, Some(extension)) => format!("ext/{extension}/1.0/rel/{}", name.unwrap_or_else(own)),
        (name, None) => format!("rel/{}", name.unwrap_or_else(own)),
    }
}

/// The relation of a parameter in a path, relative to `DOCS`.
fn parameter(name: &str) -> String {
    match name {
        "group" | "option" => format!("param/config_{name}"),
        "value" => "param/tag_value".to_owned(),
        "prior_role_id" | "implied_role_id" => "param/role_id".to_owned(),
        "endpoint_group_id" => format!("ext/OS-EP-FILTER/1.0/param/{name}"),
        "idp_id" | "protocol_id" | "mapping_id" | "service_provider_id" => {
            format!("ext/OS-FEDERATION/1.0/param/{name}")
        }
        "consumer_id" | "request_token_id" | "access_token_id" => format!("ext/OS-OAUTH1/1.0/param/{name}"),
        "trust_id" => format!("ext/OS-TRUST/1.0/param/{name}"),
        name => format!("param/{name}"),
    }
}

/// The document.
pub(super) fn home() -> Value {
    let mut resources = Map::new();
    // As in Keystone, the paths of `security_compliance` have no entry. The entries for the paths with the variables `{group}` and `{option}` also
    // cover these paths.
    let has_entry = |path: &&str| !path.is_empty() && !path.contains("/security_compliance");
    for path in V3.iter().map(|route| route.path).filter(has_entry) {
        let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let variables: Map<_, _> =
            names.map(|name| (name.to_owned(), json!(format!("{DOCS}/{}", parameter(name))))).collect();
        let mut entry = match variables.is_empty() {
            true => json!({ "href": path }),
            false => json!({ "href-template": path, "href-vars": variables }),
        };
        if let Some(entry) = entry.as_object_mut().filter(|_| is_experimental(path)) {
            entry.insert("hints".to_owned(), json!({ "status": "experimental" }));
        }
        resources.insert(format!("{DOCS}/{}", relation(path)), entry);
    }
    json!({ "resources": resources })
}

fn is_experimental(path: &str) -> bool {
    ["/limits", "/registered_limits"].iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_path_has_the_relation_of_keystone() {
        for (path, expected) in [
            ("/auth/tokens", "rel/auth_tokens"),
            ("/policies/{policy_id}", "rel/policy"),
            ("/domains/{domain_id}/config", "rel/domain_config"),
            ("/domains/{domain_id}/users/{user_id}/roles/{role_id}", "rel/domain_user_role"),
            ("/system/groups/{group_id}/roles", "rel/system_group_roles"),
            ("/registered_limits/{registered_limit_id}", "rel/registered_limit"),
            ("/OS-REVOKE/events", "ext/OS-REVOKE/1.0/rel/events"),
            ("/OS-TRUST/trusts/{trust_id}/roles/{role_id}", "ext/OS-TRUST/1.0/rel/trust_role"),
            (
                "/OS-INHERIT/projects/{project_id}/users/{user_id}/roles/{role_id}/inherited_to_projects",
                "ext/OS-INHERIT/1.0/rel/project_user_role_inherited_to_projects",
            ),
            ("/users/{user_id}/credentials/OS-EC2", "ext/OS-EC2/1.0/rel/user_credentials"),
            ("/users/{user_id}/credentials/OS-EC2/{credential_id}", "ext/OS-EC2/1.0/rel/user_credential"),
            ("/OS-OAUTH1/consumers/{consumer_id}", "ext/OS-OAUTH1/1.0/rel/consumer"),
            ("/OS-OAUTH1/authorize/{request_token_id}", "ext/OS-OAUTH1/1.0/rel/authorize_request_token"),
            (
                "/users/{user_id}/OS-OAUTH1/access_tokens/{access_token_id}/roles/{role_id}",
                "ext/OS-OAUTH1/1.0/rel/user_access_token_role",
            ),
            ("/OS-OAUTH2/token", "ext/OS-OAUTH2/1.0/rel/token"),
            ("/ec2tokens", "ext/OS-EC2/1.0/rel/ec2tokens"),
            ("/OS-FEDERATION/projects", "ext/OS-FEDERATION/1.0/rel/projects"),
            ("/OS-FEDERATION/identity_providers/{idp_id}", "ext/OS-FEDERATION/1.0/rel/identity_provider"),
            (
                "/OS-FEDERATION/identity_providers/{idp_id}/protocols",
                "ext/OS-FEDERATION/1.0/rel/identity_provider_protocols",
            ),
            (
                "/OS-FEDERATION/identity_providers/{idp_id}/protocols/{protocol_id}",
                "ext/OS-FEDERATION/1.0/rel/identity_provider_protocol",
            ),
            ("/OS-FEDERATION/mappings/{mapping_id}", "ext/OS-FEDERATION/1.0/rel/mapping"),
            (
                "/endpoints/{endpoint_id}/OS-ENDPOINT-POLICY/policy",
                "ext/OS-ENDPOINT-POLICY/1.0/rel/endpoint_policy",
            ),
            (
                "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}",
                "ext/OS-ENDPOINT-POLICY/1.0/rel/service_policy_association",
            ),
            (
                "/OS-EP-FILTER/projects/{project_id}/endpoints/{endpoint_id}",
                "ext/OS-EP-FILTER/1.0/rel/project_endpoint",
            ),
            (
                "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/endpoints",
                "ext/OS-EP-FILTER/1.0/rel/endpoints_in_endpoint_group",
            ),
        ] {
            assert_eq!(relation(path), expected);
        }
        assert!(OTHERS.iter().all(|(path, _)| V3.iter().any(|route| route.path == *path)));
    }

    #[test]
    fn each_path_has_a_relation_of_its_own() {
        let mut paths: BTreeMap<String, &str> = BTreeMap::new();
        for route in V3.iter().filter(|route| !route.path.contains("/security_compliance")) {
            let other = paths.insert(relation(route.path), route.path);
            assert!(other.is_none_or(|other| other == route.path), "{other:?} and {}", route.path);
        }
    }

    #[test]
    fn limits_are_experimental() {
        let home = home();
        let of = |relation: &str| home["resources"][format!("{DOCS}/{relation}")].clone();
        let limit = json!({
            "href-template": "/limits/{limit_id}", "href-vars": { "limit_id": format!("{DOCS}/param/limit_id") },
            "hints": { "status": "experimental" },
        });
        assert_eq!(of("rel/limit"), limit);
        assert_eq!(of("rel/policies"), json!({ "href": "/policies" }));
        let option = &of("rel/domain_config_option")["href-vars"]["option"];
        assert_eq!(option, &json!(format!("{DOCS}/param/config_option")));
    }
}
