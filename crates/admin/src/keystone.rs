//! Records of Keystone: domains, projects, roles on them, the catalog, sessions and revocations.

mod application_credentials;
mod blobs;
mod bootstrap;
mod catalog;
mod delegations;
mod describe;
mod domains;
mod extra;
mod grants;
mod import;
mod leaving;
mod made;
mod names;
mod projects;
mod resolve;
mod revocations;
mod things;
mod trusts;

pub use application_credentials::{
    ApplicationCredential, NewApplicationCredential, application_credentials_of,
    create_application_credential, delete_application_credential,
};
pub use blobs::{create_blob, delete_blob, random_id, update_blob};
pub use bootstrap::{Bootstrap, bootstrap};
pub use catalog::{
    CatalogEntry, CatalogSummary, add_endpoint, add_region, add_service, list_catalog, remove_endpoint,
    remove_service,
};
pub(crate) use delegations::forget_delegation;
pub use delegations::lineage_of;
pub use describe::{
    Catalog, CatalogEndpoint, CatalogService, Described, DescribedScope, Named, Scopes, Subject, catalog,
    describe, filled, grantees_of, scopes_of,
};
pub use domains::{DomainSummary, add_domain, list_domains, remove_domain, set_domain};
pub use extra::extra_of;
pub(crate) use extra::put_extra;
pub use grants::{
    GrantSummary, On, add_implication, add_role, grant_role, has_role_on, list_grants, list_named_roles,
    remove_named_role, roles_on_project, set_grant, take_role,
};
pub use import::{CloudCredential, CloudThing, CloudThingId, CloudUser, import_cloud};
pub use leaving::{sweep, sweep_all};
pub(crate) use made::forget_made;
pub use projects::{
    ProjectEdit, ProjectSummary, add_project, bind_datastore, find_project, list_projects, remove_project,
    set_default_project, set_project,
};
pub use resolve::{
    CredentialRef, DomainRef, ThingRef, authid_of_credential, authid_of_user, domain_of, project_of,
};
pub use revocations::{RevocationSummary, allow_issue, list_revocations, purge_revocations, revoke};
pub use things::{
    Build, Saved, children_of, delete_domain, delete_group, delete_region, delete_role, groups_of,
    parents_of, save_domain, save_endpoint, save_group, save_project, save_region, save_role, save_service,
    set_implied, set_member, subtree_of,
};
pub(crate) use trusts::remove_trusts;
pub use trusts::{NewTrust, create_trust, delete_trust, find_trust, list_trusts, use_trust};
