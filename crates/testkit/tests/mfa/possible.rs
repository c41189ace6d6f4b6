//! Tests which passcodes are accepted, why other passcodes are refused, and which users can log in at all.

use crate::world::World;
use enfilade_admin::keystone as admin;
use enfilade_facts::tables::{Password, UsedPasscode, User};
use enfilade_facts::vocabulary::{ProjectId, Secret, UserId, Word};
use enfilade_facts::{AuditRecord, Change, MemoSeed, Read, Refuse as _, View};
use enfilade_identity::{IdentityMemo, Reach, SecretAsk, Wanted, who_would};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
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

/// The reason is logged. The client does not learn the reason.
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
    // If a later passcode was used, this earlier passcode counts as used, too.
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

/// `user list` and `enfilade doctor` show the reason why a user cannot log in.
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

    // These users have no password, but have tokens. The tokens of `eve` and of `tom` have all roles of their owners.
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
    // An application credential with access rules gives no rights on this server, not even for its own project.
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
