//! The datastores visible to a user, and the free space in them.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::DatastoreEdit;
use enfilade_facts::tables::HomeMembers;
use enfilade_facts::vocabulary::{
    Authid, DatastoreName, Maintenance, MaintenanceMode, OperationKind, StorePath,
};
use enfilade_passage::Blocking;
use enfilade_testkit::{Remembering, TestHouse};

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
    assert!(left > 1_000_000 && used > 0, "{left} {used}: those of the disk");
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
