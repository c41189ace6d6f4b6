//! The datastores visible to a user, and the free space in them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use enfilade_admin::DatastoreEdit;
use enfilade_facts::Refuse;
use enfilade_facts::tables::HomeMembers;
use enfilade_facts::vocabulary::{
    Authid, DatastoreName, Maintenance, MaintenanceMode, OperationKind, StorePath,
};
use enfilade_passage::{Blocking, Ledger};
use enfilade_testkit::{FixedClock, Remembering, TestHouse};

fn house() -> (TestHouse, Authid) {
    let (mut house, alice) =
        (TestHouse::new(Remembering::AsServed), "alice@local".parse::<Authid>().unwrap());
    for name in ["one", "two", "three"] {
        house.add_datastore(&name.parse().unwrap());
    }
    house.add_user(&alice.user, None);
    (house, alice)
}

#[tokio::test]
async fn a_visitor_is_told_of_the_stores_a_role_shows() {
    let (house, alice) = house();
    house.assign("/datastore/one", &alice, "DatastoreReader");
    house.assign("/datastore/three", &alice, "DatastoreAdmin");
    let stores = house.admit(&alice).await.unwrap().stores().unwrap();
    let mut names: Vec<String> = stores.iter().map(ToString::to_string).collect();
    names.sort();
    assert_eq!(names, ["one", "three"]);
}

#[tokio::test]
async fn what_is_left_is_the_rest_of_the_quota_or_of_the_disk() {
    let (house, alice) = house();
    let one: DatastoreName = "one".parse().unwrap();
    house.assign("/datastore", &alice, "DatastoreAdmin");
    let everything = enfilade_admin::NewAcl::Lines(vec!["allow everyone full inherit=files,dirs".into()]);
    enfilade_admin::set_acl(&house.change_context(), &one, &StorePath::root(), &everything).unwrap();
    let visit = house.admit(&alice).await.unwrap();
    let quota = || visit.clone().enter(&one, OperationKind::Write, Blocking).unwrap().quota().unwrap();
    let (left, used) = quota();
    assert!(left > 1_000_000 && used > 0, "{left} bytes left, {used} used: expected the values of the disk");
    enfilade_admin::edit_profile(&house.change_context(), &one, |profile| profile.quota = Some(1_000_000))
        .unwrap();
    let mut upload = visit
        .clone()
        .enter(&one, OperationKind::Write, Blocking)
        .unwrap()
        .upload(StorePath::from_plain("file").unwrap(), None)
        .unwrap();
    upload.write(&vec![7; 400_000]).unwrap();
    upload.finish().unwrap();
    assert_eq!(quota(), (600_000, 400_000));
}

/// The change itself checks the maintenance mode. The check of the command line is not enough, because another command can end the maintenance
/// between that check and the change.
#[test]
fn an_open_datastore_does_not_get_another_serving_member() {
    let (house, _) = house();
    let one: DatastoreName = "one".parse().unwrap();
    let maintenance = |mode: Option<&str>| {
        let mode = mode.map(MaintenanceMode::from_name);
        let edit = DatastoreEdit::Maintenance(mode.map(|mode| Maintenance { mode, message: None }));
        enfilade_admin::edit_datastore(&house.change_context(), &one, &edit).unwrap();
    };
    let served_by = |members: &[&str]| {
        let home = Some(HomeMembers::new(members));
        enfilade_admin::edit_profile(&house.change_context(), &one, |profile| profile.home = home.clone())
    };
    let refused = served_by(&["b"]).unwrap_err().to_string();
    assert!(refused.contains("must be in maintenance mode offline"), "{refused}");
    maintenance(Some("offline"));
    served_by(&["b"]).unwrap();
    maintenance(None);
    served_by(&["b", "c"]).unwrap();
    let refused = served_by(&["c", "b"]).unwrap_err().to_string();
    assert!(refused.contains("must be in maintenance mode offline"), "{refused}");
}

/// A full ledger refuses only operations in datastores that exist. So the refusal must not tell a user without a role that a datastore exists.
#[tokio::test]
async fn a_full_ledger_tells_nobody_without_a_role_that_a_datastore_exists() {
    let mut house = TestHouse::changed(Remembering::AsServed, |parts| {
        parts.ledger = Ledger::private(1, FixedClock::default().now());
    });
    let users: [Authid; 2] = ["alice@local".parse().unwrap(), "bob@local".parse().unwrap()];
    users.iter().for_each(|user| house.add_user(&user.user, None));
    for name in ["first", "second"] {
        house.add_datastore(&name.parse().unwrap());
        house.assign(&format!("/datastore/{name}"), &users[0], "DatastoreReader");
    }
    let visits = [house.admit(&users[0]).await.unwrap(), house.admit(&users[1]).await.unwrap()];
    let enter = |user: usize, name: &str| {
        let entered = visits[user].clone().enter(&name.parse().unwrap(), OperationKind::Read, Blocking);
        entered.map(|_| ()).map_err(|why| why.code())
    };
    assert_eq!(enter(0, "first"), Ok(()));
    assert_eq!(enter(0, "second"), Err("DS06"));
    let absent = enter(1, "absent");
    assert!(absent.is_err());
    assert_eq!(enter(1, "first"), absent);
    assert_eq!(enter(1, "second"), absent);
}
