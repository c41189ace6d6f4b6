//! Tests of requests to applications.

use super::{Facts, NOW, OTHERS, STAFF, alice, memo, path, token_of_alice};
use crate::applications::{ApplicationAsk, would_use};
use crate::method_class::Method;
use crate::reference::{Row, roles, roles_of_token};
use crate::refuse::Refusal;
use crate::site::Site;
use enfilade_facts::tables::{Application, ApplicationHost, CredentialKind, Who};
use enfilade_facts::vocabulary::{ApplicationName, HostName, ProjectId, Role, StorePath};
use enfilade_facts::{Refuse as _, View};
use enfilade_identity::{Principal, Reach};
use proptest::prelude::*;

fn host() -> HostName {
    "wiki.example.com".parse().unwrap()
}

fn wiki() -> Application {
    Application {
        hosts: vec![host()],
        public: vec![path("/static")],
        open: vec![path("/hooks")],
        administer: vec![path("/admin"), path("/static/admin")],
        passes_preflight: true,
        ..Application::default()
    }
}

fn facts(lines: &str, application: &Application) -> Facts {
    let mut facts = Facts::of(lines);
    let name: ApplicationName = "wiki".parse().unwrap();
    facts.put(&name, application);
    facts.put(&host(), &ApplicationHost(name));
    facts
}

/// Reads a request such as `MOVE /a /b`. `UPGRADE` stands for a GET that changes the protocol, and
/// `PREFLIGHT` for an OPTIONS that is a preflight request.
fn ask(text: &str) -> ApplicationAsk {
    let mut words = text.split(' ');
    let (word, target) = (words.next().unwrap(), words.next().unwrap());
    let (upgrades, is_preflight) = (word == "UPGRADE", word == "PREFLIGHT");
    let method = match word {
        "UPGRADE" => "GET",
        "PREFLIGHT" => "OPTIONS",
        other => other,
    };
    let (method, destination) = (Method::named(method).unwrap(), words.next().map(path));
    let recurses = ["DELETE", "COPY", "MOVE"].contains(&word);
    ApplicationAsk {
        site: Site::Host(host()),
        only: None,
        recurses,
        method,
        path: path(target),
        destination,
        upgrades,
        is_preflight,
    }
}

/// The code of the refusal; empty if the request is permitted.
fn code(facts: &Facts, principal: &Principal, ask: &ApplicationAsk) -> &'static str {
    let view = View::new(facts);
    let kinds = [CredentialKind::Password];
    would_use(&view, NOW, (principal, &kinds), ask, &memo()).err().map_or("", |why| why.code())
}

#[test]
fn roles_permit_classes_of_methods() {
    for (role, permitted) in [
        ("ApplicationReader", "r"),
        ("ApplicationUser", "rw"),
        ("ApplicationAdmin", "rwa"),
        ("Admin", "rwa"),
        ("NoAccess", ""),
        ("Audit", ""),
        ("DatastoreAdmin", ""),
        ("ApplicationAdmin NoAccess", ""),
    ] {
        let facts = facts(&format!("/application/wiki alice {role}"), &wiki());
        for (class, request) in [
            ('r', "GET /a"),
            ('r', "PROPFIND /a"),
            ('w', "POST /a"),
            ('w', "UPGRADE /a"),
            ('w', "COPY /a /b"),
            ('w', "MOVE /a /b"),
            ('a', "ACL /a"),
            ('a', "GET /admin"),
            ('a', "GET /admin/x"),
            ('a', "MOVE /a /admin/x"),
            ('a', "GET /static/admin"),
            ('r', "GET /administrators"),
        ] {
            let expected = if permitted.contains(class) { "" } else { "AC12" };
            assert_eq!(code(&facts, &alice(), &ask(request)), expected, "{role} {request}");
        }
    }
}

#[test]
fn a_request_about_a_tree_needs_the_right_in_the_whole_tree() {
    let lines = "/application/wiki alice ApplicationUser
        /application/wiki/docs/secret alice NoAccess
        /application/wiki/notes/x alice ApplicationReader
        /application/wiki/free/x alice ApplicationUser";
    let facts = facts(lines, &wiki());
    for (request, expected) in [
        ("DELETE /docs", "AC12"),
        ("DELETE /docs/a", ""),
        ("COPY /docs /mine", "AC12"),
        ("COPY /mine /docs", "AC12"),
        ("COPY /notes /mine", ""),
        ("MOVE /notes /mine", "AC12"),
        ("DELETE /free", ""),
        ("DELETE /", "AC12"),
        ("COPY /hooks /mine", ""),
        ("GET /docs", ""),
    ] {
        assert_eq!(code(&facts, &alice(), &ask(request)), expected, "{request}");
    }
    let open = Application { open: vec![StorePath::root()], ..wiki() };
    let facts = self::facts("", &open);
    assert_eq!(code(&facts, &alice(), &ask("POST /")), "");
    assert_eq!(code(&facts, &alice(), &ask("DELETE /")), "AC12", "the tree has paths for administrators");
}

#[test]
fn paths_for_administrators_have_no_second_spelling() {
    let facts = facts("/application/wiki alice ApplicationUser", &wiki());
    for path in ["/admin", "/ADMIN", "/Admin/x", "/admin.", "/admin /x", "/static/Admin. "] {
        assert_eq!(
            code(&facts, &alice(), &ApplicationAsk { path: super::path(path), ..ask("GET /a") }),
            "AC12",
            "{path}"
        );
    }
}

#[test]
fn a_proxy_asks_for_its_own_application_only() {
    let facts = facts("/application/wiki alice ApplicationUser", &wiki());
    for (only, expected) in [(None, ""), (Some("wiki"), ""), (Some("blog"), "AC10")] {
        let only = only.map(|name: &str| name.parse().unwrap());
        assert_eq!(code(&facts, &alice(), &ApplicationAsk { only, ..ask("GET /static") }), expected);
    }
}

#[test]
fn a_limited_token_does_not_show_the_roles_of_its_owner() {
    for (owner, token, shown) in [
        ("ApplicationAdmin", "ApplicationReader", Role::ApplicationReader),
        ("ApplicationReader", "ApplicationAdmin", Role::ApplicationReader),
        ("Admin", "ApplicationUser", Role::ApplicationUser),
    ] {
        let lines = format!("/application/wiki alice {owner}\n/application/wiki test {token}");
        let facts = facts(&lines, &wiki());
        let view = View::new(&facts);
        let kinds = [CredentialKind::Token];
        let judged = would_use(&view, NOW, (&token_of_alice(), &kinds), &ask("GET /a"), &memo());
        assert_eq!(judged.unwrap().roles, [shown], "{owner} {token}");
    }
}

#[test]
fn public_paths_need_no_role() {
    let facts = facts("", &wiki());
    for (request, expected) in [
        ("GET /static", ""),
        ("GET /static/a", ""),
        ("POST /static/a", "AC12"),
        ("UPGRADE /static/a", "AC12"),
        ("GET /statics", "AC12"),
        ("POST /hooks/a", ""),
        ("UPGRADE /hooks/a", ""),
        ("COPY /static/a /hooks/a", ""),
        ("COPY /hooks/a /static/a", "AC12"),
        ("GET /static/admin", "AC12"),
        ("PREFLIGHT /a", ""),
        ("PREFLIGHT /admin", ""),
        ("OPTIONS /a", "AC12"),
        ("ACL /hooks/a", "AC12"),
    ] {
        assert_eq!(code(&facts, &alice(), &ask(request)), expected, "{request}");
    }
    let all = Application { public: vec![StorePath::root()], ..wiki() };
    let facts = self::facts("", &all);
    assert_eq!(code(&facts, &alice(), &ask("GET /")), "");
    assert_eq!(code(&facts, &alice(), &ask("GET /admin")), "AC12");
}

#[test]
fn an_application_has_its_hosts_and_accepts_its_kinds_of_credentials() {
    let only_tokens = Application { accepts: vec![CredentialKind::Token], ..wiki() };
    let facts = facts("/application alice ApplicationAdmin", &only_tokens);
    let view = View::new(&facts);
    let judged = |kinds: &[CredentialKind], ask: &ApplicationAsk| {
        would_use(&view, NOW, (&alice(), kinds), ask, &memo()).map(|used| used.application.to_string())
    };
    let (get, none) = (ask("GET /a"), ask("GET /static/a"));
    assert_eq!(judged(&[CredentialKind::Token], &get).as_deref(), Ok("wiki"));
    assert_eq!(judged(&[CredentialKind::Password, CredentialKind::Token], &get).as_deref(), Ok("wiki"));
    let refused = judged(&[CredentialKind::Password, CredentialKind::Session], &get);
    assert!(matches!(refused, Err(Refusal::NotAccepted { .. })), "{refused:?}");
    assert_eq!(judged(&[CredentialKind::Password], &none).as_deref(), Ok("wiki"));
    let elsewhere = ApplicationAsk { site: Site::Host("other.example.com".parse().unwrap()), ..none.clone() };
    assert!(matches!(judged(&[CredentialKind::Token], &elsewhere), Err(Refusal::NoApplication(_))));
    let named = ApplicationAsk { site: Site::Named("wiki".parse().unwrap()), ..none };
    assert_eq!(judged(&[CredentialKind::Token], &named).as_deref(), Ok("wiki"));
    // A session or token that is limited to a project has no roles on applications.
    for reach in [
        Reach::Nothing,
        Reach::Project { project: ProjectId::from_bytes([1; 16]), roles: vec!["admin".into()] },
    ] {
        let lent = Principal { reach, ..alice() };
        let kinds = [CredentialKind::Token];
        let refused = would_use(&view, NOW, (&lent, &kinds), &get, &memo());
        assert!(matches!(refused, Err(Refusal::NotPermitted { .. })), "{refused:?}");
    }
}

const NODES: [&str; 6] = [
    "/",
    "/application",
    "/application/wiki",
    "/application/wiki/a",
    "/application/wiki/a/b",
    "/application/other",
];
const ROLES: [Role; 6] = [
    Role::Admin,
    Role::NoAccess,
    Role::ApplicationReader,
    Role::ApplicationUser,
    Role::ApplicationAdmin,
    Role::DatastoreAdmin,
];

fn rows() -> impl Strategy<Value = Vec<(usize, usize, usize, bool)>> {
    proptest::collection::vec((0..NODES.len(), 0..4_usize, 0..ROLES.len(), any::<bool>()), 0..8)
}

proptest! {
    /// The decision about applications agrees with the naive reference, for a user and for a token with roles
    /// of its own.
    #[test]
    fn roles_on_applications_follow_the_rules_of_all_paths(
        rows in rows(),
        target in prop::sample::select(vec!["", "a", "a/b", "a/b/c", "ab"]),
        method in prop::sample::select(vec!["GET", "POST", "ACL"]),
        by_token in any::<bool>(),
    ) {
        let grantees = [Who::User(alice().user), Who::Group(STAFF), Who::Group(OTHERS), Who::Token(super::TEST)];
        let mut facts = facts("", &wiki());
        let mut given: Vec<Row<'_>> = Vec::new();
        for (node, who, role, propagates) in rows {
            let (node, who, role) = (NODES[node], grantees[who].clone(), (ROLES[role], propagates));
            match given.iter_mut().find(|row| row.0 == node && row.1 == who) {
                Some(row) if row.2.iter().all(|(known, _)| *known != role.0) => row.2.push(role),
                Some(_) => {}
                None => given.push((node, who, vec![role])),
            }
        }
        for (node, who, roles) in &given {
            facts.assign(node, who.clone(), roles);
        }
        let principal = if by_token { token_of_alice() } else { alice() };
        let node = format!("/application/wiki{}{target}", if target.is_empty() { "" } else { "/" });
        let permits = |roles: Vec<Role>| {
            let allowed: &[Role] = match method {
                "GET" => &[Role::Admin, Role::ApplicationReader, Role::ApplicationUser, Role::ApplicationAdmin],
                "POST" => &[Role::Admin, Role::ApplicationUser, Role::ApplicationAdmin],
                _ => &[Role::Admin, Role::ApplicationAdmin],
            };
            !roles.contains(&Role::NoAccess) && roles.iter().any(|role| allowed.contains(role))
        };
        let expected = permits(roles(&given, &principal, &node))
            && (!by_token || permits(roles_of_token(&given, &principal, &node)));
        let ask = ask(&format!("{method} /{target}"));
        prop_assert_eq!(code(&facts, &principal, &ask).is_empty(), expected, "{:?} {:?}", given, ask);
    }
}
