//! Deleted groups.

use super::world::{World, none};
use enfilade_admin::LimitModel;
use enfilade_facts::tables::{Grant, GrantKey, GrantScope, Grantee};
use enfilade_facts::vocabulary::{GroupId, ProjectId, RoleId};
use enfilade_facts::{AuditRecord, Change, Read as _};
use serde_json::json;

/// This number of assignments is greater than the number that one commit deletes.
const ASSIGNMENTS: u128 = 600;

/// An import can create a group with the id of a deleted group. The new group must not have the roles of the old one.
#[tokio::test]
async fn a_deleted_group_leaves_no_role_behind() {
    let mut world = World::new(LimitModel::default()).await;
    let group = json!({ "group": { "name": "crew", "domain_id": "default" } });
    world.hold(&[("admin", "POST", "/v3/groups -> crew", group, 201, &[])]).await;
    let id: GroupId = world.id("crew").parse().unwrap();
    let who = Grantee::Group(id);
    let audit = AuditRecord { who: "t".into(), what: "t".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(audit);
    for n in 0..ASSIGNMENTS {
        let scope = GrantScope::Project(ProjectId::from_bytes(n.to_be_bytes()));
        change.put(&GrantKey { who, scope, role: RoleId::from_bytes([7; 16]) }, &Grant);
    }
    world.house.house.source().commit(&change).unwrap();
    let left = |world: &World| {
        let read = world.house.house.source().read(|view| view.list::<Grant>(&GrantKey::of(&who)));
        read.unwrap().unwrap().len() as u128
    };
    assert_eq!(left(&world), ASSIGNMENTS);
    world.hold(&[("admin", "DELETE", "/v3/groups/<crew>", none(), 204, &[])]).await;
    enfilade_admin::keystone::sweep_all(&world.house.change_context()).unwrap();
    assert_eq!(left(&world), 0);
}
