//! Decides which changes of a record take rights away and give none. When the memory map of an LMDB store is nearly full, only two kinds of changes
//! are committed: changes that take rights away, and changes that mirror an edited file ([`Requester::File`](crate::Requester::File)). The rest of
//! the map is reserved for these changes.

use super::{
    Activity, Assignment, AssignmentKey, Credential, Datastore, Domain, Key, Link, NamedRole, Passkey,
    Project, Row, SecondFactor, Table, Trust, UsedPasscode, User, Who,
};
use crate::codec::Reader;
use crate::vocabulary::Role;

/// Whether a record gives no more rights after a change than before. `before` and `after` are values without their headers; `None` means that the
/// record does not exist. A new record counts as giving a right. Exceptions: an assignment of NoAccess that also counts for the paths below its path,
/// and the records of `Revocations`, `Leaving`, `Files`, `Reverse`, `UsedPasscodes` and `Activities`. The deletion of a record counts as giving no
/// right. Exceptions: the deletion of NoAccess, and of the records of `Activities` and `SecondFactors` (see [`keeps_out`]).
pub fn only_takes(table: Table, before: Option<&[u8]>, after: Option<&[u8]>) -> bool {
    if before == after {
        return true;
    }
    match (table, after) {
        (Table::Assignments, after) => assignment(before, after),
        (Table::Activities, after) => activity(before, after),
        // If the second factor of a user is deleted, the password alone is enough for a login.
        (Table::SecondFactors, after) => after.is_some_and(|after| both(before, after, second_factor)),
        // These records give no right by themselves: the records that they refer to are judged separately.
        (Table::Revocations | Table::Leaving | Table::Files | Table::Reverse, _) | (_, None) => true,
        (Table::UsedPasscodes, Some(after)) => before.is_none() || both(before, after, passcode),
        (Table::Domains, Some(after)) => both(before, after, domain),
        (Table::Users, Some(after)) => both(before, after, user),
        (Table::Credentials, Some(after)) => both(before, after, credential),
        (Table::Projects, Some(after)) => both(before, after, project),
        (Table::Roles, Some(after)) => both(before, after, role),
        (Table::Trusts, Some(after)) => both(before, after, trust),
        (Table::Datastores, Some(after)) => both(before, after, datastore),
        _ => false,
    }
}

/// For a record of `Assignments`, `Activities` or `SecondFactors`: the table and key of the user, group or token that the record is for. Deleting
/// NoAccess, a lock or a second factor gives no right if this user, group or token is deleted, too. The result is `None` for any other record. It is
/// also `None` for an assignment of `acl.cfg`, which contains a name and no id.
pub fn keeps_out(table: Table, key: &[u8]) -> Option<(Table, Vec<u8>)> {
    if matches!(table, Table::Activities | Table::SecondFactors) {
        return Some((Table::Users, key.to_vec()));
    }
    let key = AssignmentKey::from_bytes(key).filter(|_| table == Table::Assignments)?;
    match key.who {
        Who::User(user) => Some((Table::Users, user.bytes().to_vec())),
        Who::Group(group) => Some((Table::Groups, group.bytes().to_vec())),
        Who::Token(token) => Some((Table::Credentials, token.bytes().to_vec())),
        Who::Named(_) => None,
    }
}

fn read<R: Row>(bytes: &[u8]) -> Option<R> {
    let mut from = Reader::new(bytes);
    R::decode(&mut from).filter(|_| from.is_empty())
}

fn both<R: Row>(before: Option<&[u8]>, after: &[u8], is_less: fn(&R, &R) -> bool) -> bool {
    let rows = before.and_then(read).zip(read(after));
    rows.is_some_and(|(before, after)| is_less(&before, &after))
}

fn is_disabled_or_same(before: bool, after: bool) -> bool {
    before || !after
}

/// Whether the expiry `after` is not later than the expiry `before`. Both are in seconds since the epoch; 0 means never.
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

/// A new password that replaces an old one gives no right: the new password keeps out a person who has the old password.
fn user(before: &User, after: &User) -> bool {
    let same = User {
        enabled: after.enabled,
        expires: after.expires,
        password: after.password.clone(),
        mirrored: after.mirrored.clone(),
        ..before.clone()
    };
    is_disabled_or_same(before.enabled, after.enabled)
        && ends_no_later(before.expires, after.expires)
        && (before.password.is_some() || after.password.is_none())
        && *after == same
}

/// A new secret that replaces an old one gives no right, if the old secret stops working.
fn credential(before: &Credential, after: &Credential) -> bool {
    let same = Credential {
        enabled: after.enabled,
        expires: after.expires,
        verifier: after.verifier.clone(),
        previous: after.previous.clone(),
        mirrored: after.mirrored.clone(),
        link: after.link.clone(),
        ..before.clone()
    };
    is_disabled_or_same(before.enabled, after.enabled)
        && ends_no_later(before.expires, after.expires)
        && link(before.link.as_deref(), after.link.as_deref())
        && (after.previous.is_none() || after.previous == before.previous)
        && *after == same
}

/// When a link is used, only the number of its remaining uses changes: it gets smaller.
fn link(before: Option<&Link>, after: Option<&Link>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return before == after };
    let is_less = before.uses == after.uses
        || before.uses.zip(after.uses).is_some_and(|(before, after)| after <= before);
    is_less && *after == Link { uses: after.uses, ..before.clone() }
}

fn role(before: &NamedRole, after: &NamedRole) -> bool {
    is_part_of(&after.implies, &before.implies)
        && *after == NamedRole { implies: after.implies.clone(), ..before.clone() }
}

/// When a trust is used, only the number of its remaining uses changes: the number gets smaller.
fn trust(before: &Trust, after: &Trust) -> bool {
    let is_less = before.uses.zip(after.uses).is_some_and(|(before, after)| after <= before);
    is_less && *after == Trust { uses: after.uses, ..before.clone() }
}

/// A maintenance mode or an error that is set on a datastore grants no right.
fn datastore(before: &Datastore, after: &Datastore) -> bool {
    let same =
        Datastore { maintenance: after.maintenance.clone(), fault: after.fault.clone(), ..before.clone() };
    (after.maintenance.is_some() || before.maintenance.is_none()) && *after == same
}

/// A later time step refuses more passcodes.
fn passcode(before: &UsedPasscode, after: &UsedPasscode) -> bool {
    before.step <= after.step
}

/// The use of a code gives no right: the user was admitted already, and the code is refused from now on.
fn second_factor(before: &SecondFactor, after: &SecondFactor) -> bool {
    let passkeys = before.passkeys.iter().filter_map(|old| {
        let new = after.passkeys.iter().find(|new| new.id == old.id)?;
        let used = Passkey {
            used_at: new.used_at,
            counter: new.counter,
            answered: new.answered.clone(),
            ..old.clone()
        };
        (old.counter <= new.counter).then_some(used)
    });
    let same = SecondFactor {
        used_step: after.used_step,
        recovery: after.recovery.clone(),
        passkeys: passkeys.collect(),
        ..before.clone()
    };
    before.used_step <= after.used_step && is_part_of(&after.recovery, &before.recovery) && *after == same
}

/// A lock gives no right. A change after which a user becomes inactive at an earlier time gives no right either. A login gives no right either,
/// because the user was admitted already. If logins could not be written on a full disk, all users would become inactive.
fn activity(before: Option<&[u8]>, after: Option<&[u8]>) -> bool {
    let read = |bytes: Option<&[u8]>| bytes.map_or(Some(Activity::default()), read::<Activity>);
    read(before).zip(read(after)).is_some_and(|(before, after)| {
        let is_login = before.active_on != 0 && before.active_on < after.active_on;
        (is_login || ends_no_later(before.inactive_from, after.inactive_from))
            && before.locked_until <= after.locked_until
    })
}

/// NoAccess on a path and below it leaves no rights. When NoAccess is removed, the other roles of the path count again. If the path has no other
/// roles, the roles of a higher path count.
fn assignment(before: Option<&[u8]>, after: Option<&[u8]>) -> bool {
    let roles = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => read::<Assignment>(bytes).map(|row| row.roles),
        None => Some(Vec::new()),
    };
    let rows = roles(before).zip(roles(after));
    rows.is_some_and(|(before, after)| {
        let no_access = |(role, _): &&(Role, bool)| *role == Role::NoAccess;
        after.contains(&(Role::NoAccess, true))
            || is_part_of(&after, &before) && before.iter().filter(no_access).all(|role| after.contains(role))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;
    use crate::tables::{
        Extra, Leaving, LinkPlace, LinkRights, Mirrored, Octets, Password, Previous, Reverse, Revocation,
        SealedSecret, SecretDigest, Verifier,
    };
    use crate::vocabulary::{DomainId, Maintenance, MaintenanceMode, ProjectId, Role, RoleId, Sid, UserId};

    fn bytes<R: Row>(row: &R) -> Vec<u8> {
        let mut to = Writer::default();
        row.encode(&mut to);
        to.into_bytes()
    }

    fn takes<R: Row>(before: &R, after: &R) -> bool {
        only_takes(R::TABLE, Some(&bytes(before)), Some(&bytes(after)))
    }

    fn is_new<R: Row>(row: &R) -> bool {
        only_takes(R::TABLE, None, Some(&bytes(row)))
    }

    fn is_deleted<R: Row>(row: &R) -> bool {
        only_takes(R::TABLE, Some(&bytes(row)), None)
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
            mirrored: Some(Mirrored::default()),
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
        assert!(!takes(&without, &alice()), "a first password takes nothing away");
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
            mirrored: None,
            link: None,
        };
        let other = Credential { verifier: Verifier::Keyed([2; 32]), ..token.clone() };
        let previous = Some(Previous { verifier: Verifier::Keyed([1; 32]), until: 9 });
        let both_work = Credential { previous, ..other.clone() };
        assert!(takes(&token, &other) && takes(&both_work, &other) && !takes(&token, &both_work));
        assert!(takes(&token, &Credential { enabled: false, expires: 5, ..token.clone() }));
        let with = |uses, password: Option<&str>| {
            let path = crate::vocabulary::StorePath::root();
            let (datastore, rights) = ("tank".parse().unwrap(), LinkRights::Read);
            let place = LinkPlace { datastore, path, rights, upload_bytes: None };
            let (secret, password) = (SecretDigest([1; 32]), password.map(str::to_owned));
            let link = Link { secret, place, password, uses };
            Credential { verifier: Verifier::Missing, link: Some(Box::new(link)), ..token.clone() }
        };
        assert!(takes(&with(Some(2), None), &with(Some(1), None)), "a use");
        for (before, after) in [
            (with(Some(1), None), with(Some(2), None)),
            (with(Some(1), None), with(None, None)),
            (with(None, Some("x")), with(None, None)),
            (token.clone(), with(None, None)),
            (with(None, None), token.clone()),
        ] {
            assert!(!takes(&before, &after), "{after:?}");
        }

        let open = Datastore { path: "/x".into(), ..Datastore::default() };
        let maintenance = Some(Maintenance { mode: MaintenanceMode::from_name("offline"), message: None });
        let closed = Datastore { maintenance, ..open.clone() };
        assert!(takes(&open, &closed) && !takes(&closed, &open));

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
        let used = |step| UsedPasscode { step };
        assert!(is_new(&used(1)) && takes(&used(1), &used(2)) && !takes(&used(2), &used(1)));

        let factor = |used_step, recovery: &[u8]| SecondFactor {
            secret: SealedSecret(vec![1]),
            begun_at: 1,
            confirmed_at: Some(1),
            used_step,
            recovery: recovery.iter().map(|n| SecretDigest([*n; 32])).collect(),
            passkeys: Vec::new(),
        };
        let (one, other) = (factor(1, &[1, 2]), SealedSecret(vec![2]));
        assert!(takes(&one, &factor(2, &[1, 2])) && takes(&one, &factor(1, &[2])) && !is_new(&one));
        assert!(!takes(&factor(2, &[1, 2]), &one) && !takes(&factor(1, &[2]), &one) && !is_deleted(&one));
        assert!(!takes(&one, &SecondFactor { secret: other, ..one.clone() }));
        assert!(!takes(&one, &SecondFactor { confirmed_at: None, ..one.clone() }));
        let with = |passkeys: &[(u8, u32)]| {
            let passkey = |(id, counter): &(u8, u32)| Passkey {
                id: Octets(vec![*id]),
                used_at: i64::from(*counter),
                counter: *counter,
                ..Passkey::default()
            };
            SecondFactor { passkeys: passkeys.iter().map(passkey).collect(), ..one.clone() }
        };
        assert!(takes(&with(&[(1, 1), (2, 1)]), &with(&[(1, 2), (2, 1)])) && takes(&with(&[(1, 1)]), &one));
        assert!(!takes(&with(&[(1, 2)]), &with(&[(1, 1)])) && !takes(&one, &with(&[(1, 1)])));
        assert_eq!(keeps_out(Table::SecondFactors, &[7; 16]), Some((Table::Users, vec![7; 16])));

        assert!(is_new(&Reverse) && is_deleted(&alice()) && is_deleted(&token) && is_deleted(&open));
    }

    #[test]
    fn of_an_activity() {
        let none = Activity::default();
        let active = none.active_on(10, 3);
        let locked = Activity { locked_until: 100, ..active };
        assert!(is_new(&Activity { locked_until: 100, ..none }) && takes(&active, &locked));
        assert!(is_new(&active), "a user without a record never becomes inactive");
        assert!(!takes(&locked, &active) && !is_deleted(&locked) && !is_deleted(&active));
        assert!(takes(&active, &active.active_on(9, 3)));
        // A login sets a later day, and a later second in which the user becomes inactive. A change that sets only a later second gives a right.
        assert!(takes(&active, &active.active_on(11, 3)) && !takes(&active, &active.active_on(10, 4)));
        assert!(!takes(&locked, &active.active_on(11, 3)));
        let owner = Some((Table::Users, vec![7; 16]));
        assert_eq!(keeps_out(Table::Activities, &[7; 16]), owner);
    }

    #[test]
    fn of_roles_on_a_path() {
        const AUDIT: (Role, bool) = (Role::Audit, true);
        const ADMIN: (Role, bool) = (Role::Admin, true);
        const OUT: (Role, bool) = (Role::NoAccess, true);
        const OUT_HERE: (Role, bool) = (Role::NoAccess, false);
        type Roles = &'static [(Role, bool)];
        let cases: [(Roles, Roles, bool); 14] = [
            (&[AUDIT, ADMIN], &[AUDIT], true),
            (&[AUDIT], &[], true),
            (&[AUDIT], &[AUDIT, ADMIN], false),
            (&[AUDIT], &[ADMIN], false),
            (&[], &[AUDIT], false),
            (&[OUT], &[], false),
            (&[OUT_HERE], &[], false),
            (&[OUT], &[OUT_HERE], false),
            (&[OUT], &[AUDIT], false),
            (&[AUDIT, OUT], &[AUDIT], false),
            (&[AUDIT, OUT], &[OUT], true),
            (&[AUDIT], &[AUDIT, OUT], true),
            (&[AUDIT], &[OUT_HERE], false),
            (&[], &[OUT], true),
        ];
        for (before, after, expected) in cases {
            // A set without roles is not stored as a record.
            let row = |roles: &[(Role, bool)]| {
                (!roles.is_empty()).then(|| bytes(&Assignment { roles: roles.to_vec(), fault: None }))
            };
            let takes = only_takes(Table::Assignments, row(before).as_deref(), row(after).as_deref());
            assert_eq!(takes, expected, "{before:?} to {after:?}");
        }
        assert!(!only_takes(Table::Assignments, Some(b"damaged"), None));
    }
}
