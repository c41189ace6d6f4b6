//! The users of the tests, and functions that send requests and compare the answers.

use bytes::Bytes;
use enfilade_admin::keystone as admin;
use enfilade_admin::{LimitModel, PasswordRules};
use enfilade_faces::{Faces, Router};
use enfilade_facts::tables::{GrantKey, GrantScope, Grantee};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_passage::{KeyRing, Parts};
use enfilade_testkit::{Remembering, TestHouse, connection};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ROLES: [&str; 4] = ["admin", "manager", "member", "reader"];
/// An id that no record has.
pub(crate) const NOBODY: &str = "00000000000000000000000000000001";

pub(crate) struct World {
    pub(crate) house: TestHouse,
    router: Router,
    /// Ids and tokens by name; `<name>` in a path or body stands for the id or token with this name.
    names: BTreeMap<&'static str, String>,
}

/// A request and its answer: the caller, the method, the path, the body, the status, and texts that the answer must contain. If a text begins with
/// `!`, the answer must not contain the rest of the text. A path may end with ` -> name`: then the id of the new record gets this name.
pub(crate) type Row = (&'static str, &'static str, &'static str, Value, u16, &'static [&'static str]);

impl World {
    /// On the project `a`, the user `admin` has the role `admin`, and the user `member` has the role `member`. On the project `b`, `other` has the
    /// role `member`. On the domain Default, `clerk` has the role `reader`.
    pub(crate) async fn new(model: LimitModel) -> World {
        World::with_rules(model, PasswordRules::NONE.clone()).await
    }

    /// Like [`World::new`], with rules for passwords and logins.
    pub(crate) async fn with_rules(model: LimitModel, passwords: PasswordRules) -> World {
        World::changed(model, passwords, |_| {}).await
    }

    /// Like [`World::with_rules`], with changed parts of the server.
    pub(crate) async fn changed(
        model: LimitModel,
        passwords: PasswordRules,
        change: impl FnOnce(&mut Parts),
    ) -> World {
        let house = TestHouse::changed(Remembering::AsServed, change);
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
            let user = house.add_login(name);
            let key = GrantKey { who: Grantee::User(user), scope, role: roles[role] };
            admin::set_grant(&ctx, &key, true).unwrap();
            names.insert(name, user.to_string());
        }
        let faces = Faces::new(house.house.clone(), house.files.clone(), passwords, Vec::new());
        let faces = faces.with_limit_model(model);
        let main: [&[_]; 1] = [&enfilade_keystone::ROUTES];
        let router = Router::new(faces, &main);
        World { house, router, names }
    }

    /// The id with this name.
    pub(crate) fn id(&self, name: &str) -> &str {
        &self.names[name]
    }

    pub(crate) async fn login(&self, user: &str) -> String {
        self.session(user).await.0
    }

    /// Logs in. Returns the body of the answer.
    pub(crate) async fn token(&self, user: &str) -> String {
        self.session(user).await.1
    }

    /// Logs in. Returns the token of the session, and the body of the answer.
    async fn session(&self, user: &str) -> (String, String) {
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
        (subject.unwrap(), text)
    }

    async fn send(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Option<String>, String) {
        let mut headers = Vec::new();
        if !token.is_empty() {
            headers.push(("x-auth-token", token));
        }
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        let (status, answered, text) = self.ask(&headers, method, path, body).await;
        let subject = answered.get("x-subject-token").map(|token| token.to_str().unwrap().to_owned());
        (status, subject, text)
    }

    /// Sends a request with these headers to `https://here`.
    pub(crate) async fn ask(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path).header("host", "here");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let answer = self.router.answer(connection(), request).await;
        let status = answer.status().as_u16();
        let answered = answer.headers().clone();
        let body = answer.into_body().collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        (status, answered, String::from_utf8_lossy(&body).into_owned())
    }

    /// The text, in which ids and tokens replace their names.
    pub(crate) fn filled(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("<{name}>"), id))
    }

    /// Sends the requests in order, and compares the answers.
    pub(crate) async fn hold(&mut self, rows: &[Row]) {
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
                    "{who}: {method} {path} {body}\n  status {is}, not {status}; unmet: {missed:?}\n  {text}"
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

/// An empty body.
pub(crate) fn none() -> Value {
    Value::Null
}

pub(crate) fn endpoint(service: &str, interface: &str, region: Value) -> Value {
    json!({ "endpoint": { "service_id": service, "interface": interface, "region_id": region, "url": "https://x" } })
}

/// Two services. The first has the endpoints `public` in the region `east` and `admins` in the region `inner`, which is in `east`. The second has the
/// endpoint `other-one`, which is in no region.
#[rustfmt::skip]
pub(crate) fn catalog() -> Vec<Row> {
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
