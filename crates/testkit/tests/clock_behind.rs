//! Tests a clock that was set back to a time before the last purge. Then no session is issued, and the refusal names the clock as the reason.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::NewUser;
use enfilade_admin::keystone as admin;
use enfilade_facts::Refuse as _;
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{Realm, Secret, Userid};
use enfilade_identity::{Scope, SecretAsk, Wanted};
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse};

const DAY: i64 = 86_400;

#[tokio::test]
async fn no_session_is_issued_that_would_end_before_what_was_purged() {
    let house = TestHouse::new(Remembering::AsServed);
    house.house.set_keys(Some(KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()));
    let realm: Realm = "home".parse().unwrap();
    admin::add_domain(&house.change_context(), &realm, None).unwrap();
    let ann: Userid = "ann@home".parse().unwrap();
    let (id, _) = enfilade_admin::add_user(&house.change_context(), &NewUser::named(ann.clone())).unwrap();
    house.give_cheap_password(&id);
    let come_in = async || {
        let ask = SecretAsk { authid: ann.clone().into(), secret: Secret::new(b"pw").unwrap() };
        loop {
            // On a busy machine the gate may refuse to compute the hash.
            match house.come_in(ask.clone()).await {
                Err(why) if why.code() == "ID09" => {}
                visit => return visit.unwrap(),
            }
        }
    };
    let stands = |token: &str| house.come_in_by(token.as_bytes()).map(drop).map_err(|why| why.code());
    let wanted = || Wanted::Scope(Scope::Unscoped);
    let early = come_in().await.issue(wanted()).await.unwrap();
    let end = early.session.claim.expires_at;
    let mark = Revoked::Token(early.session.claim.audit.own);
    admin::revoke(&house.change_context(), &[mark], Some(end), "a test").unwrap();
    // Only the clock that counts from the start of the machine proves that time has passed. So a purge needs two readings of this clock.
    admin::purge_revocations(&house.change_context(), 0).unwrap();
    house.clock.advance_seconds(3 * DAY.unsigned_abs());
    admin::purge_revocations(&house.change_context(), 0).unwrap();
    assert!(admin::list_revocations(house.facts()).unwrap().is_empty());
    let late = come_in().await.issue(wanted()).await.unwrap();

    for (back, issued) in [(2 * DAY, None), (3 * DAY + 7_200, Some("ID27")), (30 * DAY, Some("ID27"))] {
        house.clock.set_wall(-back);
        let made = come_in().await.issue(wanted()).await;
        assert_eq!(made.as_ref().err().map(|why| why.code()), issued, "{back}");
        if let Err(why) = made {
            assert!(why.to_string().contains("the clock of this server is at least"), "{why}");
        }
        // Revoked tokens stay revoked, and tokens issued by the right clock stay valid.
        assert_eq!(stands(&early.token), Err("ID17"), "{back}");
        assert_eq!(stands(&late.token), Ok(()), "{back}");
        house.clock.set_wall(back);
    }
    come_in().await.issue(wanted()).await.unwrap();
}
