//! Passcodes, rules for multi-factor authentication, and receipts. Requests go to the HTTP face in the process of the test, at fixed times.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod possible;
mod second_factor;
mod world;

use enfilade_admin::keystone as admin;
use enfilade_facts::tables::{
    Blob, BlobId, Domain, Password, Profile, ResourceKind, Reverse, ReverseKey, UsedPasscode, User,
};
use enfilade_facts::vocabulary::{AccessMask, Authid, DomainId, ProjectId, Secret, StorePath, UserId, Word};
use enfilade_facts::{Read, Refuse as _};
use enfilade_identity::SecretAsk;
use enfilade_passage::House;
use enfilade_testkit::{CHEAP_HASH, Remembering, TestHouse, parts_at};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use world::{SECRET_BASE32, World};

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
    // A passcode of a time step before the step of the used passcode is refused.
    world.login(&both, &world.passcode(-1)).await.is_refused();
    // The used passcode is also refused in the next step. If the passcode had not been used, it would still be accepted in this step.
    world.wait(1);
    world.login(&both, &passcode).await.is_refused();
    world.login(&both, &world.passcode(0)).await.token();
    // The number of wrong passcodes in ten minutes is limited. So the test waits ten minutes, until the earlier failures do not count.
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
    // The passcode does not belong to bob, so his attempt does not count as its use.
    world.login(&both, &world.passcode(0)).await.token();
}

/// After five wrong passcodes in ten minutes, the server compares no further passcodes for the user. Passcodes without another method are counted
/// separately, so that strangers cannot lock out a user.
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
    // A receipt for the password proves the password. So a passcode with a receipt counts as a passcode together with another method.
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
    // Two requests present the same passcode at the same time. Only one use of the passcode is committed.
    world.wait(1);
    let asked = secret_ask(&world.passcode(0));
    let ask = || world.house.house.check_passcode(&asked, None, &ANN, from);
    let (first, second) = (ask().await.unwrap(), ask().await.unwrap());
    let ctx = world.house.change_context();
    admin::use_passcode(&ctx, &first).unwrap();
    assert!(admin::use_passcode(&ctx, &second).is_err());
    // The record of the used passcode is deleted together with the credential.
    let path = format!("/v3/credentials/{}", used[0].0);
    assert_eq!(world.as_admin("DELETE", &path, &Value::Null).await.status, 204);
    let used = world.house.facts().read(|view| view.list::<UsedPasscode>(&[])).unwrap().unwrap();
    assert!(used.is_empty());
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

    // A receipt is not accepted as a session, and a session is not accepted as a receipt.
    let projects = world.send(&[("x-auth-token", &receipt)], "GET", "/v3/auth/projects", &Value::Null).await;
    projects.is_refused();
    assert_eq!(world.login(&["token"], &receipt).await.status, 404, "as any bad token in the body");
    assert!(world.house.come_in_by(receipt.as_bytes()).is_err());
    world.wait(1);
    let token = world.login(&["password", "totp"], &world.passcode(0)).await.token();
    world.wait(1);
    world.login_as("ann", &["totp"], &world.passcode(0), None, &token).await.is_refused();

    // The receipt proves only the password, so together with the password it is not enough. A receipt of one user is refused for another user.
    world.login_as("ann", &["password"], "", None, &receipt).await.receipt();
    world.login_as("bob", &["password"], "", None, &receipt).await.is_refused();
    world.wait(1);
    let answer = world.login_as("ann", &["totp"], &world.passcode(0), None, &receipt).await;
    let session = answer.token();
    assert_eq!(answer.body["token"]["methods"], json!(["password", "totp"]));

    // If a session is exchanged, the new session has the same methods.
    let scope = json!({ "project": { "id": world.ids["a"] } });
    let answer = world.login_as("ann", &["token"], &session, Some(&scope), "").await;
    answer.token();
    assert_eq!(answer.body["token"]["methods"], json!(["password", "token", "totp"]));

    // The methods may be presented in the other order.
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
    // A further receipt does not last longer than the first receipt.
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
    // Only a client that sends the right password learns that the user needs further methods.
    let why = world.house.come_in(secret_ask("wrong")).await.map(drop).unwrap_err();
    assert_eq!(why.code(), "ID05");
    assert_eq!(ticket().await.status, 401);
    let read = AccessMask::READ;
    let (store, root) = ("main".parse().unwrap(), StorePath::root());
    let explained = world.house.house.explain(&ann(), None, &store, &root, read);
    assert_eq!(explained.doors[0].code, Some("ID29"), "{explained:?}");
    // With both methods, a session for a project is issued.
    let project: ProjectId = world.ids["a"].parse().unwrap();
    let explained = world.house.house.explain(&ann(), Some(&project), &store, &root, read);
    assert_eq!(explained.doors[0].code, None, "{explained:?}");

    // A session of Identity v3 that was issued for both methods gives the same access as a login of the user in person. An API token also gives this
    // access.
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
    // An earlier import has left out the rules and the password of this user.
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
