//! Records of Keystone: domains, projects, roles on them, the catalog, sessions and revocations.

mod access_rules;
mod application_credentials;
mod blobs;
mod bootstrap;
mod catalog;
mod catalog_commands;
mod delegations;
mod describe;
mod domain_configs;
mod domains;
mod endpoint_filters;
mod extra;
mod federation;
mod grants;
mod groups;
mod import;
mod leaving;
mod made;
mod names;
mod oauth;
mod policies;
mod projects;
mod resolve;
mod resource;
mod revocations;
mod roles;
mod trusts;
mod unified_limits;

pub(crate) use access_rules::forget_access_rules;
pub use access_rules::{WantedRule, access_rules_of, delete_access_rule};
pub use application_credentials::{
    ApplicationCredential, NewApplicationCredential, application_credentials_of,
    create_application_credential, delete_application_credential, require_enabled,
};
pub use blobs::{create_blob, delete_blob, random_id, update_blob, use_passcode};
pub use bootstrap::{Bootstrap, bootstrap};
pub use catalog::save_endpoint;
pub use catalog_commands::{
    AddedService, CatalogEntry, CatalogSummary, add_endpoint, add_region, add_service, find_service,
    list_catalog, remove_endpoint, remove_service,
};
pub(crate) use delegations::forget_delegation;
pub use delegations::lineage_of;
pub use describe::{
    Catalog, CatalogEndpoint, CatalogService, Described, DescribedScope, Named, Scopes, Subject, catalog,
    describe, filled, grantees_of, scopes_of,
};
pub use domain_configs::set_domain_config;
pub use domains::{DomainSummary, add_domain, list_domains, remove_domain, set_domain};
pub use endpoint_filters::{endpoints_of_group, endpoints_of_project, groups_of_project, set_filter};
pub use extra::extra_of;
pub(crate) use extra::put_extra;
pub use federation::create_identity_provider;
pub(crate) use grants::name_of_scope;
pub use grants::{GrantSummary, On, grant_role, has_role_on, held_roles, list_grants, set_grant, take_role};
pub use groups::{groups_of, set_member};
pub(crate) use import::keep_password_out;
pub use import::{
    CloudCredential, CloudRecord, CloudRecordId, CloudTerms, CloudUser, FederationRecord, ServiceRecord,
    import_cloud, taken_names,
};
pub use leaving::{sweep, sweep_all};
pub(crate) use made::forget_made;
pub(crate) use oauth::remove_access_tokens;
pub use oauth::{
    access_tokens_of, approve_request_token, create_access_token, create_request_token, delete_access_token,
    new_shared_secret,
};
pub use policies::{endpoints_of_policy, policy_of_endpoint, set_association};
pub(crate) use projects::full_name;
pub use projects::{
    ProjectEdit, ProjectSummary, add_project, bind_datastore, children_of, find_project, list_projects,
    name_of_project, parents_of, set_default_project, set_project, subtree_of,
};
pub(crate) use resolve::userid_of;
pub use resolve::{
    CredentialRef, DomainRef, ResourceRef, authid_of_credential, authid_of_user, domain_of, project_of,
};
pub use resource::{Build, RecordId, Saved, StoredResource, delete, save};
pub use revocations::{RevocationSummary, allow_issue, list_revocations, purge_revocations, revoke};
pub use roles::{
    RoleUse, add_implication, add_role, define_role, list_named_roles, remove_named_role, role_use,
    set_implied,
};
pub(crate) use trusts::remove_trusts;
pub use trusts::{NewTrust, create_trust, delete_trust, find_trust, list_trusts, use_trust};
pub use unified_limits::{
    Made, NewLimit, create_limits, create_registered_limits, domain_of_owner, limits_of, update_limit,
};
