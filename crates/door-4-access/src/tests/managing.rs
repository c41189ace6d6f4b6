//! Tests: which users and groups a manager of a domain may change, and which calls a lent credential may make.

use super::{ALICE, BOB, Facts, LOCAL, NOW, STAFF, TEST, alice, group_sid, own_sid};
use crate::about::{About, Lends, Other};
use crate::acl_inheritance::Creator;
use crate::ask::ObjectId;
use crate::bounds::{Party, beyond};
use crate::lending::{Lending, lends, only_made_by};
use crate::permit::{AccessPermit, AdminPermit, ApiPermit, PropagationBy, PropagationPermit};
use crate::policy::{KnownTo, POLICY, ScopeTypes, Who as As, rule_named};
use crate::view::View;
use enfilade_facts::tables::{
    AccessRule, Delegation, Domain, FileName, Grant, GrantKey, GrantScope, Grantee, Group, Member,
    Membership, MembershipKey, MirroredFile, NamedRole, Project, Reverse, ReverseKey, Trust, User, Who,
};
use enfilade_facts::vocabulary::{
    AccessMask, AccessRuleId, CredentialId, DomainId, GroupId, ProjectId, Role, RoleId, TrustId, UserId,
};
use enfilade_facts::{At, Clocks, MirrorHealth, Requester, Revision, StoreId};
use enfilade_identity::{Claim, HeldRole, Lent, Methods, Scope, Session};

const EVE: UserId = UserId::from_bytes([8; 16]);
const OTHER: DomainId = DomainId::from_bytes([9; 16]);
const TEAM: GroupId = GroupId::from_bytes([10; 16]);
const FOREIGN: GroupId = GroupId::from_bytes([11; 16]);
const INSIDE: ProjectId = ProjectId::from_bytes([20; 16]);
const OUTSIDE: ProjectId = ProjectId::from_bytes([21; 16]);
const GONE: ProjectId = ProjectId::from_bytes([22; 16]);
const MEMBER: RoleId = RoleId::from_bytes([30; 16]);
const ADMIN: RoleId = RoleId::from_bytes([31; 16]);
const OF_DOMAIN: RoleId = RoleId::from_bytes([32; 16]);
const NO_ROLE: RoleId = RoleId::from_bytes([33; 16]);

/// Two domains, each with users, groups and a project, without any roles.
fn world() -> Facts {
    let mut facts = Facts::of("");
    facts.put(&OTHER, &Domain::new("other".parse().unwrap()));
    for (id, domain, name) in [(ALICE, LOCAL, "alice"), (BOB, LOCAL, "bob"), (EVE, OTHER, "eve")] {
        let name = name.to_owned();
        let (also, uid, gid, password, comment, mirrored) = (Vec::new(), None, None, None, None, None);
        let (enabled, expires, sid) = (true, 0, own_sid());
        facts.put(
            &id,
            &User { domain, name, sid, also, uid, gid, enabled, expires, password, comment, mirrored },
        );
    }
    for (id, domain, name) in [(TEAM, LOCAL, "team"), (FOREIGN, OTHER, "foreign")] {
        let (also, sid) = (Vec::new(), group_sid());
        facts.put(&id, &Group { domain, name: name.into(), sid, also, gid: None, comment: None });
    }
    for (id, domain) in [(INSIDE, LOCAL), (OUTSIDE, OTHER)] {
        let (parent, description, tags) = (None, None, Vec::new());
        facts.put(&id, &Project { domain, parent, name: "p".into(), enabled: true, description, tags });
    }
    for (id, name, domain) in
        [(MEMBER, "member", None), (ADMIN, "admin", None), (OF_DOMAIN, "member", Some(LOCAL))]
    {
        facts.put(&id, &NamedRole { name: name.into(), domain, description: None, implies: Vec::new() });
    }
    facts
}

fn grant(facts: &mut Facts, who: Grantee, scope: GrantScope, role: RoleId) {
    facts.put(&GrantKey { who, scope, role }, &Grant);
}

fn join(facts: &mut Facts, member: Member, group: GroupId) {
    facts.put(&MembershipKey { member, group }, &Membership);
}

fn trust(facts: &mut Facts, trustor: UserId, project: ProjectId, roles: &[RoleId], expires: i64) {
    let (id, roles) = (TrustId::from_bytes([40; 16]), roles.to_vec());
    let (impersonation, uses, redelegations, parent, by) = (false, None, 0, None, None);
    let trustee = ALICE;
    facts.put(
        &id,
        &Trust { trustor, trustee, project, roles, impersonation, expires, uses, redelegations, parent, by },
    );
    facts.put(&ReverseKey::Trusts(ALICE, id), &Reverse);
}

fn keep_acl_cfg(facts: &mut Facts) {
    let (version, fault, problems, since, good) = (None, None, Vec::new(), None, None);
    let kept = MirroredFile { version, digest: [0; 16], fault, problems, problem_count: 0, since, good };
    facts.put(&FileName::Acl, &kept);
}

fn name_in_acl_cfg(facts: &mut Facts, name: &str) {
    facts.assign("/datastore/tank", Who::Named(name.parse().unwrap()), &[(Role::Admin, true)]);
}

const TRUST: Option<&str> = Some("trust 28282828282828282828282828282828");

#[test]
fn a_manager_changes_who_holds_nothing_beyond_the_domain() {
    const BY_USER: Grantee = Grantee::User(ALICE);
    const BY_STAFF: Grantee = Grantee::Group(STAFF);
    let of = GrantScope::Domain(LOCAL);
    let outside = Some("role member on the system, on another domain or on a project of another domain");
    type Make = Box<dyn Fn(&mut Facts)>;
    let granted = |who: Grantee, scope: GrantScope, role: RoleId| -> Make {
        Box::new(move |facts| grant(facts, who, scope, role))
    };
    let trusted = |trustor: UserId, project: ProjectId, roles: &'static [RoleId], expires: i64| -> Make {
        Box::new(move |facts| trust(facts, trustor, project, roles, expires))
    };
    let cases: Vec<(&str, Make, Option<&str>)> = vec![
        ("nothing", Box::new(|_| ()), None),
        ("member of the domain", granted(BY_USER, of, MEMBER), None),
        ("member below the domain", granted(BY_USER, GrantScope::BelowDomain(LOCAL), MEMBER), None),
        ("member of a project", granted(BY_USER, GrantScope::Project(INSIDE), MEMBER), None),
        ("admin of a project", granted(BY_USER, GrantScope::Project(INSIDE), ADMIN), Some("role admin")),
        ("a role of the domain alone", granted(BY_USER, of, OF_DOMAIN), Some("role member")),
        ("a role that is gone", granted(BY_USER, of, NO_ROLE), None),
        ("member of a project that is gone", granted(BY_USER, GrantScope::Project(GONE), ADMIN), None),
        ("member of another domain", granted(BY_USER, GrantScope::Domain(OTHER), MEMBER), outside),
        ("member of a project there", granted(BY_USER, GrantScope::Project(OUTSIDE), MEMBER), outside),
        (
            "member below a project there",
            granted(BY_USER, GrantScope::BelowProject(OUTSIDE), MEMBER),
            outside,
        ),
        ("member of the system", granted(BY_USER, GrantScope::System, MEMBER), outside),
        (
            "a role on a path",
            Box::new(|facts| facts.assign("/access", Who::User(ALICE), &[(Role::DatastoreReader, true)])),
            Some("a role on /access"),
        ),
        ("a group", Box::new(|facts| join(facts, Member::User(ALICE), STAFF)), None),
        (
            "a group with admin",
            Box::new(move |facts| {
                join(facts, Member::User(ALICE), STAFF);
                grant(facts, BY_STAFF, of, ADMIN);
            }),
            Some("role admin"),
        ),
        (
            "a group in a group with admin",
            Box::new(move |facts| {
                join(facts, Member::User(ALICE), TEAM);
                join(facts, Member::Group(TEAM), STAFF);
                grant(facts, BY_STAFF, of, ADMIN);
            }),
            Some("role admin"),
        ),
        (
            "groups in each other",
            Box::new(|facts| {
                join(facts, Member::User(ALICE), TEAM);
                join(facts, Member::Group(TEAM), STAFF);
                join(facts, Member::Group(STAFF), TEAM);
            }),
            None,
        ),
        (
            "a group of another domain",
            Box::new(|facts| join(facts, Member::User(ALICE), FOREIGN)),
            Some("membership in a group of another domain"),
        ),
        ("a trust", trusted(BOB, INSIDE, &[MEMBER], 0), None),
        ("a trust with a role that is gone", trusted(BOB, INSIDE, &[NO_ROLE], 0), None),
        ("a trust of admin", trusted(BOB, INSIDE, &[ADMIN], 0), TRUST),
        ("a trust of admin and member", trusted(BOB, INSIDE, &[ADMIN, MEMBER], 0), TRUST),
        ("a trust of member and admin", trusted(BOB, INSIDE, &[MEMBER, ADMIN], 0), TRUST),
        ("a trust for a project outside", trusted(BOB, OUTSIDE, &[MEMBER], 0), TRUST),
        ("a trust for a project that is gone", trusted(BOB, GONE, &[MEMBER], 0), TRUST),
        ("a trust of a user outside", trusted(EVE, INSIDE, &[MEMBER], 0), TRUST),
        ("a trust that ended", trusted(EVE, OUTSIDE, &[ADMIN], NOW.unix_seconds), None),
        ("a trust that ends in a second", trusted(EVE, OUTSIDE, &[ADMIN], NOW.unix_seconds + 1), TRUST),
    ];
    for (what, make, expected) in cases {
        let mut facts = world();
        make(&mut facts);
        let view = enfilade_facts::View::new(&facts);
        let found = beyond(&View(&view), NOW, &LOCAL, Party::User(&ALICE)).unwrap();
        assert_eq!(found.as_deref(), expected, "{what}");
    }
}

#[test]
fn a_manager_changes_nobody_whom_acl_cfg_may_name() {
    let unknown = Clocks { mirror: MirrorHealth::Stale, ..NOW };
    let given = Some("a role on /datastore/tank in acl.cfg");
    let says = Some("perhaps roles in acl.cfg, which cannot be read now");
    let local = (LOCAL, NOW);
    type Case<'a> = (&'a str, &'a str, (DomainId, Clocks), Party<'a>, Option<&'a str>);
    let cases: [Case<'_>; 13] = [
        ("a user", "alice@local", local, Party::User(&ALICE), given),
        ("another user", "alice@local", local, Party::User(&BOB), None),
        ("a name to come", "carol@local", local, Party::UserNamed("carol"), given),
        ("another name to come", "carol@local", local, Party::UserNamed("dave"), None),
        ("the name in another domain", "carol@local", (OTHER, NOW), Party::UserNamed("carol"), None),
        ("a user of another domain", "carol@other", (OTHER, NOW), Party::UserNamed("carol"), given),
        ("a group", "@staff", local, Party::Group(&STAFF), given),
        ("a group to come", "@crew", local, Party::GroupNamed("crew"), given),
        ("another group to come", "@crew", local, Party::GroupNamed("guests"), None),
        ("a group of another domain", "@foreign", (OTHER, NOW), Party::Group(&FOREIGN), None),
        ("a name the file cannot hold", "@crew", local, Party::UserNamed("a b"), None),
        ("the file is not known", "bob@local", (LOCAL, unknown), Party::User(&ALICE), says),
        ("the same of another domain's group", "bob@local", (OTHER, unknown), Party::Group(&FOREIGN), None),
    ];
    for (what, named, (domain, now), party, expected) in cases {
        let mut facts = world();
        name_in_acl_cfg(&mut facts, named);
        let ask = |facts: &Facts| {
            let view = enfilade_facts::View::new(facts);
            beyond(&View(&view), now, &domain, party).unwrap()
        };
        assert_eq!(ask(&facts), None, "{what}: the file is not in use");
        keep_acl_cfg(&mut facts);
        assert_eq!(ask(&facts).as_deref(), expected, "{what}");
    }
}

/// A session of alice for a project, with one role there.
fn session(methods: Methods, delegation: Option<Delegation>) -> Session {
    let audit = enfilade_identity::fernet::payload::Audit { own: Default::default(), chain: None };
    let (user, scope, lent) = (ALICE, Scope::Project(INSIDE), Some(Lent::Credential(TEST)));
    let claim = Claim { user, methods, scope, lent, issued_at: 0, expires_at: 0, audit };
    let roles = vec![HeldRole { name: "member".into(), id: MEMBER }];
    let mut session = Session::of_claim(claim);
    (session.roles, session.delegation) = (roles, delegation);
    session
}

#[test]
fn what_was_lent_lends_no_more() {
    let credential = |unrestricted, rules: Vec<AccessRule>| {
        Some(Delegation {
            project: INSIDE,
            roles: vec![MEMBER],
            unrestricted,
            rules,
            by: None,
            expires_micros: None,
        })
    };
    let rule = || AccessRule {
        id: AccessRuleId::from_bytes([0; 16]),
        service: "s".into(),
        method: "GET".into(),
        path: "/".into(),
    };
    let app = Methods::APPLICATION_CREDENTIAL;
    let loans = [
        session(Methods::PASSWORD, None),
        session(app, credential(true, vec![])),
        session(app, credential(false, vec![])),
        session(app.and(Methods::EC2_KEY), credential(true, vec![])),
        session(Methods::EC2_KEY, None),
        session(app, credential(true, vec![rule()])),
    ];
    let [own, other] = [Some(&ALICE), Some(&BOB)];
    let of_test = [TEST];
    let of_another = [CredentialId::from_bytes([7; 16])];
    let lent = |project, roles| Some(Lends { project, roles });
    let [by_name, by_id] = ["member".to_owned(), MEMBER.to_string()].map(|role| [role]);
    let more = ["member".to_owned(), ADMIN.to_string()];
    let named_more = ["admin".to_owned()];
    let about = |user| About { user, ..About::default() };
    // The columns are six sessions: a session of the user in person; of an unrestricted application credential; of a restricted application
    // credential; of a key that an unrestricted application credential made; of a user's EC2 key; of an application credential with access rules.
    let cases: [(&str, Lending, About<'_>, [bool; 6]); 17] = [
        ("own sessions", Lending::Sessions, about(own), [true, true, true, true, true, true]),
        ("sessions of another", Lending::Sessions, about(other), [true, true, true, true, true, false]),
        ("reading", Lending::Reads, about(own), [true, true, true, true, true, false]),
        ("managing", Lending::Manages, about(own), [true, true, true, true, true, false]),
        ("people", Lending::People, about(own), [true, false, false, false, false, false]),
        ("a list of keys", Lending::Keys, about(own), [true, true, false, false, false, false]),
        (
            "a list of credentials",
            Lending::Credentials,
            about(own),
            [true, false, false, false, false, false],
        ),
        ("a trust of nothing", Lending::Trusts, about(own), [true, false, false, false, false, false]),
        (
            "what it made",
            Lending::Credentials,
            About { lineage: Some(&of_test), ..about(own) },
            [true, true, false, false, false, false],
        ),
        (
            "what another made",
            Lending::Credentials,
            About { lineage: Some(&of_another), lends: lent(&INSIDE, &by_name), ..about(own) },
            [true, false, false, false, false, false],
        ),
        (
            "what none made",
            Lending::Keys,
            About { lineage: Some(&[]), ..about(own) },
            [true, false, false, false, false, false],
        ),
        (
            "its role, by name",
            Lending::Credentials,
            About { lends: lent(&INSIDE, &by_name), ..about(own) },
            [true, true, false, false, false, false],
        ),
        (
            "its role, by id",
            Lending::Trusts,
            About { lends: lent(&INSIDE, &by_id), ..about(own) },
            [true, true, false, false, false, false],
        ),
        (
            "its role, for another user",
            Lending::Credentials,
            About { lends: lent(&INSIDE, &by_name), ..about(other) },
            [true, false, false, false, false, false],
        ),
        (
            "its role, on another project",
            Lending::Credentials,
            About { lends: lent(&OUTSIDE, &by_name), ..about(own) },
            [true, false, false, false, false, false],
        ),
        (
            "one more role, by id",
            Lending::Credentials,
            About { lends: lent(&INSIDE, &more), ..about(own) },
            [true, false, false, false, false, false],
        ),
        (
            "another role, by name",
            Lending::Credentials,
            About { lends: lent(&INSIDE, &named_more), ..about(own) },
            [true, false, false, false, false, false],
        ),
    ];
    for (what, lending, about, expected) in cases {
        let lent = loans.each_ref().map(|session| lends(&alice(), session, lending, &about));
        assert_eq!(lent, expected, "{what}");
    }
    for lending in [Lending::Keys, Lending::Credentials, Lending::Reads] {
        let only = loans.each_ref().map(|session| only_made_by(session, lending));
        let of_second = (lending == Lending::Keys).then_some(TEST);
        assert_eq!(only, [None, of_second, None, None, None, None], "{lending:?}");
    }
}

#[test]
fn a_rule_lets_the_role_it_names_where_it_names_it() {
    let (domain, other, project) = (Scope::Domain(LOCAL), Scope::Domain(OTHER), Scope::Project(INSIDE));
    let nothing = About::default();
    let of_local = About { domain: Some(&LOCAL), ..nothing };
    let of_project = About { project: Some(&INSIDE), ..nothing };
    let of_alice = About { user: Some(&ALICE), ..nothing };
    let of_bob = About { user: Some(&BOB), ..nothing };
    let and = |other| About { other, ..of_local };
    let role = |role| About { role, ..of_local };
    let cases: [(&str, &str, Scope, About<'_>, Option<As>); 58] = [
        ("get_region", "any", Scope::Unscoped, nothing, Some(As::Anybody)),
        ("list_services", "admin", project, nothing, Some(As::Admin)),
        ("list_services", "reader", Scope::System, nothing, Some(As::SystemReader)),
        ("list_services", "reader", project, nothing, None),
        ("list_services", "member", Scope::System, nothing, None),
        ("create_project", "manager", domain, of_local, Some(As::DomainManager)),
        ("create_project", "manager", other, of_local, None),
        ("create_project", "manager", domain, nothing, None),
        ("create_project", "manager", Scope::Unscoped, nothing, None),
        ("create_project", "manager", project, of_local, None),
        ("create_project", "reader", domain, of_local, None),
        ("create_project", "manager", domain, About { high_role: true, ..of_local }, None),
        ("create_project", "reader", domain, About { high_role: true, ..of_local }, None),
        ("create_project", "manager", domain, and(Other::In(&LOCAL)), Some(As::DomainManager)),
        ("create_project", "manager", domain, and(Other::found(Some(&LOCAL))), Some(As::DomainManager)),
        ("create_project", "manager", domain, and(Other::In(&OTHER)), None),
        ("create_project", "manager", domain, and(Other::found(Some(&OTHER))), None),
        ("create_project", "manager", domain, and(Other::found(None)), None),
        ("create_user", "manager", domain, of_local, Some(As::BoundedManager)),
        ("create_user", "manager", other, of_local, None),
        ("create_user", "admin", project, of_local, Some(As::Admin)),
        ("create_domain", "manager", domain, of_local, None),
        // A session for a domain may not administer records of the whole cloud.
        ("create_domain", "admin", domain, of_local, None),
        ("list_services", "admin", domain, nothing, None),
        ("create_system_grant_for_user", "admin", domain, of_alice, None),
        ("list_application_credentials", "any", domain, of_alice, None),
        ("create_user", "admin", domain, of_local, Some(As::Admin)),
        ("list_credentials", "any", domain, of_alice, Some(As::Owner)),
        ("get_group", "reader", domain, of_local, Some(As::DomainReader)),
        ("get_group", "reader", other, of_local, None),
        ("get_group", "manager", domain, of_local, None),
        ("check_grant", "reader", domain, role(Other::In(&LOCAL)), Some(As::DomainReader)),
        ("check_grant", "reader", domain, role(Other::In(&OTHER)), None),
        ("check_grant", "reader", domain, role(Other::Absent), None),
        ("list_domains", "reader", domain, nothing, Some(As::AnyDomainReader)),
        ("list_domains", "reader", project, nothing, None),
        ("list_domains", "member", domain, nothing, None),
        ("get_role", "manager", domain, nothing, Some(As::AnyDomainManager)),
        ("get_role", "manager", domain, About { high_role: true, ..nothing }, None),
        ("get_role", "manager", project, nothing, None),
        ("get_role", "reader", domain, nothing, None),
        ("get_project", "any", project, of_project, Some(As::ProjectMember)),
        ("get_project", "any", Scope::Project(OUTSIDE), of_project, None),
        ("get_project", "any", project, nothing, None),
        ("get_project", "any", Scope::Unscoped, nothing, None),
        ("get_domain", "any", project, of_local, None),
        ("get_domain", "any", Scope::Unscoped, nothing, None),
        ("validate_token", "service", project, of_bob, Some(As::Service)),
        ("validate_token", "member", project, of_bob, None),
        ("revoke_token", "any", project, of_alice, Some(As::Owner)),
        ("revoke_token", "any", project, of_bob, None),
        ("revoke_token", "any", project, About { other_user: Some(&ALICE), ..of_bob }, Some(As::Owner)),
        ("create_trust", "admin", project, of_bob, None),
        ("create_trust", "any", project, of_alice, Some(As::Owner)),
        ("create_trust", "any", Scope::Unscoped, of_alice, Some(As::Owner)),
        ("create_trust", "admin", Scope::System, of_alice, None),
        ("create_application_credential", "admin", Scope::System, of_alice, None),
        ("no such rule", "admin", project, nothing, None),
    ];
    for (rule, role, scope, about, expected) in cases {
        let mut session = session(Methods::PASSWORD, None);
        session.claim.scope = scope;
        session.roles = vec![HeldRole { name: role.into(), id: ADMIN }];
        let lets = rule_named(rule).and_then(|rule| rule.lets(&alice(), &session, &about));
        assert_eq!(lets, expected, "{rule} by {role} on {scope:?} about {about:?}");
    }
    // A session of an EC2 key cannot change a domain, not even with the role admin.
    let mut key = session(Methods::EC2_KEY, None);
    key.roles = vec![HeldRole { name: "admin".into(), id: ADMIN }];
    let lets = |rule| rule_named(rule).unwrap().lets(&alice(), &key, &nothing);
    assert_eq!((lets("list_services"), lets("create_domain")), (Some(As::Admin), None));
    let bounded = |rule| rule_named(rule).unwrap().is_bounded();
    assert_eq!(["create_user", "create_project", "list_users"].map(bounded), [true, false, false]);
}

/// If an alternative of a rule needs a session for a domain, sessions for a domain can use the rule.
#[test]
fn alternatives_for_a_domain_are_in_rules_for_sessions_for_a_domain() {
    let of_domain = [
        As::DomainManager,
        As::BoundedManager,
        As::DomainReader,
        As::AnyDomainManager,
        As::AnyDomainReader,
        As::DomainMember,
    ];
    for rule in POLICY.iter().filter(|rule| rule.who.iter().any(|who| of_domain.contains(who))) {
        assert_eq!(rule.scopes, ScopeTypes::Any, "{}", rule.name);
    }
}

/// If [`KnownTo::Readers`] names a rule, this rule lets a session read a record of the kind, and has no `known_to` of its own.
#[test]
fn readers_are_named_by_a_rule_that_shows_a_record() {
    let of = |name: &str| match rule_named(name)?.known_to? {
        KnownTo::Readers(name) => rule_named(name),
        KnownTo::Everybody => None,
    };
    for rule in POLICY.iter().filter(|rule| matches!(rule.known_to, Some(KnownTo::Readers(_)))) {
        let shows = of(rule.name).unwrap_or_else(|| panic!("{}", rule.name));
        assert!(shows.name.contains("get_") && shows.known_to.is_none(), "{}", rule.name);
        assert!(matches!(shows.lending, Lending::Reads | Lending::Keys), "{}", rule.name);
    }
    let rules =
        ["delete_group", "ec2_delete_credential", "update_group"].map(|name| of(name).map(|rule| rule.name));
    assert_eq!(rules, [Some("get_group"), Some("ec2_get_credential"), None]);
    let told = POLICY.iter().filter(|rule| rule.known_to == Some(KnownTo::Everybody)).map(|rule| rule.name);
    let expected = ["update_domain", "delete_domain", "get_role", "update_role", "delete_role"];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// On the page of the routes, no two alternatives look the same.
#[test]
fn each_alternative_has_words_of_its_own() {
    let mut said: Vec<(&str, As)> = Vec::new();
    for who in POLICY.iter().flat_map(|rule| rule.who) {
        match said.iter().find(|(words, _)| *words == who.says()) {
            Some((words, other)) => assert_eq!(other, who, "{words}"),
            None => said.push((who.says(), *who)),
        }
    }
    assert!(said.contains(&("admin", As::Admin)), "{said:?}");
}

/// For each kind of call, the words on the page of the routes agree with the decision of door 4.
#[test]
fn each_kind_of_call_says_what_a_lent_credential_may_do() {
    let (plain, nothing) = (session(Methods::EC2_KEY, None), About::default());
    let creates = "it can create records within its own project and roles";
    for (lending, begins, contains) in [
        (Lending::Sessions, "yes; ", "only tokens of its own user"),
        (Lending::Reads, "yes", ""),
        (Lending::Manages, "yes", ""),
        (Lending::People, "no", ""),
        (Lending::Keys, "only an unrestricted credential: ", creates),
        (Lending::Credentials, "only an unrestricted credential: ", creates),
        (Lending::Trusts, "an unrestricted credential: ", "a trust with `allow_redelegation` can only"),
    ] {
        let says = lending.says();
        assert!(says.starts_with(begins) && says.contains(contains), "{lending:?}: {says}");
        assert_eq!(lends(&alice(), &plain, lending, &nothing), begins.starts_with("yes"), "{lending:?}");
    }
}

#[test]
fn a_list_is_cut_down_to_the_domain_of_its_reader() {
    for (rule, who, scope, expected) in [
        ("get_group", As::DomainReader, Scope::Domain(LOCAL), Some(LOCAL)),
        ("list_users", As::AnyDomainReader, Scope::Domain(LOCAL), Some(LOCAL)),
        ("list_users", As::Admin, Scope::Domain(LOCAL), Some(LOCAL)),
        ("list_users", As::Admin, Scope::Project(INSIDE), None),
        ("list_users", As::SystemReader, Scope::System, None),
        ("list_roles", As::Admin, Scope::Domain(LOCAL), None),
        ("list_credentials", As::Owner, Scope::Domain(LOCAL), None),
        ("get_group", As::DomainReader, Scope::Project(INSIDE), None),
    ] {
        let mut session = session(Methods::PASSWORD, None);
        session.claim.scope = scope;
        let only = rule_named(rule).unwrap().only_domain(who, &session);
        assert_eq!(only, expected, "{rule} {who:?} {scope:?}");
    }
}

#[test]
fn a_permit_says_whose_it_is() {
    let rule = rule_named("get_credential").unwrap();
    let who = alice().authid;
    for (by, requester) in [
        (As::Admin, Requester::Administrator),
        (As::Owner, Requester::User),
        (As::SystemReader, Requester::User),
        (As::BoundedManager, Requester::User),
    ] {
        let permit = ApiPermit {
            who: who.clone(),
            only_domain: Some(LOCAL),
            only_made_by: Some(TEST),
            by,
            user: ALICE,
            rule,
            domain: None,
            project: None,
            other: None,
        };
        let is_administrators = by == As::Admin;
        assert_eq!((permit.is_administrators(), permit.requester()), (is_administrators, requester));
        assert_eq!([ALICE, BOB].map(|user| permit.tells_secrets_of(&user)), [true, is_administrators]);
        assert_eq!((permit.only_domain(), permit.only_made_by()), (Some(LOCAL), Some(TEST)));
        assert_eq!(AdminPermit { who: who.clone(), requester }.requester(), requester);
    }
}

#[test]
fn a_permit_covers_its_object_and_what_was_granted() {
    let object = |inode| ObjectId { device: 1, inode };
    let creator = Creator { sid: own_sid(), uid: None };
    let at = At { store: StoreId(1), revision: Revision(1) };
    let permit = AccessPermit { object: object(7), granted: AccessMask::READ, creator, at };
    assert_eq!(permit.granted(), AccessMask::READ);
    for (inode, mask, expected) in [
        (7, AccessMask::READ_DATA, true),
        (7, AccessMask::READ, true),
        (7, AccessMask::WRITE_DATA, false),
        (7, AccessMask::READ_DATA | AccessMask::WRITE_DATA, false),
        (8, AccessMask::READ_DATA, false),
    ] {
        assert_eq!(permit.covers(object(inode), mask), expected, "{inode} {mask}");
    }
    let blind = AccessPermit { granted: AccessMask::WRITE_ACL, ..permit };
    for (by, is_covered, is_operators) in [
        (PropagationBy::Mover(&permit), true, false),
        (PropagationBy::Mover(&blind), false, false),
        (PropagationBy::Operator(object(7)), true, true),
    ] {
        let permit = PropagationPermit::new(by);
        assert_eq!([7, 8].map(|inode| permit.covers(object(inode))), [is_covered, false]);
        assert_eq!(permit.is_operators(), is_operators);
    }
}
