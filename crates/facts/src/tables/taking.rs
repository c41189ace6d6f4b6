//! Which records take rights away and give none. When the map of a store is nearly full, only such records are put: what is left of the map is
//! for them.

use super::{
    Assignment, Credential, Datastore, Domain, NamedRole, Project, ReverseKey, Row, Table, Trust, User,
};
use crate::codec::Reader;

/// Whether a record gives nothing that the one before did not give. `before` and `after` are values without their headers. A new record gives
/// something, but for marks, what goes with them, and what keeps the facts in step with files.
pub fn only_takes(table: Table, key: &[u8], before: Option<&[u8]>, after: &[u8]) -> bool {
    if before == Some(after) {
        return true;
    }
    match table {
        Table::Revocations | Table::Leaving | Table::Files => true,
        Table::Reverse => ReverseKey::is_beside_a_mark(key),
        Table::Domains => both(before, after, domain),
        Table::Users => both(before, after, user),
        Table::Credentials => both(before, after, credential),
        Table::Projects => both(before, after, project),
        Table::Roles => both(before, after, role),
        Table::Trusts => both(before, after, trust),
        Table::Datastores => both(before, after, datastore),
        Table::Assignments => both(before, after, assignment),
        _ => false,
    }
}

fn both<R: Row>(before: Option<&[u8]>, after: &[u8], is_less: fn(&R, &R) -> bool) -> bool {
    let row = |bytes: &[u8]| {
        let mut from = Reader::new(bytes);
        R::decode(&mut from).filter(|_| from.is_empty())
    };
    let rows = before.and_then(row).zip(row(after));
    rows.is_some_and(|(before, after)| is_less(&before, &after))
}

fn is_disabled_or_same(before: bool, after: bool) -> bool {
    before || !after
}

/// Both in seconds since the epoch; 0 is for ever.
fn ends_no_later(before: i64, after: i64) -> bool {
    before == after || after != 0 && (before == 0 || after < before)
}

fn is_part_of<T: PartialEq>(after: &[T], before: &[T]) -> bool {
    after.iter().all(|one| before.contains(one))
}

fn domain(before: &Domain, after: &Domain) -> bool {
    is_disabled_or_same(before.enabled, after.enabled)
        && *after == Domain { enabled: after.enabled, ..before.clone() }
}

fn project(before: &Project, after: &Project) -> bool {
    is_disabled_or_same(before.enabled, after.enabled)
        && *after == Project { enabled: after.enabled, ..before.clone() }
}

/// Another password in the place of one keeps out a person who knew that one.
fn user(before: &User, after: &User) -> bool {
    let same = User {
        enabled: after.enabled,
        expires: after.expires,
        password: after.password.clone(),
        kept: after.kept.clone(),
        ..before.clone()
    };
    is_disabled_or_same(before.enabled, after.enabled)
        && ends_no_later(before.expires, after.expires)
        && (before.password.is_some() || after.password.is_none())
        && *after == same
}

/// Another secret in the place of one, likewise, where the one before does not go on working.
fn credential(before: &Credential, after: &Credential) -> bool {
    let same = Credential {
        enabled: after.enabled,
        expires: after.expires,
        verifier: after.verifier.clone(),
        previous: after.previous.clone(),
        kept: after.kept.clone(),
        ..before.clone()
    };
    is_disabled_or_same(before.enabled, after.enabled)
        && ends_no_later(before.expires, after.expires)
        && (after.previous.is_none() || after.previous == before.previous)
        && *after == same
}

fn role(before: &NamedRole, after: &NamedRole) -> bool {
    is_part_of(&after.implies, &before.implies)
        && *after == NamedRole { implies: after.implies.clone(), ..before.clone() }
}

/// It is used once more.
fn trust(before: &Trust, after: &Trust) -> bool {
    let is_less = before.uses.zip(after.uses).is_some_and(|(before, after)| after <= before);
    is_less && *after == Trust { uses: after.uses, ..before.clone() }
}

/// It is closed for something, or its section cannot be read.
fn datastore(before: &Datastore, after: &Datastore) -> bool {
    let same =
        Datastore { maintenance: after.maintenance.clone(), fault: after.fault.clone(), ..before.clone() };
    (after.maintenance.is_some() || before.maintenance.is_none()) && *after == same
}

fn assignment(before: &Assignment, after: &Assignment) -> bool {
    is_part_of(&after.roles, &before.roles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;
    use crate::tables::{
        BlobId, Extra, Kept, Key, Leaving, Password, Previous, Revocation, Revoked, Verifier,
    };
    use crate::vocabulary::{DomainId, Maintenance, MaintenanceMode, ProjectId, Role, RoleId, Sid, UserId};

    fn bytes<R: Row>(row: &R) -> Vec<u8> {
        let mut to = Writer::default();
        row.encode(&mut to);
        to.into_bytes()
    }

    fn takes<R: Row>(before: &R, after: &R) -> bool {
        only_takes(R::TABLE, b"", Some(&bytes(before)), &bytes(after))
    }

    fn is_new<R: Row>(row: &R) -> bool {
        only_takes(R::TABLE, b"", None, &bytes(row))
    }

    fn alice() -> User {
        User {
            domain: DomainId::from_bytes([1; 16]),
            name: "alice".into(),
            sid: Sid::of_store([1, 2, 3], 1000),
            also: Vec::new(),
            uid: Some(7),
            gid: None,
            enabled: true,
            expires: 500,
            password: Some(Password::of("$y$hash".into())),
            comment: None,
            kept: Some(Kept::default()),
        }
    }

    #[test]
    fn of_a_user() {
        type Edit = fn(&mut User);
        let cases: [(&str, Edit, bool); 10] = [
            ("nothing", |_| {}, true),
            ("disabled", |user| user.enabled = false, true),
            ("ends earlier", |user| user.expires = 499, true),
            ("ends later", |user| user.expires = 501, false),
            ("never ends", |user| user.expires = 0, false),
            ("another password", |user| user.password = Some(Password::of("$y$other".into())), true),
            ("no password", |user| user.password = None, true),
            ("a longer comment", |user| user.comment = Some("who".into()), false),
            ("another number", |user| user.uid = Some(8), false),
            (
                "disabled, and a comment",
                |user| (user.enabled, user.comment) = (false, Some("x".into())),
                false,
            ),
        ];
        for (what, edit, expected) in cases {
            let mut after = alice();
            edit(&mut after);
            assert_eq!(takes(&alice(), &after), expected, "{what}");
        }
        let disabled = User { enabled: false, ..alice() };
        assert!(!takes(&disabled, &alice()) && !is_new(&alice()) && !is_new(&disabled));
        let without = User { password: None, ..alice() };
        assert!(!takes(&without, &alice()), "a first password lets somebody in");
        assert!(takes(&User { expires: 0, ..alice() }, &alice()));
    }

    #[test]
    fn of_everything_else() {
        let token = Credential {
            owner: UserId::from_bytes([1; 16]),
            name: "one".parse().unwrap(),
            verifier: Verifier::Keyed([1; 32]),
            previous: None,
            enabled: true,
            expires: 0,
            created: 1,
            comment: None,
            own_roles: false,
            kept: None,
        };
        let other = Credential { verifier: Verifier::Keyed([2; 32]), ..token.clone() };
        let previous = Some(Previous { verifier: Verifier::Keyed([1; 32]), until: 9 });
        let both_work = Credential { previous, ..other.clone() };
        assert!(takes(&token, &other) && takes(&both_work, &other) && !takes(&token, &both_work));
        assert!(takes(&token, &Credential { enabled: false, expires: 5, ..token.clone() }));

        let open = Datastore { path: "/x".into(), ..Datastore::default() };
        let maintenance = Some(Maintenance { mode: MaintenanceMode::from_name("offline"), message: None });
        let closed = Datastore { maintenance, ..open.clone() };
        assert!(takes(&open, &closed) && !takes(&closed, &open));

        let roles = |roles: &[(Role, bool)]| Assignment { roles: roles.to_vec(), fault: None };
        let (one, two) = (roles(&[(Role::Audit, true)]), roles(&[(Role::Audit, true), (Role::Admin, true)]));
        assert!(takes(&two, &one) && !takes(&one, &two) && !is_new(&one));

        let project = Project {
            domain: DomainId::from_bytes([1; 16]),
            parent: None,
            name: "p".into(),
            enabled: true,
            description: None,
            tags: Vec::new(),
        };
        let disabled = Project { enabled: false, ..project.clone() };
        assert!(takes(&project, &disabled) && !takes(&disabled, &project));
        let domain = Domain::new("local".parse().unwrap());
        let disabled = Domain { enabled: false, ..domain.clone() };
        assert!(takes(&domain, &disabled) && !takes(&disabled, &domain) && !is_new(&disabled));

        let role = |implies: &[u8]| NamedRole {
            name: "member".into(),
            domain: None,
            implies: implies.iter().map(|n| RoleId::from_bytes([*n; 16])).collect(),
            description: None,
        };
        assert!(takes(&role(&[1, 2]), &role(&[2])) && !takes(&role(&[2]), &role(&[2, 3])));

        let user = UserId::from_bytes([1; 16]);
        let trust = |uses| Trust {
            trustor: user,
            trustee: user,
            project: ProjectId::from_bytes([1; 16]),
            roles: Vec::new(),
            impersonation: false,
            expires: 0,
            uses,
            redelegations: 0,
            parent: None,
            by: None,
        };
        assert!(takes(&trust(Some(2)), &trust(Some(1))) && !takes(&trust(Some(1)), &trust(Some(2))));
        assert!(!takes(&trust(Some(2)), &trust(None)));

        assert!(is_new(&Revocation::of(1, 1)) && is_new(&Leaving));
        assert!(!is_new(&Extra("{}".into())));
        let reverse = |key: ReverseKey| only_takes(Table::Reverse, &key.bytes(), None, b"");
        assert!(reverse(ReverseKey::Ends(9, Revoked::User(user))));
        assert!(!reverse(ReverseKey::Blob(user, BlobId([1; 32]))));
    }
}
