//! Tests of reading and writing ACLs.

use super::{Scratch, code, names_on_disk};
use crate::acl_read::{AclPlace, stored_up_to};
use crate::acl_write::{acl_place, change, seed_acl};
use crate::properties::ATTRIBUTE;
use enfilade_access::StoredAcl;
use enfilade_facts::vocabulary::AclDialect;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

#[test]
fn an_acl_is_read_from_either_place_and_the_safer_one_rules() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    assert_eq!(node.subject().acl, StoredAcl::Absent);
    fsetxattr(node.fd(), "user.NTACL", b"user's", XattrFlags::empty()).unwrap();
    assert_eq!(node.subject().acl, StoredAcl::Ntacl(b"user's".to_vec()));
    match fsetxattr(node.fd(), "security.NTACL", b"samba's", XattrFlags::empty()) {
        Ok(()) => assert_eq!(node.subject().acl, StoredAcl::Ntacl(b"samba's".to_vec())),
        Err(errno) => println!("not asserted: this process may not write security.NTACL ({errno})"),
    }
}

#[test]
fn an_acl_is_read_as_it_is_now() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    for acl in [b"one".as_slice(), b"", &[7; 2000], b"three"] {
        let place = change(&node, acl).unwrap();
        assert_eq!(node.subject().acl, StoredAcl::Ntacl(acl.to_vec()));
        assert_eq!(acl_place(&scratch.at("")), Some(place));
    }
    assert_eq!(names_on_disk(&scratch.at("")), ["f"], "the trial leaves no file");
}

#[test]
fn dead_properties_give_way_to_an_acl_that_does_not_fit_beside_them() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    let attribute = |name: &str| {
        let mut value = vec![0; 70_000];
        fgetxattr(node.fd(), name, &mut value)
    };
    let fits = |bytes: usize| fsetxattr(node.fd(), ATTRIBUTE, &vec![7; bytes], XattrFlags::empty()).is_ok();
    change(&node, b"small").unwrap();
    // The maximum number of bytes of dead properties that this file system stores together with the ACL.
    let Some(filled) = (1..=60_000).rev().step_by(50).find(|bytes| fits(*bytes)) else {
        return println!("not asserted: no attributes can be stored here");
    };
    if filled > 50_000 {
        return println!(
            "not asserted: this file system does not limit the total size of a file's attributes"
        );
    }
    change(&node, b"other").unwrap();
    assert_eq!(attribute(ATTRIBUTE), Ok(filled), "the properties stay if there is space");
    // If an ACL does not fit even without the properties, an attempt to write it changes nothing.
    assert!(change(&node, &[7; 60_000]).is_err());
    assert_eq!((attribute(ATTRIBUTE), node.subject().acl), (Ok(filled), StoredAcl::Ntacl(b"other".to_vec())));
    change(&node, &[7; 1000]).unwrap();
    assert_eq!(node.subject().acl, StoredAcl::Ntacl(vec![7; 1000]));
    assert!(attribute(ATTRIBUTE).is_err());
}

#[test]
fn an_acl_over_the_bound_is_unreadable_and_not_absent() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    change(&node, &[7; 2000]).unwrap();
    for (bytes_max, readable) in
        [(1, false), (1023, false), (1024, false), (1999, false), (2000, true), (65_536, true)]
    {
        let found = stored_up_to(node.fd(), AclDialect::Ntacl, bytes_max);
        assert_eq!(matches!(found, StoredAcl::Ntacl(acl) if acl == [7; 2000]), readable, "{bytes_max}");
    }
    let StoredAcl::Unreadable(why) = stored_up_to(node.fd(), AclDialect::Ntacl, 1999) else {
        panic!("an ACL of more than 1999 bytes was not refused")
    };
    assert!(why.ends_with("NTACL is larger than 1999 bytes"), "{why}");
}

#[test]
fn writing_to_the_safer_place_clears_the_other() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    fsetxattr(node.fd(), "user.NTACL", b"old", XattrFlags::empty()).unwrap();
    let place = change(&node, b"new").unwrap();
    let mut value = [0; 16];
    let left = fgetxattr(node.fd(), "user.NTACL", &mut value).map(|count| value[..count].to_vec());
    match place {
        AclPlace::Security => assert_eq!(left, Err(rustix::io::Errno::NODATA)),
        AclPlace::User => assert_eq!(left, Ok(b"new".to_vec())),
    }
}

#[test]
fn an_acl_that_does_not_fit_says_so() {
    let scratch = Scratch::new();
    scratch.write("f", "");
    let node = scratch.node("f");
    match change(&node, &[7; 65_536]) {
        // XFS, btrfs and tmpfs can store an attribute of this size.
        Ok(_) => assert_eq!(node.subject().acl, StoredAcl::Ntacl(vec![7; 65_536])),
        Err(refusal) => assert_eq!(enfilade_facts::Refuse::code(&refusal), "CT06", "{refusal}"),
    }
    assert_eq!(code(change(&node, &[7; 65_537])), "CT12");
}

#[test]
fn only_an_empty_root_without_an_acl_is_seeded() {
    let scratch = Scratch::new();
    scratch.directory("lost+found");
    seed_acl(&scratch.root(), b"first").unwrap();
    assert_eq!(scratch.node("").subject().acl, StoredAcl::Ntacl(b"first".to_vec()));
    assert_eq!(code(seed_acl(&scratch.root(), b"second")), "CT03");

    let other = Scratch::new();
    other.write(".hidden", "");
    assert_eq!(code(seed_acl(&other.root(), b"first")), "CT05");
    assert_eq!(other.node("").subject().acl, StoredAcl::Absent);
}

#[test]
fn a_place_that_does_not_exist_takes_no_acl() {
    let scratch = Scratch::new();
    assert_eq!(acl_place(&scratch.at("gone")), None);
}
