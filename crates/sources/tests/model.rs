//! Compares the sources `Lmdb` and `Memory` with a plain map, after random changes.

#![allow(clippy::unwrap_used, reason = "a test: it fails by panicking")]

use enfilade_facts::tables::{Member, Membership, MembershipKey, Region, RegionId};
use enfilade_facts::vocabulary::{GroupId, UserId};
use enfilade_facts::{Change, CommitError, Read, Source, StoreId};
use enfilade_sources::conformance::change as empty;
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::memory::Memory;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A part of a change. There are only a few keys, so that several parts concern the same key.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Join(u8, u8),
    Leave(u8, u8),
    ExpectAbsent(u8),
    ExpectPresent(u8),
    ExpectSame(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (key, value) = (0..6u8, 0..3u8);
    prop_oneof![
        4 => (key.clone(), value.clone()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => key.clone().prop_map(Step::Delete),
        2 => (key.clone(), key.clone()).prop_map(|(user, group)| Step::Join(user, group)),
        1 => (key.clone(), key.clone()).prop_map(|(user, group)| Step::Leave(user, group)),
        1 => key.clone().prop_map(Step::ExpectAbsent),
        1 => key.clone().prop_map(Step::ExpectPresent),
        1 => (key, value).prop_map(|(key, value)| Step::ExpectSame(key, value)),
    ]
}

fn region_id(key: u8) -> RegionId {
    // Each id is a prefix of the next id, so that the order of keys and scans with a prefix are tested.
    RegionId("n".repeat(usize::from(key) + 1))
}

fn region(value: u8) -> Region {
    Region { description: Some(value.to_string()), parent: None }
}

fn membership(user: u8, group: u8) -> MembershipKey {
    let member = Member::User(UserId::from_bytes([user; 16]));
    MembershipKey { member, group: GroupId::from_bytes([group; 16]) }
}

#[derive(Clone, Default, PartialEq)]
struct Model {
    regions: BTreeMap<u8, u8>,
    members: BTreeSet<(u8, u8)>,
}

impl Model {
    /// The model after a change, or `None` if an expectation does not hold.
    fn after(&self, steps: &[Step]) -> Option<Model> {
        let holds = |step: &Step| match step {
            Step::ExpectAbsent(key) => !self.regions.contains_key(key),
            Step::ExpectPresent(key) => self.regions.contains_key(key),
            Step::ExpectSame(key, value) => self.regions.get(key) == Some(value),
            _ => true,
        };
        steps.iter().all(holds).then(|| {
            let mut after = self.clone();
            for step in steps {
                match step {
                    Step::Put(key, value) => drop(after.regions.insert(*key, *value)),
                    Step::Delete(key) => drop(after.regions.remove(key)),
                    Step::Join(user, group) => drop(after.members.insert((*user, *group))),
                    Step::Leave(user, group) => drop(after.members.remove(&(*user, *group))),
                    _ => {}
                }
            }
            after
        })
    }
}

fn change(steps: &[Step]) -> Change {
    let mut change = empty();
    for step in steps {
        match step {
            Step::Put(key, value) => change.put(&region_id(*key), &region(*value)),
            Step::Delete(key) => change.delete::<Region>(&region_id(*key)),
            Step::Join(user, group) => change.put(&membership(*user, *group), &Membership),
            Step::Leave(user, group) => change.delete::<Membership>(&membership(*user, *group)),
            Step::ExpectAbsent(key) => change.expect_absent::<Region>(&region_id(*key)),
            Step::ExpectPresent(key) => change.expect_present::<Region>(&region_id(*key)),
            Step::ExpectSame(key, value) => change.expect_same(&region_id(*key), &region(*value)),
        };
    }
    change
}

fn check(source: &dyn Source, model: &Model) {
    source
        .read(|view| {
            let regions: Vec<_> =
                model.regions.iter().map(|(key, value)| (region_id(*key), region(*value))).collect();
            assert_eq!(view.list::<Region>(&[]).unwrap(), regions);
            let members: Vec<_> =
                model.members.iter().map(|(user, group)| (membership(*user, *group), Membership)).collect();
            assert_eq!(view.list::<Membership>(&[]).unwrap(), members);
            for user in 0..6 {
                let of_user = view.list::<Membership>(&membership(user, 0).member.prefix()).unwrap();
                assert_eq!(of_user.len(), model.members.iter().filter(|(this, _)| *this == user).count());
                assert_eq!(
                    view.get::<Region>(&region_id(user)).unwrap(),
                    model.regions.get(&user).copied().map(region)
                );
            }
        })
        .unwrap();
}

/// Commits a change, and checks the result and the facts after it.
fn run(source: &dyn Source, model: &mut Model, steps: &[Step]) {
    let before = source.at();
    let is_write =
        |step: &Step| !matches!(step, Step::ExpectAbsent(_) | Step::ExpectPresent(_) | Step::ExpectSame(..));
    let done = source.commit(&change(steps));
    match model.after(steps) {
        Some(after) => {
            let at = done.unwrap();
            assert_eq!(source.at(), at);
            assert!(before.revision <= at.revision && before.store == at.store);
            // If the facts changed, the revision is later.
            assert!(after == *model || before.revision < at.revision);
            assert!(at == before || steps.iter().any(is_write));
            *model = after;
        }
        None => {
            assert!(matches!(done, Err(CommitError::Conflict { .. })), "{done:?}");
            assert_eq!(source.at(), before);
        }
    }
    check(source, model);
}

/// A directory in memory (`/dev/shm`), if there is one, because this test needs no disk.
fn directory() -> PathBuf {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    base.join(format!("enfilade-model-{:016x}", u64::from_be_bytes(random)))
}

const CASES: usize = 100_000;

/// Makes random changes, which are the same in every run.
#[test]
fn sources_do_what_a_map_does() {
    let path = directory();
    let lmdb = Lmdb::open(&path).unwrap();
    let memory = Memory::new(StoreId(1));
    let (mut in_lmdb, mut in_memory) = (Model::default(), Model::default());
    let changes = proptest::collection::vec(step(), 0..6);
    let mut runner = TestRunner::deterministic();
    let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..CASES {
            let steps = changes.new_tree(&mut runner).unwrap().current();
            run(&lmdb, &mut in_lmdb, &steps);
            run(&memory, &mut in_memory, &steps);
        }
    }));
    drop(lmdb);
    std::fs::remove_dir_all(&path).unwrap();
    if let Err(why) = held {
        std::panic::resume_unwind(why);
    }
}
