//! A change of a datastore's access rules applies from the next request on.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_facts::Refuse;
use enfilade_facts::tables::AccessRules;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, OperationKind, StorePath};
use enfilade_passage::Blocking;
use enfilade_testkit::{Remembering, TestHouse};

#[tokio::test]
async fn each_rule_of_a_datastore_is_obeyed() {
    let mut house = TestHouse::new(Remembering::AsServed);
    let (tank, alice) = ("tank".parse::<DatastoreName>().unwrap(), "alice@local".parse::<Authid>().unwrap());
    house.add_datastore(&tank);
    house.add_user(&alice.user, None);
    house.assign("/datastore/tank", &alice, "DatastoreReader");
    let path = |text| StorePath::from_plain(text).unwrap();
    std::fs::create_dir(house.content(&tank).join("above")).unwrap();
    std::fs::write(house.content(&tank).join("above/file"), "x").unwrap();
    // Alice may list both directories and read the file. She may traverse only the root, and may not read the ACL of the file.
    for (text, acl) in [
        ("", "allow alice@local read"),
        ("above", "allow alice@local list,read-attributes,read-acl"),
        ("above/file", "allow alice@local read-data,read-named-attributes,read-attributes"),
    ] {
        let lines = enfilade_admin::NewAcl::Lines(vec![acl.into()]);
        enfilade_admin::set_acl(&house.change_context(), &tank, &path(text), &lines).unwrap();
    }
    let visit = house.admit(&alice).await.unwrap();
    let windows = AccessRules::default();
    let bytes = AccessRules { visible: AccessMask::READ_DATA | AccessMask::READ_ATTRIBUTES, ..windows };
    for (what, access, expected) in [
        ("as on Windows, seen with the right to read the ACL", windows, Some("AC02")),
        ("seen with the rights to read it and its attributes", bytes, None),
        ("the right to traverse is checked", AccessRules { checks_traverse: true, ..bytes }, Some("AC03")),
        ("the right to traverse is not checked any more", bytes, None),
    ] {
        enfilade_admin::edit_profile(&house.change_context(), &tank, |profile| profile.access = access)
            .unwrap();
        let mut stay = visit.clone().enter(&tank, OperationKind::Read, Blocking).unwrap();
        let found = stay.find(&path("above/file"), AccessMask::READ_DATA, Blocking);
        assert_eq!(found.err().map(|refusal| refusal.code()), expected, "{what}");
    }
}
