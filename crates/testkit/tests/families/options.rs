//! Options of users, and users who are shown as disabled because they did not log in for too long.

use crate::world::{Row, World, none};
use enfilade_admin::{LimitModel, PasswordRegex, PasswordRules};
use enfilade_facts::tables::Activity;
use enfilade_facts::vocabulary::UserId;
use enfilade_facts::{AuditRecord, Change, Read};
use serde_json::{Value, json};

fn user(options: Value) -> Value {
    json!({ "user": { "options": options } })
}

#[tokio::test]
#[rustfmt::skip]
async fn options_have_types_and_null_removes_them() {
    let all = json!({
        "ignore_change_password_upon_first_use": true, "ignore_password_expiry": false, "ignore_lockout_failure_attempts": true,
        "lock_password": false, "ignore_user_inactivity": true, "multi_factor_auth_enabled": false, "multi_factor_auth_rules": [["password", "totp"]],
    });
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/users -> ann", json!({ "user": { "name": "ann", "options": { "ignore_user_inactivity": true } } }), 201,
         &["\"options\":{\"ignore_user_inactivity\":true}"]),
        ("admin", "POST", "/v3/users", json!({ "user": { "name": "bob", "options": { "ignore_user_inactivity": "yes" } } }), 400, &["ignore_user_inactivity"]),
        ("admin", "PATCH", "/v3/users/<ann>", user(all), 200, &["\"ignore_password_expiry\":false", "\"multi_factor_auth_rules\":[["]),
        ("admin", "PATCH", "/v3/users/<ann>", user(json!({ "ignore_lockout_failure_attempts": 1 })), 400, &["ignore_lockout_failure_attempts"]),
        ("admin", "PATCH", "/v3/users/<ann>", user(json!({ "immutable": "yes" })), 400, &["immutable"]),
        ("admin", "PATCH", "/v3/users/<ann>", user(json!({ "immutable": true })), 200, &["\"immutable\":true"]),
        ("admin", "DELETE", "/v3/users/<ann>", none(), 403, &["immutable"]),
        ("admin", "PATCH", "/v3/users/<ann>", user(json!({ "immutable": null })), 200, &["!immutable"]),
        ("admin", "PATCH", "/v3/users/<ann>", user(json!({ "colour": true })), 400, &["colour"]),
        ("admin", "PATCH", "/v3/projects/<b>", json!({ "project": { "options": { "lock_password": true } } }), 400, &["lock_password"]),
        ("admin", "PATCH", "/v3/users/<ann>", user(json!({ "ignore_user_inactivity": null, "lock_password": null })), 200,
         &["ignore_lockout_failure_attempts", "!ignore_user_inactivity", "!lock_password"]),
        ("admin", "GET", "/v3/users/<ann>", none(), 200, &["ignore_lockout_failure_attempts", "!ignore_user_inactivity"]),
    ];
    World::new(LimitModel::default()).await.hold(&rows).await;
}

#[tokio::test]
#[rustfmt::skip]
async fn a_locked_password_is_changed_by_administrators_only() {
    let lock = |is_locked: Value| user(json!({ "lock_password": is_locked }));
    let own = || json!({ "user": { "original_password": "pw", "password": "battery staple" } });
    let rows: Vec<Row> = vec![
        ("admin", "PATCH", "/v3/users/<member>", lock(json!(true)), 200, &["\"lock_password\":true"]),
        ("member", "POST", "/v3/users/<member>/password", own(), 400, &["only an administrator"]),
        ("admin", "PATCH", "/v3/users/<member>", lock(none()), 200, &["!lock_password"]),
        ("member", "POST", "/v3/users/<member>/password", own(), 204, &[]),
    ];
    World::new(LimitModel::default()).await.hold(&rows).await;
}

#[tokio::test]
#[rustfmt::skip]
async fn an_inactive_user_is_shown_as_disabled_until_somebody_enables_the_user() {
    let rules = PasswordRules { inactive_days: 90, ..PasswordRules::NONE.clone() };
    let mut world = World::with_rules(LimitModel::default(), rules).await;
    let id: UserId = world.id("member").parse().unwrap();
    let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
    let now = world.house.clock.now().unix_seconds;
    let inactive = Activity::default().active_on(1, 90);
    world.house.facts().commit(Change::new(who).put(&id, &inactive)).unwrap();
    let enabled = |enabled: bool| json!({ "user": { "enabled": enabled } });
    let rows: Vec<Row> = vec![
        ("admin", "GET", "/v3/users/<member>", none(), 200, &["\"enabled\":false"]),
        ("admin", "GET", "/v3/users?enabled=false", none(), 200, &["<member>", "!<admin>"]),
        ("admin", "GET", "/v3/users?enabled=true", none(), 200, &["!\"<member>\"", "<admin>"]),
        ("admin", "PATCH", "/v3/users/<member>", json!({ "user": { "email": "a@b.example" } }), 200, &["\"enabled\":false"]),
        ("admin", "PATCH", "/v3/users/<member>", enabled(true), 200, &["\"enabled\":true"]),
        ("member", "GET", "/v3/users/<member>", none(), 200, &["\"enabled\":true"]),
    ];
    world.hold(&rows).await;
    let after = world.house.facts().read(|view| view.get::<Activity>(&id)).unwrap().unwrap();
    assert_eq!(after.map(|after| after.active_on), Some(now / 86_400));
}

#[tokio::test]
#[rustfmt::skip]
async fn the_regular_expression_for_passwords_is_shown_and_obeyed() {
    let rules = PasswordRules {
        regex: Some(PasswordRegex::new("^(?=.*[0-9]).+$").unwrap()),
        regex_description: Some("One digit.".to_owned()),
        ..PasswordRules::NONE.clone()
    };
    let at = |rest: &str| -> &'static str { format!("/v3/domains/default/config/security_compliance{rest}").leak() };
    let new = |password: &str| json!({ "user": { "name": "new", "password": password } });
    let shown = "{\"config\":{\"security_compliance\":{\"password_regex\":\"^(?=.*[0-9]).+$\",\"password_regex_description\":\"One digit.\"}}}";
    let rows: Vec<Row> = vec![
        ("member", "GET", at(""), none(), 200, vec![shown].leak()),
        ("member", "GET", at("/password_regex_description"), none(), 200, &["{\"config\":{\"password_regex_description\":\"One digit.\"}}"]),
        ("member", "GET", at("/lockout_duration"), none(), 403, &[]),
        ("admin", "POST", "/v3/users", new("letters"), 400, &["does not match the requirements: One digit."]),
        ("admin", "POST", "/v3/users", new("letters and 1"), 201, &[]),
    ];
    World::with_rules(LimitModel::default(), rules).await.hold(&rows).await;
}
