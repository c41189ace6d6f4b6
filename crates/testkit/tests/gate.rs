//! Tests the gate for slow hashes, with its threads.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::MemoSeed;
use enfilade_facts::vocabulary::{Secret, Userid};
use enfilade_identity::{
    Ask, Closed, Context, HashKey, IdentityMemo, Outcome, SecretAsk, SessionState, Work,
};
use enfilade_passage::{Asker, HashGate};
use enfilade_testkit::{Remembering, TestHouse};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Hashes to compute: one for the right password, and the others for wrong passwords.
fn works(count: usize) -> Vec<Work> {
    let mut house = TestHouse::new(Remembering::AsServed);
    let alice: Userid = "alice@local".parse().unwrap();
    house.add_user(&alice, None);
    enfilade_admin::set_password(&house.change_context(), &alice, &Secret::new(b"0").unwrap()).unwrap();
    let memo = IdentityMemo::new(MemoSeed([5; 16]), 1 << 16);
    let work = |n: usize| {
        let secret = Secret::new(n.to_string().as_bytes()).unwrap();
        let ask = SecretAsk { authid: "alice@local".parse().unwrap(), secret };
        let now = house.clock.now();
        let (hash_key, sessions) = (HashKey::new(&[42; 32]), SessionState::default());
        let context = Context { hash_key: &hash_key, sessions: &sessions, memo: &memo };
        match enfilade_identity::open(house.facts(), || now, Ask::Secret(&ask), &context) {
            Err(Closed::NeedsWork(work)) => *work,
            other => panic!("{other:?}"),
        }
    };
    (0..count).map(work).collect()
}

/// The tests in `passage/src/gate.rs` check, without threads, in which order waiting requests are served. This test uses threads, and checks that
/// every answer is right under any load.
#[tokio::test]
async fn many_at_once_are_answered_right_or_sent_away() {
    let gate = Arc::new(HashGate::new(2));
    let asked: Vec<_> = works(8)
        .into_iter()
        .enumerate()
        .map(|(n, work)| {
            let asker = Asker { from: Ipv4Addr::new(192, 0, 2, n as u8).into(), failures: 0 };
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                // On a busy machine the gate may refuse. In that case the hash is requested again.
                loop {
                    if let Ok(outcome) = gate.run(Box::new(work.clone()), asker).await {
                        return outcome;
                    }
                }
            })
        })
        .collect();
    for (n, one) in asked.into_iter().enumerate() {
        assert_eq!(matches!(one.await.unwrap(), Outcome::Matches(_)), n == 0, "{n}");
    }
    let counts = gate.counts();
    assert!(counts.computed + counts.shared >= 8, "{counts:?}");
}
