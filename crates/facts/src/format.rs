//! The formats of a store, and the conversion of records from one format to the next.
//!
//! All records of a store have the same format. A store of an older format must be upgraded before it is used: one transaction converts every record
//! with [`bring_up`]. Exception: the store of a member of a fleet can have any format from [`FORMAT_IN_FLEET`] on, because the records of these
//! formats need no conversion. A store of a newer format is refused.
//!
//! # When the format changes
//! The format changes when there is a new table, when a record gets a new field, or when this program would misread a record of an older build. If a
//! new field is the last field and may be missing ([`Writer::tail`]), old records need no conversion, because this program can read records without
//! the field. Records with the new field still need a new format number, because older builds would report these records as damaged. When you change
//! the format:
//! 1. increase [`FORMAT`] by one, and let `step` convert a record of the previous form to the new form;
//! 2. keep a store of the previous format in `interop/fixtures/format-N`. `interop/upgrade.rs` defines the content of this store, upgrades the store
//!    in every run of the tests, and fails if the store is missing;
//! 3. decide whether the members of a fleet can be updated one at a time. They can if this program can use all records of the previous format without
//!    conversion. In this case, let [`needed_for`] return the new format for the records that need it: a fleet writes these records only after
//!    `enfilade fleet upgrade`. If there is a new table, the members can also be updated one at a time, because a member adds missing tables to its
//!    store when it opens the store. But older members cannot read a log entry that deletes a record of the new table. So a change may delete such a
//!    record only if the record exists: then `enfilade fleet upgrade` was run, and all members know the table. If the members cannot be updated one
//!    at a time, set [`FORMAT_IN_FLEET`] to the new format: all members must then be updated at once. `cargo xtask rolling` tests an update of the
//!    members of a fleet one at a time.

use crate::codec::{Reader, Writer};
use crate::tables::{
    AccessRule, Credential, DatastoreProfile, Key as _, MirroredFile, Name, NameKey, Row, SecondFactor, Table,
};
use crate::vocabulary::LONG;

/// The layout of a whole store and the form of its records.
///
/// | format | what is new |
/// |---|---|
/// | 2 | the oldest format that can be upgraded; records contain LMDB's transaction id of the commit |
/// | 3 | records contain the revision, which is the number of the change; entries of the log no longer have a field for LMDB's transaction id |
/// | 4 | each mark has an additional record; its key contains the time (in seconds) at which the last token of the mark expires (older marks get this record at the first purge); the log stores large lists of keys in pieces |
/// | 5 | the record of the next SID also identifies the key of API tokens; entries of the log have the id of the request; the names of imported records are stored |
/// | 6 | the key of a name is a digest of the name; the record contains the name; there are tables of limits, policies, endpoint filters, configurations of domains, OAuth consumers and tokens, and federation |
/// | 7 | there are tables of activities of users, and of used passcodes; profiles have rules for multi-factor authentication, and exemptions from locks and inactivity |
/// | 8 | there is a table of access rules of users; the records of application credentials have the microseconds of the expiry |
/// | 9 | the id of a user or group can have 32 bytes |
/// | 10 | the tallies of revocations are in a separate table |
/// | 11 | there are tables of applications and of their hosts; there are roles for applications |
/// | 12 | there is a table of sessions of browsers; applications can get signed tokens, and can serve the files of a datastore |
/// | 13 | the record of an application can contain the choice of the credential that counts if a request has a cookie and a header |
/// | 14 | the profile of a datastore can contain the members of a fleet that may serve the datastore; the log of a fleet can have entries in parts |
/// | 15 | the record of an API token can contain a link, with which people share a file or folder; there is a table of second factors of users |
/// | 16 | the record of a second factor can contain passkeys |
pub const FORMAT: u32 = 16;
/// The oldest format that can be upgraded.
pub const FORMAT_OLDEST: u32 = 2;

/// The oldest format that a fleet can have while this program is a member of the fleet. This program uses all records of this format without
/// conversion.
pub const FORMAT_IN_FLEET: u32 = 13;
/// The format that a fleet must have before its log may contain entries in parts.
pub const FORMAT_OF_PARTS: u32 = 14;

/// In place of its format, the store of a member of a fleet contains the sum of the format and this number. A program that does not know this number
/// reads the sum as a newer format, and refuses the store. So such a program cannot change the store. This is necessary, because a change by such a
/// program would have no entry in the log of the fleet.
pub const REPLICA: u32 = 1 << 16;

/// A key and a value.
pub type Record = (Vec<u8>, Vec<u8>);

/// Converts a record from the older format `from` to the format [`FORMAT`]; `None` if the record does not have the form of `from`.
pub fn bring_up(from: u32, table: Table, key: &[u8], value: &[u8]) -> Option<Record> {
    (from..FORMAT).try_fold((key.to_vec(), value.to_vec()), |record, format| step(format, table, record))
}

/// The format that a program must know to read this record; [`FORMAT_IN_FLEET`] if every member of a fleet can read it.
pub fn needed_for(table: Table, value: &[u8]) -> u32 {
    let has_home =
        || DatastoreProfile::decode(&mut Reader::new(value)).is_some_and(|profile| profile.home.is_some());
    let is_link = || Credential::decode(&mut Reader::new(value)).is_some_and(|token| token.link.is_some());
    let has_passkey =
        || SecondFactor::decode(&mut Reader::new(value)).is_some_and(|row| !row.passkeys.is_empty());
    match table {
        Table::Credentials if is_link() => 15,
        Table::DatastoreProfiles if has_home() => 14,
        Table::SecondFactors if has_passkey() => 16,
        Table::SecondFactors => 15,
        _ => FORMAT_IN_FLEET,
    }
}

/// Whether the keys of a table change between the format `from` and [`FORMAT`].
pub fn changes_keys(from: u32, table: Table) -> bool {
    from < 6 && table == Table::Names
}

/// Whether a store of the format `from` contains the access rules of users only in the records of their application credentials. After all records of
/// such a store are converted, the upgrade also stores each access rule in a separate record.
pub fn lacks_access_rules(from: u32) -> bool {
    from < 8
}

/// The table that contained the records of `table` in formats that do not have `table`; `None` if no other table contained these records. The keys
/// were the same in both tables, so an upgrade can read the records in the old table.
pub fn was_in(table: Table) -> Option<Table> {
    (table == Table::RevocationTallies).then_some(Table::Tallies)
}

/// Converts a record of the format `format` to the next format. In the formats 2 and 3, the table of the log contains only entries; pieces exist from
/// format 4 on.
fn step(format: u32, table: Table, (key, value): Record) -> Option<Record> {
    match (format, table) {
        (2, Table::Log) => Some((key, log_entry_of_2(&value)?)),
        (2, Table::Files) => Some((key, kept_file_of_2(&value)?)),
        (5, Table::Names) => name_of_5(&key, &value),
        // Since format 9, the 16 bytes of `LONG` are the start of a long id. So an older record cannot be converted if its id is these 16 bytes.
        (8, Table::Names) if key.get(1..17) == Some(&LONG) || value.get(..16) == Some(&LONG) => None,
        (8, Table::Users | Table::Groups | Table::Domains) if key == LONG => None,
        // Adds the two options that exempt a user from locks and from inactivity, both switched off.
        (6, Table::Profiles) => Some((key, [value.as_slice(), &[0, 0]].concat())),
        // Adds three fields: the option of signed tokens (off), the datastore (none) and the port (none).
        (11, Table::Applications) => Some((key, [value.as_slice(), &[0, 0, 0]].concat())),
        (7, Table::Delegations) => Some((key, delegation_of_7(&value)?)),
        _ => Some((key, value)),
    }
}

/// In format 7, the last field of the record of an application credential is optional: the credential that created this application credential. In
/// format 8, a flag before this field indicates whether the field is present, because another field follows.
fn delegation_of_7(value: &[u8]) -> Option<Vec<u8>> {
    let mut from = Reader::new(value);
    from.fixed::<16>()?;
    from.list(Reader::fixed::<16>)?;
    from.flag()?;
    from.list(AccessRule::decode)?;
    let by = from.rest();
    let before = value.strip_suffix(by)?;
    match by.len() {
        0 | 16 => Some([before, &[u8::from(!by.is_empty())], by].concat()),
        _ => None,
    }
}

/// In format 5, the key of a name contained the name, and the value was the id.
fn name_of_5(key: &[u8], value: &[u8]) -> Option<Record> {
    let (key, text) = NameKey::of_format_5(key)?;
    let mut to = Writer::default();
    Name::new(<[u8; 16]>::try_from(value).ok()?, text).encode(&mut to);
    Some((key.bytes(), to.into_bytes()))
}

/// An entry of format 2 has LMDB's transaction id after the time. This field is dropped.
fn log_entry_of_2(value: &[u8]) -> Option<Vec<u8>> {
    let mut from = Reader::new(value);
    let mut to = Writer::default();
    to.text(&from.text()?).text(&from.text()?).i64(from.i64()?);
    from.u64()?;
    to.fixed(from.rest());
    Some(to.into_bytes())
}

/// In format 2, the field named `good` contains a transaction id of LMDB. The revision of that transaction is unknown, so the field becomes `None`.
fn kept_file_of_2(value: &[u8]) -> Option<Vec<u8>> {
    let mut from = Reader::new(value);
    let row = MirroredFile::decode(&mut from).filter(|_| from.is_empty())?;
    let mut to = Writer::default();
    MirroredFile { good: None, ..row }.encode(&mut to);
    Some(to.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::Revision;
    use crate::tables::{
        Delegation, Extra, ExtraKey, Link, LinkPlace, LinkRights, LogEntry, Octets, Passkey, Profile,
        ResourceKind, SealedSecret, SecretDigest, Verifier, Written,
    };
    use crate::vocabulary::{AccessRuleId, CredentialId, DomainId, ProjectId, RoleId, StorePath, UserId};

    #[test]
    fn a_new_table_is_a_new_format() {
        assert_eq!((FORMAT, Table::ALL.len()), (16, 52), "see \"When the format changes\" in format.rs");
    }

    /// A member of a fleet uses the records of an older format without conversion.
    #[test]
    fn records_of_the_oldest_format_in_a_fleet_are_not_converted() {
        for table in Table::ALL {
            let record = (vec![7; 33], vec![9; 200]);
            assert_eq!(bring_up(FORMAT_IN_FLEET, table, &record.0, &record.1), Some(record), "{table:?}");
            assert!(!changes_keys(FORMAT_IN_FLEET, table));
        }
        assert!(!lacks_access_rules(FORMAT_IN_FLEET));
    }

    /// An older program reports a profile with a home as damaged.
    #[test]
    fn only_a_profile_with_a_home_needs_format_14() {
        let needed = |profile: &DatastoreProfile| {
            let mut to = Writer::default();
            profile.encode(&mut to);
            needed_for(Table::DatastoreProfiles, &to.into_bytes())
        };
        let without = DatastoreProfile { quota: Some(7), ..DatastoreProfile::default() };
        assert_eq!(needed(&without), FORMAT_IN_FLEET);
        assert_eq!(
            needed(&DatastoreProfile { home: Some(crate::tables::HomeMembers::new(&["b"])), ..without }),
            14
        );
    }

    /// An older program reports a token with a link as damaged.
    #[test]
    fn only_a_link_needs_format_15() {
        let token = Credential {
            owner: UserId::from_bytes([1; 16]),
            name: "one".parse().unwrap(),
            verifier: Verifier::Missing,
            previous: None,
            enabled: true,
            expires: 0,
            created: 1,
            comment: None,
            own_roles: true,
            mirrored: None,
            link: None,
        };
        let place = LinkPlace {
            datastore: "tank".parse().unwrap(),
            path: StorePath::root(),
            rights: LinkRights::Read,
            upload_bytes: None,
        };
        let link = Link { secret: SecretDigest([1; 32]), place, password: None, uses: None };
        let with_link = Credential { link: Some(Box::new(link)), ..token.clone() };
        for (token, expected) in [(token, FORMAT_IN_FLEET), (with_link, 15)] {
            let mut to = Writer::default();
            token.encode(&mut to);
            let bytes = to.into_bytes();
            assert_eq!(needed_for(Table::Credentials, &bytes), expected);
            assert_eq!(Credential::decode(&mut Reader::new(&bytes)), Some(token));
        }
    }

    /// An older program reports a second factor with a passkey as damaged.
    #[test]
    fn a_second_factor_needs_format_15_and_with_a_passkey_format_16() {
        assert_eq!(needed_for(Table::SecondFactors, &[]), 15);
        let needed = |passkeys| {
            let row = SecondFactor {
                secret: SealedSecret(vec![1]),
                begun_at: 0,
                confirmed_at: Some(1),
                used_step: 0,
                recovery: Vec::new(),
                passkeys,
            };
            let mut to = Writer::default();
            row.encode(&mut to);
            needed_for(Table::SecondFactors, &to.into_bytes())
        };
        assert_eq!(needed(Vec::new()), 15);
        let passkey = Passkey { id: Octets(vec![1]), ..Passkey::default() };
        assert_eq!(needed(vec![passkey]), 16);
    }

    #[test]
    fn records_of_format_2_become_those_of_today() {
        let mut old = Writer::default();
        old.text("who").text("what").i64(7).u64(45).option(None::<()>, |_, ()| {});
        let of_2 = |table, old: &[u8]| {
            bring_up(2, table, b"key", old).map(|(key, value)| {
                assert_eq!(key, b"key");
                value
            })
        };
        let new = of_2(Table::Log, &old.into_bytes()).unwrap();
        let entry = LogEntry {
            who: "who".into(),
            what: "what".into(),
            unix_seconds: 7,
            request: None,
            written: Written::Unsaid,
        };
        assert_eq!(LogEntry::decode(&mut Reader::new(&new)), Some(entry));

        let row = MirroredFile { good: Some(Revision(45)), problem_count: 1, ..MirroredFile::default() };
        let mut old = Writer::default();
        row.encode(&mut old);
        let new = of_2(Table::Files, &old.into_bytes()).unwrap();
        assert_eq!(MirroredFile::decode(&mut Reader::new(&new)), Some(MirroredFile { good: None, ..row }));

        assert_eq!(of_2(Table::Users, b"as it is"), Some(b"as it is".to_vec()));
        assert_eq!(of_2(Table::Log, b"too short"), None);
        let of_today = (b"key".to_vec(), b"of today".to_vec());
        assert_eq!(bring_up(FORMAT, Table::Log, b"key", b"of today"), Some(of_today));
    }

    #[test]
    fn names_of_format_5_move_from_the_key_to_the_record() {
        let domain = DomainId::from_bytes([7; 16]);
        let old = [[2].as_slice(), &[7; 16], b"alice"].concat();
        let (key, value) = bring_up(5, Table::Names, &old, &[9; 16]).unwrap();
        assert_eq!(key, NameKey::user(&domain, "alice").bytes());
        let row = Name::new([9; 16], "alice");
        assert_eq!(Name::decode(&mut Reader::new(&value)), Some(row));
        assert_eq!(bring_up(5, Table::Names, &old, &[9; 15]), None);
        assert_eq!(bring_up(5, Table::Names, &[200], &[9; 16]), None);
    }

    #[test]
    fn profiles_of_earlier_formats_exempt_nobody() {
        let mut old = Writer::default();
        old.option(None::<()>, |_, ()| {});
        old.option(Some("a@b.example"), |to, email| {
            to.text(email);
        });
        old.flag(true).flag(false);
        let old = old.into_bytes();
        let email = Some("a@b.example".to_owned());
        let expected = Some(Profile { email, keeps_password: true, ..Profile::default() });
        for format in [FORMAT_OLDEST, 6] {
            let (_, value) = bring_up(format, Table::Profiles, &[7; 16], &old).unwrap();
            let mut from = Reader::new(&value);
            assert_eq!(Profile::decode(&mut from), expected, "{format}");
            assert!(from.is_empty());
        }
    }

    #[test]
    fn delegations_of_format_7_keep_their_rules_and_their_creator() {
        let rule = AccessRule {
            id: AccessRuleId::from_bytes([4; 16]),
            service: "compute".into(),
            method: "GET".into(),
            path: "/v2.1/servers".into(),
        };
        for (by, rules) in [(None, vec![]), (Some([5; 16]), vec![rule.clone()]), (None, vec![rule])] {
            let mut old = Writer::default();
            old.fixed(&[2; 16]).list(&[[3; 16]], |to, role| {
                to.fixed(role);
            });
            old.flag(true).list(&rules, |to, rule| rule.encode(to));
            let old = [old.into_bytes(), by.iter().flatten().copied().collect()].concat();
            let expected = Delegation {
                project: ProjectId::from_bytes([2; 16]),
                roles: vec![RoleId::from_bytes([3; 16])],
                unrestricted: true,
                rules,
                by: by.map(CredentialId::from_bytes),
                expires_micros: None,
            };
            for format in [FORMAT_OLDEST, 7] {
                let (_, value) = bring_up(format, Table::Delegations, &[7; 16], &old).unwrap();
                let mut from = Reader::new(&value);
                assert_eq!(Delegation::decode(&mut from).as_ref(), Some(&expected), "{format}");
                assert!(from.is_empty());
            }
            let longer = [old.as_slice(), &[1]].concat();
            assert_eq!(bring_up(7, Table::Delegations, &[7; 16], &longer), None);
        }
    }

    /// Without the list of imports, an import would add removed records again.
    #[test]
    fn the_list_of_imports_of_format_5_stays() {
        let mut value = Writer::default();
        Extra("{}".to_owned()).encode(&mut value);
        let (key, value) = ([[9].as_slice(), b"user @staff@pbs"].concat(), value.into_bytes());
        let record = bring_up(5, Table::Extras, &key, &value);
        assert_eq!(record, Some((key.clone(), value)));
        let expected = ExtraKey { kind: ResourceKind::Imported, id: b"user @staff@pbs".to_vec() };
        assert_eq!(ExtraKey::from_bytes(&key), Some(expected));
    }
}
