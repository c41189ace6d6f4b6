//! Passcodes, rules for multi-factor authentication, and receipts. Requests go to the HTTP face in process, at fixed times.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use aws_lc_rs::hmac;
use bytes::Bytes;
use enfilade_admin::PasswordRules;
use enfilade_admin::keystone as admin;
use enfilade_faces::{Faces, Router};
use enfilade_facts::tables::{
    Blob, BlobId, Domain, GrantKey, GrantScope, Grantee, Password, Profile, ResourceKind, Reverse,
    ReverseKey, UsedPasscode, User,
};
use enfilade_facts::vocabulary::{AccessMask, Authid, DomainId, ProjectId, Secret, StorePath, UserId, Word};
use enfilade_facts::{AuditRecord, Change, MemoSeed, Read, Refuse as _, View};
use enfilade_identity::{IdentityMemo, Reach, SecretAsk, Wanted, who_would};
use enfilade_passage::{House, KeyRing};
use enfilade_testkit::{CHEAP_HASH, Remembering, TestHouse, connection, parts_at};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const SECRET: &[u8] = b"12345678901234567890";
const SECRET_BASE32: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
const RECEIPT: &str = "openstack-auth-receipt";

struct World {
    house: TestHouse,
    router: Router,
    ids: BTreeMap<&'static str, String>,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> String {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
    }

    fn token(&self) -> String {
        assert_eq!(self.status, 201, "{}", self.body);
        self.header("x-subject-token")
    }

    /// The receipt in a refusal.
    fn receipt(&self) -> String {
        assert_eq!(self.status, 401, "{}", self.body);
        let receipt = self.header(RECEIPT);
        assert!(!receipt.is_empty(), "{}", self.body);
        receipt
    }

    fn is_refused(&self) {
        assert_eq!((self.status, self.header(RECEIPT).as_str()), (401, ""), "{}", self.body);
        assert_eq!(self.body["error"]["message"], "The request you have made requires authentication.");
    }
}

impl World {
    /// `admin` has the role on the project `a`, and `ann` and `bob` are members of it. `ann` has a credential of type `totp`.
    async fn new() -> World {
        let mut house = TestHouse::new(Remembering::AsServed);
        let bytes: [u8; 32] = [7; 32];
        house.house.set_keys(Some(KeyRing::new(&[(0, &bytes), (1, &bytes)]).unwrap()));
        let mut ids = BTreeMap::new();
        {
            let ctx = house.change_context();
            admin::add_domain(&ctx, &"Default".parse().unwrap(), Some(DomainId::DEFAULT)).unwrap();
            let project = admin::add_project(&ctx, &"Default".parse().unwrap(), "a", None).unwrap().0;
            ids.insert("a", project.to_string());
            for (name, role) in [("admin", "admin"), ("ann", "member"), ("bob", "reader")] {
                let role = admin::add_role(&ctx, role, None).unwrap().0;
                let user = house.add_login(name);
                let key = GrantKey { who: Grantee::User(user), scope: GrantScope::Project(project), role };
                admin::set_grant(&ctx, &key, true).unwrap();
                ids.insert(name, user.to_string());
            }
        }
        house.add_user(&"tom@Default".parse().unwrap(), None);
        let faces =
            Faces::new(house.house.clone(), house.files.clone(), PasswordRules::NONE.clone(), Vec::new());
        let main: [&[_]; 2] = [&enfilade_keystone::ROUTES, &enfilade_proxmox::ROUTES];
        let router = Router::new(faces, &main, &[]);
        let world = World { house, router, ids };
        let credential = json!({ "type": "totp", "blob": SECRET_BASE32, "user_id": world.ids["ann"] });
        let made = world.as_admin("POST", "/v3/credentials", &json!({ "credential": credential })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        world
    }

    async fn send(&self, headers: &[(&str, &str)], method: &str, path: &str, body: &Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "here");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.router.answer(connection(), request).await;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.into_body().collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        Answer { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    async fn as_admin(&self, method: &str, path: &str, body: &Value) -> Answer {
        let scope = json!({ "project": { "id": self.ids["a"] } });
        let token = self.login_as("admin", &["password"], "", Some(&scope), "").await.token();
        self.send(&[("x-auth-token", &token)], method, path, body).await
    }

    /// A login of a user with these methods. `given` is the passcode, or the token of the method `token`.
    async fn login_as(
        &self,
        user: &str,
        methods: &[&str],
        given: &str,
        scope: Option<&Value>,
        receipt: &str,
    ) -> Answer {
        let id = &self.ids[user];
        let mut identity = json!({ "methods": methods });
        for method in methods {
            identity[*method] = match *method {
                "password" => json!({ "user": { "id": id, "password": "pw" } }),
                "totp" => json!({ "user": { "id": id, "passcode": given } }),
                _ => json!({ "id": given }),
            };
        }
        let mut auth = json!({ "identity": identity });
        if let Some(scope) = scope {
            auth["scope"] = scope.clone();
        }
        let headers: &[(&str, &str)] = if receipt.is_empty() { &[] } else { &[(RECEIPT, receipt)] };
        self.send(headers, "POST", "/v3/auth/tokens", &json!({ "auth": auth })).await
    }

    async fn login(&self, methods: &[&str], given: &str) -> Answer {
        self.login_as("ann", methods, given, None, "").await
    }

    /// The passcode of the present time step, or of one so many steps away.
    fn passcode(&self, steps: i64) -> String {
        self.passcode_of(SECRET, steps)
    }

    fn passcode_of(&self, secret: &[u8], steps: i64) -> String {
        let step = u64::try_from(self.house.clock.now().unix_seconds.div_euclid(30) + steps).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let offset = usize::from(tag.as_ref()[19] & 0xf);
        let part = <[u8; 4]>::try_from(&tag.as_ref()[offset..offset + 4]).unwrap();
        format!("{:06}", (u32::from_be_bytes(part) & 0x7fff_ffff) % 1_000_000)
    }

    /// Lets time steps pass.
    fn wait(&self, steps: u64) {
        self.house.clock.advance_seconds(steps * 30);
    }

    async fn set_options(&self, options: &Value) -> Answer {
        let path = format!("/v3/users/{}", self.ids["ann"]);
        self.as_admin("PATCH", &path, &json!({ "user": { "options": options } })).await
    }

    fn project(&self) -> Value {
        json!({ "project": { "id": self.ids["a"] } })
    }

    /// Puts the rule "password and passcode" in force.
    async fn need_both(&self) {
        let options =
            json!({ "multi_factor_auth_enabled": true, "multi_factor_auth_rules": [["password", "totp"]] });
        let answer = self.set_options(&options).await;
        assert_eq!((answer.status, &answer.body["user"]["options"]), (200, &options), "{}", answer.body);
    }
}

fn ann() -> Authid {
    "ann@Default".parse().unwrap()
}

fn secret_ask(secret: &str) -> SecretAsk {
    SecretAsk { authid: ann(), secret: Secret::new(secret.as_bytes()).unwrap() }
}

#[tokio::test]
async fn a_passcode_is_accepted_once_and_for_two_steps() {
    let world = World::new().await;
    let both = ["password", "totp"];
    let passcode = world.passcode(0);
    let answer = world.login(&both, &passcode).await;
    answer.token();
    assert_eq!(answer.body["token"]["methods"], json!(["password", "totp"]));
    world.login(&both, &passcode).await.is_refused();
    // The step before is older than the used one.
    world.login(&both, &world.passcode(-1)).await.is_refused();
    // The used passcode stays refused in the next step, in which it would still be accepted.
    world.wait(1);
    world.login(&both, &passcode).await.is_refused();
    world.login(&both, &world.passcode(0)).await.token();
    // Wrong passcodes are bounded for ten minutes.
    world.wait(20);
    for (steps, is_accepted) in [(-2, false), (1, false), (-1, true), (0, true)] {
        let answer = world.login(&both, &world.passcode(steps)).await;
        assert_eq!(answer.status == 201, is_accepted, "{steps}: {}", answer.body);
    }
    world.wait(2);
    let failed = world.house.house.penalties().counts().failed;
    world.login(&both, "000000").await.is_refused();
    assert_eq!(world.house.house.penalties().counts().failed, failed + 1);
    let of_bob = world.login_as("bob", &both, &world.passcode(0), None, "").await;
    of_bob.is_refused();
    // The passcode was not of bob, so it is not used.
    world.login(&both, &world.passcode(0)).await.token();
}

/// Five wrong passcodes in ten minutes stop the comparison for the user. Passcodes without another method are counted on their own, so that strangers
/// keep nobody out.
#[tokio::test]
async fn guesses_at_passcodes_are_bounded() {
    let world = World::new().await;
    let both = ["password", "totp"];
    for n in 0..5 {
        world.login(&["totp"], "000000").await.is_refused();
        world.wait(n % 2);
    }
    world.login(&["totp"], &world.passcode(0)).await.is_refused();
    world.login(&both, &world.passcode(0)).await.token();
    // With a receipt of the password, too, the other method is proven.
    world.need_both().await;
    world.wait(1);
    for n in 0..5 {
        let receipt = world.login(&["password"], "").await.receipt();
        let (methods, receipt) = if n % 2 == 0 { (&both[1..], &*receipt) } else { (&both[..], "") };
        world.login_as("ann", methods, "000000", None, receipt).await.is_refused();
    }
    world.login(&both, &world.passcode(0)).await.is_refused();
    world.wait(20);
    world.login(&both, &world.passcode(0)).await.token();
}

#[tokio::test]
async fn every_server_and_every_start_knows_the_used_passcodes() {
    let world = World::new().await;
    let passcode = world.passcode(0);
    world.login(&["password", "totp"], &passcode).await.token();
    let used = world.house.facts().read(|view| view.list::<UsedPasscode>(&[])).unwrap().unwrap();
    let step = u64::try_from(world.house.clock.now().unix_seconds / 30).unwrap();
    assert_eq!(used.iter().map(|(_, row)| row.step).collect::<Vec<_>>(), [step]);
    let other = House::new(parts_at(world.house.source.clone(), world.house.clock.now()));
    let from = Ipv4Addr::LOCALHOST.into();
    let judged = other.check_passcode(&secret_ask(&passcode), None, &Word::new("ann"), from).await;
    let why = judged.unwrap_err();
    assert!(why.code() == "ID05" && why.to_string().contains("used before"), "{why}");
    // Two requests at the same time have one passcode; only one use is committed.
    world.wait(1);
    let asked = secret_ask(&world.passcode(0));
    let ask = || world.house.house.check_passcode(&asked, None, &ANN, from);
    let (first, second) = (ask().await.unwrap(), ask().await.unwrap());
    let ctx = world.house.change_context();
    admin::use_passcode(&ctx, &first).unwrap();
    assert!(admin::use_passcode(&ctx, &second).is_err());
    // The record goes with the credential.
    let path = format!("/v3/credentials/{}", used[0].0);
    assert_eq!(world.as_admin("DELETE", &path, &Value::Null).await.status, 204);
    let used = world.house.facts().read(|view| view.list::<UsedPasscode>(&[])).unwrap().unwrap();
    assert!(used.is_empty());
}

#[tokio::test]
async fn every_credential_of_type_totp_accepts_its_passcodes_and_no_other_credential_does() {
    let world = World::new().await;
    let both = ["password", "totp"];
    let other = b"abcdefghijklmnopqrst";
    for (kind, is_accepted) in [("cert", false), ("totp", true), ("cert", true)] {
        let blob = "MFRGGZDFMZTWQ2LKNNWG23TPOBYXE43U";
        let credential = json!({ "type": kind, "blob": blob, "user_id": world.ids["ann"] });
        let made = world.as_admin("POST", "/v3/credentials", &json!({ "credential": credential })).await;
        assert_eq!(made.status, 201, "{}", made.body);
        world.wait(1);
        world.login(&both, &world.passcode(0)).await.token();
        let answer = world.login(&both, &world.passcode_of(other, 0)).await;
        assert_eq!(answer.status == 201, is_accepted, "{kind}: {}", answer.body);
    }
}

/// The reason is for the log; the client is not told which one it is.
#[tokio::test]
async fn the_reason_why_a_passcode_is_refused_is_logged() {
    let world = World::new().await;
    let from = Ipv4Addr::LOCALHOST.into();
    let check = async |name: &str, passcode: &str| {
        let authid = format!("{name}@Default").parse().unwrap();
        let ask = SecretAsk { authid, secret: Secret::new(passcode.as_bytes()).unwrap() };
        world.house.house.check_passcode(&ask, None, &Word::new(name), from).await
    };
    let used = world.passcode(0);
    let first = check("ann", &used).await.unwrap();
    let arrived = || world.house.house.arrive_by_passcode(first.clone(), Word::new("ann"));
    let would_issue = || arrived().would_issue(Wanted::Usual).map_err(|why| why.to_string());
    // The rules of the user are checked only after the use of the passcode was committed.
    let why = would_issue().unwrap_err();
    assert!(why.contains("changed or deleted"), "{why}");
    admin::use_passcode(&world.house.change_context(), &first).unwrap();
    let why = would_issue().unwrap_err();
    assert!(!why.contains("changed or deleted"), "{why}");
    for (name, passcode, reason) in [
        ("ann", "000000", "the passcode is wrong or too old"),
        ("ann", used.as_str(), "this passcode was used before"),
        ("bob", used.as_str(), "the user has no credential of type totp"),
    ] {
        let why = check(name, passcode).await.unwrap_err();
        assert!(why.code() == "ID05" && why.to_string().contains(reason), "{name} {passcode}: {why}");
    }
    // The use of a later passcode also covers the use of this one.
    world.wait(1);
    let later = check("ann", &world.passcode(0)).await.unwrap();
    admin::use_passcode(&world.house.change_context(), &later).unwrap();
    assert!(!would_issue().unwrap_err().contains("changed or deleted"));
    let id = world.house.facts().read(|view| view.list::<UsedPasscode>(&[])).unwrap().unwrap()[0].0;
    let answer = world.as_admin("DELETE", &format!("/v3/credentials/{id}"), &Value::Null).await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    let why = would_issue().unwrap_err();
    assert!(why.contains("changed or deleted"), "{why}");
}

/// `user list` and `enfilade doctor` name the reason.
#[tokio::test]
async fn a_user_can_log_in_if_some_login_gives_all_rights_of_the_user() {
    let mut world = World::new().await;
    let now = world.house.clock.now().unix_seconds;
    let refused = |world: &World, name: &str| {
        let userid = format!("{name}@Default").parse().unwrap();
        let why = enfilade_admin::why_no_login(world.house.facts(), &userid, now).unwrap();
        why.map(|why| why.code())
    };
    for (rules, expected) in [
        (json!([["password", "totp"]]), [None, Some("ID29")]),
        (json!([["totp"]]), [None, Some("ID29")]),
        (json!([["password", "oauth1"]]), [Some("ID29"), Some("ID29")]),
        (Value::Null, [None, None]),
    ] {
        for name in ["ann", "bob"] {
            let body = json!({ "user": { "options": { "multi_factor_auth_rules": rules } } });
            let answer = world.as_admin("PATCH", &format!("/v3/users/{}", world.ids[name]), &body).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        assert_eq!(["ann", "bob"].map(|name| refused(&world, name)), expected, "{rules}");
    }

    // Users without a password, with tokens. `eve` has a token that is like herself, as `tom` has.
    assert_eq!(refused(&world, "tom"), None);
    world.house.add_user(&"eve@Default".parse().unwrap(), None);
    assert_eq!(refused(&world, "eve"), None);
    let terms = |expires, own_roles| enfilade_admin::TokenTerms { expires, own_roles, comment: None };
    for (name, terms) in [("expired", terms(now, false)), ("narrow", terms(0, true))] {
        let ctx = world.house.change_context();
        let userid = format!("{name}@Default").parse().unwrap();
        enfilade_admin::add_user(&ctx, &enfilade_admin::NewUser::named(Clone::clone(&userid))).unwrap();
        let key = enfilade_testkit::hash_key();
        enfilade_admin::create_token(&ctx, &key, &userid, &"t".parse().unwrap(), &terms).unwrap();
        assert_eq!(refused(&world, name), Some("ID04"), "{name}");
    }
    // An application credential is for one project, so it does not have all rights of its user.
    let session = world.login_as("bob", &["password"], "", Some(&world.project()), "").await.token();
    let path = format!("/v3/users/{}/application_credentials", world.ids["bob"]);
    let made = json!({ "application_credential": { "name": "ci", "secret": "a secret of ci" } });
    let made = world.send(&[("x-auth-token", &session)], "POST", &path, &made).await;
    assert_eq!(made.status, 201, "{}", made.body);
    // An application credential with access rules gives no rights on this server, also not for its own project.
    let rules = json!([{ "service": "compute", "method": "GET", "path": "/v2.1/servers" }]);
    let ruled =
        json!({ "application_credential": { "name": "ruled", "secret": "a secret", "access_rules": rules } });
    let made = world.send(&[("x-auth-token", &session)], "POST", &path, &ruled).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let (project, memo): (ProjectId, _) =
        (world.ids["a"].parse().unwrap(), IdentityMemo::new(MemoSeed([1; 16]), 1 << 16));
    let reach_of = |name: &str| {
        let (authid, clocks) = (format!("bob@Default!{name}").parse().unwrap(), world.house.clock.now());
        let would = |view: &View<'_>| who_would(view, clocks, &authid, Some(&project), &memo);
        world.house.facts().read(would).unwrap().unwrap().reach
    };
    assert_eq!(reach_of("ci"), Reach::Project { project, roles: vec!["reader".to_owned()] });
    assert_eq!(reach_of("ruled"), Reach::Nothing);
    let bob: UserId = world.ids["bob"].parse().unwrap();
    for (hash, code) in [(None, "ID04"), (Some("$unknown$"), "ID08")] {
        let row = world.house.facts().read(|view| view.get::<User>(&bob)).unwrap().unwrap().unwrap();
        let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
        let password = hash.map(|hash: &str| Password::of(hash.to_owned()));
        world.house.facts().commit(Change::new(who).put(&bob, &User { password, ..row })).unwrap();
        assert_eq!(refused(&world, "bob"), Some(code), "{hash:?}");
    }
}

static ANN: std::sync::LazyLock<Word> = std::sync::LazyLock::new(|| Word::new("ann"));

#[tokio::test]
async fn a_passcode_alone_is_enough_only_if_a_rule_says_so() {
    let world = World::new().await;
    let answer = world.login(&["totp"], &world.passcode(0)).await;
    answer.receipt();
    assert_eq!(answer.body["receipt"]["methods"], json!(["totp"]));
    assert_eq!(answer.body["required_auth_methods"], json!([]));
    world.set_options(&json!({ "multi_factor_auth_rules": [["totp"]] })).await;
    world.wait(1);
    world.login(&["totp"], &world.passcode(0)).await.token();
    world.login(&["password"], "").await.receipt();
}

#[tokio::test]
async fn rules_have_keystones_form() {
    let world = World::new().await;
    for rules in [json!("password"), json!(["password"]), json!([[]]), json!([["totp", "totp"]])] {
        let answer = world.set_options(&json!({ "multi_factor_auth_rules": rules })).await;
        assert_eq!(answer.status, 400, "{rules} {}", answer.body);
    }
    for (options, is_enough) in [
        (json!({ "multi_factor_auth_rules": [["password", "totp"]] }), false),
        (json!({ "multi_factor_auth_enabled": false }), true),
        (json!({ "multi_factor_auth_enabled": true }), false),
        (json!({ "multi_factor_auth_rules": [["password", "totp"], ["password"]] }), true),
        (json!({ "multi_factor_auth_rules": [["password", "unknown"]] }), true),
        (json!({ "multi_factor_auth_rules": null }), true),
    ] {
        let answer = world.set_options(&options).await;
        assert_eq!(answer.status, 200, "{options} {}", answer.body);
        let answer = world.login(&["password"], "").await;
        assert_eq!(answer.status == 201, is_enough, "{options} {}", answer.body);
    }
}

#[tokio::test]
async fn a_receipt_stands_for_its_methods() {
    let world = World::new().await;
    world.need_both().await;
    let answer = world.login(&["password"], "").await;
    let receipt = answer.receipt();
    let user =
        json!({ "id": world.ids["ann"], "name": "ann", "domain": { "id": "default", "name": "Default" } });
    assert_eq!(answer.body["receipt"]["methods"], json!(["password"]));
    assert_eq!(answer.body["receipt"]["user"], user);
    assert!(answer.body["receipt"]["expires_at"].as_str() > answer.body["receipt"]["issued_at"].as_str());
    assert_eq!(answer.body["required_auth_methods"], json!([["password", "totp"]]));
    assert_eq!(answer.header("x-subject-token"), "");

    // A receipt is no session, and a session no receipt.
    let projects = world.send(&[("x-auth-token", &receipt)], "GET", "/v3/auth/projects", &Value::Null).await;
    projects.is_refused();
    assert_eq!(world.login(&["token"], &receipt).await.status, 404, "as any bad token in the body");
    assert!(world.house.come_in_by(receipt.as_bytes()).is_err());
    world.wait(1);
    let token = world.login(&["password", "totp"], &world.passcode(0)).await.token();
    world.wait(1);
    world.login_as("ann", &["totp"], &world.passcode(0), None, &token).await.is_refused();

    // Alone it adds nothing, and it is not of another user.
    world.login_as("ann", &["password"], "", None, &receipt).await.receipt();
    world.login_as("bob", &["password"], "", None, &receipt).await.is_refused();
    world.wait(1);
    let answer = world.login_as("ann", &["totp"], &world.passcode(0), None, &receipt).await;
    let session = answer.token();
    assert_eq!(answer.body["token"]["methods"], json!(["password", "totp"]));

    // An exchange keeps the methods.
    let scope = json!({ "project": { "id": world.ids["a"] } });
    let answer = world.login_as("ann", &["token"], &session, Some(&scope), "").await;
    answer.token();
    assert_eq!(answer.body["token"]["methods"], json!(["password", "token", "totp"]));

    // The methods may come in the other order.
    world.wait(1);
    let receipt = world.login(&["totp"], &world.passcode(0)).await.receipt();
    world.login_as("ann", &["password"], "", None, &receipt).await.token();
}

#[tokio::test]
async fn a_receipt_ends_like_a_session() {
    let world = World::new().await;
    world.need_both().await;
    let again = async |receipt: &str| {
        world.wait(1);
        world.login_as("ann", &["totp"], &world.passcode(0), None, receipt).await
    };
    let old = world.login(&["password"], "").await.receipt();
    world.wait(8);
    again(&old).await.token();
    // A further receipt does not last longer than the first.
    let next = world.login_as("ann", &["password"], "", None, &old).await.receipt();
    world.wait(1);
    again(&old).await.is_refused();
    again(&next).await.is_refused();

    let receipt = world.login(&["password"], "").await.receipt();
    enfilade_admin::set_password(
        &world.house.change_context(),
        &"ann@Default".parse().unwrap(),
        &Secret::new(b"another").unwrap(),
    )
    .unwrap();
    again(&receipt).await.is_refused();

    world.wait(1);
    let receipt = world.login(&["totp"], &world.passcode(0)).await.receipt();
    let path = format!("/v3/users/{}", world.ids["ann"]);
    for enabled in [false, true] {
        let answer = world.as_admin("PATCH", &path, &json!({ "user": { "enabled": enabled } })).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    again(&receipt).await.is_refused();
}

#[tokio::test]
async fn tokens_and_sessions_get_no_receipt() {
    let world = World::new().await;
    let scope = json!({ "project": { "id": world.ids["a"] } });
    let session = world.login_as("ann", &["password"], "", Some(&scope), "").await.token();
    let path = format!("/v3/users/{}/application_credentials", world.ids["ann"]);
    let made = json!({ "application_credential": { "name": "ci", "secret": "a secret of ci" } });
    let made = world.send(&[("x-auth-token", &session)], "POST", &path, &made).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = &made.body["application_credential"]["id"];
    let by_credential = json!({ "auth": { "identity": {
        "methods": ["application_credential"], "application_credential": { "id": id, "secret": "a secret of ci" },
    } } });
    let login = || world.send(&[], "POST", "/v3/auth/tokens", &by_credential);
    login().await.token();

    world.need_both().await;
    login().await.is_refused();
    world.login(&["token"], &session).await.is_refused();
    let identity = json!({
        "methods": ["token", "totp"], "token": { "id": session },
        "totp": { "user": { "id": world.ids["ann"], "passcode": world.passcode(0) } },
    });
    let both = json!({ "auth": { "identity": identity } });
    let answer = world.send(&[], "POST", "/v3/auth/tokens", &both).await;
    answer.token();
    assert_eq!(answer.body["token"]["methods"], json!(["password", "token", "totp"]));
    let rules = json!([["password", "totp"], ["application_credential"]]);
    world.set_options(&json!({ "multi_factor_auth_rules": rules })).await;
    login().await.token();
}

#[tokio::test]
async fn the_password_alone_opens_no_other_face() {
    let world = World::new().await;
    world.house.come_in(secret_ask("pw")).await.unwrap();
    let ticket = json!({ "username": "ann@Default", "password": "pw" });
    let ticket = || world.send(&[], "POST", "/api2/json/access/ticket", &ticket);
    assert_eq!(ticket().await.status, 200);

    world.need_both().await;
    let why = world.house.come_in(secret_ask("pw")).await.map(drop).unwrap_err();
    assert!(why.code() == "ID29" && why.to_string().contains("use an API token"), "{why}");
    // Only the right password is told.
    let why = world.house.come_in(secret_ask("wrong")).await.map(drop).unwrap_err();
    assert_eq!(why.code(), "ID05");
    assert_eq!(ticket().await.status, 401);
    let read = AccessMask::READ;
    let (store, root) = ("main".parse().unwrap(), StorePath::root());
    let explained = world.house.house.explain(&ann(), None, &store, &root, read);
    assert_eq!(explained.doors[0].code, Some("ID29"), "{explained:?}");
    // A session for a project can be had with both methods.
    let project: ProjectId = world.ids["a"].parse().unwrap();
    let explained = world.house.house.explain(&ann(), Some(&project), &store, &root, read);
    assert_eq!(explained.doors[0].code, None, "{explained:?}");

    // A session of Identity v3 for both methods opens what the user may open, and so does an API token.
    let token = world.login(&["password", "totp"], &world.passcode(0)).await.token();
    world.house.come_in_by(token.as_bytes()).unwrap();
    let tom: Authid = "tom@Default".parse().unwrap();
    let id =
        world.house.facts().read(|view| enfilade_identity::user_named(view, &tom.user)).unwrap().unwrap();
    let path = format!("/v3/users/{}", id.unwrap());
    let options = json!({ "user": { "options": { "multi_factor_auth_rules": [["password", "totp"]] } } });
    assert_eq!(world.as_admin("PATCH", &path, &options).await.status, 200);
    world.house.admit(&tom).await.unwrap();
}

#[tokio::test]
async fn a_password_can_be_changed_without_a_passcode() {
    let world = World::new().await;
    world.need_both().await;
    let path = format!("/v3/users/{}/password", world.ids["ann"]);
    let body = json!({ "user": { "original_password": "pw", "password": "another one" } });
    assert_eq!(world.send(&[], "POST", &path, &body).await.status, 204);
    let why = world.house.come_in(secret_ask("another one")).await.map(drop).unwrap_err();
    assert_eq!(why.code(), "ID29");
}

#[test]
fn an_import_brings_rules_and_secrets_and_weakens_no_user() {
    let house = TestHouse::new(Remembering::AsServed);
    let (domain, eve, old) =
        (DomainId::from_bytes([1; 16]), UserId::from_bytes([2; 16]), UserId::from_bytes([3; 16]));
    let rules = vec![vec!["password".to_owned(), "totp".to_owned()]];
    let options = r#"{"options":{"multi_factor_auth_rules":[["password","totp"]]}}"#;
    let user = |id: UserId, password: Option<&str>, rules: &[Vec<String>]| {
        let row = admin::CloudUser {
            domain,
            name: format!("user{}", id.bytes()[0]),
            enabled: true,
            comment: None,
            password: password.map(|hash| Password::of(hash.to_owned())),
            profile: Profile { mfa_rules: rules.to_vec(), ..Profile::default() },
            extra: if rules.is_empty() { String::new() } else { options.to_owned() },
        };
        admin::CloudRecord::User(id, Box::new(row))
    };
    let import = |records: &[admin::CloudRecord]| {
        admin::import_cloud(&house.change_context(), records, admin::CloudTerms::default(), |_| {}).unwrap()
    };
    let cloud = admin::CloudRecord::Domain(domain, Domain::new("cloud".parse().unwrap()));
    // An earlier import left the rules and the password of this user out.
    import(&[cloud.clone(), user(old, None, &[])]);
    let (kind, blob) = ("totp".to_owned(), SECRET_BASE32.to_owned());
    let row = Blob { user: eve, project: None, kind, blob, ec2: None };
    let totp = admin::CloudRecord::Blob(BlobId([9; 32]), Box::new(row.clone()));
    let report =
        import(&[cloud, user(old, Some(CHEAP_HASH), &rules), user(eve, Some(CHEAP_HASH), &rules), totp]);
    let left: Vec<_> = report.iter().filter(|item| item.left_out.is_some()).map(|item| item.what()).collect();
    assert_eq!(left, ["domain cloud", "password user3@cloud"]);
    let get = house.facts().read(|view| {
        let profile = view.get::<Profile>(&eve)?.unwrap();
        let key = ReverseKey::blobs_of(&eve);
        Ok::<_, enfilade_facts::SourceError>((
            profile.mfa_rules,
            view.get::<Blob>(&BlobId([9; 32]))?,
            view.list::<Reverse>(&key)?.len(),
            admin::extra_of(view, ResourceKind::User, &eve)?,
            view.get::<User>(&old)?.unwrap().password.is_none(),
        ))
    });
    assert_eq!(get.unwrap().unwrap(), (rules, Some(row), 1, options.to_owned(), true));
}
