//! Who may do what by Identity v3: one table, as Keystone's default policies are (oslo.policy of release 30). The checks, the page in `docs/`
//! and the tests all come from it.

use enfilade_facts::vocabulary::{DomainId, ProjectId, UserId};
use enfilade_identity::{Principal, Scope, Session};

/// Whose a call may be, by the roles of the session and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever has a session.
    Anybody,
    /// Role `admin`, on anything.
    Admin,
    /// Role `reader` on the system.
    SystemReader,
    /// Role `manager` on the domain it is about.
    DomainManager,
    /// Role `reader` on the domain it is about.
    DomainReader,
    /// Role `manager` on any domain.
    AnyDomainManager,
    /// Role `reader` on any domain: lists then hold what is of that domain.
    AnyDomainReader,
    /// Any role on the project it is about.
    ProjectMember,
    /// Any role on a project of the domain it is about.
    InDomain,
    /// Role `service`.
    Service,
    /// The user it is about.
    Owner,
}

impl Who {
    /// In words, for the page.
    pub fn says(self) -> &'static str {
        match self {
            Who::Anybody => "any session",
            Who::Admin => "admin",
            Who::SystemReader => "reader on the system",
            Who::DomainManager => "manager on the domain",
            Who::DomainReader => "reader on the domain",
            Who::AnyDomainManager => "manager on a domain",
            Who::AnyDomainReader => "reader on a domain (of what is in it)",
            Who::ProjectMember => "any role on the project",
            Who::InDomain => "any role on a project of the domain",
            Who::Service => "service",
            Who::Owner => "the user",
        }
    }
}

/// How far a credential that was lent may go: an application credential that makes no others, or a trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lending {
    /// As far as its roles.
    AsRoles,
    /// Not at all: it would make another credential of itself, or more of what it is.
    Never,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What Keystone calls it, without `identity:`.
    pub name: &'static str,
    /// Any of these.
    pub who: &'static [Who],
    /// What of it may be done by something lent.
    pub lending: Lending,
}

/// What a call is about, as far as rules ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The domain it is in, or is.
    pub domain: Option<&'a DomainId>,
    /// The project.
    pub project: Option<&'a ProjectId>,
    /// The user.
    pub user: Option<&'a UserId>,
    /// The project an EC2 key is to be for: an application credential makes none but for its own, and for its own user.
    pub key_for: Option<&'a ProjectId>,
    /// A second user or group in another domain than the first: a domain's manager manages neither then.
    pub other_domain: Option<&'a DomainId>,
    /// A role beyond those a domain's manager may give: `manager`, `member` and `reader`.
    pub high_role: bool,
}

const fn rule(name: &'static str, who: &'static [Who]) -> Rule {
    Rule { name, who, lending: Lending::AsRoles }
}

const fn own(name: &'static str, who: &'static [Who]) -> Rule {
    Rule { name, who, lending: Lending::Never }
}

const ADMIN: &[Who] = &[Who::Admin];
const READS: &[Who] = &[Who::Admin, Who::SystemReader];
const READS_IN_DOMAIN: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader];
const LISTS: &[Who] = &[Who::Admin, Who::SystemReader, Who::AnyDomainReader];
const READS_OWN: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader, Who::Owner];
const MANAGES: &[Who] = &[Who::Admin, Who::DomainManager];
const SEES_PROJECT: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader, Who::ProjectMember];
const SEES_DOMAIN: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader, Who::InDomain];
const SEES_ROLES: &[Who] = &[Who::Admin, Who::SystemReader, Who::AnyDomainManager];
const OWN: &[Who] = &[Who::Admin, Who::Owner];
const SERVES: &[Who] = &[Who::Service, Who::Admin];
const SEES_OWN: &[Who] = &[Who::Admin, Who::SystemReader, Who::Owner];

/// The table.
pub static POLICY: &[Rule] = &[
    rule("get_domain", SEES_DOMAIN),
    rule("list_domains", LISTS),
    rule("create_domain", ADMIN),
    rule("update_domain", ADMIN),
    rule("delete_domain", ADMIN),
    rule("get_project", SEES_PROJECT),
    rule("list_projects", LISTS),
    rule("list_user_projects", READS_OWN),
    rule("create_project", MANAGES),
    rule("update_project", MANAGES),
    rule("delete_project", MANAGES),
    rule("list_project_tags", SEES_PROJECT),
    rule("get_project_tag", SEES_PROJECT),
    rule("update_project_tags", MANAGES),
    rule("create_project_tag", MANAGES),
    rule("delete_project_tags", MANAGES),
    rule("delete_project_tag", MANAGES),
    rule("get_user", READS_OWN),
    rule("list_users", LISTS),
    rule("create_user", MANAGES),
    rule("update_user", MANAGES),
    rule("delete_user", MANAGES),
    rule("get_group", READS_IN_DOMAIN),
    rule("list_groups", LISTS),
    rule("list_groups_for_user", READS_OWN),
    rule("create_group", MANAGES),
    rule("update_group", MANAGES),
    rule("delete_group", MANAGES),
    rule("list_users_in_group", READS_IN_DOMAIN),
    rule("check_user_in_group", READS_IN_DOMAIN),
    rule("add_user_to_group", MANAGES),
    rule("remove_user_from_group", MANAGES),
    rule("get_role", SEES_ROLES),
    rule("list_roles", SEES_ROLES),
    rule("create_role", ADMIN),
    rule("update_role", ADMIN),
    rule("delete_role", ADMIN),
    rule("get_implied_role", READS),
    rule("list_implied_roles", READS),
    rule("list_role_inference_rules", READS),
    rule("check_implied_role", READS),
    rule("create_implied_role", ADMIN),
    rule("delete_implied_role", ADMIN),
    rule("check_grant", READS_IN_DOMAIN),
    rule("list_grants", READS_IN_DOMAIN),
    rule("create_grant", MANAGES),
    rule("revoke_grant", MANAGES),
    rule("check_system_grant_for_user", READS),
    rule("list_system_grants_for_user", READS),
    rule("create_system_grant_for_user", ADMIN),
    rule("revoke_system_grant_for_user", ADMIN),
    rule("check_system_grant_for_group", READS),
    rule("list_system_grants_for_group", READS),
    rule("create_system_grant_for_group", ADMIN),
    rule("revoke_system_grant_for_group", ADMIN),
    rule("list_role_assignments", LISTS),
    rule("list_role_assignments_for_tree", SEES_PROJECT),
    rule("get_service", READS),
    rule("list_services", READS),
    rule("create_service", ADMIN),
    rule("update_service", ADMIN),
    rule("delete_service", ADMIN),
    rule("get_endpoint", READS),
    rule("list_endpoints", READS),
    rule("create_endpoint", ADMIN),
    rule("update_endpoint", ADMIN),
    rule("delete_endpoint", ADMIN),
    rule("get_region", &[Who::Anybody]),
    rule("list_regions", &[Who::Anybody]),
    rule("create_region", ADMIN),
    rule("update_region", ADMIN),
    rule("delete_region", ADMIN),
    own("get_credential", SEES_OWN),
    own("list_credentials", SEES_OWN),
    own("create_credential", OWN),
    own("update_credential", OWN),
    own("delete_credential", OWN),
    own("ec2_get_credential", SEES_OWN),
    own("ec2_list_credentials", SEES_OWN),
    own("ec2_create_credential", OWN),
    own("ec2_delete_credential", OWN),
    rule("get_access_rule", SEES_OWN),
    rule("list_access_rules", SEES_OWN),
    own("delete_access_rule", OWN),
    rule("ec2tokens_validate", SERVES),
    rule("s3tokens_validate", SERVES),
    rule("get_auth_catalog", &[Who::Anybody]),
    rule("get_auth_projects", &[Who::Anybody]),
    rule("get_auth_domains", &[Who::Anybody]),
    rule("get_auth_system", &[Who::Anybody]),
];

/// The rule of this name.
pub fn rule_named(name: &str) -> Option<&'static Rule> {
    POLICY.iter().find(|rule| rule.name == name)
}

impl Rule {
    /// Whether it lets a session, or whoever has none, do it.
    pub(crate) fn lets(&self, principal: &Principal, session: Option<&Session>, about: &About<'_>) -> bool {
        let Some(session) = session else { return false };
        // One that is for certain requests of other services is for none of these.
        if session.has_rules() || session.is_lent() && self.lending == Lending::Never {
            return false;
        }
        let is_its_own =
            || about.user == Some(&principal.user) && session.claim.scope.project().as_ref() == about.key_for;
        if about.key_for.is_some() && session.claim.credential().is_some() && !is_its_own() {
            return false;
        }
        self.who.iter().any(|who| is(*who, principal, session, about))
    }
}

impl Rule {
    /// The domain a list is cut down to, for whoever has nothing but a role there.
    pub(crate) fn only_domain(&self, session: &Session) -> Option<DomainId> {
        let sees_all = session.has("admin") || session.has("reader") && session.claim.scope == Scope::System;
        match session.claim.scope {
            Scope::Domain(domain) if !sees_all && self.who.contains(&Who::AnyDomainReader) => Some(domain),
            _ => None,
        }
    }
}

fn is(who: Who, principal: &Principal, session: &Session, about: &About<'_>) -> bool {
    let on_domain = match session.claim.scope {
        Scope::Domain(domain) => Some(domain),
        _ => None,
    };
    let is_of_domain = || {
        let other = about.other_domain.is_none_or(|other| Some(*other) == on_domain);
        on_domain.is_some() && about.domain.copied() == on_domain && other
    };
    match who {
        Who::Anybody => true,
        Who::Admin => session.has("admin"),
        Who::SystemReader => session.has("reader") && session.claim.scope == Scope::System,
        Who::DomainManager => session.has("manager") && is_of_domain() && !about.high_role,
        Who::DomainReader => session.has("reader") && is_of_domain(),
        Who::AnyDomainManager => session.has("manager") && on_domain.is_some(),
        Who::AnyDomainReader => session.has("reader") && on_domain.is_some(),
        Who::ProjectMember => {
            about.project.is_some() && session.claim.scope.project().as_ref() == about.project
        }
        Who::InDomain => about.domain.is_some() && session.project_domain().as_ref() == about.domain,
        Who::Service => session.has("service"),
        Who::Owner => about.user == Some(&principal.user),
    }
}
