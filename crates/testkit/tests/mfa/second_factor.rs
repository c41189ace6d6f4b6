//! The second factor that a user sets up in the console: the password alone is never enough, and each code counts once.

use crate::world::World;
use crate::{ANN, ann, secret_ask};
use enfilade_admin::{
    begin_second_factor, confirm_second_factor, remove_second_factor, reset_second_factor, second_factor_of,
};
use enfilade_facts::Refuse as _;
use enfilade_facts::tables::{Activity, SecondFactor};
use enfilade_facts::vocabulary::{Authid, Secret, UserId};
use enfilade_facts::{Read as _, View};
use enfilade_identity::Passcode;
use enfilade_passage::{House, Refusal};
use enfilade_testkit::{authenticator, hash_key, parts_at};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const BOTH: [&str; 2] = ["password", "totp"];

/// A user with a second factor.
struct Enrolled {
    user: UserId,
    secret: String,
    recovery: Vec<String>,
}

fn code(world: &World, secret: &str, steps: i64) -> String {
    authenticator::code_at(secret, world.house.clock.now().unix_seconds + 30 * steps)
}

fn begin(world: &World, user: &UserId) -> String {
    begin_second_factor(&world.house.change_context(), &hash_key(), user).unwrap().base32().to_string()
}

fn confirm(world: &World, user: &UserId, code: &str) -> Result<Vec<String>, enfilade_admin::Error> {
    let code = Secret::new(code.as_bytes()).unwrap();
    let codes = confirm_second_factor(&world.house.change_context(), &hash_key(), user, &code)?;
    Ok(codes.iter().map(|code| String::from_utf8(code.reveal().to_vec()).unwrap()).collect())
}

/// Sets up a second factor for `ann`. The code of the present step was used.
fn enrol(world: &World) -> Enrolled {
    let user = world.ids["ann"].parse().unwrap();
    let secret = begin(world, &user);
    let recovery = confirm(world, &user, &code(world, &secret, 0)).unwrap();
    Enrolled { user, secret, recovery }
}

async fn check(house: &std::sync::Arc<House>, code: &str) -> Result<Passcode, Refusal> {
    house.check_passcode(&secret_ask(code), None, &ANN, FROM).await
}

#[tokio::test]
async fn the_password_alone_is_refused_everywhere_and_the_code_lets_in() {
    let world = World::new().await;
    let ticket = json!({ "username": "ann@Default", "password": "pw" });
    let ticket = || world.send(&[], "POST", "/api2/json/access/ticket", &ticket);
    let before = world.login(&["password"], "").await.token();
    assert_eq!(ticket().await.status, 200);
    let enrolled = enrol(&world);
    // The sessions that were issued before the set-up have ended, because the password was enough for these sessions.
    assert!(world.house.come_in_by(before.as_bytes()).is_err());
    let why = world.house.come_in(secret_ask("pw")).await.map(drop).unwrap_err();
    assert!(why.code() == "ID29" && why.to_string().contains("use an API token"), "{why}");
    let why = world.house.come_in(secret_ask("wrong")).await.map(drop).unwrap_err();
    assert_eq!(why.code(), "ID05", "only the right password tells that there is a second factor");
    assert_eq!(ticket().await.status, 401);
    let answer = world.login(&["password"], "").await;
    answer.receipt();
    assert_eq!(answer.body["required_auth_methods"], json!([["password", "totp"]]));

    world.wait(1);
    let now = code(&world, &enrolled.secret, 0);
    let answer = world.login(&["totp"], &now).await;
    assert_eq!(answer.status, 401, "the code alone is not enough: {}", answer.body);
    world.wait(1);
    let token = world.login(&BOTH, &code(&world, &enrolled.secret, 0)).await.token();
    world.house.come_in_by(token.as_bytes()).unwrap();
    // The codes of a credential of type `totp` do not count any more, because a session is enough to create such a credential.
    world.wait(1);
    world.login(&BOTH, &world.passcode(0)).await.is_refused();
    // A rule that an administrator sets does not weaken the account.
    world.set_options(&json!({ "multi_factor_auth_rules": [["password"], ["totp"]] })).await;
    world.login(&["password"], "").await.receipt();
    // Other users and API tokens are not affected.
    world.login_as("bob", &["password"], "", None, "").await.token();
}

#[tokio::test]
async fn api_tokens_of_the_user_continue_to_work() {
    let world = World::new().await;
    let tom: Authid = "tom@Default".parse().unwrap();
    let user = world.house.facts().read(|view| enfilade_identity::user_named(view, &tom.user));
    let user = user.unwrap().unwrap().unwrap();
    let secret = begin(&world, &user);
    confirm(&world, &user, &code(&world, &secret, 0)).unwrap();
    world.house.admit(&tom).await.unwrap();
}

#[tokio::test]
async fn a_code_counts_once_on_all_servers_and_older_codes_do_not_count() {
    let world = World::new().await;
    let enrolled = enrol(&world);
    let other = House::new(parts_at(world.house.source.clone(), world.house.clock.now()));
    for (house, steps) in [(&world.house.house, 0), (&other, 0), (&world.house.house, -1)] {
        let why = check(house, &code(&world, &enrolled.secret, steps)).await.unwrap_err();
        assert!(why.to_string().contains("used before"), "{steps}: {why}");
    }
    // A code of the next step is right, because the clock of the device may be ahead. Two requests present it at the same time.
    let next = code(&world, &enrolled.secret, 1);
    let (first, second) =
        (check(&world.house.house, &next).await.unwrap(), check(&other, &next).await.unwrap());
    let ctx = world.house.change_context();
    enfilade_admin::keystone::use_passcode(&ctx, &first).unwrap();
    let why = enfilade_admin::keystone::use_passcode(&ctx, &second).unwrap_err();
    assert!(why.to_string().contains("used before"), "{why}");
    assert!(check(&other, &next).await.is_err());
    world.wait(1);
    assert!(check(&world.house.house, &next).await.is_err());
    assert!(check(&world.house.house, &code(&world, &enrolled.secret, 2)).await.is_err(), "two steps ahead");
    check(&world.house.house, &code(&world, &enrolled.secret, 1)).await.unwrap();
}

#[tokio::test]
async fn wrong_codes_are_counted_as_failed_logins_and_bounded() {
    let world = World::new().await;
    let enrolled = enrol(&world);
    world.wait(1);
    let failed = world.house.house.penalties().counts().failed;
    for _ in 0..5 {
        world.login(&BOTH, "000000").await.is_refused();
    }
    assert_eq!(world.house.house.penalties().counts().failed, failed + 5);
    world.login(&BOTH, &code(&world, &enrolled.secret, 0)).await.is_refused();
    world.login(&BOTH, &enrolled.recovery[0]).await.is_refused();
    world.wait(20);
    world.login(&BOTH, &enrolled.recovery[0]).await.token();
}

#[tokio::test]
async fn a_recovery_code_counts_once() {
    let world = World::new().await;
    let enrolled = enrol(&world);
    assert_eq!(enrolled.recovery.len(), 10);
    world.login(&BOTH, &enrolled.recovery[3]).await.token();
    world.login(&BOTH, &enrolled.recovery[3]).await.is_refused();
    let state = second_factor_of(world.house.facts(), &enrolled.user).unwrap().unwrap();
    assert_eq!(state.recovery_codes, 9);
    world.login(&BOTH, &enrolled.recovery[4]).await.token();
    // The code alone is not enough for a login.
    assert_eq!(world.login(&["totp"], &enrolled.recovery[5]).await.status, 401);
}

#[tokio::test]
async fn a_set_up_counts_only_after_the_first_code() {
    let world = World::new().await;
    let user: UserId = world.ids["ann"].parse().unwrap();
    let said = |result: Result<Vec<String>, enfilade_admin::Error>| result.unwrap_err().to_string();
    assert!(said(confirm(&world, &user, "000000")).contains("not begun"));
    let first = begin(&world, &user);
    world.login(&["password"], "").await.token();
    let secret = begin(&world, &user);
    assert_ne!(first, secret);
    assert!(said(confirm(&world, &user, &code(&world, &first, 0))).contains("wrong"), "it was replaced");
    assert_eq!(second_factor_of(world.house.facts(), &user).unwrap(), None);
    let at = world.house.clock.now().unix_seconds;
    world.wait(30);
    assert_eq!(world.house.clock.now().unix_seconds, at + 900);
    assert!(said(confirm(&world, &user, &code(&world, &secret, 0))).contains("longer than 15 minutes"));
    let enrolled = enrol(&world);
    let why = begin_second_factor(&world.house.change_context(), &hash_key(), &user).unwrap_err();
    assert!(why.to_string().contains("has a second factor already"), "{why}");
    assert!(said(confirm(&world, &user, &code(&world, &enrolled.secret, 1))).contains("not begun"));
}

#[tokio::test]
async fn an_administrator_resets_it_and_nothing_else_ends() {
    let world = World::new().await;
    let enrolled = enrol(&world);
    world.wait(1);
    let token = world.login(&BOTH, &code(&world, &enrolled.secret, 0)).await.token();
    world.wait(1);
    let waiting = check(&world.house.house, &code(&world, &enrolled.secret, 0)).await.unwrap();
    let ctx = world.house.change_context();
    let activities = |view: &View<'_>| view.list::<Activity>(&[]);
    let before = world.house.facts().read(activities).unwrap().unwrap();
    reset_second_factor(&ctx, &ann().user).unwrap();
    assert!(reset_second_factor(&ctx, &ann().user).is_err());
    world.house.come_in_by(token.as_bytes()).unwrap();
    world.house.come_in(secret_ask("pw")).await.unwrap();
    assert_eq!(world.house.facts().read(activities).unwrap().unwrap(), before);
    // A code that was checked before the reset does not count after the reset, not even when the user has set up a second factor again.
    assert!(enfilade_admin::keystone::use_passcode(&ctx, &waiting).is_err());
    let again = enrol(&world);
    let why = enfilade_admin::keystone::use_passcode(&ctx, &waiting).unwrap_err();
    assert!(why.to_string().contains("removed or changed"), "{why}");
    assert!(remove_second_factor(&ctx, &waiting).is_err());
    let right = check(&world.house.house, &code(&world, &again.secret, 1)).await.unwrap();
    remove_second_factor(&ctx, &right).unwrap();
    assert_eq!(second_factor_of(world.house.facts(), &again.user).unwrap(), None);
}

#[tokio::test]
async fn a_new_password_needs_the_code_and_the_record_goes_with_the_user() {
    let world = World::new().await;
    let enrolled = enrol(&world);
    world.wait(1);
    let path = format!("/v3/users/{}/password", world.ids["ann"]);
    let mut user = json!({ "original_password": "pw", "password": "another one" });
    let send = async |user: &Value| world.send(&[], "POST", &path, &json!({ "user": user })).await;
    let answer = send(&user).await;
    assert!(answer.status == 400 && answer.body.to_string().contains("passcode"), "{}", answer.body);
    user["passcode"] = json!("000000");
    assert_eq!(send(&user).await.status, 401);
    user["passcode"] = json!(code(&world, &enrolled.secret, 0));
    assert_eq!(send(&user).await.status, 204);
    let why = world.house.come_in(secret_ask("another one")).await.map(drop).unwrap_err();
    assert_eq!(why.code(), "ID29", "the second factor stays");
    enfilade_admin::remove_user(&world.house.change_context(), &ann().user).unwrap();
    let left = world.house.facts().read(|view| view.list::<SecondFactor>(&[])).unwrap().unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// `user list` and `enfilade doctor` count a user with a second factor as a user who can log in.
#[tokio::test]
async fn a_user_with_a_second_factor_can_log_in() {
    let world = World::new().await;
    enrol(&world);
    let now = world.house.clock.now().unix_seconds;
    let why = enfilade_admin::why_no_login(world.house.facts(), &ann().user, now).unwrap();
    assert!(why.is_none(), "{why:?}");
}
