//! Tests of the remedy for a refusal: the least role, another role of the token, or the removal of NoAccess.

use super::{Facts, NOW, alice, path, token_of_alice};
use crate::ask::NodeKind;
use crate::explain::barred;
use crate::roles::{GivenRoles, least_role, least_role_on_project};
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, Role};
use enfilade_identity::Principal;

#[test]
fn the_least_role_is_the_first_that_grants_the_rights() {
    use NodeKind::{Directory, File};
    for (missing, kind, on_path, on_project) in [
        (AccessMask::NONE, File, Role::DatastoreReader, "reader"),
        (AccessMask::READ_DATA, File, Role::DatastoreReader, "reader"),
        (AccessMask::ADD_FILE, Directory, Role::DatastoreBackup, "member"),
        (AccessMask::ADD_SUBDIRECTORY, Directory, Role::DatastoreBackup, "member"),
        (AccessMask::WRITE_DATA, File, Role::DatastorePowerUser, "member"),
        (AccessMask::DELETE, Directory, Role::DatastorePowerUser, "member"),
        (AccessMask::WRITE_ACL, File, Role::DatastoreAdmin, "manager"),
        (AccessMask::WRITE_OWNER, File, Role::DatastoreAdmin, "admin"),
        (AccessMask::ALL, Directory, Role::DatastoreAdmin, "admin"),
    ] {
        let least = (least_role(missing, kind), least_role_on_project(missing, kind));
        assert_eq!(least, (on_path, on_project), "{missing}");
    }
}

#[test]
fn noaccess_on_the_path_itself_is_told_from_noaccess_elsewhere() {
    let names = |facts: &str, principal: &Principal| {
        let facts = Facts::of(facts);
        let view = enfilade_facts::View::new(&facts);
        let tank: DatastoreName = "tank".parse().unwrap();
        let barred = barred(&view, NOW, principal, &tank, &path("/a")).unwrap();
        barred.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names("/datastore/tank/a alice NoAccess DatastoreReader", &alice()), ["alice@local"]);
    assert_eq!(names("/datastore/tank/a test NoAccess", &token_of_alice()), ["alice@local!test"]);
    for elsewhere in [
        "/datastore/tank alice NoAccess",
        "/datastore/tank/a staff NoAccess",
        "/datastore/tank/a bob NoAccess",
        "/datastore/tank/a alice DatastoreReader",
    ] {
        assert!(names(elsewhere, &alice()).is_empty(), "{elsewhere}");
    }
}

#[test]
fn the_roles_of_a_token_are_the_limit_only_if_the_owner_has_the_rights() {
    let given = |owner: &[Role], token: Option<Role>| GivenRoles {
        roles: owner.to_vec(),
        of_token: token.map(|role| Box::new(GivenRoles { roles: vec![role], ..GivenRoles::default() })),
        ..GivenRoles::default()
    };
    let reader = Role::DatastoreReader;
    for (owner, token, limit) in [
        (&[Role::Admin][..], Some(reader), Some(&[reader][..])),
        (&[Role::Admin], None, None),
        (&[reader], Some(reader), None),
        (&[Role::Admin, Role::NoAccess], Some(reader), None),
    ] {
        let given = given(owner, token);
        assert_eq!(given.limited_by_token(AccessMask::DELETE, NodeKind::File), limit, "{given:?}");
    }
}
