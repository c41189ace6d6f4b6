//! OAuth 1.0a: consumers, request tokens, access tokens, and the sessions that consumers get with them.

use crate::world::{NOBODY, Row, World, none};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use enfilade_admin::{LimitModel, PasswordRules, WayKind};
use enfilade_facts::tables::{AccessToken, Activity, Consumer, RequestToken};
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{AuditRecord, Change, MemoSeed, Read, Source, Table, View};
use enfilade_identity::{Context, HashKey, IdentityMemo, SessionState};
use enfilade_testkit::Counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

const JSON: (&str, &str) = ("content-type", "application/json");
const RECEIPT: &str = "openstack-auth-receipt";

/// An id and its secret.
type Key = (String, String);

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut to, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => to.push(byte.into()),
            _ => write!(to, "%{byte:02X}").unwrap(),
        }
        to
    })
}

/// A request that a consumer signs.
#[derive(Clone)]
struct Signer {
    consumer: Key,
    token: Option<Key>,
    verifier: Option<String>,
    seconds: i64,
    nonce: String,
    base: &'static str,
}

impl Signer {
    fn new(world: &World, consumer: &Key, token: Option<&Key>, nonce: u32) -> Self {
        Signer {
            consumer: consumer.clone(),
            token: token.cloned(),
            verifier: None,
            seconds: world.house.clock.now().unix_seconds,
            nonce: nonce.to_string(),
            base: "https://here",
        }
    }

    /// The header `Authorization` of the POST request.
    fn header(&self, path: &str) -> String {
        let mut parameters = BTreeMap::from([
            ("oauth_consumer_key", self.consumer.0.clone()),
            ("oauth_nonce", self.nonce.clone()),
            ("oauth_signature_method", "HMAC-SHA1".to_owned()),
            ("oauth_timestamp", self.seconds.to_string()),
            ("oauth_version", "1.0".to_owned()),
        ]);
        parameters.extend(self.token.clone().map(|(id, _)| ("oauth_token", id)));
        parameters.extend(self.verifier.clone().map(|verifier| ("oauth_verifier", verifier)));
        let pairs: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let url = format!("{}{path}", self.base);
        let text = format!("POST&{}&{}", encoded(&url), encoded(&pairs.join("&")));
        let token = self.token.as_ref().map_or("", |(_, secret)| secret);
        let key = format!("{}&{token}", self.consumer.1);
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
        let signature = STANDARD.encode(aws_lc_rs::hmac::sign(&key, text.as_bytes()));
        parameters.insert("oauth_signature", signature);
        let parts: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}=\"{}\"", encoded(value))).collect();
        format!("OAuth {}", parts.join(", "))
    }

    async fn post(&self, world: &World, path: &str, project: &str) -> (u16, String) {
        let (header, project) = (self.header(path), world.filled(project));
        let headers = [("authorization", header.as_str()), ("requested-project-id", project.as_str())];
        let (status, _, text) = world.ask(&headers, "POST", path, "").await;
        (status, text)
    }

    async fn log_in(&self, world: &World, scope: &str) -> (u16, Option<String>, String) {
        self.log_in_with(world, scope, None).await
    }

    async fn log_in_with(
        &self,
        world: &World,
        scope: &str,
        receipt: Option<&str>,
    ) -> (u16, Option<String>, String) {
        let (path, scope) = ("/v3/auth/tokens", world.filled(scope));
        let header = self.header(path);
        let body =
            format!("{{\"auth\":{{\"identity\":{{\"methods\":[\"oauth1\"],\"oauth1\":{{}}}}{scope}}}}}");
        let mut headers = vec![("authorization", header.as_str()), JSON];
        headers.extend(receipt.map(|receipt| (RECEIPT, receipt)));
        let (status, answered, text) = world.ask(&headers, "POST", path, &body).await;
        (status, answered.get("x-subject-token").map(|token| token.to_str().unwrap().to_owned()), text)
    }
}

/// Finds the id and the secret of a token in the text of an answer.
fn key(text: &str) -> Key {
    let part = |name: &str| {
        let mut parts = text.split('&').filter_map(|part| part.split_once('='));
        parts.find(|(known, _)| *known == name).unwrap().1.to_owned()
    };
    assert!(part("oauth_expires_at").ends_with('Z'), "{text}");
    (part("oauth_token"), part("oauth_token_secret"))
}

async fn as_admin(world: &World, method: &str, path: &str, body: &Value) -> (u16, String) {
    let token = world.login("admin").await;
    let headers = [("x-auth-token", token.as_str()), JSON];
    let body = if body.is_null() { String::new() } else { world.filled(&body.to_string()) };
    let (status, _, text) = world.ask(&headers, method, &world.filled(path), &body).await;
    (status, text)
}

async fn consumer(world: &World) -> Key {
    let (status, text) = as_admin(world, "POST", "/v3/OS-OAUTH1/consumers", &json!({ "consumer": {} })).await;
    assert_eq!(status, 201, "{text}");
    let made: Value = serde_json::from_str(&text).unwrap();
    let text = |name: &str| made["consumer"][name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// Lets `admin` approve a request token for the project `a`, and exchanges it for an access token.
async fn access(world: &World, consumer: &Key, nonce: u32) -> Key {
    let signer = Signer::new(world, consumer, None, nonce);
    let (status, text) = signer.post(world, "/v3/OS-OAUTH1/request_token", "<a>").await;
    assert_eq!(status, 201, "{text}");
    let request = key(&text);
    let path = format!("/v3/OS-OAUTH1/authorize/{}", request.0);
    let (status, text) = as_admin(world, "PUT", &path, &json!({ "roles": [{ "name": "admin" }] })).await;
    assert_eq!(status, 200, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    let verifier = told["token"]["oauth_verifier"].as_str().unwrap().to_owned();
    let signer = Signer { verifier: Some(verifier), ..Signer::new(world, consumer, Some(&request), nonce) };
    let (status, text) = signer.post(world, "/v3/OS-OAUTH1/access_token", "").await;
    assert_eq!(status, 201, "{text}");
    // A request token can be exchanged only once.
    let again = Signer { nonce: format!("{nonce}-again"), ..signer };
    assert_eq!(again.post(world, "/v3/OS-OAUTH1/access_token", "").await.0, 401);
    key(&text)
}

async fn lives(world: &World, token: &str) -> bool {
    world.ask(&[("x-auth-token", token)], "GET", "/v3/auth/projects", "").await.0 == 200
}

#[tokio::test]
#[rustfmt::skip]
async fn consumers_are_managed_by_administrators() {
    let consumer = |body: Value| json!({ "consumer": body });
    let (all, one) = ("/v3/OS-OAUTH1/consumers", "/v3/OS-OAUTH1/consumers/<one>");
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/OS-OAUTH1/consumers -> one", consumer(json!({ "description": "words", "colour": "blue" })), 201, &["\"secret\":\"", "words", "blue", "/v3/OS-OAUTH1/consumers/"]),
        ("member", "POST", all, consumer(json!({})), 403, &["not authorized"]),
        ("admin", "POST", all, json!({}), 400, &["consumer"]),
        ("admin", "GET", one, none(), 200, &["words", "blue", "!secret"]),
        ("admin", "GET", all, none(), 200, &["<one>", "!secret"]),
        ("member", "GET", all, none(), 403, &["!<one>"]),
        ("admin", "PATCH", one, consumer(json!({ "description": "others" })), 200, &["others", "blue", "!secret"]),
        ("admin", "PATCH", one, consumer(json!({ "secret": "mine" })), 400, &["secret"]),
        ("admin", "PATCH", one, consumer(json!({})), 400, &["consumer"]),
        ("member", "PATCH", one, consumer(json!({ "description": "mine" })), 403, &[]),
        ("member", "DELETE", one, none(), 403, &[]),
        ("admin", "DELETE", one, none(), 204, &[]),
        ("admin", "GET", one, none(), 404, &["consumer"]),
        ("admin", "GET", "/v3/users/<admin>/OS-OAUTH1/access_tokens", none(), 200, &["\"access_tokens\":[]"]),
        ("member", "GET", "/v3/users/<member>/OS-OAUTH1/access_tokens", none(), 403, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
async fn a_consumer_acts_for_a_user_with_the_delegated_roles() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    let access = access(&world, &consumer, 1).await;
    let signer = Signer::new(&world, &consumer, Some(&access), 2);
    let (status, token, text) = signer.log_in(&world, "").await;
    assert_eq!(status, 201, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    let told = &told["token"];
    assert_eq!(told["methods"], json!(["oauth1"]));
    assert_eq!(told["user"]["id"], json!(world.filled("<admin>")));
    assert_eq!(told["project"]["id"], json!(world.filled("<a>")));
    assert_eq!(told["OS-OAUTH1"], json!({ "access_token_id": access.0, "consumer_id": consumer.0 }));
    let token = token.unwrap();
    assert!(lives(&world, &token).await);
    // The session may not manage users, credentials or delegations, although its user is an administrator.
    let (user, json) = (world.filled("<admin>"), JSON);
    for (method, path, body) in [
        ("POST", "/v3/users".to_owned(), json!({ "user": { "name": "more" } })),
        ("POST", "/v3/OS-OAUTH1/consumers".to_owned(), json!({ "consumer": {} })),
        (
            "POST",
            format!("/v3/users/{user}/application_credentials"),
            json!({ "application_credential": { "name": "more" } }),
        ),
        ("POST", format!("/v3/users/{user}/credentials/OS-EC2"), json!({ "tenant_id": world.filled("<a>") })),
        ("PUT", format!("/v3/OS-OAUTH1/authorize/{NOBODY}"), json!({ "roles": [{ "name": "admin" }] })),
        ("GET", format!("/v3/users/{user}/OS-OAUTH1/access_tokens"), Value::Null),
    ] {
        let headers = [("x-auth-token", token.as_str()), json];
        let (status, _, text) = world.ask(&headers, method, &path, &body.to_string()).await;
        assert_eq!(status, 403, "{method} {path}: {text}");
    }
    let exchange = json!({ "auth": { "identity": { "methods": ["token"], "token": { "id": token } } } });
    assert_eq!(world.ask(&[JSON], "POST", "/v3/auth/tokens", &exchange.to_string()).await.0, 403);
    // The session has the same scope as the access token.
    let scope = |project: &str| format!(",\"scope\":{{\"project\":{{\"id\":\"{project}\"}}}}");
    for (nonce, scope, expected) in [
        (3, scope("<a>"), 201),
        (4, scope("<b>"), 403),
        (5, ",\"scope\":{\"system\":{\"all\":true}}".into(), 403),
    ] {
        let signer = Signer::new(&world, &consumer, Some(&access), nonce);
        assert_eq!(signer.log_in(&world, &scope).await.0, expected, "{scope}");
    }
    let path = format!("/v3/users/{user}/OS-OAUTH1/access_tokens/{}", access.0);
    let (status, text) = as_admin(&world, "GET", &path, &Value::Null).await;
    assert!(status == 200 && text.contains(&consumer.0) && !text.contains(&access.1), "{text}");
    let (status, text) = as_admin(&world, "GET", &format!("{path}/roles"), &Value::Null).await;
    assert!(status == 200 && text.contains("\"name\":\"admin\""), "{text}");
    let other = world.filled("/v3/users/<member>/OS-OAUTH1/access_tokens/") + &access.0;
    assert_eq!(as_admin(&world, "GET", &other, &Value::Null).await.0, 404);
    assert_eq!(as_admin(&world, "DELETE", &other, &Value::Null).await.0, 404);
    assert_eq!(as_admin(&world, "DELETE", &path, &Value::Null).await.0, 204);
    assert!(!lives(&world, &token).await);
    assert_eq!(Signer::new(&world, &consumer, Some(&access), 6).log_in(&world, "").await.0, 401);
}

#[tokio::test]
async fn a_request_is_accepted_once_and_only_as_it_was_signed() {
    let world = World::new(LimitModel::Flat).await;
    let (consumer, other) = (consumer(&world).await, consumer(&world).await);
    let access = access(&world, &consumer, 1).await;
    let good = Signer::new(&world, &consumer, Some(&access), 2);
    let failures = || world.house.house.penalties().counts().failed;
    let before = failures();
    let wrong = [
        Signer { consumer: (consumer.0.clone(), other.1.clone()), ..good.clone() },
        Signer { consumer: other.clone(), ..good.clone() },
        Signer { token: Some((access.0.clone(), consumer.1.clone())), ..good.clone() },
        Signer { token: Some((NOBODY.into(), access.1.clone())), ..good.clone() },
        // A consumer or token that does not exist has no secret. A signature with an empty secret proves nothing.
        Signer { token: Some((NOBODY.into(), String::new())), ..good.clone() },
        Signer { consumer: ("redacted".into(), "redacted".into()), ..good.clone() },
        Signer { seconds: good.seconds - 301, ..good.clone() },
        Signer { seconds: good.seconds + 301, ..good.clone() },
        Signer { base: "https://elsewhere", ..good.clone() },
        Signer { base: "http://here", ..good.clone() },
    ];
    for (n, signer) in wrong.iter().enumerate() {
        let (status, token, text) = signer.log_in(&world, "").await;
        assert_eq!((status, token), (401, None), "{n}: {text}");
    }
    assert_eq!(failures() - before, wrong.len() as u64, "each counts as a failed login");
    assert_eq!(good.log_in(&world, "").await.0, 201);
    assert_eq!(good.log_in(&world, "").await.0, 401, "the nonce was used");
    world.house.clock.advance_seconds(200);
    assert_eq!(good.log_in(&world, "").await.0, 401, "the nonce was used");
    world.house.clock.advance_seconds(200);
    assert_eq!(good.log_in(&world, "").await.0, 401, "the request is old");
    // An access token lasts a day.
    world.house.clock.advance_seconds(24 * 3600 - 401);
    assert_eq!(Signer::new(&world, &consumer, Some(&access), 3).log_in(&world, "").await.0, 201);
    world.house.clock.advance_seconds(1);
    assert_eq!(Signer::new(&world, &consumer, Some(&access), 4).log_in(&world, "").await.0, 401);
}

#[tokio::test]
async fn only_an_approved_request_token_is_exchanged() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    let signer = |token: Option<&Key>, nonce| Signer::new(&world, &consumer, token, nonce);
    let (path, exchange) = ("/v3/OS-OAUTH1/request_token", "/v3/OS-OAUTH1/access_token");
    assert_eq!(signer(None, 1).post(&world, path, NOBODY).await.0, 404, "no such project");
    let unknown = Signer { consumer: (NOBODY.into(), String::new()), ..signer(None, 1) };
    assert_eq!(unknown.post(&world, path, "<a>").await.0, 401, "no such consumer");
    let (status, text) = signer(None, 2).post(&world, path, "<a>").await;
    assert_eq!(status, 201, "{text}");
    let request = key(&text);
    let with =
        |verifier: &str, nonce| Signer { verifier: Some(verifier.into()), ..signer(Some(&request), nonce) };
    assert_eq!(signer(Some(&request), 3).post(&world, exchange, "").await.0, 400, "without a verifier");
    assert_eq!(with("guessed", 4).post(&world, exchange, "").await.0, 401, "not approved");
    let approve = format!("/v3/OS-OAUTH1/authorize/{}", request.0);
    for (path, body, expected) in [
        (&approve, json!({ "roles": [] }), 400),
        (&approve, json!({}), 400),
        (&approve, json!({ "roles": [{ "name": "member" }] }), 403),
        (&approve, json!({ "roles": [{ "id": NOBODY }] }), 403),
        (&format!("/v3/OS-OAUTH1/authorize/{NOBODY}"), json!({ "roles": [{ "name": "admin" }] }), 404),
        (&approve, json!({ "roles": [{ "name": "admin" }] }), 200),
    ] {
        let (status, text) = as_admin(&world, "PUT", path, &body).await;
        assert_eq!(status, expected, "{body}: {text}");
    }
    let member = world.login("member").await;
    let headers = [("x-auth-token", member.as_str()), JSON];
    let roles = json!({ "roles": [{ "name": "member" }] }).to_string();
    assert_eq!(world.ask(&headers, "PUT", &approve, &roles).await.0, 403, "as in Keystone's policy");
    assert_eq!(with("guessed", 5).post(&world, exchange, "").await.0, 401, "another verifier");
    // A request token lasts eight hours. An expired request token is deleted when the consumer gets the next request token.
    world.house.clock.advance_seconds(8 * 3600);
    assert_eq!(as_admin(&world, "PUT", &approve, &json!({ "roles": [{ "name": "admin" }] })).await.0, 404);
    assert_eq!(signer(None, 6).post(&world, path, "<a>").await.0, 201);
    let left = world.house.facts().read(|view| view.list::<RequestToken>(&[])).unwrap().unwrap();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn sessions_end_with_what_they_depend_on() {
    let delete = json!(null);
    for (what, method, path, body) in [
        ("the consumer", "DELETE", "/v3/OS-OAUTH1/consumers/<consumer>", &delete),
        ("the user", "DELETE", "/v3/users/<admin>", &delete),
        ("the project", "DELETE", "/v3/projects/<a>", &delete),
        ("the user, disabled", "PATCH", "/v3/users/<admin>", &json!({ "user": { "enabled": false } })),
    ] {
        let world = World::new(LimitModel::Flat).await;
        let consumer = consumer(&world).await;
        let access = access(&world, &consumer, 1).await;
        let (_, token, _) = Signer::new(&world, &consumer, Some(&access), 2).log_in(&world, "").await;
        let token = token.unwrap();
        assert!(lives(&world, &token).await, "{what}");
        let (status, text) = as_admin(&world, method, &path.replace("<consumer>", &consumer.0), body).await;
        assert!(status < 300, "{what}: {text}");
        assert!(!lives(&world, &token).await, "{what}");
        let again = Signer::new(&world, &consumer, Some(&access), 3).log_in(&world, "").await.0;
        assert_eq!(again, 401, "{what}");
        enfilade_admin::keystone::sweep_all(&world.house.change_context()).unwrap();
        let left = world.house.facts().read(|view| {
            (view.list::<AccessToken>(&[]).unwrap().len(), view.list::<Consumer>(&[]).unwrap().len())
        });
        let expected = (usize::from(method == "PATCH"), usize::from(what != "the consumer"));
        assert_eq!(left.unwrap(), expected, "{what}");
    }
}

/// Whether `user access` reports that the access token of `admin` works.
fn is_said_to_work(world: &World) -> bool {
    let user: UserId = world.id("admin").parse().unwrap();
    let (now, key) = (world.house.clock.now(), HashKey::new(&[42; 32]));
    let (sessions, memo) = (SessionState::default(), IdentityMemo::new(MemoSeed([1; 16]), 1 << 16));
    let context = Context { hash_key: &key, sessions: &sessions, memo: &memo };
    let works = |view: &View<'_>| {
        let ways = enfilade_admin::ways_of(view, &user).unwrap();
        let way = ways.iter().find(|way| way.kind == WayKind::OAuthAccessToken).unwrap();
        way.check(view, now, &context).is_ok()
    };
    world.house.facts().read(works).unwrap()
}

#[tokio::test]
async fn the_rules_of_the_user_for_multi_factor_authentication_concern_the_consumer() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    let access = access(&world, &consumer, 1).await;
    let (_, token, _) = Signer::new(&world, &consumer, Some(&access), 2).log_in(&world, "").await;
    let token = token.unwrap();
    for (nonce, rules, expected) in [
        (3, json!([["password"], ["password", "totp"]]), 401),
        (4, json!([["password"], ["oauth1", "totp"]]), 401),
        (5, json!([["password"], ["oauth1"]]), 201),
        (6, Value::Null, 201),
    ] {
        let body = json!({ "user": { "options": { "multi_factor_auth_rules": rules } } });
        let (status, text) = as_admin(&world, "PATCH", "/v3/users/<admin>", &body).await;
        assert_eq!(status, 200, "{text}");
        let signer = Signer::new(&world, &consumer, Some(&access), nonce);
        let (status, made, text) = signer.log_in(&world, "").await;
        assert_eq!((status, made.is_some()), (expected, expected == 201), "{rules}: {text}");
        assert!(!text.contains("receipt"), "{text}");
        assert_eq!(is_said_to_work(&world), expected == 201, "{rules}");
        assert!(lives(&world, &token).await, "{rules}: the rules concern logins, and not sessions");
    }
}

/// Logs in with a password. Returns the status and the receipt of the answer.
async fn receipt(world: &World, user: &str) -> (u16, Option<String>) {
    let given = json!({ "user": { "id": world.id(user), "password": "pw" } });
    let body = json!({ "auth": { "identity": { "methods": ["password"], "password": given } } });
    let (status, answered, _) = world.ask(&[JSON], "POST", "/v3/auth/tokens", &body.to_string()).await;
    (status, answered.get(RECEIPT).map(|receipt| receipt.to_str().unwrap().to_owned()))
}

#[tokio::test]
async fn a_rule_for_password_and_consumer_is_satisfied_with_a_receipt() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    let access = access(&world, &consumer, 1).await;
    let admin = world.login("admin").await;
    let rules = json!({ "user": { "options": { "multi_factor_auth_rules": [["password", "oauth1"]] } } });
    for user in ["admin", "member"] {
        let headers = [("x-auth-token", admin.as_str()), JSON];
        let path = format!("/v3/users/{}", world.id(user));
        assert_eq!(world.ask(&headers, "PATCH", &path, &rules.to_string()).await.0, 200);
    }
    assert!(is_said_to_work(&world), "with a receipt");
    let (status, own) = receipt(&world, "admin").await;
    assert_eq!(status, 401, "the password is not enough");
    let (own, other) = (own.unwrap(), receipt(&world, "member").await.1.unwrap());
    let signer = |nonce| Signer::new(&world, &consumer, Some(&access), nonce);
    for (nonce, given) in [(2, None), (3, Some(&other)), (4, Some(&admin)), (5, Some(&access.0))] {
        let answer = signer(nonce).log_in_with(&world, "", given.map(String::as_str)).await;
        assert_eq!((answer.0, answer.1), (401, None), "{nonce}: {}", answer.2);
    }
    let (status, token, text) = signer(6).log_in_with(&world, "", Some(&own)).await;
    assert_eq!(status, 201, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["token"]["methods"], json!(["password", "oauth1"]));
    assert_eq!(told["token"]["OS-OAUTH1"]["access_token_id"], json!(access.0));
    // The session is lent. So it cannot be exchanged, although its user presented a password.
    let token = token.unwrap();
    assert!(lives(&world, &token).await);
    let exchange = json!({ "auth": { "identity": { "methods": ["token"], "token": { "id": token } } } });
    assert_eq!(world.ask(&[JSON], "POST", "/v3/auth/tokens", &exchange.to_string()).await.0, 403);
    world.house.clock.advance_seconds(301);
    let late = Signer::new(&world, &consumer, Some(&access), 7).log_in_with(&world, "", Some(&own)).await;
    assert_eq!(late.0, 401, "the receipt is expired");
}

#[tokio::test]
async fn an_access_token_works_if_the_user_can_get_a_receipt_for_the_other_methods() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    access(&world, &consumer, 1).await;
    // For each rule: whether the access token works if the user has no credential for passcodes, and whether it works if the user has one.
    let cases = [
        (json!([["password", "oauth1"]]), true, true),
        (json!([["oauth1", "totp"]]), false, true),
        (json!([["password", "oauth1", "totp"]]), false, true),
        (json!([["password", "oauth1", "application_credential"]]), false, false),
        // The password alone is enough for a session, so no receipt is issued for the password.
        (json!([["password"], ["password", "oauth1"]]), false, false),
        (json!([["password"], ["totp", "oauth1"]]), false, true),
        (json!([["password", "totp"]]), false, false),
    ];
    let token = world.login("admin").await;
    let headers = [("x-auth-token", token.as_str()), JSON];
    let patch = async |rules: &Value| {
        let body = json!({ "user": { "options": { "multi_factor_auth_rules": rules } } }).to_string();
        let path = world.filled("/v3/users/<admin>");
        assert_eq!(world.ask(&headers, "PATCH", &path, &body).await.0, 200);
    };
    for (rules, without, _) in &cases {
        patch(rules).await;
        assert_eq!(is_said_to_work(&world), *without, "{rules} without a key");
    }
    let key =
        json!({ "type": "totp", "blob": "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "user_id": world.id("admin") });
    let body = json!({ "credential": key }).to_string();
    let (status, _, text) = world.ask(&headers, "POST", "/v3/credentials", &body).await;
    assert_eq!(status, 201, "{text}");
    for (rules, _, with) in &cases {
        patch(rules).await;
        assert_eq!(is_said_to_work(&world), *with, "{rules} with a key");
    }
}

#[tokio::test]
async fn the_sessions_of_an_inactive_user_end_and_those_of_a_locked_user_go_on() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    let access = access(&world, &consumer, 1).await;
    let (_, token, _) = Signer::new(&world, &consumer, Some(&access), 2).log_in(&world, "").await;
    let token = token.unwrap();
    let user: UserId = world.id("admin").parse().unwrap();
    let locked_until = world.house.clock.now().unix_seconds + 60;
    for (nonce, activity, expected) in [
        (3, Activity { locked_until, ..Activity::default() }, 201),
        (4, Activity::default().active_on(1, 90), 401),
    ] {
        let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
        world.house.facts().commit(Change::new(who).put(&user, &activity)).unwrap();
        assert_eq!(lives(&world, &token).await, expected == 201, "{activity:?}");
        let signer = Signer::new(&world, &consumer, Some(&access), nonce);
        assert_eq!(signer.log_in(&world, "").await.0, expected, "{activity:?}");
    }
}

#[tokio::test]
async fn an_access_token_ends_in_the_second_in_which_it_expires() {
    let world = World::new(LimitModel::Flat).await;
    let consumer = consumer(&world).await;
    let access = access(&world, &consumer, 1).await;
    let facts = world.house.facts();
    let (id, row) = facts.read(|view| view.list::<AccessToken>(&[])).unwrap().unwrap().remove(0);
    let expires = world.house.clock.now().unix_seconds + 10;
    let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
    facts.commit(Change::new(who).put(&id, &AccessToken { expires, ..row })).unwrap();
    let (_, token, _) = Signer::new(&world, &consumer, Some(&access), 2).log_in(&world, "").await;
    let token = token.unwrap();
    for (nonce, seconds, is_valid) in [(3, 9, true), (4, 1, false)] {
        world.house.clock.advance_seconds(seconds);
        assert_eq!(lives(&world, &token).await, is_valid);
        let signer = Signer::new(&world, &consumer, Some(&access), nonce);
        assert_eq!(signer.log_in(&world, "").await.0 == 201, is_valid);
        assert_eq!(is_said_to_work(&world), is_valid);
    }
}

#[tokio::test]
async fn a_request_token_ends_in_the_second_in_which_it_expires() {
    for (seconds, expected) in [(9, 201), (10, 401)] {
        let world = World::new(LimitModel::Flat).await;
        let consumer = consumer(&world).await;
        let signer = Signer::new(&world, &consumer, None, 1);
        let request = key(&signer.post(&world, "/v3/OS-OAUTH1/request_token", "<a>").await.1);
        let path = format!("/v3/OS-OAUTH1/authorize/{}", request.0);
        let (_, text) = as_admin(&world, "PUT", &path, &json!({ "roles": [{ "name": "admin" }] })).await;
        let told: Value = serde_json::from_str(&text).unwrap();
        let verifier = told["token"]["oauth_verifier"].as_str().map(str::to_owned);
        let facts = world.house.facts();
        let (id, row) = facts.read(|view| view.list::<RequestToken>(&[])).unwrap().unwrap().remove(0);
        let expires = world.house.clock.now().unix_seconds + 10;
        let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
        facts.commit(Change::new(who).put(&id, &RequestToken { expires, ..row })).unwrap();
        world.house.clock.advance_seconds(seconds);
        let signer = Signer { verifier, ..Signer::new(&world, &consumer, Some(&request), 2) };
        let (status, text) = signer.post(&world, "/v3/OS-OAUTH1/access_token", "").await;
        assert_eq!(status, expected, "{text}");
    }
}

/// A client without an access token must not cause the server to look for a project. So the tables in which a scope is looked up are not read.
#[tokio::test]
async fn the_scope_is_looked_up_only_after_the_proof() {
    let mut counted = None;
    let world = World::changed(LimitModel::Flat, PasswordRules::NONE.clone(), |parts| {
        let facts = Arc::new(Counted::new(Arc::clone(&parts.source)));
        parts.source = Arc::clone(&facts) as Arc<dyn Source>;
        counted = Some(facts);
    })
    .await;
    let counted = counted.unwrap();
    let consumer = consumer(&world).await;
    let access = access(&world, &consumer, 1).await;
    let reads = || [Table::Projects, Table::Domains, Table::Names].map(|table| counted.reads_of(table));
    let by_name = |name: &str| {
        format!(",\"scope\":{{\"project\":{{\"name\":\"{name}\",\"domain\":{{\"name\":\"Default\"}}}}}}")
    };
    let by_id = |id: &str| format!(",\"scope\":{{\"project\":{{\"id\":\"{id}\"}}}}");
    let wrong = Signer {
        consumer: (consumer.0.clone(), access.1.clone()),
        ..Signer::new(&world, &consumer, Some(&access), 2)
    };
    for scope in [by_name("a"), by_name("none"), by_id("<a>"), by_id(NOBODY), by_id("<b>")] {
        let before = reads();
        let (status, token, text) = wrong.log_in(&world, &scope).await;
        assert_eq!((status, token, reads()), (401, None, before), "{scope}: {text}");
    }
    let before = reads();
    assert_eq!(Signer::new(&world, &consumer, Some(&access), 3).log_in(&world, &by_name("a")).await.0, 201);
    assert!(
        reads().iter().zip(before).all(|(after, before)| *after > before),
        "each table is read for a scope"
    );
}
