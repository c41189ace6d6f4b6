//! Tests that a COPY of a tree ends at the time limit. Also tests that its response names each member that was renamed during the copy and was not
//! copied.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, StorePath, Userid};
use enfilade_passage::{Blocking, Placing};
use enfilade_testkit::{Remembering, TestHouse};

/// The limit is the default limit of a minute (`("tree_seconds", "60")`). The clock advances by some seconds with each member.
#[tokio::test]
async fn a_copy_that_takes_longer_than_it_may_is_ended_and_leaves_nothing() {
    let mut house = TestHouse::new(Remembering::AsServed);
    let (tank, alice): (DatastoreName, Userid) = ("tank".parse().unwrap(), "alice@local".parse().unwrap());
    house.add_datastore(&tank);
    house.add_user(&alice, None);
    house.assign("/datastore/tank", &alice.clone().into(), "DatastoreAdmin");
    let visit = house.admit(&alice.into()).await.unwrap();
    let root = house.content(&tank);
    std::fs::create_dir(root.join("from")).unwrap();
    (0..9).for_each(|n| std::fs::write(root.join("from").join(n.to_string()), "x").unwrap());
    for (seconds, expected) in [(2, None), (10, Some("CT17"))] {
        let mut stay = visit.clone().enter(&tank, OperationKind::Write, Blocking).unwrap();
        let goes_on = || {
            house.clock.advance_seconds(seconds);
            true
        };
        let placing = Placing { overwrite: false, is_deep: true, tokens: &[], keep_going: &goes_on };
        let to = StorePath::from_plain(&format!("to-{seconds}")).unwrap();
        let copied = stay.copy(&StorePath::from_plain("from").unwrap(), &to, placing);
        assert_eq!(copied.err().map(|why| why.code()), expected);
        assert_eq!(root.join(to.as_str()).exists(), expected.is_none());
    }
}

/// In each round a member is renamed at another step of the copy. This member must be in the copy exactly once, or the response must name it.
#[tokio::test]
async fn a_member_that_is_renamed_while_it_is_copied_is_in_the_copy_once_or_is_named() {
    let mut house = TestHouse::new(Remembering::AsServed);
    let (tank, alice): (DatastoreName, Userid) = ("tank".parse().unwrap(), "alice@local".parse().unwrap());
    house.add_datastore(&tank);
    house.add_user(&alice, None);
    house.assign("/datastore/tank", &alice.clone().into(), "DatastoreAdmin");
    let visit = house.admit(&alice.into()).await.unwrap();
    let root = house.content(&tank);
    let mut named = 0;
    let moves = [("1/x", "2/y"), ("2/x", "1/y"), ("1/x", "0"), ("2/x", "9"), ("1/d", "2/e"), ("2/d", "1/e")];
    for (number, (from, to)) in moves.into_iter().enumerate() {
        for moment in 0..14 {
            let _ = std::fs::remove_dir_all(root.join("from"));
            for directory in ["1", "2"] {
                std::fs::create_dir_all(root.join("from").join(directory).join("d")).unwrap();
                for file in ["x", "d/z"] {
                    let path = root.join("from").join(directory).join(file);
                    std::fs::write(path, format!("{directory}/{file}")).unwrap();
                }
            }
            let steps = std::cell::Cell::new(0);
            let goes_on = || {
                if steps.replace(steps.get() + 1) == moment {
                    std::fs::rename(root.join("from").join(from), root.join("from").join(to)).unwrap();
                }
                true
            };
            let mut stay = visit.clone().enter(&tank, OperationKind::Write, Blocking).unwrap();
            let placing = Placing { overwrite: false, is_deep: true, tokens: &[], keep_going: &goes_on };
            let goal = format!("to-{number}-{moment}");
            let (source, goal_path) =
                (StorePath::from_plain("from").unwrap(), StorePath::from_plain(&goal).unwrap());
            let placed = stay.copy(&source, &goal_path, placing).unwrap();
            let copied = contents(&root.join(&goal));
            named += placed.failed.len();
            for content in ["1/x", "2/x", "1/d/z", "2/d/z"] {
                let count = copied.iter().filter(|copied| *copied == content).count();
                let is_told = content.starts_with(from) && !placed.failed.is_empty();
                let said = format!(
                    "rename of `{from}` to `{to}` at step {moment} of the copy: the copy contains `{content}` {count} times, and reports as failed: {:?}",
                    placed.failed
                );
                assert!(count == 1 || count == 0 && is_told, "{said}");
            }
        }
    }
    assert!(named > 0, "no rename happened while it could affect the copy");
}

fn contents(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => contents(&path),
            false => vec![std::fs::read_to_string(path).unwrap()],
        })
        .collect()
}
