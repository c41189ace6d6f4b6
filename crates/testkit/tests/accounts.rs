//! Tests that users are locked after failed logins, and that users become inactive if they do not log in.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::keystone as admin;
use enfilade_admin::{
    ChangeContext, PasswordRules, UserAttributes, UserEdit, UserSave, lock_user, note_logins, save_user,
    settle_activities,
};
use enfilade_facts::tables::{Activity, Credential as TokenRow, Profile, Verifier};
use enfilade_facts::vocabulary::{
    AccessMask, DatastoreName, OperationKind, Secret, StorePath, UserId, Userid, Word,
};
use enfilade_facts::{AuditRecord, Change, Clocks, MemoSeed, Read, Refuse};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Methods, Scope, SecretAsk};
use enfilade_passage::{Accounts, Blocking, Credential, KeyRing, Penalties, ReservedPaths};
use enfilade_sources::files::file_set::FileSet;
use enfilade_testkit::{Remembering, TestHouse, change_context};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use tokio::time::Instant;

const DAY: u64 = 86_400;
const RIGHT: &str = "correct horse";

fn lock() -> PasswordRules {
    PasswordRules { lockout_failures: 3, lockout_seconds: 60, ..PasswordRules::NONE.clone() }
}

fn inactive() -> PasswordRules {
    PasswordRules { inactive_days: 3, ..PasswordRules::NONE.clone() }
}

/// A server, and its rules for locks and inactive users. Alice has a password and an API token.
struct World {
    house: TestHouse,
    rules: Arc<PasswordRules>,
    logins: Receiver<UserId>,
    id: UserId,
}

fn alice() -> Userid {
    "alice@local".parse().unwrap()
}

fn keys() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

fn ask(authid: &str, secret: &str) -> SecretAsk {
    SecretAsk { authid: authid.parse().unwrap(), secret: Secret::new(secret.as_bytes()).unwrap() }
}

impl World {
    fn new(rules: PasswordRules) -> Self {
        let rules = Arc::new(rules);
        let of_lock = Arc::clone(&rules);
        let failures = rules.lockout_failures;
        let (sender, logins) = sync_channel(64);
        let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
            let source = Arc::clone(&parts.source);
            let lock = move |now: Clocks, user: &UserId| {
                let (files, reserved) = (FileSet::new(std::env::temp_dir()), ReservedPaths::default());
                let ctx = change_context(&*source, &files, &reserved, now);
                lock_user(&ChangeContext { passwords: &of_lock, ..ctx }, user).is_ok()
            };
            parts.accounts = Arc::new(Accounts::new(failures, Arc::new(lock), Some(sender)));
        });
        house.house.set_keys(Some(keys()));
        house.add_user(&alice(), None);
        let ctx = house.change_context();
        enfilade_admin::set_password(&ctx, &alice(), &Secret::new(RIGHT.as_bytes()).unwrap()).unwrap();
        let id = house.facts().read(|view| enfilade_identity::user_named(view, &alice())).unwrap();
        let world = World { id: id.unwrap().unwrap(), house, rules, logins };
        // A new password ends the sessions issued before it, so the sessions of these tests begin a minute later.
        world.house.clock.advance_seconds(60);
        world
    }

    fn ctx(&self) -> ChangeContext<'_> {
        ChangeContext { passwords: &self.rules, ..self.house.change_context() }
    }

    async fn code(&self, name: &str, secret: &str) -> &'static str {
        self.house.come_in(ask(name, secret)).await.map_or_else(|why| why.code(), |_| "permit")
    }

    async fn password(&self, secret: &str) -> &'static str {
        self.code("alice@local", secret).await
    }

    async fn api_token(&self) -> &'static str {
        self.house.admit(&alice().into()).await.map_or_else(|why| why.code(), |_| "permit")
    }

    /// The token of a session of Alice that was issued now and lasts for a month.
    fn session(&self) -> String {
        let now = self.house.clock.now().unix_seconds;
        let claim = Claim {
            user: self.id,
            methods: Methods::PASSWORD,
            scope: Scope::Unscoped,
            lent: None,
            issued_at: now,
            expires_at: now + 30 * DAY as i64,
            audit: Audit { own: [1; 16], chain: None },
        };
        frame::seal(&keys(), u64::try_from(now).unwrap(), [1; 16], &claim.to_payload()).unwrap()
    }

    fn by_session(&self, token: &str) -> &'static str {
        self.house.come_in_by(token.as_bytes()).map_or_else(|why| why.code(), |_| "permit")
    }

    async fn fail(&self, times: usize) {
        for _ in 0..times {
            assert_eq!(self.password("wrong").await, "ID05");
        }
    }

    fn activity(&self) -> Option<Activity> {
        self.house.facts().read(|view| view.get::<Activity>(&self.id)).unwrap().unwrap()
    }

    fn exempt(&self, profile: Profile) {
        let attributes = UserAttributes { profile, extra: String::new() };
        save_user(&self.ctx(), &self.id, &|user, _| {
            Ok(UserSave {
                name: user.name.clone(),
                enabled: user.enabled,
                comment: None,
                password: None,
                is_let_in: false,
                attributes: attributes.clone(),
            })
        })
        .unwrap();
    }

    /// Writes the logins of the queue to the facts, as a server does. Returns the number of users in the queue.
    fn write_logins(&self) -> usize {
        let users: Vec<UserId> = self.logins.try_iter().collect();
        note_logins(&self.ctx(), &users).unwrap();
        users.len()
    }
}

#[tokio::test]
async fn a_user_is_locked_after_the_last_failure_for_as_long_as_is_configured() {
    let world = World::new(lock());
    let session = world.session();
    world.fail(2).await;
    assert_eq!(world.password(RIGHT).await, "permit", "a login forgets the failures");
    world.fail(2).await;
    assert_eq!((world.password(RIGHT).await, world.activity()), ("permit", None));
    world.fail(3).await;
    // The right password is remembered, but is refused because the user is locked. The client gets the same answer as for a wrong password.
    assert_eq!([world.password(RIGHT).await, world.password("wrong").await], ["ID30"; 2]);
    assert_eq!((world.api_token().await, world.by_session(&session)), ("permit", "permit"));
    world.house.clock.advance_seconds(59);
    assert_eq!(world.password(RIGHT).await, "ID30", "failures during a lock do not prolong it");
    world.house.clock.advance_seconds(1);
    world.fail(2).await;
    assert_eq!(world.password(RIGHT).await, "permit", "after a lock, failures are counted anew");
}

/// The answer to the first failed login with a user name is delayed by a second (`DELAYS` in `passage/src/penalties.rs`).
#[tokio::test]
async fn only_the_answer_to_a_wrong_password_is_delayed() {
    let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
        parts.penalties = Penalties::new(MemoSeed([9; 16]));
    });
    house.add_user(&alice(), None);
    let secret = Secret::new(RIGHT.as_bytes()).unwrap();
    enfilade_admin::set_password(&house.change_context(), &alice(), &secret).unwrap();
    let is_delayed = async |secret: &str, code: &str| {
        let began = Instant::now();
        let came = house.come_in(ask("alice@local", secret)).await;
        assert_eq!(came.map_or_else(|why| why.code(), |_| "permit"), code);
        began.elapsed() >= Duration::from_secs(1)
    };
    // The first login computes a slow hash, which may take long on a busy machine. The second login finds the result in the memo.
    is_delayed(RIGHT, "permit").await;
    assert!(!is_delayed(RIGHT, "permit").await);
    assert!(is_delayed("wrong", "ID05").await);
}

#[tokio::test]
async fn a_lock_ends_no_request_that_runs_already() {
    let (world, main): (_, DatastoreName) = (World::new(lock()), "main".parse().unwrap());
    world.house.add_datastore(&main);
    world.house.assign("/", &alice().into(), "Admin");
    let visit = world.house.come_in(ask("alice@local", RIGHT)).await.unwrap();
    let mut inside = visit.enter(&main, OperationKind::Read, Blocking).unwrap();
    world.fail(3).await;
    assert_eq!(world.password(RIGHT).await, "ID30");
    assert!(inside.find(&StorePath::root(), AccessMask::LIST, Blocking).is_ok());
}

#[tokio::test]
async fn every_spelling_of_the_name_counts_for_the_same_user() {
    let world = World::new(lock());
    for name in ["alice@local", "alice@%local", "%61lice@%local"] {
        assert_eq!(world.code(name, "wrong").await, "ID05", "{name}");
    }
    for name in ["alice@local", "alice@%local"] {
        assert_eq!(world.code(name, RIGHT).await, "ID30", "{name}");
    }
    world.house.clock.advance_seconds(60);
    // In the Identity API, a failed login is counted for the id or the name that the client sent.
    for named in ["0123456789abcdef0123456789abcdef", "alice@Default", "another name"] {
        let named: Word = enfilade_facts::vocabulary::Authid::word_of(named);
        let credential = Credential::NamedSecret(ask("alice@local", "wrong"), named);
        let refused = world.house.house.admit(&credential, [127, 0, 0, 1].into()).await.err().unwrap();
        assert_eq!(refused.code(), "ID05");
    }
    assert_eq!(world.password(RIGHT).await, "ID30");
}

#[tokio::test]
async fn names_that_do_not_exist_and_secrets_of_tokens_are_not_counted() {
    let world = World::new(lock());
    for _ in 0..5 {
        assert_eq!(world.code("nobody@local", "wrong").await, "ID04");
        assert_eq!(world.code("alice@local!test", "wrong").await, "ID05");
    }
    assert_eq!((world.password(RIGHT).await, world.activity()), ("permit", None));
    let all = world.house.facts().read(|view| view.list::<Activity>(&[])).unwrap().unwrap();
    assert_eq!(all, []);
}

#[tokio::test]
async fn an_option_of_the_user_forbids_the_lock_and_ends_it() {
    let world = World::new(lock());
    world.fail(3).await;
    assert_eq!(world.password(RIGHT).await, "ID30");
    world.exempt(Profile { is_never_locked: true, ..Profile::default() });
    assert_eq!(world.password(RIGHT).await, "permit");
    world.fail(7).await;
    assert_eq!((world.password(RIGHT).await, world.activity()), ("permit", None));
    world.exempt(Profile::default());
    world.fail(3).await;
    assert_eq!(world.password(RIGHT).await, "ID30");
}

#[tokio::test]
async fn an_administrator_ends_a_lock() {
    let world = World::new(lock());
    let enabled = UserEdit { enabled: Some(true), ..UserEdit::default() };
    let comment = UserEdit { comment: Some("a comment".to_owned()), ..UserEdit::default() };
    world.fail(3).await;
    enfilade_admin::set_user(&world.ctx(), &alice(), &comment).unwrap();
    assert_eq!(world.password(RIGHT).await, "ID30");
    enfilade_admin::set_user(&world.ctx(), &alice(), &enabled).unwrap();
    assert_eq!((world.password(RIGHT).await, world.activity()), ("permit", None));
    world.fail(3).await;
    let new = Secret::new(b"battery staple").unwrap();
    enfilade_admin::set_password(&world.ctx(), &alice(), &new).unwrap();
    assert_eq!(world.password("battery staple").await, "permit");
    world.fail(3).await;
    enfilade_admin::remove_user(&world.ctx(), &alice()).unwrap();
    assert_eq!(world.activity(), None);
}

#[tokio::test]
async fn a_locked_administrator_still_counts_as_one() {
    let world = World::new(lock());
    world.house.assign("/", &alice().into(), "Admin");
    enfilade_admin::delete_token(&world.ctx(), &alice(), &"test".parse().unwrap()).unwrap();
    world.fail(3).await;
    let now = world.house.clock.now().unix_seconds;
    let found = enfilade_admin::administrators(world.house.facts(), enfilade_admin::Administers::Server, now);
    assert!(found.unwrap().iter().all(|one| one.refused.is_none()));
}

#[tokio::test]
async fn without_the_option_nobody_is_locked() {
    let world = World::new(PasswordRules::NONE.clone());
    world.fail(30).await;
    assert_eq!((world.password(RIGHT).await, world.activity()), ("permit", None));
}

#[tokio::test]
async fn a_user_without_a_login_is_refused_everywhere_from_a_day_on() {
    let world = World::new(inactive());
    let today = world.house.clock.now().unix_seconds / DAY as i64;
    settle_activities(&world.ctx()).unwrap();
    assert_eq!(world.activity().unwrap().active_on, today);
    let session = world.session();
    world.house.clock.advance_seconds(4 * DAY - 60 - 1);
    assert_eq!(world.password(RIGHT).await, "permit");
    assert_eq!((world.api_token().await, world.by_session(&session)), ("permit", "permit"));
    world.house.clock.advance_seconds(1);
    assert_eq!((world.password(RIGHT).await, world.password("wrong").await), ("ID06", "ID06"));
    assert_eq!((world.api_token().await, world.by_session(&session)), ("ID06", "ID06"));
    let enabled = UserEdit { enabled: Some(true), ..UserEdit::default() };
    enfilade_admin::set_user(&world.ctx(), &alice(), &enabled).unwrap();
    assert_eq!((world.password(RIGHT).await, world.by_session(&session)), ("permit", "permit"));
    assert_eq!(world.activity().unwrap().active_on, today + 4);
}

#[tokio::test]
async fn a_login_is_written_once_a_day() {
    let world = World::new(inactive());
    let written = || world.house.facts().at().revision;
    world.logins.try_iter().for_each(drop);
    assert_eq!((world.password(RIGHT).await, world.password(RIGHT).await), ("permit", "permit"));
    let before = written();
    assert_eq!(world.write_logins(), 1, "the second login was in the same minute");
    assert_eq!(written().0, before.0 + 1);
    for _ in 0..3 {
        world.house.clock.advance_seconds(600);
        assert_eq!((world.password(RIGHT).await, world.api_token().await), ("permit", "permit"));
        assert!(world.write_logins() > 0);
    }
    assert_eq!(written().0, before.0 + 1);
    // The use of a session does not count as a login.
    world.house.clock.advance_seconds(DAY);
    let session = world.session();
    assert_eq!((world.by_session(&session), world.write_logins()), ("permit", 0));
    assert_eq!((world.api_token().await, world.write_logins()), ("permit", 1));
    assert_eq!(written().0, before.0 + 2);
    world.house.clock.advance_seconds(2 * DAY);
    assert_eq!(world.password(RIGHT).await, "permit");
    // A login while the clock is ahead records a day in the future. The next login, or the next check of all records by a server, corrects the day.
    let today = Activity::day_of(world.house.clock.now().unix_seconds);
    for is_login in [true, false] {
        let ahead = ChangeContext { now: world.house.clock.now(), ..world.ctx() };
        let now = Clocks { unix_seconds: ahead.now.unix_seconds + 3_650 * 86_400, ..ahead.now };
        let user = world
            .house
            .facts()
            .read(|view| enfilade_identity::user_named(view, &alice()))
            .unwrap()
            .unwrap()
            .unwrap();
        note_logins(&ChangeContext { now, ..ahead }, &[user]).unwrap();
        assert_eq!(world.activity().unwrap().active_on, today + 3_650);
        match is_login {
            true => note_logins(&world.ctx(), &[user]).unwrap(),
            false => settle_activities(&world.ctx()).unwrap(),
        }
        assert_eq!(world.activity().unwrap().active_on, today);
    }
}

#[tokio::test]
async fn an_option_of_the_user_forbids_inactivity() {
    let world = World::new(inactive());
    settle_activities(&world.ctx()).unwrap();
    world.exempt(Profile { is_always_active: true, ..Profile::default() });
    world.house.clock.advance_seconds(10 * DAY);
    assert_eq!(world.password(RIGHT).await, "permit");
    world.exempt(Profile::default());
    assert_eq!(world.password(RIGHT).await, "ID06", "the last login counts");
    world.exempt(Profile { is_always_active: true, ..Profile::default() });
    assert_eq!(world.password(RIGHT).await, "permit");
}

#[tokio::test]
async fn a_changed_configuration_applies_to_all_users_after_the_start() {
    let world = World::new(inactive());
    settle_activities(&world.ctx()).unwrap();
    world.house.clock.advance_seconds(5 * DAY);
    assert_eq!(world.password(RIGHT).await, "ID06");
    let longer = PasswordRules { inactive_days: 30, ..PasswordRules::NONE.clone() };
    settle_activities(&ChangeContext { passwords: &longer, ..world.ctx() }).unwrap();
    assert_eq!(world.password(RIGHT).await, "permit");
    settle_activities(&world.ctx()).unwrap();
    assert_eq!(world.password(RIGHT).await, "ID06");
    // Without the rule for inactive users, the facts contain no day of a last login. If the rule is configured later, the days without a login are
    // counted from that moment.
    settle_activities(&ChangeContext { passwords: PasswordRules::NONE, ..world.ctx() }).unwrap();
    assert_eq!((world.password(RIGHT).await, world.activity()), ("permit", None));
    settle_activities(&world.ctx()).unwrap();
    assert_eq!(world.password(RIGHT).await, "permit");
    let before = world.house.facts().at();
    settle_activities(&world.ctx()).unwrap();
    assert_eq!(world.house.facts().at(), before, "nothing changed");
}

#[tokio::test]
async fn settling_reaches_every_user_and_forgets_those_who_were_deleted() {
    let world = World::new(inactive());
    admin::add_domain(&world.ctx(), &"tenant".parse().unwrap(), None).unwrap();
    for n in 0..600 {
        let userid: Userid = format!("u{n}@tenant").parse().unwrap();
        enfilade_admin::add_user(&world.ctx(), &enfilade_admin::NewUser::named(userid)).unwrap();
    }
    settle_activities(&world.ctx()).unwrap();
    let count = || world.house.facts().read(|view| view.list::<Activity>(&[]).map(|all| all.len()));
    assert_eq!(count().unwrap().unwrap(), 601);
    let who = enfilade_facts::AuditRecord {
        who: "a test".into(),
        what: "test".into(),
        unix_seconds: 0,
        request: None,
    };
    let mut change = enfilade_facts::Change::new(who);
    change.delete::<enfilade_facts::tables::User>(&world.id);
    world.house.facts().commit(&change).unwrap();
    settle_activities(&world.ctx()).unwrap();
    assert_eq!((count().unwrap().unwrap(), world.activity()), (600, None));
}

#[tokio::test]
async fn a_secret_of_a_token_without_one_is_refused_with_that_reason() {
    let world = World::new(lock());
    let facts = world.house.facts();
    let (id, row) = facts.read(|view| view.list::<TokenRow>(&[])).unwrap().unwrap().remove(0);
    let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
    let row = TokenRow { verifier: Verifier::Missing, ..row };
    facts.commit(Change::new(who).put(&id, &row)).unwrap();
    for (name, code) in [("alice@local!test", "ID08"), ("alice@local!other", "ID04")] {
        assert_eq!(world.code(name, "any secret").await, code, "{name}");
    }
}
