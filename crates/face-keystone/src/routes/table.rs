//! The table of calls. Each `resource!` generates the rows of the five calls of a kind of resource, and each `grants!` generates the rows of the four
//! calls of role assignments.

use super::super::resource::Resource;
use super::super::{
    application_credentials, assignments, blobs, domain_configs, endpoint_filters, groups, oauth1, policies,
    project_tags, projects, roles, scopes, services, tokens, trusts, unified_limits,
};
use super::{V3Call, V3Need, V3Route};
use enfilade_facts::tables::{
    Blob, Consumer, Domain, Endpoint, EndpointGroup, Group, IdentityProvider, Limit, Mapping, NamedRole,
    Policy, Project, Protocol, Region, RegisteredLimit, Service, ServiceProvider, User,
};
use std::sync::LazyLock;

const fn nobody(method: &'static str, path: &'static str, call: V3Call, says: &'static str) -> V3Route {
    V3Route { method, path, need: V3Need::Nobody, call, rule: "", says }
}

const fn session(
    method: &'static str,
    path: &'static str,
    call: V3Call,
    rule: &'static str,
    says: &'static str,
) -> V3Route {
    V3Route { method, path, need: V3Need::Session, call, rule, says }
}

/// The five calls of a kind of resource. If `under` is given, the path of the kind begins with the path of its extension. If `batch` is given, one
/// request can create several resources.
macro_rules! resource {
    ($kind:ty, $one:literal, $many:literal) => {
        resource!(@ $kind, "", $one, $many, $one)
    };
    (under $under:literal, $kind:ty, $one:literal, $many:literal) => {
        resource!(@ $kind, $under, $one, $many, $one)
    };
    (batch $kind:ty, $one:literal, $many:literal) => {
        resource!(@ $kind, "", $one, $many, $many)
    };
    (@ $kind:ty, $under:literal, $one:literal, $many:literal, $created:literal) => {{
        const COLLECTION: &str = concat!($under, "/", $many);
        const ONE: &str = concat!($under, "/", $many, "/{", $one, "_id}");
        let call = |method, path, call, rule, says| session(method, path, V3Call::Do(call), rule, says);
        [
            call("GET", COLLECTION, <$kind>::list, concat!("list_", $many), concat!("List ", $many)),
            call("POST", COLLECTION, <$kind>::create, concat!("create_", $created), concat!("Create ", $created)),
            call("GET", ONE, <$kind>::show, concat!("get_", $one), concat!("Show ", $one)),
            call("PATCH", ONE, <$kind>::update, concat!("update_", $one), concat!("Update ", $one)),
            call("DELETE", ONE, <$kind>::delete, concat!("delete_", $one), concat!("Delete ", $one)),
        ]
    }};
}

/// The five calls of a kind of federation resource. Clients choose the ids of these kinds.
macro_rules! federation {
    ($path:literal, $id:literal, $kind:ty, $one:literal, $many:literal) => {{
        const COLLECTION: &str = concat!("/OS-FEDERATION/", $path);
        const ONE: &str = concat!("/OS-FEDERATION/", $path, "/{", $id, "}");
        let call = |method, path, call, rule, says| session(method, path, V3Call::Do(call), rule, says);
        [
            call("GET", COLLECTION, <$kind>::list, concat!("list_", $many), concat!("List ", $many)),
            call("GET", ONE, <$kind>::show, concat!("get_", $one), concat!("Show ", $one)),
            call(
                "PUT",
                ONE,
                <$kind>::create,
                concat!("create_", $one),
                concat!("Create ", $one, " with this id"),
            ),
            call("PATCH", ONE, <$kind>::update, concat!("update_", $one), concat!("Update ", $one)),
            call("DELETE", ONE, <$kind>::delete, concat!("delete_", $one), concat!("Delete ", $one)),
        ]
    }};
}

/// The four calls of the roles of a user or group on a scope: list, check, assign and remove.
macro_rules! grants {
    ($path:literal, $of:literal) => {
        grants!(@ $path, "", "", "", "", $of)
    };
    (system $path:literal, $party:literal, $of:literal) => {
        grants!(@ $path, "", "system_", $party, "", $of)
    };
    (inherited $path:literal, $of:literal) => {
        grants!(@ $path, "/inherited_to_projects", "", "", "inherited ", $of)
    };
    (@ $path:literal, $end:literal, $scope:literal, $party:literal, $role:literal, $of:literal) => {{
        const ALL: &str = concat!($path, "/roles", $end);
        const ONE: &str = concat!($path, "/roles/{role_id}", $end);
        let call = |method, path, call, rule, says| session(method, path, V3Call::Do(call), rule, says);
        [
            call("GET", ALL, assignments::of_path, concat!("list_", $scope, "grants", $party), concat!("List ", $role, "roles of ", $of)),
            call("GET", ONE, assignments::check, concat!("check_", $scope, "grant", $party), concat!("Check ", $role, "role of ", $of)),
            call("PUT", ONE, assignments::give, concat!("create_", $scope, "grant", $party), concat!("Assign ", $role, "role to ", $of)),
            call("DELETE", ONE, assignments::take, concat!("revoke_", $scope, "grant", $party), concat!("Remove ", $role, "role of ", $of)),
        ]
    }};
}

/// Every call of Identity v3 that this server answers.
#[rustfmt::skip]
pub static V3: LazyLock<Vec<V3Route>> = LazyLock::new(|| {
    let rows: &[&[V3Route]] = &[
        &[
            nobody("GET", "", V3Call::Version, "Show API version"),
            nobody("POST", "/auth/tokens", V3Call::Login, "Create token from a password, a passcode, a token, an application credential or an OAuth access token"),
            session("GET", "/auth/tokens", V3Call::Validate, "validate_token", "Validate and show the token in X-Subject-Token"),
            session("HEAD", "/auth/tokens", V3Call::Check, "check_token", "Check the token in X-Subject-Token"),
            session("DELETE", "/auth/tokens", V3Call::Do(tokens::revoke), "revoke_token", "Revoke the token in X-Subject-Token"),
            session("GET", "/auth/catalog", V3Call::Do(scopes::catalog), "get_auth_catalog", "Show service catalog of the session"),
            session("GET", "/auth/projects", V3Call::Do(scopes::projects), "get_auth_projects", "List projects on which the user has a role"),
            session("GET", "/auth/domains", V3Call::Do(scopes::domains), "get_auth_domains", "List domains on which the user has a role"),
            session("GET", "/auth/system", V3Call::Do(scopes::system), "get_auth_system", "Show whether the user has a role on the system"),
            session("GET", "/OS-REVOKE/events", V3Call::Do(tokens::events), "list_revoke_events", "List revocation events"),
            session("GET", "/users/{user_id}/application_credentials", V3Call::Do(application_credentials::list), "list_application_credentials", "List application credentials of a user"),
            session("POST", "/users/{user_id}/application_credentials", V3Call::Do(application_credentials::create), "create_application_credential", "Create application credential; the response shows its secret once"),
            session("GET", "/users/{user_id}/application_credentials/{application_credential_id}", V3Call::Do(application_credentials::show), "get_application_credential", "Show application credential"),
            session("DELETE", "/users/{user_id}/application_credentials/{application_credential_id}", V3Call::Do(application_credentials::delete), "delete_application_credential", "Delete application credential and revoke its sessions"),
            session("GET", "/users/{user_id}/access_rules", V3Call::Do(application_credentials::list_rules), "list_access_rules", "List access rules of a user"),
            session("GET", "/users/{user_id}/access_rules/{access_rule_id}", V3Call::Do(application_credentials::show_rule), "get_access_rule", "Show access rule"),
            session("DELETE", "/users/{user_id}/access_rules/{access_rule_id}", V3Call::Do(application_credentials::delete_rule), "delete_access_rule", "Delete access rule that no application credential uses"),
            session("GET", "/OS-TRUST/trusts", V3Call::Do(trusts::list), "list_trusts", "List trusts"),
            session("POST", "/OS-TRUST/trusts", V3Call::Do(trusts::create), "create_trust", "Create trust"),
            session("GET", "/OS-TRUST/trusts/{trust_id}", V3Call::Do(trusts::show), "get_trust", "Show trust"),
            session("DELETE", "/OS-TRUST/trusts/{trust_id}", V3Call::Do(trusts::delete), "delete_trust", "Delete trust and revoke its sessions"),
            session("GET", "/OS-TRUST/trusts/{trust_id}/roles", V3Call::Do(trusts::list_roles), "list_roles_for_trust", "List roles that the trust delegates"),
            session("GET", "/OS-TRUST/trusts/{trust_id}/roles/{role_id}", V3Call::Do(trusts::show_role), "get_role_for_trust", "Show role that the trust delegates"),
        ],
        &resource!(Domain, "domain", "domains"),
        &[
            session("GET", "/domains/config/default", V3Call::Do(domain_configs::defaults), "get_domain_config_default", "Show defaults of all options of domains"),
            session("GET", "/domains/config/{group}/default", V3Call::Do(domain_configs::defaults), "get_domain_config_default", "Show defaults of a group of options"),
            session("GET", "/domains/config/{group}/{option}/default", V3Call::Do(domain_configs::defaults), "get_domain_config_default", "Show default of an option"),
            session("GET", "/domains/{domain_id}/config", V3Call::Do(domain_configs::show), "get_domain_config", "Show configuration of a domain, without secret options"),
            session("PUT", "/domains/{domain_id}/config", V3Call::Do(domain_configs::put), "create_domain_config", "Replace configuration of a domain"),
            session("PATCH", "/domains/{domain_id}/config", V3Call::Do(domain_configs::update), "update_domain_config", "Change options of a domain"),
            session("DELETE", "/domains/{domain_id}/config", V3Call::Do(domain_configs::delete), "delete_domain_config", "Delete configuration of a domain"),
            session("GET", "/domains/{domain_id}/config/security_compliance", V3Call::Do(domain_configs::security_compliance), "get_security_compliance_domain_config", "Show rules for passwords; the domain must be the default domain"),
            session("GET", "/domains/{domain_id}/config/security_compliance/{option}", V3Call::Do(domain_configs::security_compliance), "get_security_compliance_domain_config", "Show one rule for passwords; the domain must be the default domain"),
            session("GET", "/domains/{domain_id}/config/{group}", V3Call::Do(domain_configs::show), "get_domain_config", "Show a group of options of a domain, without secret options"),
            session("PATCH", "/domains/{domain_id}/config/{group}", V3Call::Do(domain_configs::update), "update_domain_config", "Change a group of options of a domain"),
            session("DELETE", "/domains/{domain_id}/config/{group}", V3Call::Do(domain_configs::delete), "delete_domain_config", "Delete a group of options of a domain"),
            session("GET", "/domains/{domain_id}/config/{group}/{option}", V3Call::Do(domain_configs::show), "get_domain_config", "Show an option of a domain; a secret option is not shown (404)"),
            session("PATCH", "/domains/{domain_id}/config/{group}/{option}", V3Call::Do(domain_configs::update), "update_domain_config", "Change an option of a domain"),
            session("DELETE", "/domains/{domain_id}/config/{group}/{option}", V3Call::Do(domain_configs::delete), "delete_domain_config", "Delete an option of a domain"),
        ],
        &resource!(Project, "project", "projects"),
        &[
            session("GET", "/projects/{project_id}/tags", V3Call::Do(project_tags::list_tags), "list_project_tags", "List tags of a project"),
            session("PUT", "/projects/{project_id}/tags", V3Call::Do(project_tags::put_tags), "update_project_tags", "Replace all tags of a project"),
            session("DELETE", "/projects/{project_id}/tags", V3Call::Do(project_tags::delete_tags), "delete_project_tags", "Remove all tags of a project"),
            session("GET", "/projects/{project_id}/tags/{value}", V3Call::Do(project_tags::has_tag), "get_project_tag", "Check whether a project has a tag"),
            session("PUT", "/projects/{project_id}/tags/{value}", V3Call::Do(project_tags::put_tag), "create_project_tag", "Add tag to a project"),
            session("DELETE", "/projects/{project_id}/tags/{value}", V3Call::Do(project_tags::delete_tag), "delete_project_tag", "Remove tag from a project"),
        ],
        &resource!(User, "user", "users"),
        &[
            nobody("POST", "/users/{user_id}/password", V3Call::ChangePassword, "Change the password of a user; needs the current password, but no session"),
            session("GET", "/users/{user_id}/groups", V3Call::Do(groups::list_groups), "list_groups_for_user", "List groups of a user"),
            session("GET", "/users/{user_id}/projects", V3Call::Do(projects::of_user), "list_user_projects", "List projects on which a user has a role"),
        ],
        &resource!(Group, "group", "groups"),
        &[
            session("GET", "/groups/{group_id}/users", V3Call::Do(groups::list_users), "list_users_in_group", "List users in a group"),
            session("GET", "/groups/{group_id}/users/{user_id}", V3Call::Do(groups::has_user), "check_user_in_group", "Check whether a user is in a group"),
            session("PUT", "/groups/{group_id}/users/{user_id}", V3Call::Do(groups::add_user), "add_user_to_group", "Add user to a group"),
            session("DELETE", "/groups/{group_id}/users/{user_id}", V3Call::Do(groups::remove_user), "remove_user_from_group", "Remove user from a group"),
        ],
        &resource!(NamedRole, "role", "roles"),
        &[
            session("GET", "/roles/{prior_role_id}/implies", V3Call::Do(roles::list_implied), "list_implied_roles", "List roles that a role implies"),
            session("GET", "/roles/{prior_role_id}/implies/{implied_role_id}", V3Call::Do(roles::show_implied), "get_implied_role", "Show role implication"),
            session("HEAD", "/roles/{prior_role_id}/implies/{implied_role_id}", V3Call::Do(roles::check_implied), "check_implied_role", "Check whether a role implies another role; answers 204"),
            session("PUT", "/roles/{prior_role_id}/implies/{implied_role_id}", V3Call::Do(roles::imply), "create_implied_role", "Create role implication"),
            session("DELETE", "/roles/{prior_role_id}/implies/{implied_role_id}", V3Call::Do(roles::delete_implied), "delete_implied_role", "Delete role implication"),
            session("GET", "/role_inferences", V3Call::Do(roles::inferences), "list_role_inference_rules", "List all role implications"),
            session("GET", "/role_assignments", V3Call::Do(assignments::list), "list_role_assignments", "List role assignments"),
        ],
        &grants!("/projects/{project_id}/users/{user_id}", "a user on a project"),
        &grants!("/projects/{project_id}/groups/{group_id}", "a group on a project"),
        &grants!("/domains/{domain_id}/users/{user_id}", "a user on a domain"),
        &grants!("/domains/{domain_id}/groups/{group_id}", "a group on a domain"),
        &grants!(system "/system/users/{user_id}", "_for_user", "a user on the system"),
        &grants!(system "/system/groups/{group_id}", "_for_group", "a group on the system"),
        &grants!(inherited "/OS-INHERIT/domains/{domain_id}/users/{user_id}", "a user on the projects of a domain"),
        &grants!(inherited "/OS-INHERIT/domains/{domain_id}/groups/{group_id}", "a group on the projects of a domain"),
        // Keystone has no call that lists inherited roles on a project, so the first call is left out of the next two rows.
        &grants!(inherited "/OS-INHERIT/projects/{project_id}/users/{user_id}", "a user on the projects below a project")[1..],
        &grants!(inherited "/OS-INHERIT/projects/{project_id}/groups/{group_id}", "a group on the projects below a project")[1..],
        &resource!(Service, "service", "services"),
        &resource!(Endpoint, "endpoint", "endpoints"),
        &resource!(Region, "region", "regions"),
        &[
            session("PUT", "/regions/{region_id}", V3Call::Do(services::put_region), "create_region", "Create region with this id"),
        ],
        &resource!(batch RegisteredLimit, "registered_limit", "registered_limits"),
        &[
            // This row is before the row of `/limits/{limit_id}`, because the first row that matches is used.
            session("GET", "/limits/model", V3Call::Do(unified_limits::model), "get_limit_model", "Show how limits of domains restrict limits of projects"),
        ],
        &resource!(batch Limit, "limit", "limits"),
        &resource!(Policy, "policy", "policies"),
        &[
            session("GET", "/policies/{policy_id}/OS-ENDPOINT-POLICY/endpoints", V3Call::Do(policies::list_endpoints), "list_endpoints_for_policy", "List endpoints that a policy is for"),
            session("GET", "/policies/{policy_id}/OS-ENDPOINT-POLICY/endpoints/{endpoint_id}", V3Call::Do(policies::check_endpoint), "check_policy_association_for_endpoint", "Check policy of an endpoint"),
            session("PUT", "/policies/{policy_id}/OS-ENDPOINT-POLICY/endpoints/{endpoint_id}", V3Call::Do(policies::set_endpoint), "create_policy_association_for_endpoint", "Set policy of an endpoint"),
            session("DELETE", "/policies/{policy_id}/OS-ENDPOINT-POLICY/endpoints/{endpoint_id}", V3Call::Do(policies::remove_endpoint), "delete_policy_association_for_endpoint", "Remove policy of an endpoint"),
            session("GET", "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}", V3Call::Do(policies::check_service), "check_policy_association_for_service", "Check policy of a service"),
            session("PUT", "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}", V3Call::Do(policies::set_service), "create_policy_association_for_service", "Set policy of a service"),
            session("DELETE", "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}", V3Call::Do(policies::remove_service), "delete_policy_association_for_service", "Remove policy of a service"),
            session("GET", "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}/regions/{region_id}", V3Call::Do(policies::check_in_region), "check_policy_association_for_region_and_service", "Check policy of a service in a region"),
            session("PUT", "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}/regions/{region_id}", V3Call::Do(policies::set_in_region), "create_policy_association_for_region_and_service", "Set policy of a service in a region"),
            session("DELETE", "/policies/{policy_id}/OS-ENDPOINT-POLICY/services/{service_id}/regions/{region_id}", V3Call::Do(policies::remove_in_region), "delete_policy_association_for_region_and_service", "Remove policy of a service in a region"),
            session("GET", "/endpoints/{endpoint_id}/OS-ENDPOINT-POLICY/policy", V3Call::Do(policies::of_endpoint), "get_policy_for_endpoint", "Show policy of an endpoint"),
        ],
        &resource!(under "/OS-EP-FILTER", EndpointGroup, "endpoint_group", "endpoint_groups"),
        &[
            session("GET", "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/endpoints", V3Call::Do(endpoint_filters::endpoints_in_group), "list_endpoints_associated_with_endpoint_group", "List endpoints of a group"),
            session("GET", "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects", V3Call::Do(endpoint_filters::projects_of_group), "list_projects_associated_with_endpoint_group", "List projects with a group of endpoints in their catalog"),
            session("GET", "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects/{project_id}", V3Call::Do(endpoint_filters::show_group), "get_endpoint_group_in_project", "Check whether the catalog of a project contains a group of endpoints"),
            session("PUT", "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects/{project_id}", V3Call::Do(endpoint_filters::add_group), "add_endpoint_group_to_project", "Add group of endpoints to the catalog of a project"),
            session("DELETE", "/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}/projects/{project_id}", V3Call::Do(endpoint_filters::remove_group), "remove_endpoint_group_from_project", "Remove group of endpoints from the catalog of a project"),
            session("GET", "/OS-EP-FILTER/endpoints/{endpoint_id}/projects", V3Call::Do(endpoint_filters::projects_of_endpoint), "list_projects_for_endpoint", "List projects with an endpoint in their catalog"),
            session("GET", "/OS-EP-FILTER/projects/{project_id}/endpoint_groups", V3Call::Do(endpoint_filters::groups_for_project), "list_endpoint_groups_for_project", "List groups of endpoints in the catalog of a project"),
            session("GET", "/OS-EP-FILTER/projects/{project_id}/endpoints", V3Call::Do(endpoint_filters::endpoints_for_project), "list_endpoints_for_project", "List endpoints that the filters of a project select"),
            session("GET", "/OS-EP-FILTER/projects/{project_id}/endpoints/{endpoint_id}", V3Call::Do(endpoint_filters::check_endpoint), "check_endpoint_in_project", "Check whether the catalog of a project contains an endpoint"),
            session("PUT", "/OS-EP-FILTER/projects/{project_id}/endpoints/{endpoint_id}", V3Call::Do(endpoint_filters::add_endpoint), "add_endpoint_to_project", "Add endpoint to the catalog of a project"),
            session("DELETE", "/OS-EP-FILTER/projects/{project_id}/endpoints/{endpoint_id}", V3Call::Do(endpoint_filters::remove_endpoint), "remove_endpoint_from_project", "Remove endpoint from the catalog of a project"),
        ],
        &federation!("identity_providers", "idp_id", IdentityProvider, "identity_provider", "identity_providers"),
        &federation!("identity_providers/{idp_id}/protocols", "protocol_id", Protocol, "protocol", "protocols"),
        &federation!("mappings", "mapping_id", Mapping, "mapping", "mappings"),
        &federation!("service_providers", "service_provider_id", ServiceProvider, "service_provider", "service_providers"),
        &[
            session("GET", "/OS-FEDERATION/projects", V3Call::Do(scopes::projects), "get_auth_projects", "List projects on which the user of the session has a role (deprecated: use /v3/auth/projects)"),
            session("GET", "/OS-FEDERATION/domains", V3Call::Do(scopes::domains), "get_auth_domains", "List domains on which the user of the session has a role (deprecated: use /v3/auth/domains)"),
        ],
        &resource!(Blob, "credential", "credentials"),
        &[
            session("GET", "/users/{user_id}/credentials/OS-EC2", V3Call::Do(blobs::list_ec2), "ec2_list_credentials", "List EC2 keys of a user"),
            session("POST", "/users/{user_id}/credentials/OS-EC2", V3Call::Do(blobs::create_ec2), "ec2_create_credential", "Create EC2 key"),
            session("GET", "/users/{user_id}/credentials/OS-EC2/{credential_id}", V3Call::Do(blobs::show_ec2), "ec2_get_credential", "Show EC2 key"),
            session("DELETE", "/users/{user_id}/credentials/OS-EC2/{credential_id}", V3Call::Do(blobs::delete_ec2), "ec2_delete_credential", "Delete EC2 key"),
            session("POST", "/ec2tokens", V3Call::Ec2, "ec2tokens_validate", "Validate an EC2 signature and create a token for its user"),
            session("POST", "/s3tokens", V3Call::S3, "s3tokens_validate", "Validate an S3 signature and show its user"),
        ],
        &resource!(under "/OS-OAUTH1", Consumer, "consumer", "consumers"),
        &[
            nobody("POST", "/OS-OAUTH1/request_token", V3Call::RequestToken, "Create request token; needs the signature of a consumer, but no session"),
            nobody("POST", "/OS-OAUTH1/access_token", V3Call::AccessToken, "Exchange an approved request token for an access token; needs the signature of a consumer, but no session"),
            session("PUT", "/OS-OAUTH1/authorize/{request_token_id}", V3Call::Do(oauth1::approve), "authorize_request_token", "Approve request token: delegate own roles to its consumer"),
            session("GET", "/users/{user_id}/OS-OAUTH1/access_tokens", V3Call::Do(oauth1::list), "list_access_tokens", "List access tokens that a user authorized"),
            session("GET", "/users/{user_id}/OS-OAUTH1/access_tokens/{access_token_id}", V3Call::Do(oauth1::show), "get_access_token", "Show access token without its secret"),
            session("DELETE", "/users/{user_id}/OS-OAUTH1/access_tokens/{access_token_id}", V3Call::Do(oauth1::delete), "delete_access_token", "Delete access token and end its sessions"),
            session("GET", "/users/{user_id}/OS-OAUTH1/access_tokens/{access_token_id}/roles", V3Call::Do(oauth1::list_roles), "list_access_token_roles", "List roles that an access token delegates"),
            session("GET", "/users/{user_id}/OS-OAUTH1/access_tokens/{access_token_id}/roles/{role_id}", V3Call::Do(oauth1::show_role), "get_access_token_role", "Show role that an access token delegates"),
            nobody("POST", "/OS-OAUTH2/token", V3Call::ClientCredentials, "Create a token for an application credential (OAuth 2.0 client credentials); needs no session"),
        ],
    ];
    rows.concat()
});
