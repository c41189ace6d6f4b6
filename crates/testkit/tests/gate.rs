//! Who gets a slow hash computed when more want one than can have one.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::vocabulary::{Secret, Userid};
use enfilade_facts::{MemoSeed, Read};
use enfilade_identity::{Ask, HashKey, IdentityMemo, Outcome, Verdict, Work};
use enfilade_passage::{Asker, HashGate};
use enfilade_testkit::{Remembering, TestHouse};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Hashes to compute: one of the right password, the others of wrong ones.
fn works(count: usize) -> Vec<Work> {
    let mut house = TestHouse::new(Remembering::AsServed);
    let alice: Userid = "alice@local".parse().unwrap();
    house.add_user(&alice, None);
    enfilade_admin::set_password(&house.desk(), &alice, &Secret::new(b"0").unwrap()).unwrap();
    let memo = IdentityMemo::new(MemoSeed([5; 16]), 1 << 16);
    let work = |n: usize| {
        let secret = Secret::new(n.to_string().as_bytes()).unwrap();
        let ask = Ask { authid: "alice@local".parse().unwrap(), secret };
        let now = house.clock.now();
        let key = HashKey::new(&[42; 32]);
        match house.facts().read(|view| enfilade_identity::open(view, now, &ask, &key, &memo)).unwrap() {
            Verdict::NeedsWork(work) => *work,
            other => panic!("{other:?}"),
        }
    };
    (0..count).map(work).collect()
}

fn from(n: u8, failures: u32) -> Asker {
    Asker { from: Ipv4Addr::new(192, 0, 2, n).into(), failures }
}

#[tokio::test]
async fn whoever_failed_least_goes_first_and_whoever_failed_most_goes_away() {
    let gate = Arc::new(HashGate::new(1));
    let mut works = works(7).into_iter();
    let good = works.next().unwrap();
    // One is computed, four wait, the sixth finds no room.
    let flood: Vec<_> = works
        .enumerate()
        .map(|(n, work)| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.run(Box::new(work), from(n as u8, 3)).await.is_ok() })
        })
        .collect();
    tokio::task::yield_now().await;
    let cold = gate.run(Box::new(good), from(200, 0)).await;
    assert!(matches!(cold, Ok(Outcome::Matches(_))));
    let mut served = 0;
    for one in flood {
        served += usize::from(one.await.unwrap());
    }
    assert!(served < 6, "{served}");
    assert!(gate.counts().turned_away >= 1);
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_computed() {
    let gate = Arc::new(HashGate::new(1));
    let waiting: Vec<_> = works(4)
        .into_iter()
        .enumerate()
        .map(|(n, work)| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.run(Box::new(work), from(n as u8, 0)).await.is_ok() })
        })
        .collect();
    tokio::task::yield_now().await;
    for one in waiting.iter().skip(1) {
        one.abort();
    }
    for one in waiting {
        let _ = one.await;
    }
    let last = gate.run(Box::new(works(1).remove(0)), from(9, 0)).await;
    assert!(matches!(last, Ok(Outcome::Matches(_))));
    assert!(gate.counts().computed <= 3, "{:?}", gate.counts());
}

#[tokio::test]
async fn an_address_has_one_slot_however_many_there_are() {
    let gate = Arc::new(HashGate::new(2));
    let mut works = works(5).into_iter();
    let good = works.next().unwrap();
    let greedy: Vec<_> = works
        .map(|work| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.run(Box::new(work), from(1, 0)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let before = gate.counts().computed;
    let other = gate.run(Box::new(good), from(2, 0)).await;
    assert!(matches!(other, Ok(Outcome::Matches(_))));
    // It did not wait for the four of the other address.
    assert!(gate.counts().computed - before <= 3, "{:?}", gate.counts());
    for one in greedy {
        let _ = one.await;
    }
}
