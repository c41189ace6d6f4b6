//! Work on whole trees ends in time.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::Refuse as _;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, StorePath, Userid};
use enfilade_passage::Placing;
use enfilade_testkit::{Remembering, TestHouse};

/// The usual limit of a minute (`("tree_seconds", "60")`), by a clock that goes on by so much with each member.
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
    for (seconds, expected) in [(3, None), (10, Some("CT17"))] {
        let mut stay = visit.clone().enter(&tank, OperationKind::Write).unwrap();
        let goes_on = || {
            house.clock.advance_seconds(seconds);
            true
        };
        let placing = Placing { overwrite: false, is_deep: true, tokens: &[], is_wanted: &goes_on };
        let to = StorePath::from_plain(&format!("to-{seconds}")).unwrap();
        let copied = stay.copy(&StorePath::from_plain("from").unwrap(), &to, placing);
        assert_eq!(copied.err().map(|why| why.code()), expected);
        assert_eq!(root.join(to.as_str()).exists(), expected.is_none());
    }
}
