//! The rules of Identity v3: one table with the content of Keystone's default policies (oslo.policy of release 30). The checks, the page in `docs/`
//! and the tests all use this table.

use crate::about::{About, Other};
use crate::lending::{Lending, lends};
use enfilade_facts::vocabulary::DomainId;
use enfilade_identity::{Principal, Scope, Session};

/// The sessions that a rule permits to make a call, by their roles and their scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every session.
    Anybody,
    /// Role `admin`, in any scope that the rule accepts ([`Rule::scopes`]).
    Admin,
    /// Role `reader` on the system.
    SystemReader,
    /// Role `admin` on the system.
    SystemAdmin,
    /// Role `manager` on the domain that the call is about.
    DomainManager,
    /// Like `DomainManager`, but only if each user and group that the call changes has only rights that the manager may grant.
    BoundedManager,
    /// Role `reader` on the domain that the call is about.
    DomainReader,
    /// Role `manager` on any domain. If the call is about a role, it must be a role that a manager of a domain may give.
    AnyDomainManager,
    /// Role `reader` on any domain: lists then contain only the resources of that domain.
    AnyDomainReader,
    /// Any role on the domain that the call is about.
    DomainMember,
    /// Any role on the project that the call is about.
    ProjectMember,
    /// Any role on a project of the domain that the call is about.
    InDomain,
    /// Role `service`.
    Service,
    /// The user that the call is about. If the call is about two users, either of the two users.
    Owner,
    /// A session of a trust that may be redelegated.
    Redelegator,
}

impl Who {
    /// The sessions in words, for the generated page.
    pub fn says(self) -> &'static str {
        match self {
            Who::Anybody => "any session",
            Who::Admin => "admin",
            Who::SystemReader => "reader on the system",
            Who::SystemAdmin => "admin on the system",
            Who::DomainManager => "manager on the domain",
            Who::BoundedManager => {
                "manager on the domain (if the user or group has only rights that a manager may give)"
            }
            Who::DomainReader => "reader on the domain",
            Who::AnyDomainManager => "manager on a domain",
            Who::AnyDomainReader => "reader on a domain (sees only resources of this domain)",
            Who::DomainMember => "any role on the domain",
            Who::ProjectMember => "any role on the project",
            Who::InDomain => "any role on a project of the domain",
            Who::Service => "service",
            Who::Owner => "the user that the call is about",
            Who::Redelegator => "a session of a trust with `allow_redelegation`",
        }
    }
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the rule in Keystone, without `identity:`.
    pub name: &'static str,
    /// The alternatives of the rule. The first alternative that permits the call also determines how many resources the session sees. So an
    /// alternative with which a session sees more resources comes before an alternative with which a session sees fewer resources.
    pub who: &'static [Who],
    /// The kind of call. The kind decides whether a lent credential may make the call.
    pub lending: Lending,
    /// The scopes of the sessions that can use the rule. All other sessions are refused, even sessions with the role `admin`.
    pub scopes: ScopeTypes,
    /// The sessions that learn that a record does not exist, although the rule refuses these sessions. In calls for which Keystone looks up the
    /// record before it judges the session, Keystone also tells these sessions that the record does not exist. All other refused sessions get the
    /// same answer for a record that does not exist and for a record that they may not see.
    pub known_to: Option<KnownTo>,
}

/// The sessions that may know whether a record of a kind exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownTo {
    /// The sessions that may read every record of the kind, by the rule with this name. These sessions can also learn that a record does not exist
    /// when they try to read the record.
    Readers(&'static str),
    /// Every session. The ids of roles and domains are not secret, because they are in the tokens and rules of all services of a cloud.
    Everybody,
}

/// The scopes of the sessions that can use a rule (`scope_types` in Keystone). A session without a scope counts as a session for a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeTypes {
    /// A project or the system.
    ProjectOrSystem,
    /// A project only.
    Project,
    /// Any scope. As in Keystone, the role `admin` on a domain is not limited to the domain in these rules. The reason: a session with the role
    /// `admin` on a domain can assign `admin` on any project. So it already has the power of an administrator of the cloud. The role `manager` is
    /// limited to the domain.
    Any,
}

impl ScopeTypes {
    fn have(self, scope: &Scope) -> bool {
        match scope {
            Scope::Domain(_) => self == ScopeTypes::Any,
            Scope::System => self != ScopeTypes::Project,
            _ => true,
        }
    }
}

impl Rule {
    /// Returns the same rule, with one difference: sessions for a domain can also use the rule.
    const fn in_domain(self) -> Rule {
        Rule { scopes: ScopeTypes::Any, ..self }
    }

    /// Returns the same rule, with one difference: only sessions for a project can use the rule.
    const fn in_project(self) -> Rule {
        Rule { scopes: ScopeTypes::Project, ..self }
    }

    /// Returns the same rule, with one difference: the sessions that may read every record of the kind by `rule` learn that a record does not exist.
    const fn seen_by(self, rule: &'static str) -> Rule {
        Rule { known_to: Some(KnownTo::Readers(rule)), ..self }
    }

    /// Returns the same rule, with one difference: if a record does not exist, every session learns this.
    const fn told(self) -> Rule {
        Rule { known_to: Some(KnownTo::Everybody), ..self }
    }
}

const fn rule(name: &'static str, who: &'static [Who], lending: Lending) -> Rule {
    Rule { name, who, lending, scopes: ScopeTypes::ProjectOrSystem, known_to: None }
}

const fn sessions(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::Sessions)
}

const fn reads(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::Reads)
}

const fn manages(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::Manages)
}

const fn people(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::People)
}

const fn keys(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::Keys)
}

const fn credentials(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::Credentials)
}

const fn trusts(name: &'static str, who: &'static [Who]) -> Rule {
    rule(name, who, Lending::Trusts)
}

const ADMIN: &[Who] = &[Who::Admin];
const READS: &[Who] = &[Who::Admin, Who::SystemReader];
const READS_IN_DOMAIN: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader];
const LISTS: &[Who] = &[Who::Admin, Who::SystemReader, Who::AnyDomainReader];
const READS_OWN: &[Who] = &[Who::Admin, Who::SystemReader, Who::Owner, Who::DomainReader];
const MANAGES: &[Who] = &[Who::Admin, Who::DomainManager];
const MANAGES_PARTIES: &[Who] = &[Who::Admin, Who::BoundedManager];
const SEES_PROJECT: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader, Who::ProjectMember];
const SEES_DOMAIN: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainReader, Who::InDomain];
const SEES_ROLES: &[Who] = &[Who::Admin, Who::SystemReader, Who::AnyDomainManager];
const OWN: &[Who] = &[Who::Admin, Who::Owner];
const SERVES: &[Who] = &[Who::Service, Who::Admin];
const SEES_OWN: &[Who] = &[Who::Admin, Who::Owner, Who::SystemReader];
const LISTS_LIMITS: &[Who] = &[Who::Admin, Who::SystemReader, Who::Service, Who::Anybody];
const SEES_LIMIT: &[Who] = &[Who::Admin, Who::SystemReader, Who::DomainMember, Who::ProjectMember];
const VALIDATES: &[Who] = &[Who::Admin, Who::SystemReader, Who::Service, Who::Owner];

/// The table of all rules.
pub static POLICY: &[Rule] = &[
    sessions("validate_token", VALIDATES).in_domain(),
    sessions("check_token", SEES_OWN).in_domain(),
    sessions("revoke_token", OWN).in_domain(),
    reads("list_revoke_events", SERVES),
    reads("list_application_credentials", SEES_OWN),
    reads("get_application_credential", SEES_OWN),
    credentials("create_application_credential", &[Who::Owner]).in_project(),
    credentials("delete_application_credential", OWN),
    reads("list_trusts", SEES_OWN),
    reads("get_trust", SEES_OWN),
    // Even an administrator may not create a trust that delegates the roles of another user.
    trusts("create_trust", &[Who::Owner, Who::Redelegator]).in_project(),
    trusts("delete_trust", OWN).seen_by("get_trust"),
    reads("list_roles_for_trust", SEES_OWN),
    reads("get_role_for_trust", SEES_OWN),
    reads("get_domain", SEES_DOMAIN).in_domain(),
    reads("list_domains", LISTS).in_domain(),
    people("create_domain", ADMIN),
    people("update_domain", ADMIN).told(),
    people("delete_domain", ADMIN).told(),
    reads("get_domain_config", READS),
    reads("get_domain_config_default", READS),
    reads("get_security_compliance_domain_config", &[Who::Anybody]).in_domain(),
    // The configuration of a domain names the LDAP directory that the domain's users come from. So a change of it counts as a change of accounts.
    people("create_domain_config", ADMIN),
    people("update_domain_config", ADMIN),
    people("delete_domain_config", ADMIN),
    reads("get_project", SEES_PROJECT).in_domain(),
    reads("list_projects", LISTS).in_domain(),
    reads("list_user_projects", READS_OWN).in_domain(),
    manages("create_project", MANAGES).in_domain(),
    manages("update_project", MANAGES).in_domain(),
    manages("delete_project", MANAGES).in_domain(),
    reads("list_project_tags", SEES_PROJECT).in_domain(),
    reads("get_project_tag", SEES_PROJECT).in_domain(),
    manages("update_project_tags", MANAGES).in_domain(),
    manages("create_project_tag", MANAGES).in_domain(),
    manages("delete_project_tags", MANAGES).in_domain(),
    manages("delete_project_tag", MANAGES).in_domain(),
    reads("get_user", READS_OWN).in_domain(),
    reads("list_users", LISTS).in_domain(),
    people("create_user", MANAGES_PARTIES).in_domain(),
    people("update_user", MANAGES_PARTIES).in_domain(),
    people("delete_user", MANAGES_PARTIES).in_domain(),
    reads("get_group", READS_IN_DOMAIN).in_domain(),
    reads("list_groups", LISTS).in_domain(),
    reads("list_groups_for_user", READS_OWN).in_domain(),
    people("create_group", MANAGES_PARTIES).in_domain(),
    people("update_group", MANAGES_PARTIES).in_domain(),
    people("delete_group", MANAGES_PARTIES).in_domain().seen_by("get_group"),
    reads("list_users_in_group", READS_IN_DOMAIN).in_domain(),
    reads("check_user_in_group", READS_IN_DOMAIN).in_domain(),
    people("add_user_to_group", MANAGES_PARTIES).in_domain(),
    people("remove_user_from_group", MANAGES_PARTIES).in_domain(),
    reads("get_role", SEES_ROLES).in_domain().told(),
    reads("list_roles", SEES_ROLES).in_domain(),
    reads("get_domain_role", READS),
    reads("list_domain_roles", READS),
    people("create_role", ADMIN),
    people("update_role", ADMIN).told(),
    people("delete_role", ADMIN).told(),
    reads("get_implied_role", READS),
    reads("list_implied_roles", READS),
    reads("list_role_inference_rules", READS),
    reads("check_implied_role", READS),
    people("create_implied_role", ADMIN),
    people("delete_implied_role", ADMIN),
    reads("check_grant", READS_IN_DOMAIN).in_domain(),
    reads("list_grants", READS_IN_DOMAIN).in_domain(),
    people("create_grant", MANAGES).in_domain(),
    people("revoke_grant", MANAGES).in_domain(),
    reads("check_system_grant_for_user", READS),
    reads("list_system_grants_for_user", READS),
    people("create_system_grant_for_user", ADMIN),
    people("revoke_system_grant_for_user", ADMIN),
    reads("check_system_grant_for_group", READS),
    reads("list_system_grants_for_group", READS),
    people("create_system_grant_for_group", ADMIN),
    people("revoke_system_grant_for_group", ADMIN),
    reads("list_role_assignments", LISTS).in_domain(),
    reads("list_role_assignments_for_tree", READS_IN_DOMAIN).in_domain(),
    reads("get_service", READS),
    reads("list_services", READS),
    manages("create_service", ADMIN),
    manages("update_service", ADMIN),
    manages("delete_service", ADMIN),
    reads("get_endpoint", READS),
    reads("list_endpoints", READS),
    manages("create_endpoint", ADMIN),
    manages("update_endpoint", ADMIN),
    manages("delete_endpoint", ADMIN),
    reads("get_region", &[Who::Anybody]).in_domain(),
    reads("list_regions", &[Who::Anybody]).in_domain(),
    manages("create_region", ADMIN),
    manages("update_region", ADMIN),
    manages("delete_region", ADMIN),
    reads("get_registered_limit", &[Who::Anybody]).in_domain(),
    reads("list_registered_limits", &[Who::Anybody]).in_domain(),
    manages("create_registered_limits", ADMIN),
    manages("update_registered_limit", ADMIN),
    manages("delete_registered_limit", ADMIN),
    reads("get_limit_model", &[Who::Anybody]).in_domain(),
    reads("get_limit", SEES_LIMIT).in_domain(),
    reads("list_limits", LISTS_LIMITS).in_domain(),
    manages("create_limits", ADMIN),
    manages("update_limit", ADMIN).seen_by("get_limit"),
    manages("delete_limit", ADMIN).seen_by("get_limit"),
    reads("get_policy", READS),
    reads("list_policies", READS),
    manages("create_policy", ADMIN),
    manages("update_policy", ADMIN),
    manages("delete_policy", ADMIN),
    reads("list_endpoints_for_policy", READS),
    reads("get_policy_for_endpoint", READS),
    reads("check_policy_association_for_endpoint", READS),
    manages("create_policy_association_for_endpoint", ADMIN),
    manages("delete_policy_association_for_endpoint", ADMIN),
    reads("check_policy_association_for_service", READS),
    manages("create_policy_association_for_service", ADMIN),
    manages("delete_policy_association_for_service", ADMIN),
    reads("check_policy_association_for_region_and_service", READS),
    manages("create_policy_association_for_region_and_service", ADMIN),
    manages("delete_policy_association_for_region_and_service", ADMIN),
    reads("get_endpoint_group", READS),
    reads("list_endpoint_groups", READS),
    reads("list_endpoints_associated_with_endpoint_group", READS),
    reads("list_projects_associated_with_endpoint_group", READS),
    reads("get_endpoint_group_in_project", READS),
    reads("list_endpoint_groups_for_project", READS),
    reads("list_projects_for_endpoint", READS),
    reads("list_endpoints_for_project", READS),
    reads("check_endpoint_in_project", READS),
    manages("create_endpoint_group", ADMIN),
    manages("update_endpoint_group", ADMIN),
    manages("delete_endpoint_group", ADMIN),
    manages("add_endpoint_group_to_project", ADMIN),
    manages("remove_endpoint_group_from_project", ADMIN),
    manages("add_endpoint_to_project", ADMIN),
    manages("remove_endpoint_from_project", ADMIN),
    reads("get_identity_provider", READS),
    reads("list_identity_providers", READS),
    // The records of identity providers, protocols and mappings decide from which provider users come. So a change of these records counts as a
    // change of accounts.
    people("create_identity_provider", ADMIN),
    people("update_identity_provider", ADMIN),
    people("delete_identity_provider", ADMIN),
    reads("get_protocol", READS),
    reads("list_protocols", READS),
    people("create_protocol", ADMIN),
    people("update_protocol", ADMIN),
    people("delete_protocol", ADMIN),
    reads("get_mapping", READS),
    reads("list_mappings", READS),
    people("create_mapping", ADMIN),
    people("update_mapping", ADMIN),
    people("delete_mapping", ADMIN),
    reads("get_service_provider", READS),
    reads("list_service_providers", READS),
    manages("create_service_provider", ADMIN),
    manages("update_service_provider", ADMIN),
    manages("delete_service_provider", ADMIN),
    keys("get_credential", SEES_OWN).in_domain(),
    keys("list_credentials", SEES_OWN).in_domain(),
    keys("create_credential", OWN).in_domain(),
    keys("update_credential", OWN).in_domain(),
    keys("delete_credential", OWN).in_domain(),
    keys("ec2_get_credential", SEES_OWN),
    keys("ec2_list_credentials", SEES_OWN),
    keys("ec2_create_credential", OWN),
    keys("ec2_delete_credential", OWN).seen_by("ec2_get_credential"),
    reads("get_access_rule", &[Who::Owner, Who::SystemReader]),
    reads("list_access_rules", &[Who::Owner, Who::SystemReader]),
    credentials("delete_access_rule", &[Who::Owner, Who::SystemAdmin]),
    reads("ec2tokens_validate", SERVES).in_domain(),
    reads("s3tokens_validate", SERVES).in_domain(),
    reads("get_consumer", READS),
    reads("list_consumers", READS),
    people("create_consumer", ADMIN),
    people("update_consumer", ADMIN),
    people("delete_consumer", ADMIN),
    // In the next four calls, Keystone refuses every delegated credential, even in the two calls that only read. So all four calls count as changes
    // of accounts.
    people("authorize_request_token", ADMIN),
    people("list_access_tokens", ADMIN),
    people("get_access_token", ADMIN),
    people("delete_access_token", ADMIN),
    reads("list_access_token_roles", ADMIN),
    reads("get_access_token_role", ADMIN),
    reads("get_auth_catalog", &[Who::Anybody]).in_domain(),
    reads("get_auth_projects", &[Who::Anybody]).in_domain(),
    reads("get_auth_domains", &[Who::Anybody]).in_domain(),
    reads("get_auth_system", &[Who::Anybody]).in_domain(),
];

/// The rule of this name.
pub fn rule_named(name: &str) -> Option<&'static Rule> {
    POLICY.iter().find(|rule| rule.name == name)
}

impl Rule {
    /// The alternative that permits a session to make the call. `None` if no alternative permits the call, or if the limits of a lent credential
    /// forbid it.
    pub(crate) fn lets(&self, principal: &Principal, session: &Session, about: &About<'_>) -> Option<Who> {
        if !self.scopes.have(&session.claim.scope) {
            return None;
        }
        let who = self.who.iter().copied().find(|who| is(*who, principal, session, about));
        who.filter(|_| lends(principal, session, self.lending, about))
    }

    /// The domain that a list is limited to, for a session that the alternative `who` permits. If readers of a domain may request the list, every
    /// session for a domain gets only the resources of that domain, even the session of an administrator. Keystone does the same.
    pub(crate) fn only_domain(&self, who: Who, session: &Session) -> Option<DomainId> {
        let reads_domain = |who: &Who| matches!(who, Who::DomainReader | Who::AnyDomainReader);
        let is_limited = reads_domain(&who) || who == Who::Admin && self.who.iter().any(reads_domain);
        session.claim.scope.domain().filter(|_| is_limited)
    }

    /// Whether door 4 must read facts to judge the rule: the rights of the users and groups that the call changes.
    pub fn is_bounded(&self) -> bool {
        self.who.contains(&Who::BoundedManager)
    }
}

fn is(who: Who, principal: &Principal, session: &Session, about: &About<'_>) -> bool {
    let on_domain = match session.claim.scope {
        Scope::Domain(domain) => Some(domain),
        _ => None,
    };
    let is_own = |other: Other<'_>| match other {
        Other::None => true,
        Other::Absent => false,
        Other::In(domain) => Some(*domain) == on_domain,
    };
    let is_of_domain = || {
        on_domain.is_some() && about.domain.copied() == on_domain && is_own(about.other) && is_own(about.role)
    };
    match who {
        Who::Anybody => true,
        Who::Admin => session.has("admin"),
        Who::SystemReader => session.has("reader") && session.claim.scope == Scope::System,
        Who::SystemAdmin => session.has("admin") && session.claim.scope == Scope::System,
        Who::DomainManager | Who::BoundedManager => {
            session.has("manager") && is_of_domain() && !about.high_role
        }
        Who::DomainReader => session.has("reader") && is_of_domain(),
        Who::AnyDomainManager => session.has("manager") && on_domain.is_some() && !about.high_role,
        Who::AnyDomainReader => session.has("reader") && on_domain.is_some(),
        Who::DomainMember => is_of_domain(),
        Who::ProjectMember => {
            about.project.is_some() && session.claim.scope.project().as_ref() == about.project
        }
        Who::InDomain => about.domain.is_some() && session.project_domain().as_ref() == about.domain,
        Who::Service => session.has("service"),
        Who::Owner => about.user == Some(&principal.user) || about.other_user == Some(&principal.user),
        Who::Redelegator => session.trusted.as_ref().is_some_and(|trusted| trusted.trust.redelegations > 0),
    }
}
