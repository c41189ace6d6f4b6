//! Tests door 2 through the passage: after a change of the facts on which a remembered verdict depends, the verdict is not used any more.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::{Administers, ChangeContext, NewLink, PasswordRules, TokenTerms, UserEdit};
use enfilade_facts::limits::Limits;
use enfilade_facts::tables::{Credential, LinkPlace, LinkRights, Verifier};
use enfilade_facts::vocabulary::{
    AccessMask, Authid, CredentialId, DatastoreName, OperationKind, Privileges, Secret, StorePath, TokenName,
    Userid,
};
use enfilade_facts::{AuditRecord, Change, Clocks, MemoSeed, Read, Refuse};
use enfilade_identity::{CertificateAsk, SecretAsk};
use enfilade_passage::{
    AdminAsk, Audit, Blocking, Event, LastVisitor, Lending, LinkAsk, LinkProof, Penalties,
};
use enfilade_testkit::{Remembering, TestHouse};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn alice() -> Userid {
    "alice@local".parse().unwrap()
}

fn house() -> TestHouse {
    let mut house = TestHouse::new(Remembering::AsServed);
    house.add_user(&alice(), None);
    house
}

fn password(house: &TestHouse, password: &str) {
    enfilade_admin::set_password(
        &house.change_context(),
        &alice(),
        &Secret::new(password.as_bytes()).unwrap(),
    )
    .unwrap();
}

fn ask(authid: &str, secret: &str) -> SecretAsk {
    SecretAsk { authid: authid.parse().unwrap(), secret: Secret::new(secret.as_bytes()).unwrap() }
}

async fn code(house: &TestHouse, ask: SecretAsk) -> &'static str {
    match house.come_in(ask).await {
        Ok(_) => "permit",
        Err(refusal) => refusal.code(),
    }
}

#[tokio::test]
async fn a_herd_on_one_password_is_hashed_once() {
    let house = house();
    password(&house, "correct horse");
    let herd: Vec<_> = (0..64)
        .map(|_| {
            let house = house.house.clone();
            tokio::spawn(async move {
                let credential = enfilade_passage::Credential::Secret(ask("alice@local", "correct horse"));
                house.admit(&credential, [127, 0, 0, 1].into()).await.is_ok()
            })
        })
        .collect();
    for one in herd {
        assert!(one.await.unwrap());
    }
    assert_eq!(house.house.gate().counts().computed, 1);
}

#[tokio::test]
async fn a_password_is_remembered_for_a_minute_and_a_wrong_one_never() {
    let house = house();
    password(&house, "correct horse");
    let computed = || house.house.gate().counts().computed;
    for (seconds, secret, expected, hashes) in [
        (0, "correct horse", "permit", 1),
        (59, "correct horse", "permit", 1),
        (2, "correct horse", "permit", 2),
        (0, "wrong", "ID05", 3),
        (0, "wrong", "ID05", 4),
        (0, "correct horse", "permit", 4),
    ] {
        house.clock.advance_seconds(seconds);
        assert_eq!(code(&house, ask("alice@local", secret)).await, expected);
        assert_eq!(computed(), hashes, "{secret}");
    }
    // A new password takes effect at once, even if the old password is remembered.
    password(&house, "another");
    assert_eq!(code(&house, ask("alice@local", "correct horse")).await, "ID05");
    assert_eq!(code(&house, ask("alice@local", "another")).await, "permit");
}

#[tokio::test]
async fn an_unknown_user_costs_a_hash_too() {
    let house = house();
    assert_eq!(code(&house, ask("nobody@local", "x")).await, "ID04");
    assert_eq!(code(&house, ask("nobody@nowhere", "y")).await, "ID04");
    assert_eq!(house.house.gate().counts().computed, 2);
}

#[tokio::test]
async fn the_operator_learns_whether_a_user_is_unknown_or_has_no_password() {
    let house = house();
    for (authid, expected) in [
        (
            "alice@local",
            "user `alice@local` has no password on this server: set one with `enfilade user passwd`",
        ),
        ("nobody@local", "there is no user or token `nobody@local`"),
        ("alice@local!none", "there is no user or token `alice@local!none`"),
    ] {
        let refusal = house.come_in(ask(authid, "x")).await.err().unwrap();
        assert_eq!((refusal.code(), refusal.to_string().as_str()), ("ID04", expected));
    }
}

#[tokio::test]
async fn a_login_ends_the_delays_of_its_own_name_only() {
    let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
        parts.penalties = Penalties::new(MemoSeed([3; 16]));
    });
    house.add_user(&alice(), None);
    password(&house, "correct horse");
    let (penalties, now) = (house.house.penalties(), house.clock.now());
    for name in ["alice@local", "alice@local!test", "bob@local"] {
        penalties.failed([192, 0, 2, 7].into(), name, now);
    }
    let delayed = || {
        let mut names: Vec<_> = penalties.list(now).iter().map(|one| one.subject.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(delayed(), ["alice@local", "alice@local!test", "bob@local"]);
    house.come_in(ask("alice@local", "correct horse")).await.unwrap();
    assert_eq!(delayed(), ["alice@local!test", "bob@local"]);
    house.admit(&Authid::from(alice())).await.unwrap();
    assert_eq!(delayed(), ["bob@local"]);
}

#[tokio::test]
async fn a_password_ends_with_its_second_for_whoever_is_inside_too() {
    let (house, main): (_, DatastoreName) = (house(), "main".parse().unwrap());
    house.add_datastore(&main);
    house.assign("/", &alice().into(), "Admin");
    let rules = PasswordRules { seconds_max: 10, ..PasswordRules::default() };
    let ctx = ChangeContext { passwords: &rules, ..house.change_context() };
    enfilade_admin::set_password(&ctx, &alice(), &Secret::new(b"correct horse").unwrap()).unwrap();
    let right = || ask("alice@local", "correct horse");
    let visit = house.come_in(right()).await.unwrap();
    let mut inside = visit.enter(&main, OperationKind::Read, Blocking).unwrap();
    house.clock.advance_seconds(9);
    assert_eq!(code(&house, right()).await, "permit");
    assert_eq!(why_no_administrator(&house), None);
    assert!(inside.find(&StorePath::root(), AccessMask::LIST, Blocking).is_ok());
    house.clock.advance_seconds(1);
    assert_eq!(code(&house, right()).await, "ID25");
    // The administrator can still log in with the API token, which has the same rights.
    assert_eq!(why_no_administrator(&house), None);
    let cut = inside.find(&StorePath::root(), AccessMask::LIST, Blocking).map(drop);
    assert_eq!(cut.map_err(|why| why.code()), Err("ID25"));
    // Only a request with the right password learns that the password has expired.
    assert_eq!(code(&house, ask("alice@local", "wrong")).await, "ID05");
}

/// The code with which door 2 refuses the administrator; `None` if the administrator is admitted.
fn why_no_administrator(house: &TestHouse) -> Option<&'static str> {
    let now = house.clock.now().unix_seconds;
    let found = enfilade_admin::administrators(house.facts(), Administers::Server, now).unwrap();
    found.first().unwrap().refused.as_ref().map(Refuse::code)
}

#[tokio::test]
async fn a_token_ends_with_its_second_though_it_is_remembered() {
    let house = house();
    let expires = house.clock.now().unix_seconds + 10;
    let key = enfilade_identity::HashKey::new(&[42; 32]);
    let name = "short".parse().unwrap();
    let made = enfilade_admin::create_token(
        &house.change_context(),
        &key,
        &alice(),
        &name,
        &TokenTerms { expires, ..TokenTerms::default() },
    );
    let made = made.unwrap();
    let ask = || ask(&made.tokenid.to_string(), &made.value);
    assert_eq!(code(&house, ask()).await, "permit");
    house.clock.advance_seconds(9);
    assert_eq!(code(&house, ask()).await, "permit");
    house.clock.advance_seconds(1);
    assert_eq!(code(&house, ask()).await, "ID07");
}

#[tokio::test]
async fn a_certificate_stands_for_the_token_it_is_bound_to() {
    let house = house();
    let (ctx, name): (_, TokenName) = (house.change_context(), "laptop".parse().unwrap());
    let terms = TokenTerms::default();
    enfilade_admin::create_certificate_token(&ctx, &alice(), &name, &[1; 32], &terms).unwrap();
    let said = async |fingerprint| {
        let credential = enfilade_passage::Credential::Certificate(CertificateAsk { fingerprint });
        match house.house.admit(&credential, [127, 0, 0, 1].into()).await {
            Ok(visit) => visit.identity().principal().authid.to_string(),
            Err(why) => why.code().to_owned(),
        }
    };
    assert_eq!([said([1; 32]).await, said([2; 32]).await], ["alice@local!laptop", "ID23"]);
    // The fingerprint of a certificate leads to its token. Whether the certificate is accepted depends on the present verifier of the token.
    let tokens = enfilade_admin::list_tokens(house.facts(), Some(&alice())).unwrap();
    let id = tokens.into_iter().find(|token| token.tokenid == "alice@local!laptop").unwrap().id;
    let row = house.facts().read(|view| view.get::<Credential>(&id)).unwrap().unwrap().unwrap();
    for (verifier, expected) in
        [(Verifier::Certificate([3; 32]), "ID23"), (Verifier::Certificate([1; 32]), "alice@local!laptop")]
    {
        let who = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
        let row = Credential { verifier, ..row.clone() };
        house.facts().commit(Change::new(who).put(&id, &row)).unwrap();
        assert_eq!(said([1; 32]).await, expected);
    }
}

/// A guest can use only the file or folder for which the link was made. A guest can make no call of an API, not even about the maker of the link. The
/// use of a link does not count as a login of its maker.
#[tokio::test]
async fn a_guest_of_a_link_makes_no_calls() {
    let house = house();
    let ctx = house.change_context();
    let (datastore, path): (DatastoreName, _) = ("tank".parse().unwrap(), StorePath::root());
    house.add_datastore(&datastore);
    let place = LinkPlace { datastore, path, rights: LinkRights::Read, upload_bytes: None };
    let expires = ctx.now.unix_seconds + 100;
    let new = NewLink { owner: alice(), name: String::new(), place, expires, password: None, uses: Some(1) };
    let made = enfilade_admin::create_link(&ctx, &Limits::default(), &new).unwrap();
    let said = async |text: &str| {
        let ask = LinkAsk { text: Secret::new(text.as_bytes()).unwrap(), proof: LinkProof::Nothing };
        house.house.admit(&enfilade_passage::Credential::Link(ask), [127, 0, 0, 1].into()).await
    };
    let mut visit = said(&made.text).await.unwrap();
    assert_eq!(visit.identity().principal().authid, made.tokenid);
    for lending in [
        Lending::Sessions,
        Lending::Reads,
        Lending::Manages,
        Lending::People,
        Lending::Keys,
        Lending::Credentials,
        Lending::Trusts,
    ] {
        assert!(visit.lends(lending).is_err(), "{lending:?}");
        let (path, needed, own) = ("/access/users".parse().unwrap(), Privileges::NONE, alice());
        let ask = AdminAsk { path: &path, needed, lending, own: Some(&own) };
        assert!(visit.administer(&ask).is_err(), "{lending:?}");
    }
    // The text of the link is not accepted as the secret of an API token.
    assert_eq!(code(&house, ask(&made.tokenid.to_string(), &made.text)).await, "ID08");
    enfilade_admin::count_link_use(&ctx, &made.id).unwrap();
    assert!(enfilade_admin::count_link_use(&ctx, &made.id).is_err());
    let refused =
        |result: Result<enfilade_passage::Visit, enfilade_passage::Refusal>| result.err().unwrap().code();
    assert_eq!(refused(said(&made.text).await), "ID34");
    assert_eq!(refused(said(&made.text[1..]).await), "ID33");
    enfilade_admin::end_link(&ctx, &made.id, None).unwrap();
    assert_eq!(refused(said(&made.text).await), "ID33");
}

/// Counts how often the use of a token is recorded.
#[derive(Default)]
struct Uses(AtomicU32);

impl Audit for Uses {
    fn used(&self, _: &CredentialId, _: IpAddr, _: Clocks) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn record(&self, _: Event) {}
}

#[tokio::test]
async fn the_use_of_a_token_is_recorded_once_a_minute() {
    let uses = Arc::new(Uses::default());
    let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
        parts.audit = Arc::clone(&uses) as Arc<dyn Audit>;
    });
    house.add_user(&alice(), None);
    for (seconds, expected) in [(0, 1), (0, 1), (59, 1), (1, 2), (30, 2), (29, 2), (1, 3), (600, 4)] {
        house.clock.advance_seconds(seconds);
        house.admit(&Authid::from(alice())).await.unwrap();
        assert_eq!(uses.0.load(Ordering::SeqCst), expected, "{seconds} s later");
    }
}

#[tokio::test]
async fn whoever_is_inside_is_asked_again_when_the_facts_changed() {
    let mut house = house();
    let tank: DatastoreName = "tank".parse().unwrap();
    house.add_datastore(&tank);
    let bob: Userid = "bob@local".parse().unwrap();
    house.add_user(&bob, None);
    let role = || {
        let path = "/datastore/tank".parse().unwrap();
        enfilade_admin::assign_role(
            &house.change_context(),
            &path,
            &"alice@local".parse().unwrap(),
            "DatastoreReader".parse().unwrap(),
            true,
        )
    };
    role().unwrap();
    let visit = house.admit(&Authid::from(alice())).await.unwrap();
    // This change does not concern Alice.
    let edit = UserEdit { enabled: Some(false), ..UserEdit::default() };
    enfilade_admin::set_user(&house.change_context(), &bob, &edit).unwrap();
    assert!(visit.clone().enter(&tank, OperationKind::Read, Blocking).is_ok());
    // Alice's token is deleted, and a token with the same name is created. The running visit belongs to the deleted token, and not to the new token.
    let name = "test".parse().unwrap();
    enfilade_admin::delete_token(&house.change_context(), &alice(), &name).unwrap();
    let key = enfilade_identity::HashKey::new(&[42; 32]);
    enfilade_admin::create_token(&house.change_context(), &key, &alice(), &name, &TokenTerms::default())
        .unwrap();
    let refused = visit.enter(&tank, OperationKind::Read, Blocking).err().unwrap();
    assert_eq!(refused.code(), "ID03");
}

#[tokio::test]
async fn whoever_comes_again_on_a_connection_is_known_only_while_nothing_changed() {
    let house = house();
    password(&house, "correct horse");
    let expires = house.clock.now().unix_seconds + 10;
    let (key, name) = (enfilade_identity::HashKey::new(&[42; 32]), "short".parse().unwrap());
    let terms = TokenTerms { expires, ..TokenTerms::default() };
    let made = enfilade_admin::create_token(&house.change_context(), &key, &alice(), &name, &terms).unwrap();
    let (last, from) = (LastVisitor::default(), [127, 0, 0, 1].into());
    let knows = |bytes: &[u8]| house.house.recognise(&last, (b"authorization", bytes), from);
    let come_in = async |bytes: &[u8], ask: SecretAsk| {
        let brought = knows(bytes).err().unwrap();
        last.remember(
            brought,
            from,
            &house.house.admit(&enfilade_passage::Credential::Secret(ask), from).await.unwrap(),
        );
        assert!(knows(bytes).is_ok());
        assert!(knows(b"something else").is_err());
        assert!(house.house.recognise(&last, (b"x-auth-token", bytes), from).is_err());
        // A proxy can send requests of several clients on one connection. The address of one of these clients may be blocked.
        let other = [192, 0, 2, 7].into();
        assert!(house.house.recognise(&last, (b"authorization", bytes), other).is_err());
    };
    // A token is recognised on the same connection until it expires.
    let token = || ask(&made.tokenid.to_string(), &made.value);
    come_in(b"a token", token()).await;
    house.clock.advance_seconds(9);
    assert!(knows(b"a token").is_ok());
    house.clock.advance_seconds(1);
    assert!(knows(b"a token").is_err());
    // A password is recognised on the same connection for a minute.
    come_in(b"a password", ask("alice@local", "correct horse")).await;
    house.clock.advance_seconds(61);
    assert!(knows(b"a password").is_err());
    // After any change of the facts, door 2 is asked again.
    come_in(b"a password", ask("alice@local", "correct horse")).await;
    enfilade_admin::set_user(
        &house.change_context(),
        &alice(),
        &UserEdit { enabled: Some(false), ..UserEdit::default() },
    )
    .unwrap();
    assert!(knows(b"a password").is_err());
}

#[test]
fn a_damaged_record_refuses_only_itself() {
    let mut house = house();
    let bob: Userid = "bob@local".parse().unwrap();
    house.add_user(&bob, None);
    let users = enfilade_admin::list_users(house.facts()).unwrap();
    let id = users.iter().find(|user| user.userid == "alice@local").unwrap().id;
    let flip = |stored: &[u8]| {
        let mut stored = stored.to_vec();
        stored[30] ^= 1;
        Some(stored)
    };
    assert!(house.source.damage(enfilade_facts::Table::Users, id.bytes(), flip).is_some());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(house.admit(&Authid::from(alice()))).err().unwrap();
    assert_eq!((refused.code(), refused.fault().name()), ("ID12", "source"));
    assert!(runtime.block_on(house.admit(&Authid::from(bob))).is_ok());
}

#[tokio::test]
async fn a_replaced_secret_works_until_its_grace_ends_or_is_ended() {
    let house = house();
    let key = enfilade_identity::HashKey::new(&[42; 32]);
    let name = "robot".parse().unwrap();
    let first =
        enfilade_admin::create_token(&house.change_context(), &key, &alice(), &name, &TokenTerms::default())
            .unwrap();
    let again = |grace| {
        enfilade_admin::regenerate_token(&house.change_context(), &key, &alice(), &name, grace).unwrap().value
    };
    let codes = |secrets: [&str; 3]| {
        let asks = secrets.map(|secret| ask(&first.tokenid.to_string(), secret));
        async {
            let [a, b, c] = asks;
            [code(&house, a).await, code(&house, b).await, code(&house, c).await]
        }
    };
    let second = again(60);
    let third = "enf_none";
    assert_eq!(codes([&first.value, &second, third]).await, ["permit", "permit", "ID05"]);
    house.clock.advance_seconds(59);
    assert_eq!(codes([&first.value, &second, third]).await, ["permit", "permit", "ID05"]);
    house.clock.advance_seconds(1);
    assert_eq!(codes([&first.value, &second, third]).await, ["ID05", "permit", "ID05"]);
    // When the secret is replaced a second time, the first secret ends at once.
    let third = again(60);
    let fourth = again(60);
    assert_eq!(codes([&second, &third, &fourth]).await, ["ID05", "permit", "permit"]);
    let edit = enfilade_admin::TokenEdit { end_grace: true, ..Default::default() };
    enfilade_admin::set_token(&house.change_context(), &alice(), &name, &edit).unwrap();
    assert_eq!(codes([&second, &third, &fourth]).await, ["ID05", "ID05", "permit"]);
    let fifth = again(0);
    assert_eq!(codes([&third, &fourth, &fifth]).await, ["ID05", "ID05", "permit"]);
}

/// A token of Alice with a hash that came from another system.
fn imported(house: &TestHouse, name: &str, secret: &str) -> Authid {
    let key = enfilade_identity::HashKey::new(&[42; 32]);
    let name = name.parse().unwrap();
    let made =
        enfilade_admin::create_token(&house.change_context(), &key, &alice(), &name, &TokenTerms::default());
    let tokenid = made.unwrap().tokenid;
    let tokens = enfilade_admin::list_tokens(house.facts(), Some(&alice())).unwrap();
    let id = tokens.into_iter().find(|token| token.tokenid == tokenid.to_string()).unwrap().id;
    let row = house.facts().read(|view| view.get::<Credential>(&id)).unwrap().unwrap().unwrap();
    let hash = enfilade_identity::hash_generated(secret, *b"twelve bytes").unwrap();
    let who = AuditRecord { who: "a test".into(), what: "import".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(who);
    change.put(&id, &Credential { verifier: Verifier::Crypt(hash), ..row });
    house.facts().commit(&change).unwrap();
    tokenid
}

#[tokio::test]
async fn a_slow_hash_gives_way_when_the_secret_is_used_and_nobody_inside_notices() {
    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
    let house = house();
    let tank: DatastoreName = "tank".parse().unwrap();
    house.add_datastore(&tank);
    let path = "/datastore/tank".parse().unwrap();
    let target = "alice@local".parse().unwrap();
    enfilade_admin::assign_role(
        &house.change_context(),
        &path,
        &target,
        "DatastoreReader".parse().unwrap(),
        true,
    )
    .unwrap();
    let (uuid, chosen) = (imported(&house, "uuid", UUID), imported(&house, "chosen", "correct horse"));
    let come = |who: &Authid, secret: &str| house.come_in(ask(&who.to_string(), secret));
    let computed = || house.house.gate().counts().computed;
    assert!(come(&uuid, UUID).await.is_ok());
    assert!(house.upgrades.try_recv().is_err(), "no upgrade was requested");

    let (marked, _) = enfilade_admin::mark_for_upgrade(&house.change_context(), None).unwrap();
    let waiting: Vec<_> =
        marked.iter().filter(|token| token.left.is_none()).map(|token| &token.tokenid).collect();
    assert_eq!(waiting, ["alice@local!chosen", "alice@local!uuid"]);
    assert!(come(&chosen, "correct horse").await.is_ok());
    assert!(come(&uuid, "550e8400-e29b-41d4-a716-446655440001").await.is_err());
    assert!(house.upgrades.try_recv().is_err(), "a chosen or wrong secret is not upgraded");
    let inside = come(&uuid, UUID).await.unwrap();
    let upgrade = house.upgrades.try_recv().unwrap();
    assert!(enfilade_admin::upgrade_token(&house.change_context(), &upgrade).unwrap());
    assert!(!enfilade_admin::upgrade_token(&house.change_context(), &upgrade).unwrap(), "once");

    // Running sessions continue. A new request needs no slow hash, whether its secret is right or wrong.
    assert!(inside.enter(&tank, OperationKind::Read, Blocking).is_ok());
    let before = computed();
    assert!(come(&uuid, UUID).await.is_ok());
    assert_eq!(code(&house, ask(&uuid.to_string(), "550e8400-e29b-41d4-a716-446655440001")).await, "ID05");
    assert_eq!(computed(), before);
    assert!(house.upgrades.try_recv().is_err());
}
