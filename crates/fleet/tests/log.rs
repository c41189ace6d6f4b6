//! The log in a real etcd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use enfilade_facts::{At, AuditRecord, Change, Revision, StoreId};
use enfilade_fleet::{Etcd, Head, Log, LogError};
use etcd::Server;
use std::time::Duration;

mod etcd;

const STORE: StoreId = StoreId(7);

fn change(what: &str) -> Change {
    Change::new(AuditRecord { who: "alice".into(), what: what.into(), unix_seconds: 7, request: None })
}

fn head(revision: u64, state: u128) -> Head {
    let at = At { store: STORE, revision: Revision(revision) };
    Head { at, state, format: enfilade_facts::format::FORMAT, first: Revision(42), log_bytes: 0 }
}

/// The numbers and texts of all changes that a reader gets after the change with the number `revision`. The reader gets whole entries.
async fn all_after(log: &Log, mut revision: Revision) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    loop {
        let entries = log.after(revision).await.unwrap();
        let Some(last) = entries.last() else { return found };
        revision = last.last();
        for entry in entries {
            found.extend(
                (entry.first.0..).zip(entry.changes.iter().map(|change| change.audit().what.clone())),
            );
        }
    }
}

#[tokio::test]
async fn changes_get_numbers_in_one_order() {
    let server = Server::start();
    let log = server.log("/house", STORE);
    assert!(matches!(log.head().await, Err(LogError::NotOurs { .. })));
    assert_eq!(log.begin(Revision(41), 4).await, Ok(head(41, 4)));
    assert!(matches!(log.begin(Revision(0), 0).await, Err(LogError::NotOurs { .. })), "a log is begun once");
    assert_eq!(log.after(Revision(41)).await, Ok(Vec::new()));
    let two = [change("a"), change("b")];
    let first = log.append(head(41, 4), &two, 5).await.unwrap();
    assert_eq!(Head { log_bytes: 0, ..first }, head(43, 5));
    assert_eq!(log.append(head(41, 4), &[change("c")], 5).await, Err(LogError::Conflict));
    let second = log.append(first, &[change("c")], 6).await.unwrap();
    assert_eq!(Head { log_bytes: 0, ..second }, head(44, 6));
    assert!(0 < first.log_bytes && first.log_bytes < second.log_bytes);
    assert_eq!(log.head().await, Ok(second));
    let texts = |from: u64, texts: &[&str]| -> Vec<_> {
        (from..).zip(texts.iter().map(ToString::to_string)).collect()
    };
    assert_eq!(all_after(&log, Revision(41)).await, texts(42, &["a", "b", "c"]));
    assert_eq!(all_after(&log, Revision(43)).await, texts(44, &["c"]));
    // Change 43 is in an entry that begins with change 42.
    assert_eq!(all_after(&log, Revision(42)).await, texts(42, &["a", "b", "c"]));
    // If a reader needs changes that were trimmed, it gets an error: it does not skip these changes.
    assert_eq!(log.trim(first, Revision(43)).await, Ok(false), "`first` is not the end any more");
    assert_eq!(log.trim(second, Revision(43)).await, Ok(true));
    let trimmed = log.head().await.unwrap();
    assert_eq!((trimmed.first, trimmed.log_bytes), (Revision(44), second.log_bytes / 3));
    assert_eq!(log.after(Revision(41)).await, Err(LogError::Trimmed { after: Revision(41) }));
    assert_eq!(all_after(&log, Revision(43)).await, texts(44, &["c"]));
    assert_eq!(log.trim(trimmed, Revision(44)).await, Ok(true));
    assert_eq!(log.head().await.unwrap().log_bytes, 0);
    assert_eq!(log.after(Revision(43)).await, Err(LogError::Trimmed { after: Revision(43) }));
    assert_eq!(log.after(Revision(44)).await, Ok(Vec::new()));
}

/// Several members add changes at the same time. Each change gets one number, and no number is used twice.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_write_at_once_get_different_numbers() {
    const MEMBERS: usize = 5;
    const CHANGES: usize = 20;
    let server = Server::start();
    server.log("/house", STORE).begin(Revision(0), 0).await.unwrap();
    let members = (0..MEMBERS).map(|member| {
        let log = server.log("/house", STORE);
        tokio::spawn(async move {
            let (mut at, mut conflicts, mut done) = (log.head().await.unwrap(), 0, 0);
            while done < CHANGES {
                match log.append(at, &[change(&format!("{member}:{done}"))], 0).await {
                    Ok(next) => (at, done) = (next, done + 1),
                    Err(LogError::Conflict) => (at, conflicts) = (log.head().await.unwrap(), conflicts + 1),
                    Err(why) => panic!("{why}"),
                }
            }
            conflicts
        })
    });
    let mut conflicts = 0;
    for member in members.collect::<Vec<_>>() {
        conflicts += member.await.unwrap();
    }
    let all = all_after(&server.log("/house", STORE), Revision(0)).await;
    assert!(all.iter().map(|(number, _)| *number).eq(1..=(MEMBERS * CHANGES) as u64), "{all:?}");
    for member in 0..MEMBERS {
        let of = all
            .iter()
            .filter(|(_, what)| what.starts_with(&format!("{member}:")))
            .map(|(_, what)| what.clone());
        assert!(of.eq((0..CHANGES).map(|nth| format!("{member}:{nth}"))), "{member}: {all:?}");
    }
    assert!(conflicts > 0, "nobody wrote at the same time");
}

/// etcd stops while a change is added, and continues later. Either the change is in the log exactly once, or its author gets the error that the
/// outcome is unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_was_lost_is_made_once() {
    let server = Server::start();
    let log = server.log("/house", STORE);
    let mut at = log.begin(Revision(0), 0).await.unwrap();
    for nth in 0..3 {
        server.signal("-STOP");
        let (of, from) = (log.clone(), at);
        let adding = tokio::spawn(async move { of.append(from, &[change(&format!("{nth}"))], 0).await });
        // This pause is longer than the time that one call may take.
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        server.signal("-CONT");
        at = adding.await.unwrap().unwrap();
        assert_eq!(log.head().await, Ok(at));
    }
    let all = all_after(&log, Revision(0)).await;
    assert_eq!(all, [(1, "0".to_owned()), (2, "1".to_owned()), (3, "2".to_owned())]);
    server.signal("-STOP");
    let lost = log.append(at, &[change("lost")], 0).await;
    assert!(matches!(lost, Err(LogError::Unknown(_))), "{lost:?}");
    assert!(matches!(log.head().await, Err(LogError::Etcd(_))));
    server.signal("-CONT");
}

#[tokio::test]
async fn what_another_wrote_is_refused_and_never_skipped() {
    let server = Server::start();
    let log = server.log("/house", STORE);
    let begun = log.begin(Revision(0), 0).await.unwrap();
    log.append(begun, &[change("a")], 0).await.unwrap();
    let other = Log::new(server.etcd(), "/house", StoreId(8));
    assert!(matches!(other.head().await, Err(LogError::NotOurs { .. })), "the log of another store");
    server.put("/house/log/00000000000000000001", "damaged");
    let found = log.after(Revision(0)).await;
    assert!(matches!(found, Err(LogError::Damaged { .. })), "{found:?}");
    server.put("/house/head", "damaged");
    assert!(matches!(log.head().await, Err(LogError::Damaged { .. })));
    assert!(matches!(log.after(Revision(1)).await, Err(LogError::Damaged { .. })));
    let large = log.append(begun, &[change(&"x".repeat(64 << 20))], 0).await;
    assert!(matches!(large, Err(LogError::TooLarge { .. })), "{large:?}");
    assert!(Etcd::at(&["not a url".to_owned()], None).is_err());
}
