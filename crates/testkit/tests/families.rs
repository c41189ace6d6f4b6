//! Families of calls of Identity v3 whose records no decision of the server depends on, except the catalog: limits, policies, endpoint filters,
//! configurations of domains, projects that act as domains. Requests go to the HTTP face in process.

use bytes::Bytes;
use enfilade_admin::keystone as admin;
use enfilade_admin::{LimitModel, NewUser};
use enfilade_faces::{AnonymousSlot, Connection, Faces, Router};
use enfilade_facts::tables::{
    DomainConfig, EndpointFilter, GrantKey, GrantScope, Grantee, Limit, Password, PolicyAssociation, User,
};
use enfilade_facts::vocabulary::{DomainId, Realm, UserId, Userid};
use enfilade_facts::{AuditRecord, Change, Read};
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// The hash of `pw`: cheap, because there are many logins.
const HASH: &str = "$5$rounds=1000$salt$gdEupGonUIiJCMc1vfHpiFjFhRA3Jf3USQ7IYKjZitD";
const ROLES: [&str; 4] = ["admin", "manager", "member", "reader"];
/// An id that no record has.
const NOBODY: &str = "00000000000000000000000000000001";

struct World {
    house: TestHouse,
    router: Router,
    /// Ids and tokens by name; `<name>` in a path or body stands for them.
    names: BTreeMap<&'static str, String>,
}

/// A request and its answer: the caller, the method, the path, the body, the status, and texts that the answer contains or, after a `!`, does not
/// contain. A path may end with ` -> name`: then the id of the new record gets this name.
type Row = (&'static str, &'static str, &'static str, Value, u16, &'static [&'static str]);

impl World {
    /// `admin` has the role on the project `a`, `member` has a role on `a`, `other` has one on `b`; `clerk` reads the domain Default.
    async fn new(model: LimitModel) -> World {
        let house = TestHouse::new(Remembering::AsServed);
        let bytes: [u8; 32] = [7; 32];
        house.house.set_keys(Some(KeyRing::new(&[(0, &bytes), (1, &bytes)]).unwrap()));
        let ctx = house.change_context();
        let realm: Realm = "Default".parse().unwrap();
        admin::add_domain(&ctx, &realm, Some(DomainId::DEFAULT)).unwrap();
        let elsewhere = admin::add_domain(&ctx, &"elsewhere".parse().unwrap(), None).unwrap().0;
        let roles: BTreeMap<&str, _> =
            ROLES.iter().map(|role| (*role, admin::add_role(&ctx, role, None).unwrap().0)).collect();
        let project = |name: &str, domain: &str| {
            admin::add_project(&ctx, &domain.parse().unwrap(), name, None).unwrap().0
        };
        let (a, b, far) = (project("a", "Default"), project("b", "Default"), project("far", "elsewhere"));
        let mut names = BTreeMap::from([
            ("a", a.to_string()),
            ("b", b.to_string()),
            ("far", far.to_string()),
            ("elsewhere", elsewhere.to_string()),
        ]);
        for (name, scope, role) in [
            ("admin", GrantScope::Project(a), "admin"),
            ("member", GrantScope::Project(a), "member"),
            ("other", GrantScope::Project(b), "member"),
            ("clerk", GrantScope::Domain(DomainId::DEFAULT), "reader"),
        ] {
            let user = add_user(&house, name);
            let key = GrantKey { who: Grantee::User(user), scope, role: roles[role] };
            admin::set_grant(&ctx, &key, true).unwrap();
            names.insert(name, user.to_string());
        }
        let passwords = *enfilade_admin::PasswordRules::NONE;
        let faces = Faces::new(house.house.clone(), house.files.clone(), passwords, Vec::new());
        let faces = faces.with_limit_model(model);
        let main: [&[_]; 1] = [&enfilade_keystone::ROUTES];
        let router = Router::new(faces, &main, &[]);
        World { house, router, names }
    }

    async fn login(&self, user: &str) -> String {
        let scope = match user {
            "clerk" => json!({ "domain": { "id": "default" } }),
            "other" => json!({ "project": { "id": self.names["b"] } }),
            _ => json!({ "project": { "id": self.names["a"] } }),
        };
        let user = json!({ "user": { "id": self.names[user], "password": "pw" } });
        let identity = json!({ "methods": ["password"], "password": user });
        let body = json!({ "auth": { "identity": identity, "scope": scope } });
        let (status, subject, text) = self.send("", "POST", "/v3/auth/tokens", &body.to_string()).await;
        assert_eq!(status, 201, "{text}");
        subject.unwrap()
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Option<String>, String) {
        let connection = Connection {
            peer: ([127, 0, 0, 1], 1).into(),
            cut: Arc::new(Notify::new()),
            proxies: None,
            is_https: true,
            anonymous: Arc::new(AnonymousSlot::new(())),
            last: Arc::default(),
            certificate: None,
            terms: None,
            splices: None,
        };
        let mut request = Request::builder().method(method).uri(path).header("host", "here");
        if !token.is_empty() {
            request = request.header("x-auth-token", token);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let answer = self.router.answer(connection, request).await;
        let status = answer.status().as_u16();
        let subject = answer.headers().get("x-subject-token").map(|token| token.to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        (status, subject, String::from_utf8_lossy(&body).into_owned())
    }

    fn filled(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("<{name}>"), id))
    }

    /// Sends the requests in order, and compares the answers.
    async fn hold(&mut self, rows: &[Row]) {
        let mut wrong = Vec::new();
        for (who, method, path, body, status, texts) in rows {
            let (path, new) = path.split_once(" -> ").map_or((*path, None), |(path, new)| (path, Some(new)));
            let path = self.filled(path);
            let body = if body.is_null() { String::new() } else { self.filled(&body.to_string()) };
            let token = self.login(who).await;
            let (is, _, text) = self.send(&token, method, &path, &body).await;
            let has = |part: &&&str| match part.strip_prefix('!') {
                Some(part) => !text.contains(&self.filled(part)),
                None => text.contains(&self.filled(part)),
            };
            let missed: Vec<_> = texts.iter().filter(|part| !has(part)).collect();
            if is != *status || !missed.is_empty() {
                wrong.push(format!(
                    "{who}: {method} {path} {body}\n  {is}, expected {status}; {missed:?}\n  {text}"
                ));
            }
            if let Some(new) = new {
                let id = first_id(&serde_json::from_str(&text).unwrap_or_default());
                self.names.insert(new, id.unwrap_or_default());
            }
        }
        assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    }
}

/// The id of the record in an answer, or of the first record in its list.
fn first_id(answer: &Value) -> Option<String> {
    let body = answer.as_object()?.values().find(|value| !value["id"].is_null() || value.is_array())?;
    let body = body.as_array().map_or(Some(body), |all| all.first())?;
    body["id"].as_str().map(str::to_owned)
}

fn add_user(house: &TestHouse, name: &str) -> UserId {
    let userid: Userid = format!("{name}@Default").parse().unwrap();
    let (id, _) = enfilade_admin::add_user(&house.change_context(), &NewUser::named(userid)).unwrap();
    let row = house.facts().read(|view| view.get::<User>(&id)).unwrap().unwrap().unwrap();
    let audit =
        AuditRecord { who: "a test".into(), what: "a cheap password".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(audit);
    change.put(&id, &User { password: Some(Password::of(HASH.into())), ..row });
    house.facts().commit(&change).unwrap();
    id
}

/// No body.
fn none() -> Value {
    Value::Null
}

fn registered(resource: &str, region: Value, limit: i64) -> Value {
    json!({ "service_id": "<service>", "region_id": region, "resource_name": resource, "default_limit": limit })
}

/// A request body with limits of `volumes`: the field of the owner, its id, and the limit.
fn limits(all: &[(&str, &str, i64)]) -> Value {
    let limit = |(field, id, limit): &(&str, &str, i64)| json!({ *field: id, "service_id": "<service>", "resource_name": "volumes", "resource_limit": limit });
    json!({ "limits": all.iter().map(limit).collect::<Vec<_>>() })
}

#[tokio::test]
async fn registered_limits() {
    let one = |row: Value| json!({ "registered_limits": [row] });
    let with = |name: &str, value: Value| {
        let mut row = registered("x", none(), 1);
        row[name] = value;
        one(row)
    };
    let mut without = registered("x", none(), 1);
    without.as_object_mut().unwrap().remove("default_limit");
    let (collection, own) = ("/v3/registered_limits", "/v3/registered_limits/<volumes>");
    let path_of_nobody = format!("{collection}/{NOBODY}");
    let path_of_nobody: &'static str = path_of_nobody.leak();
    let patch = |body: Value| json!({ "registered_limit": body });
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/regions", json!({ "region": { "id": "east" } }), 201, &[]),
        (
            "admin",
            "POST",
            "/v3/registered_limits -> volumes",
            json!({ "registered_limits": [registered("volumes", none(), 10), registered("volumes", json!("east"), 5)] }),
            201,
            &["\"default_limit\":10", "\"region_id\":\"east\"", "\"description\":null", "!previous"],
        ),
        ("admin", "POST", collection, one(registered("volumes", none(), 10)), 409, &["volumes"]),
        (
            "admin",
            "POST",
            collection,
            json!({ "registered_limits": [registered("twice", none(), 1), registered("twice", none(), 2)] }),
            409,
            &["twice"],
        ),
        ("admin", "GET", collection, none(), 200, &["!twice"]),
        ("admin", "POST", collection, json!({}), 400, &["registered_limits"]),
        ("admin", "POST", collection, json!({ "registered_limits": [] }), 400, &["registered_limits"]),
        ("admin", "POST", collection, json!({ "registered_limits": [1] }), 400, &["registered_limits"]),
        ("admin", "POST", collection, one(without), 400, &["default_limit"]),
        ("admin", "POST", collection, with("default_limit", json!(-2)), 400, &["default_limit"]),
        (
            "admin",
            "POST",
            collection,
            with("default_limit", json!(2_147_483_648_i64)),
            400,
            &["default_limit"],
        ),
        ("admin", "POST", collection, with("default_limit", json!("1")), 400, &["default_limit"]),
        ("admin", "POST", collection, with("resource_name", json!("")), 400, &["resource_name"]),
        ("admin", "POST", collection, with("service_id", json!(NOBODY)), 400, &["service_id"]),
        ("admin", "POST", collection, with("region_id", json!("none")), 400, &["region_id"]),
        ("admin", "POST", collection, with("colour", json!("blue")), 400, &["colour"]),
        ("member", "POST", collection, one(registered("x", none(), 1)), 403, &["not authorized"]),
        (
            "member",
            "GET",
            "/v3/registered_limits?region_id=east",
            none(),
            200,
            &["\"default_limit\":5", "!:10"],
        ),
        (
            "member",
            "GET",
            "/v3/registered_limits?resource_name=none",
            none(),
            200,
            &["\"registered_limits\":[]"],
        ),
        ("member", "GET", own, none(), 200, &["\"default_limit\":10", "/v3/registered_limits/<volumes>"]),
        ("member", "GET", path_of_nobody, none(), 404, &[]),
        (
            "admin",
            "PATCH",
            own,
            patch(json!({ "default_limit": 20, "description": "words" })),
            200,
            &["20", "words"],
        ),
        ("admin", "PATCH", own, patch(json!({ "region_id": "east" })), 409, &[]),
        ("admin", "PATCH", own, patch(json!({ "resource_name": "volumes" })), 200, &[]),
        ("admin", "PATCH", own, patch(json!({ "links": {} })), 400, &["links"]),
        ("member", "PATCH", own, patch(json!({ "default_limit": 1 })), 403, &[]),
        ("admin", "DELETE", "/v3/services/<service>", none(), 403, &["registered limit"]),
        ("admin", "DELETE", "/v3/regions/east", none(), 403, &["registered limit"]),
        ("member", "DELETE", own, none(), 403, &[]),
        ("admin", "DELETE", own, none(), 204, &[]),
        ("admin", "GET", own, none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
async fn limits_of_projects_and_domains() {
    let mut world = World::new(LimitModel::Flat).await;
    let new = json!({ "registered_limits": [registered("volumes", none(), 10)] });
    let other = json!({ "limits": [{ "project_id": "<a>", "service_id": "<service>", "resource_name": "none", "resource_limit": 1 }] });
    let both = json!({ "limits": [{ "project_id": "<a>", "domain_id": "default", "service_id": "<service>", "resource_name": "volumes", "resource_limit": 1 }] });
    let neither =
        json!({ "limits": [{ "service_id": "<service>", "resource_name": "volumes", "resource_limit": 1 }] });
    let (collection, own) = ("/v3/limits", "/v3/limits/<own>");
    let path_of_nobody: &'static str = format!("{collection}/{NOBODY}").leak();
    let patch = |body: Value| json!({ "limit": body });
    let rows: Vec<Row> = vec![
        ("member", "GET", "/v3/limits/model", none(), 200, &["{\"model\":{", "\"name\":\"flat\""]),
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        (
            "admin",
            "POST",
            collection,
            limits(&[("project_id", "<a>", 7)]),
            403,
            &["no corresponding registered limit"],
        ),
        ("admin", "POST", "/v3/registered_limits -> registered", new, 201, &[]),
        (
            "admin",
            "POST",
            "/v3/limits -> own",
            limits(&[("project_id", "<a>", 7)]),
            201,
            &[
                "\"resource_limit\":7",
                "\"domain_id\":null",
                "\"service_id\":\"<service>\"",
                "\"region_id\":null",
            ],
        ),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 8)]), 409, &["volumes"]),
        (
            "admin",
            "POST",
            collection,
            limits(&[("project_id", "<b>", 1), ("project_id", "<b>", 2)]),
            409,
            &[],
        ),
        ("admin", "POST", collection, other, 403, &["registered limit"]),
        ("admin", "POST", collection, both, 400, &["project_id"]),
        ("admin", "POST", collection, neither, 400, &["project_id"]),
        ("admin", "POST", collection, limits(&[("project_id", NOBODY, 1)]), 400, &["project_id"]),
        ("admin", "POST", collection, limits(&[("domain_id", NOBODY, 1)]), 400, &["domain_id"]),
        ("admin", "POST", collection, limits(&[("project_id", "<b>", -2)]), 400, &["resource_limit"]),
        ("member", "POST", collection, limits(&[("project_id", "<b>", 1)]), 403, &["not authorized"]),
        // The id of a domain as a project's id stands for the domain.
        (
            "admin",
            "POST",
            "/v3/limits -> of-domain",
            limits(&[("project_id", "default", 9)]),
            201,
            &["\"domain_id\":\"default\"", "\"project_id\":null"],
        ),
        ("admin", "POST", collection, limits(&[("domain_id", "default", 9)]), 409, &[]),
        ("admin", "POST", "/v3/limits -> far-away", limits(&[("project_id", "<far>", 3)]), 201, &[]),
        (
            "admin",
            "PATCH",
            "/v3/registered_limits/<registered>",
            json!({ "registered_limit": { "description": "x" } }),
            403,
            &[],
        ),
        ("admin", "DELETE", "/v3/registered_limits/<registered>", none(), 403, &[]),
        ("member", "GET", collection, none(), 200, &["<own>", "!<of-domain>", "!<far-away>"]),
        ("clerk", "GET", collection, none(), 200, &["<own>", "<of-domain>", "!<far-away>"]),
        ("other", "GET", collection, none(), 200, &["\"limits\":[]"]),
        ("admin", "GET", collection, none(), 200, &["<own>", "<of-domain>", "<far-away>"]),
        ("admin", "GET", "/v3/limits?project_id=<a>", none(), 200, &["<own>", "!<of-domain>", "!<far-away>"]),
        (
            "admin",
            "GET",
            "/v3/limits?domain_id=default",
            none(),
            200,
            &["!<own>", "<of-domain>", "!<far-away>"],
        ),
        ("admin", "GET", "/v3/limits?project_id=x", none(), 200, &["\"limits\":[]"]),
        ("admin", "GET", "/v3/limits?resource_name=none", none(), 200, &["\"limits\":[]"]),
        ("admin", "GET", "/v3/limits?limit=1", none(), 200, &["marker="]),
        ("member", "GET", "/v3/limits?project_id=<far>", none(), 200, &["\"limits\":[]"]),
        ("member", "GET", own, none(), 200, &["\"resource_name\":\"volumes\"", "/v3/limits/<own>"]),
        ("clerk", "GET", own, none(), 200, &[]),
        ("clerk", "GET", "/v3/limits/<of-domain>", none(), 200, &[]),
        ("clerk", "GET", "/v3/limits/<far-away>", none(), 403, &[]),
        ("other", "GET", own, none(), 403, &[]),
        ("member", "GET", "/v3/limits/<of-domain>", none(), 403, &[]),
        ("member", "GET", path_of_nobody, none(), 403, &[]),
        ("admin", "GET", path_of_nobody, none(), 404, &[]),
        (
            "admin",
            "PATCH",
            own,
            patch(json!({ "resource_limit": 0, "description": "words" })),
            200,
            &["\"resource_limit\":0", "words", "\"resource_name\":\"volumes\""],
        ),
        (
            "admin",
            "PATCH",
            own,
            patch(json!({ "description": null })),
            200,
            &["\"resource_limit\":0", "\"description\":null"],
        ),
        ("admin", "PATCH", own, patch(json!({ "service_id": "<service>" })), 400, &["service_id"]),
        ("member", "PATCH", own, patch(json!({ "resource_limit": 1 })), 403, &[]),
        // The limits of a project are deleted with it.
        ("admin", "DELETE", "/v3/projects/<far>", none(), 204, &[]),
        ("admin", "GET", collection, none(), 200, &["<own>", "!<far-away>"]),
        ("member", "DELETE", own, none(), 403, &[]),
        ("admin", "DELETE", own, none(), 204, &[]),
        ("admin", "DELETE", "/v3/limits/<of-domain>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/registered_limits/<registered>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/services/<service>", none(), 204, &[]),
    ];
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<Limit>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn limits_of_two_levels() {
    let new = json!({ "registered_limits": [registered("volumes", none(), 10)] });
    let patch = |limit: i64| json!({ "limit": { "resource_limit": limit } });
    let project = |name: &str, parent: &str| json!({ "project": { "name": name, "parent_id": parent } });
    let collection = "/v3/limits";
    let rows: Vec<Row> = vec![
        ("member", "GET", "/v3/limits/model", none(), 200, &["\"name\":\"strict_two_level\""]),
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/registered_limits", new, 201, &[]),
        // Without a limit of the domain, the default counts.
        (
            "admin",
            "POST",
            collection,
            limits(&[("project_id", "<a>", 11)]),
            403,
            &["Invalid resource limit", "parent"],
        ),
        ("admin", "POST", "/v3/limits -> domain", limits(&[("domain_id", "default", 8)]), 201, &[]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", 9)]), 403, &["parent"]),
        ("admin", "POST", collection, limits(&[("project_id", "<a>", -1)]), 403, &["parent"]),
        ("admin", "POST", "/v3/limits -> project", limits(&[("project_id", "<a>", 8)]), 201, &[]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(7), 403, &["project in the domain"]),
        ("admin", "PATCH", "/v3/limits/<project>", patch(9), 403, &["parent"]),
        ("admin", "PATCH", "/v3/limits/<domain>", patch(-1), 200, &[]),
        ("admin", "PATCH", "/v3/limits/<project>", patch(100), 200, &[]),
        // A limit of the domain in the same request counts.
        (
            "admin",
            "POST",
            collection,
            limits(&[("domain_id", "<elsewhere>", 20), ("project_id", "<far>", 21)]),
            403,
            &[],
        ),
        ("admin", "GET", "/v3/limits?domain_id=<elsewhere>", none(), 200, &["\"limits\":[]"]),
        (
            "admin",
            "POST",
            collection,
            limits(&[("domain_id", "<elsewhere>", 20), ("project_id", "<far>", 15)]),
            201,
            &[],
        ),
        ("admin", "POST", "/v3/projects -> inner", project("inner", "<a>"), 201, &[]),
        ("admin", "POST", "/v3/projects", project("innermost", "<inner>"), 403, &["too deep"]),
    ];
    World::new(LimitModel::StrictTwoLevel).await.hold(&rows).await;
}

fn endpoint(service: &str, interface: &str, region: Value) -> Value {
    json!({ "endpoint": { "service_id": service, "interface": interface, "region_id": region, "url": "https://x" } })
}

/// Two services: the first has the endpoints `public` in the region `east` and `admins` in the region `inner`, which is in `east`; the second has the
/// endpoint `other`, in no region.
fn catalog() -> Vec<Row> {
    let inner = json!({ "region": { "parent_region_id": "east" } });
    vec![
        ("admin", "POST", "/v3/regions", json!({ "region": { "id": "east" } }), 201, &[]),
        ("admin", "PUT", "/v3/regions/inner", inner, 201, &["\"parent_region_id\":\"east\""]),
        ("admin", "POST", "/v3/services -> first", json!({ "service": { "type": "volume" } }), 201, &[]),
        ("admin", "POST", "/v3/services -> second", json!({ "service": { "type": "image" } }), 201, &[]),
        ("admin", "POST", "/v3/endpoints -> public", endpoint("<first>", "public", json!("east")), 201, &[]),
        ("admin", "POST", "/v3/endpoints -> admins", endpoint("<first>", "admin", json!("inner")), 201, &[]),
        ("admin", "POST", "/v3/endpoints -> other-one", endpoint("<second>", "public", none()), 201, &[]),
    ]
}

#[tokio::test]
async fn policies_of_endpoints() {
    let policy = |body: Value| json!({ "policy": body });
    let new = || policy(json!({ "type": "application/json", "blob": "{}", "note": "kept" }));
    let of = |endpoint: &str| -> &'static str {
        format!("/v3/endpoints/<{endpoint}>/OS-ENDPOINT-POLICY/policy").leak()
    };
    let at = |policy: &str, rest: &str| -> &'static str {
        format!("/v3/policies/<{policy}>/OS-ENDPOINT-POLICY/{rest}").leak()
    };
    let in_region = |policy: &str, region: &str| at(policy, &format!("services/<first>/regions/{region}"));
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&catalog()).await;
    let rows: Vec<Row> = vec![
        (
            "admin",
            "POST",
            "/v3/policies -> one",
            new(),
            201,
            &["\"note\":\"kept\"", "\"blob\":\"{}\"", "/v3/policies/"],
        ),
        ("admin", "POST", "/v3/policies -> two", new(), 201, &[]),
        ("admin", "POST", "/v3/policies", policy(json!({ "type": "x" })), 400, &["blob"]),
        ("admin", "POST", "/v3/policies", policy(json!({ "type": "x", "blob": {} })), 400, &["blob"]),
        ("admin", "PATCH", "/v3/policies/<one>", policy(json!({})), 400, &["policy"]),
        ("admin", "PATCH", "/v3/policies/<one>", policy(json!({ "blob": "new" })), 200, &["new", "kept"]),
        ("member", "POST", "/v3/policies", new(), 403, &["not authorized"]),
        ("member", "GET", "/v3/policies", none(), 403, &["not authorized"]),
        ("admin", "GET", "/v3/policies?type=none", none(), 200, &["\"policies\":[]"]),
        ("admin", "GET", of("public"), none(), 404, &["No policy"]),
        ("admin", "PUT", in_region("one", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("one", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("one", "inner"), none(), 404, &[]),
        ("admin", "GET", at("one", "services/<first>"), none(), 404, &[]),
        // A region counts for the regions in it.
        ("admin", "GET", of("admins"), none(), 200, &["<one>"]),
        ("admin", "GET", at("one", "endpoints"), none(), 200, &["<public>", "<admins>", "!<other-one>"]),
        // An endpoint's own policy comes first, that of its service last.
        ("admin", "PUT", at("two", "endpoints/<admins>"), none(), 204, &[]),
        ("admin", "PUT", at("two", "services/<first>"), none(), 204, &[]),
        ("admin", "GET", of("admins"), none(), 200, &["<two>"]),
        ("admin", "GET", of("public"), none(), 200, &["<one>"]),
        ("admin", "GET", of("other-one"), none(), 404, &[]),
        // A target has one policy.
        ("admin", "PUT", in_region("two", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("one", "east"), none(), 404, &[]),
        ("admin", "DELETE", in_region("one", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("two", "east"), none(), 204, &[]),
        ("admin", "DELETE", in_region("two", "east"), none(), 204, &[]),
        ("admin", "GET", in_region("two", "east"), none(), 404, &[]),
        ("admin", "PUT", in_region("two", "none"), none(), 404, &["region"]),
        ("admin", "PUT", at("two", "endpoints/<first>"), none(), 404, &["endpoint"]),
        ("admin", "PUT", at("first", "services/<first>"), none(), 404, &["policy"]),
        ("member", "PUT", at("two", "services/<first>"), none(), 403, &[]),
        ("member", "GET", of("public"), none(), 403, &[]),
        // Associations are deleted with each of their parts.
        ("admin", "DELETE", "/v3/policies/<two>", none(), 204, &[]),
        ("admin", "GET", of("public"), none(), 404, &["No policy"]),
        ("admin", "PUT", at("one", "endpoints/<public>"), none(), 204, &[]),
        ("admin", "PUT", at("one", "services/<second>"), none(), 204, &[]),
        ("admin", "PUT", in_region("one", "inner"), none(), 204, &[]),
        ("admin", "DELETE", "/v3/services/<second>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/endpoints/<public>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/endpoints/<admins>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/regions/east", none(), 204, &[]),
    ];
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<PolicyAssociation>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_catalog_follows_the_filters_of_the_project() {
    let group = |body: Value| json!({ "endpoint_group": body });
    let filters = |filters: Value| group(json!({ "name": "g", "filters": filters }));
    let at = |rest: &str| -> &'static str { format!("/v3/OS-EP-FILTER/{rest}").leak() };
    let seen = "/v3/auth/catalog";
    let (single, grouped) =
        (at("projects/<a>/endpoints/<public>"), at("endpoint_groups/<group>/projects/<a>"));
    let patch = at("endpoint_groups/<group>");
    let disabled = json!({ "endpoint": { "enabled": false } });
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&catalog()).await;
    let rows: Vec<Row> = vec![
        ("member", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        ("admin", "GET", single, none(), 404, &["not found"]),
        ("admin", "DELETE", single, none(), 404, &[]),
        ("member", "PUT", single, none(), 403, &["not authorized"]),
        ("admin", "PUT", single, none(), 204, &[]),
        ("admin", "PUT", single, none(), 409, &[]),
        ("admin", "GET", single, none(), 204, &[]),
        ("admin", "PUT", at("projects/<a>/endpoints/<first>"), none(), 404, &["endpoint"]),
        ("admin", "PUT", at("projects/<first>/endpoints/<public>"), none(), 404, &["project"]),
        // A service without any selected endpoint is left out. Other projects see the whole catalog.
        ("member", "GET", seen, none(), 200, &["<public>", "!<admins>", "!<second>"]),
        ("other", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        ("clerk", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({})), 400, &["filters"]),
        ("admin", "POST", at("endpoint_groups"), group(json!({ "name": "g" })), 400, &["filters"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({ "enabled": true })), 400, &["enabled"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({ "interface": "x" })), 400, &["interface"]),
        ("admin", "POST", at("endpoint_groups"), filters(json!({ "service_id": 1 })), 400, &["service_id"]),
        (
            "admin",
            "POST",
            at("endpoint_groups"),
            group(json!({ "filters": { "region_id": "east" } })),
            400,
            &["name"],
        ),
        ("member", "POST", at("endpoint_groups"), filters(json!({ "interface": "admin" })), 403, &[]),
        (
            "admin",
            "POST",
            at("endpoint_groups -> group"),
            filters(json!({ "interface": "admin" })),
            201,
            &[
                "\"filters\":{\"interface\":\"admin\"}",
                "/v3/OS-EP-FILTER/endpoint_groups/",
                "\"description\":null",
            ],
        ),
        ("admin", "GET", at("endpoint_groups?name=none"), none(), 200, &["\"endpoint_groups\":[]"]),
        ("admin", "PUT", grouped, none(), 204, &[]),
        ("admin", "PUT", grouped, none(), 409, &[]),
        ("admin", "GET", grouped, none(), 200, &["project_endpoint_group", "<group>", "<a>"]),
        ("member", "GET", seen, none(), 200, &["<public>", "<admins>", "!<other-one>"]),
        (
            "admin",
            "GET",
            at("projects/<a>/endpoints"),
            none(),
            200,
            &["<public>", "<admins>", "!<other-one>"],
        ),
        ("admin", "GET", at("projects/<b>/endpoints"), none(), 200, &["\"endpoints\":[]"]),
        ("admin", "GET", at("projects/<a>/endpoint_groups"), none(), 200, &["<group>"]),
        ("admin", "GET", at("endpoints/<public>/projects"), none(), 200, &["<a>", "!<b>"]),
        ("admin", "GET", at("endpoint_groups/<group>/projects"), none(), 200, &["<a>", "!<b>"]),
        ("admin", "GET", at("endpoint_groups/<group>/endpoints"), none(), 200, &["<admins>", "!<public>"]),
        ("member", "GET", at("projects/<a>/endpoints"), none(), 403, &[]),
        // A changed group changes the catalog.
        (
            "admin",
            "PATCH",
            patch,
            group(json!({ "filters": { "interface": "public", "service_id": "<second>" } })),
            200,
            &[],
        ),
        ("member", "GET", seen, none(), 200, &["<public>", "!<admins>", "<other-one>"]),
        (
            "admin",
            "PATCH",
            patch,
            group(json!({ "filters": { "region_id": null } })),
            200,
            &["\"region_id\":null"],
        ),
        ("member", "GET", seen, none(), 200, &["<public>", "!<admins>", "<other-one>"]),
        // If the filters select no endpoint, the project sees the whole catalog (as in Keystone).
        ("admin", "PATCH", patch, group(json!({ "filters": { "region_id": "none" } })), 200, &[]),
        ("admin", "DELETE", single, none(), 204, &[]),
        ("member", "GET", seen, none(), 200, &["<public>", "<admins>", "<other-one>"]),
        // A selected endpoint that is disabled is not shown, and others are not selected.
        ("admin", "PUT", single, none(), 204, &[]),
        ("admin", "PATCH", "/v3/endpoints/<public>", disabled, 200, &[]),
        ("member", "GET", seen, none(), 200, &["\"catalog\":[]"]),
        // A filter ends with the endpoint, the group and the project.
        ("admin", "DELETE", "/v3/endpoints/<public>", none(), 204, &[]),
        ("member", "GET", seen, none(), 200, &["<admins>", "<other-one>"]),
        ("admin", "PUT", at("projects/<far>/endpoints/<admins>"), none(), 204, &[]),
        ("admin", "DELETE", "/v3/projects/<far>", none(), 204, &[]),
        ("admin", "DELETE", grouped, none(), 204, &[]),
        ("admin", "DELETE", grouped, none(), 404, &["not found"]),
        ("admin", "PUT", grouped, none(), 204, &[]),
        ("admin", "DELETE", patch, none(), 204, &[]),
        ("admin", "GET", at("projects/<a>/endpoint_groups"), none(), 200, &["\"endpoint_groups\":[]"]),
    ];
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<EndpointFilter>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn configurations_of_domains() {
    let config = |config: Value| json!({ "config": config });
    let new = || {
        config(json!({
            "ldap": { "url": "ldap://x", "password": "hunter2" }, "identity": { "driver": "ldap" },
        }))
    };
    let at = |rest: &str| -> &'static str { format!("/v3/domains/default/config{rest}").leak() };
    let nobodys: &'static str = format!("/v3/domains/{NOBODY}/config").leak();
    let rows: Vec<Row> = vec![
        ("admin", "GET", at(""), none(), 404, &["any options"]),
        (
            "admin",
            "PUT",
            at(""),
            new(),
            201,
            &["\"url\":\"ldap://x\"", "\"driver\":\"ldap\"", "!hunter2", "!password"],
        ),
        ("admin", "PUT", at(""), new(), 200, &["!hunter2"]),
        (
            "admin",
            "GET",
            at(""),
            none(),
            200,
            &["{\"config\":{\"identity\":{\"driver\":\"ldap\"},\"ldap\":{\"url\":\"ldap://x\"}}}"],
        ),
        ("admin", "GET", at("/ldap"), none(), 200, &["{\"config\":{\"ldap\":{\"url\":\"ldap://x\"}}}"]),
        ("admin", "GET", at("/ldap/url"), none(), 200, &["{\"config\":{\"url\":\"ldap://x\"}}"]),
        ("admin", "GET", at("/ldap/password"), none(), 404, &["!hunter2"]),
        ("admin", "GET", at("/ldap/user"), none(), 404, &["option user in group ldap"]),
        ("admin", "GET", at("/ldap/colour"), none(), 403, &["colour"]),
        ("admin", "GET", at("/sql"), none(), 403, &["sql"]),
        (
            "admin",
            "PATCH",
            at(""),
            config(json!({ "ldap": { "user": "cn=x" } })),
            200,
            &["ldap://x", "cn=x", "!hunter2"],
        ),
        (
            "admin",
            "PATCH",
            at("/ldap"),
            config(json!({ "ldap": { "page_size": 5 } })),
            200,
            &["\"page_size\":5"],
        ),
        (
            "admin",
            "PATCH",
            at("/ldap"),
            config(json!({ "identity": { "driver": "sql" } })),
            403,
            &["identity.driver"],
        ),
        (
            "admin",
            "PATCH",
            at("/ldap/url"),
            config(json!({ "url": "ldap://y" })),
            200,
            &["ldap://y", "!ldap://x"],
        ),
        ("admin", "PATCH", at("/ldap/url"), config(json!({ "user": "cn=y" })), 403, &["ldap.user"]),
        ("admin", "PATCH", at("/ldap/suffix"), config(json!({ "suffix": "x" })), 404, &["suffix"]),
        (
            "admin",
            "PATCH",
            at("/ldap/password"),
            config(json!({ "password": "hunter3" })),
            200,
            &["!hunter3", "!hunter2"],
        ),
        ("admin", "PATCH", at(""), config(json!({})), 403, &["config"]),
        ("admin", "PATCH", at(""), config(json!({ "ldap": "x" })), 403, &["ldap"]),
        ("admin", "PATCH", at(""), config(json!({ "ldap": { "colour": 1 } })), 403, &["colour"]),
        ("admin", "PATCH", at(""), config(json!({ "sql": { "x": 1 } })), 403, &["sql"]),
        ("admin", "PUT", nobodys, new(), 404, &["domain"]),
        ("admin", "GET", nobodys, none(), 404, &["domain"]),
        ("member", "GET", at(""), none(), 403, &["not authorized"]),
        ("clerk", "GET", at(""), none(), 403, &["not authorized"]),
        ("member", "PUT", at(""), new(), 403, &["not authorized"]),
        ("admin", "DELETE", at("/ldap/password"), none(), 204, &[]),
        ("admin", "DELETE", at("/ldap/password"), none(), 404, &["password"]),
        ("admin", "DELETE", at("/ldap"), none(), 204, &[]),
        ("admin", "GET", at(""), none(), 200, &["{\"config\":{\"identity\":{\"driver\":\"ldap\"}}}"]),
        ("admin", "DELETE", at(""), none(), 204, &[]),
        ("admin", "DELETE", at(""), none(), 204, &[]),
        ("admin", "GET", at(""), none(), 404, &[]),
        (
            "admin",
            "GET",
            "/v3/domains/config/default",
            none(),
            200,
            &["inetOrgPerson", "\"driver\":\"sql\"", "!\"password\""],
        ),
        (
            "admin",
            "GET",
            "/v3/domains/config/identity/default",
            none(),
            200,
            &["{\"config\":{\"identity\":{\"driver\":\"sql\",\"list_limit\":null}}}"],
        ),
        (
            "admin",
            "GET",
            "/v3/domains/config/ldap/url/default",
            none(),
            200,
            &["{\"config\":{\"url\":\"ldap://localhost\"}}"],
        ),
        ("admin", "GET", "/v3/domains/config/ldap/password/default", none(), 403, &["secret"]),
        ("admin", "GET", "/v3/domains/config/sql/default", none(), 403, &["sql"]),
        ("member", "GET", "/v3/domains/config/default", none(), 403, &[]),
        (
            "member",
            "GET",
            at("/security_compliance"),
            none(),
            200,
            &["\"password_regex\":null", "password_regex_description"],
        ),
        (
            "member",
            "GET",
            at("/security_compliance/password_regex"),
            none(),
            200,
            &["{\"config\":{\"password_regex\":null}}"],
        ),
        ("member", "GET", at("/security_compliance/minimum"), none(), 403, &["password_regex"]),
        (
            "member",
            "GET",
            "/v3/domains/<elsewhere>/config/security_compliance",
            none(),
            403,
            &["default domain"],
        ),
        // The configuration of a domain is deleted with it.
        ("admin", "PUT", "/v3/domains/<elsewhere>/config", new(), 201, &[]),
        ("admin", "PATCH", "/v3/domains/<elsewhere>", json!({ "domain": { "enabled": false } }), 200, &[]),
        ("admin", "DELETE", "/v3/domains/<elsewhere>", none(), 204, &[]),
    ];
    let mut world = World::new(LimitModel::Flat).await;
    world.hold(&rows).await;
    let left = world.house.facts().read(|view| view.list::<DomainConfig>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn projects_that_act_as_domains() {
    let project = |body: Value| json!({ "project": body });
    let new = |more: Value| {
        let mut body = json!({ "name": "dom", "is_domain": true, "colour": "blue" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        project(body)
    };
    let own = "/v3/projects/<dom>";
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/projects", new(json!({ "parent_id": "<a>" })), 400, &["parent_id"]),
        ("admin", "POST", "/v3/projects", new(json!({ "domain_id": "default" })), 400, &["domain_id"]),
        ("member", "POST", "/v3/projects", new(json!({})), 403, &["not authorized"]),
        (
            "admin",
            "POST",
            "/v3/projects -> dom",
            new(json!({ "description": "words" })),
            201,
            &[
                "\"is_domain\":true",
                "\"domain_id\":null",
                "\"parent_id\":null",
                "blue",
                "words",
                "/v3/projects/",
            ],
        ),
        ("admin", "POST", "/v3/projects", new(json!({})), 409, &["dom"]),
        ("admin", "GET", "/v3/domains/<dom>", none(), 200, &["\"name\":\"dom\"", "blue", "!is_domain"]),
        ("admin", "GET", own, none(), 200, &["\"name\":\"dom\"", "\"is_domain\":true"]),
        ("admin", "GET", "/v3/projects", none(), 200, &["<a>", "!<dom>"]),
        (
            "admin",
            "GET",
            "/v3/projects?is_domain=true",
            none(),
            200,
            &["<dom>", "\"id\":\"default\"", "!<a>"],
        ),
        (
            "admin",
            "GET",
            "/v3/projects?is_domain=true&name=dom",
            none(),
            200,
            &["<dom>", "!\"id\":\"default\""],
        ),
        ("clerk", "GET", "/v3/projects?is_domain=true", none(), 200, &["\"projects\":[]"]),
        ("clerk", "GET", "/v3/projects/default", none(), 403, &[]),
        ("member", "GET", own, none(), 403, &[]),
        (
            "admin",
            "PATCH",
            own,
            project(json!({ "name": "renamed" })),
            200,
            &["renamed", "\"is_domain\":true"],
        ),
        ("admin", "PATCH", own, project(json!({ "is_domain": false })), 400, &["is_domain"]),
        ("admin", "PATCH", own, project(json!({ "parent_id": "<a>" })), 400, &["parent_id"]),
        ("admin", "PATCH", "/v3/projects/<a>", project(json!({ "is_domain": true })), 400, &["is_domain"]),
        ("member", "PATCH", own, project(json!({ "name": "mine" })), 403, &[]),
        ("admin", "DELETE", own, none(), 403, &["disable"]),
        ("admin", "PATCH", own, project(json!({ "enabled": false })), 200, &["\"enabled\":false"]),
        ("member", "DELETE", own, none(), 403, &[]),
        ("admin", "DELETE", own, none(), 204, &[]),
        ("admin", "GET", own, none(), 404, &["project"]),
        ("admin", "GET", "/v3/domains/<dom>", none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
async fn changed_credentials_and_regions() {
    let credential = |body: Value| json!({ "credential": body });
    let blob = |text: &str| credential(json!({ "blob": text }));
    let key = credential(json!({
        "type": "ec2", "user_id": "<admin>", "project_id": "<a>", "blob": r#"{"access":"k","secret":"s"}"#,
    }));
    let all = credential(json!({
        "type": "ec2", "user_id": "<admin>", "project_id": "<a>", "blob": r#"{"access":"k","secret":"third"}"#,
    }));
    let own = "/v3/credentials/<key>";
    let region = |parent: &str| json!({ "region": { "parent_region_id": parent } });
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/credentials -> key", key, 201, &[]),
        ("admin", "PATCH", own, blob(r#"{"access":"l","secret":"second"}"#), 200, &["<key>", "second"]),
        ("admin", "GET", own, none(), 200, &["second"]),
        // The command line client sends all attributes.
        ("admin", "PATCH", own, all, 200, &["third"]),
        ("admin", "PATCH", own, credential(json!({})), 400, &["blob"]),
        ("admin", "PATCH", own, blob("x"), 400, &["blob"]),
        ("admin", "PATCH", own, blob(r#"{"access":"k"}"#), 400, &["secret"]),
        ("admin", "PATCH", own, blob(r#"{"access":"k","secret":"s","trust_id":"x"}"#), 400, &["trust_id"]),
        ("admin", "PATCH", own, credential(json!({ "type": "cert", "blob": "x" })), 400, &["type"]),
        (
            "admin",
            "PATCH",
            own,
            credential(json!({ "project_id": "<b>", "blob": "x" })),
            400,
            &["project_id"],
        ),
        ("admin", "PATCH", own, credential(json!({ "user_id": "<member>", "blob": "x" })), 400, &["user_id"]),
        ("member", "PATCH", own, blob(r#"{"access":"k","secret":"s"}"#), 403, &["!third"]),
        ("admin", "PUT", "/v3/regions/lost", region("none"), 404, &["none"]),
        ("admin", "PUT", "/v3/regions/east", json!({ "region": {} }), 201, &["\"id\":\"east\""]),
        ("admin", "PUT", "/v3/regions/inner", region("east"), 201, &[]),
        ("admin", "PUT", "/v3/regions/inner", region("east"), 409, &[]),
        ("admin", "PUT", "/v3/regions/x", json!({ "region": { "id": "y" } }), 400, &["id"]),
        ("admin", "PATCH", "/v3/regions/east", region("inner"), 400, &[]),
        ("admin", "GET", "/v3/regions?parent_region_id=east", none(), 200, &["inner", "!\"id\":\"east\""]),
        ("admin", "POST", "/v3/services -> service", json!({ "service": { "type": "volume" } }), 201, &[]),
        (
            "admin",
            "POST",
            "/v3/endpoints -> endpoint",
            endpoint("<service>", "public", json!("inner")),
            201,
            &[],
        ),
        ("admin", "DELETE", "/v3/regions/east", none(), 403, &["endpoints"]),
        ("admin", "DELETE", "/v3/endpoints/<endpoint>", none(), 204, &[]),
        ("admin", "DELETE", "/v3/regions/east", none(), 204, &[]),
        ("admin", "GET", "/v3/regions/inner", none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}
