//! Tests of the whole decision of door 4, on records that the tests create.

mod applications;
mod deciding;
mod links;
mod managing;
mod remedies;
mod reviewing;
mod seeing;

use crate::ask::{NodeKind, ObjectId, StoredAcl, Subject};
use crate::memo::AccessMemo;
use crate::open::AccessCheck;
use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor};
use crate::view::View;
use enfilade_facts::journal::{Head, Write, write_down};
use enfilade_facts::tables::{Assignment, AssignmentKey, Domain, Group, Name, NameKey, Who};
use enfilade_facts::vocabulary::{
    AccessMask, CredentialId, DatastoreName, DomainId, GroupId, Realm, Role, Sid, StorePath, UserId,
};
use enfilade_facts::{
    At, AuditRecord, Change, Clocks, Each, Found, MemoSeed, MirrorHealth, Revision, Row, Snapshot,
    SourceError, StoreId, Table,
};
use enfilade_identity::{Principal, SetId, SidSet};
use std::cell::Cell;
use std::collections::BTreeMap;

pub(crate) const STAFF: GroupId = GroupId::from_bytes([1; 16]);
pub(crate) const OTHERS: GroupId = GroupId::from_bytes([2; 16]);
const ALICE: UserId = UserId::from_bytes([3; 16]);
const BOB: UserId = UserId::from_bytes([4; 16]);
pub(crate) const TEST: CredentialId = CredentialId::from_bytes([6; 16]);
const LOCAL: DomainId = DomainId::from_bytes([5; 16]);

/// Records of one revision.
#[derive(Clone)]
pub(crate) struct Facts {
    at: At,
    records: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
    /// How many times the records were scanned.
    searches: Cell<u64>,
}

impl Snapshot for Facts {
    fn at(&self) -> At {
        self.at
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        Ok(self.records.get(&(table, key.to_vec())).map(Vec::as_slice))
    }

    fn at_or_after(&self, _: Table, _: &[u8]) -> Result<Found<'_>, SourceError> {
        Ok(None)
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        self.searches.set(self.searches.get() + 1);
        let from = self.records.range((table, prefix.to_vec())..);
        for ((_, key), stored) in from.take_while(|((t, key), _)| *t == table && key.starts_with(prefix)) {
            if each(key, stored).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Facts {
    pub(crate) fn put<R: Row>(&mut self, key: &R::Key, row: &R) {
        let mut change = Change::new(AuditRecord {
            who: String::new(),
            what: String::new(),
            unix_seconds: 0,
            request: None,
        });
        change.put(key, row);
        let writes = write_down(self, &change, 0, Revision(0)).unwrap();
        self.at = self.at.next();
        writes.into_iter().for_each(|write| self.write(write));
    }

    fn write(&mut self, Write { table, key, stored }: Write) {
        self.records.insert((table, key), stored.unwrap());
    }

    pub(crate) fn assign(&mut self, path: &str, who: Who, roles: &[(Role, bool)]) {
        let key = AssignmentKey { path: path.parse().unwrap(), who };
        self.put(&key, &Assignment { roles: roles.to_vec(), fault: None });
    }

    /// Returns the same records in another store. Memo entries of one store are not used for another store.
    pub(crate) fn in_store(mut self, n: u128) -> Facts {
        self.at.store = StoreId(n);
        self
    }

    /// Reads lines like `/datastore/tank staff DatastoreReader NoAccess-`. A dash after a role means that the role does not propagate.
    pub(crate) fn of(lines: &str) -> Facts {
        let at = At { store: StoreId(1), revision: Revision(1) };
        let mut facts = Facts { at, records: BTreeMap::new(), searches: Cell::new(0) };
        facts.write(Head { revision: at.revision, commit: 0 }.write());
        facts.put(&LOCAL, &Domain::new("local".parse().unwrap()));
        let sid = group_sid();
        facts.put(
            &STAFF,
            &Group {
                domain: LOCAL,
                name: "staff".into(),
                sid,
                also: Vec::new(),
                gid: Some(50),
                comment: None,
            },
        );
        facts.put(&NameKey::domain(&Realm::local()), &Name::new(LOCAL.stored(), "local"));
        facts.put(&NameKey::group(&LOCAL, "staff"), &Name::new(STAFF.stored(), "staff"));
        facts.put(&NameKey::group(&LOCAL, "others"), &Name::new(OTHERS.stored(), "others"));
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let role = |word: &&str| match word.strip_suffix('-') {
                Some(role) => (role.parse().unwrap(), false),
                None => (word.parse().unwrap(), true),
            };
            let roles: Vec<(Role, bool)> = words[2..].iter().map(role).collect();
            let who = match words[1] {
                "alice" => Who::User(ALICE),
                "bob" => Who::User(BOB),
                "staff" => Who::Group(STAFF),
                "others" => Who::Group(OTHERS),
                "test" => Who::Token(TEST),
                named => Who::Named(named.parse().unwrap()),
            };
            facts.assign(words[0], who, &roles);
        }
        facts
    }
}

pub(crate) fn own_sid() -> Sid {
    Sid::of_store([1, 2, 3], 1000)
}

pub(crate) fn group_sid() -> Sid {
    Sid::of_store([1, 2, 3], 1001)
}

/// A user in the group `staff`, and in no other group.
pub(crate) fn alice() -> Principal {
    let sids = vec![own_sid(), group_sid(), Sid::EVERYONE, Sid::AUTHENTICATED, Sid::NETWORK];
    Principal {
        authid: "alice@local".parse().unwrap(),
        user: ALICE,
        narrowed_to: None,
        link: None,
        reach: enfilade_identity::Reach::Everything,
        sid: own_sid(),
        groups: vec![STAFF],
        sids: SidSet::new(sids),
        uid: Some(100),
        gids: vec![50],
        set: SetId(1),
    }
}

/// Alice with her token `test`, which has roles of its own.
pub(crate) fn token_of_alice() -> Principal {
    Principal { authid: "alice@local!test".parse().unwrap(), narrowed_to: Some(TEST), ..alice() }
}

pub(crate) const NOW: Clocks =
    Clocks { unix_seconds: 1_000, tick_millis: 1_000, mirror: MirrorHealth::Current };

pub(crate) fn memo() -> AccessMemo {
    AccessMemo::new(MemoSeed([7; 16]), 1 << 16)
}

/// Calls `ask` on these facts, with a new memo.
pub(crate) fn case<R>(facts: &Facts, principal: &Principal, ask: impl FnOnce(&AccessCheck<'_>) -> R) -> R {
    case_with(facts, principal, &memo(), ask)
}

pub(crate) fn case_with<R>(
    facts: &Facts,
    principal: &Principal,
    memo: &AccessMemo,
    ask: impl FnOnce(&AccessCheck<'_>) -> R,
) -> R {
    let view = enfilade_facts::View::new(facts);
    let datastore: DatastoreName = "tank".parse().unwrap();
    let visible = AccessMask::VISIBLE;
    ask(&AccessCheck { view: View(&view), now: NOW, principal, datastore: &datastore, visible, memo })
}

pub(crate) fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

pub(crate) fn subject(kind: NodeKind, acl: StoredAcl) -> Subject {
    Subject {
        object: ObjectId { device: 1, inode: 7 },
        kind,
        uid: 0,
        gid: 0,
        mode: 0o700,
        version: None,
        acl,
    }
}

/// Makes an ACL without an owner from lines in the text form.
pub(crate) fn acl(lines: &[&str]) -> StoredAcl {
    let entry = |line: &&str| {
        let resolve = |name: &str| match name {
            "alice" => Ok(own_sid()),
            "staff" => Ok(group_sid()),
            other => Err(format!("there is no `{other}`")),
        };
        match crate::acl_text::parse_line(line, &resolve).unwrap() {
            crate::acl_text::AclLine::Ace(ace) => ace,
            other => panic!("{other:?}"),
        }
    };
    let dacl = Some(lines.iter().map(entry).collect());
    StoredAcl::Ntacl(SecurityDescriptor { dacl, ..SecurityDescriptor::default() }.to_ntacl().unwrap())
}

pub(crate) fn everything() -> StoredAcl {
    let flags = AceFlags(0);
    let all = Ace { kind: AceType::Allow, flags, mask: AccessMask::ALL, sid: Sid::EVERYONE };
    StoredAcl::Ntacl(
        SecurityDescriptor { dacl: Some(vec![all]), ..SecurityDescriptor::default() }.to_ntacl().unwrap(),
    )
}
