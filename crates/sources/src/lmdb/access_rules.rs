//! Makes records of the access rules of users, for an upgrade or a restore from format 7 or older. In these formats, only the application credentials
//! of a user contain the rules.

use super::rewrite::{Failed, Rewrite};
use enfilade_facts::codec::{self, Reader, Writer};
use enfilade_facts::tables::{AccessRule, AccessRuleKey, Credential, Delegation, Key as _, Row};
use enfilade_facts::{Revision, SourceError};
use heed::RwTxn;
use std::ops::Bound;

/// Makes a record of each access rule of each application credential. If the credentials of a user contain the same rule several times, the rule gets
/// one record with one id. Each of these credentials then contains the rule once, with this id.
pub(super) fn make_access_rules(
    rewrite: &Rewrite<'_>,
    txn: &mut RwTxn<'_>,
    revision: Revision,
) -> Result<(), Failed> {
    let delegations = rewrite.of(Delegation::TABLE)?;
    let mut last: Option<Vec<u8>> = None;
    loop {
        let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let Some(found) = delegations.range(txn, &(after, Bound::Unbounded))?.next() else { return Ok(()) };
        let (key, stored) = found?;
        let (key, mut row) = (key.to_vec(), decoded::<Delegation>(key, stored)?);
        if !row.rules.is_empty() && share(rewrite, txn, &key, &mut row, revision)? {
            delegations.put(txn, &key, &sealed(&key, &row, revision))?;
        }
        last = Some(key);
    }
}

/// Makes a record of each rule of an application credential, except for rules for which its user already has a record. Changes `row`, so that it
/// contains the rules as they are in the records. Returns whether `row` has changed.
fn share(
    rewrite: &Rewrite<'_>,
    txn: &mut RwTxn<'_>,
    id: &[u8],
    row: &mut Delegation,
    revision: Revision,
) -> Result<bool, Failed> {
    // If the table of API tokens has no record of this credential, the user is unknown. In this case the rules are not needed, because no login
    // accepts such a credential.
    let Some(stored) = rewrite.of(Credential::TABLE)?.get(txn, id)? else { return Ok(false) };
    let owner = decoded::<Credential>(id, stored)?.owner;
    let rules = rewrite.of(AccessRule::TABLE)?;
    let mut shared: Vec<AccessRule> = Vec::new();
    for rule in &row.rules {
        let key = AccessRuleKey::of(owner, rule).bytes();
        let known = rules.get(txn, &key)?.map(|stored| decoded::<AccessRule>(&key, stored)).transpose()?;
        if known.is_none() {
            rules.put(txn, &key, &sealed(&key, rule, revision))?;
        }
        let rule = known.unwrap_or_else(|| rule.clone());
        if !shared.contains(&rule) {
            shared.push(rule);
        }
    }
    let is_other = row.rules != shared;
    row.rules = shared;
    Ok(is_other)
}

fn decoded<R: Row>(key: &[u8], stored: &[u8]) -> Result<R, SourceError> {
    let (_, value) = codec::open(R::TABLE, key, stored)?;
    let mut from = Reader::new(value);
    let row = R::decode(&mut from).filter(|_| from.is_empty());
    row.ok_or_else(|| codec::damaged(R::TABLE, key, "it is not a valid record of this table"))
}

fn sealed<R: Row>(key: &[u8], row: &R, revision: Revision) -> Vec<u8> {
    let mut value = Writer::default();
    row.encode(&mut value);
    codec::seal(R::TABLE, key, revision, &value.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::{Gathered, read_dump};
    use crate::lmdb::Lmdb;
    use crate::scratch::Scratch;
    use enfilade_facts::format::FORMAT;
    use enfilade_facts::tables::{Name, NameKey, Verifier};
    use enfilade_facts::vocabulary::{AccessRuleId, CredentialId, ProjectId, UserId};
    use enfilade_facts::{AuditRecord, Read, Source};

    const ANN: UserId = UserId::from_bytes([1; 16]);
    const BEA: UserId = UserId::from_bytes([2; 16]);

    fn rule(n: u8, path: &str) -> AccessRule {
        let (service, method) = ("compute".to_owned(), "GET".to_owned());
        AccessRule { id: AccessRuleId::from_bytes([n; 16]), service, method, path: path.to_owned() }
    }

    fn credential(lmdb: &Lmdb, n: u8, owner: UserId, rules: Vec<AccessRule>) {
        let id = CredentialId::from_bytes([n; 16]);
        let row = Credential {
            owner,
            name: format!("c{n}").parse().unwrap(),
            verifier: Verifier::Missing,
            previous: None,
            enabled: true,
            expires: 0,
            created: 1,
            comment: None,
            own_roles: false,
            mirrored: None,
            link: None,
        };
        let delegation = Delegation {
            project: ProjectId::from_bytes([9; 16]),
            roles: Vec::new(),
            unrestricted: false,
            rules,
            by: None,
            expires_micros: None,
        };
        let mut change = crate::conformance::change();
        change.put(&NameKey::token(&owner, &row.name), &Name::new(id.stored(), row.name.as_str()));
        lmdb.commit(change.put(&id, &row).put(&id, &delegation)).unwrap();
    }

    fn dump(lmdb: &Lmdb) -> String {
        let (place, mut dump) = (std::env::temp_dir(), Vec::new());
        let mut all = Gathered::of(&|look| lmdb.with_view(look), &place, 7, &mut |_, _| {}).unwrap();
        all.write_dump(true, &mut dump, &mut |_, _| {}).unwrap();
        String::from_utf8(dump).unwrap()
    }

    fn restore(lmdb: &Lmdb, dump: &str) -> Vec<(u64, u64)> {
        let audit =
            AuditRecord { who: "a test".into(), what: "restore".into(), unix_seconds: 5, request: None };
        let mut told = Vec::new();
        let copy = read_dump(dump.as_bytes()).unwrap();
        lmdb.restore(copy, &audit, true, &mut |done, all| told.push((done, all))).unwrap();
        told
    }

    /// The rules of the users `ANN` and `BEA`, and the rules of the credential with the number `n`.
    fn rules_of(lmdb: &Lmdb, n: u8) -> (Vec<AccessRule>, Vec<AccessRule>, Vec<AccessRule>) {
        lmdb.read(|view| {
            let of = |user| {
                let mut rules: Vec<_> = view.list::<AccessRule>(&AccessRuleKey::all_of(&user)).unwrap();
                rules.sort_by_key(|(_, rule)| rule.id);
                rules.into_iter().map(|(_, rule)| rule).collect()
            };
            let delegation = view.get::<Delegation>(&CredentialId::from_bytes([n; 16])).unwrap().unwrap();
            (of(ANN), of(BEA), delegation.rules)
        })
        .unwrap()
    }

    #[test]
    fn rules_of_older_formats_become_records_of_their_own_with_one_id_each() {
        let scratch = Scratch::new();
        let lmdb = Lmdb::open(&scratch.path().join("facts")).unwrap();
        credential(&lmdb, 1, ANN, vec![rule(11, "/a"), rule(12, "/b")]);
        credential(&lmdb, 2, ANN, vec![rule(13, "/c"), rule(14, "/a"), rule(15, "/a")]);
        credential(&lmdb, 3, BEA, vec![rule(16, "/a")]);
        credential(&lmdb, 4, BEA, Vec::new());
        assert_eq!(rules_of(&lmdb, 1).0, []);

        let older = dump(&lmdb).replace(&format!("\"format\":{FORMAT}"), "\"format\":7");
        let told = restore(&lmdb, &older);
        // The total does not count the new records. Nevertheless, the progress never exceeds the total.
        assert!(told.iter().all(|(done, all)| done <= all), "{told:?}");
        let of_ann = vec![rule(11, "/a"), rule(12, "/b"), rule(13, "/c")];
        for (n, of_credential) in [
            (1, vec![rule(11, "/a"), rule(12, "/b")]),
            (2, vec![rule(13, "/c"), rule(11, "/a")]),
            (3, vec![rule(16, "/a")]),
            (4, vec![]),
        ] {
            assert_eq!(rules_of(&lmdb, n), (of_ann.clone(), vec![rule(16, "/a")], of_credential), "{n}");
        }
        let checked = lmdb.snapshot(|snapshot| crate::check::check(snapshot, &mut |_, _| {}));
        assert_eq!(checked.unwrap().unwrap().problems, Vec::<String>::new());

        // A dump of the present format contains the records of access rules. The keys of these records in the dump do not contain the digest.
        let before = rules_of(&lmdb, 2);
        restore(&lmdb, &dump(&lmdb));
        assert_eq!(rules_of(&lmdb, 2), before);
        let view = |rule: &AccessRule| {
            lmdb.read(|view| view.get::<AccessRule>(&AccessRuleKey::of(ANN, rule)).unwrap())
        };
        assert_eq!(view(&rule(99, "/b")).unwrap(), Some(rule(12, "/b")));
    }
}
