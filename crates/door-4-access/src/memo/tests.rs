use super::*;
use crate::security_descriptor::{AceFlags, AceType};
use enfilade_facts::tables::Who;
use enfilade_facts::vocabulary::{AccessMask, Role, Sid, UserId};

#[test]
fn the_weight_of_an_acl_and_of_a_listing_grow_with_their_entries() {
    let ace = Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask::ALL, sid: Sid::EVERYONE };
    for entries in [0, 1, 5] {
        let acl = SecurityDescriptor { dacl: Some(vec![ace; entries]), ..SecurityDescriptor::default() };
        assert_eq!(acl.heap_bytes(), entries * size_of::<Ace>());
        assert_eq!(Sights(vec![Sight::Seen; entries]).heap_bytes(), entries * size_of::<Sight>());
    }
    assert_eq!(SecurityDescriptor::default().heap_bytes(), 0, "no list");
}

#[test]
fn the_weight_of_roles_contains_every_list_and_text() {
    let text = |bytes: usize| "x".repeat(bytes);
    let of_text = size_of::<String>();
    assert_eq!(Ends(vec![text(3), text(5)]).heap_bytes(), 2 * of_text + 8);
    let who = Who::User(UserId::from_bytes([1; 16]));
    let plain = || Resolved {
        roles: vec![Role::DatastoreReader; 2],
        node: text(10),
        to: vec![who.clone(); 3],
        of_token: None,
        of_project: vec![text(7)],
        only: None,
    };
    let weight = 2 * size_of::<Role>() + 10 + 3 * size_of::<Who>() + of_text + 7;
    assert_eq!(plain().heap_bytes(), weight);
    let with_token = Resolved { of_token: Some(Box::new(plain())), ..plain() };
    assert_eq!(with_token.heap_bytes(), 2 * weight + size_of::<Resolved>());
}
