use super::*;
use crate::conformance::{change, put_something};
use crate::memory::Memory;
use enfilade_facts::tables::{Domain, NameKey};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_facts::{Source, StoreId};

const ID: DomainId = DomainId::from_bytes([1; 16]);

fn house() -> Memory {
    let memory = Memory::new(StoreId(1));
    put_something(&memory);
    let name = NameKey::domain(&Realm::local());
    let domain = Domain::new(Realm::local());
    memory.commit(change().put(&name, &Name::new([1; 16], "local")).put(&ID, &domain)).unwrap();
    memory
}

fn problems(memory: &Memory) -> Vec<String> {
    let mut seen = 0;
    let checked = memory.snapshot(|snapshot| check(snapshot, &mut |done, _| seen = done)).unwrap();
    assert!(seen > 0);
    checked.problems
}

#[test]
fn a_sound_store_has_no_problems() {
    let memory = house();
    assert_eq!(problems(&memory), Vec::<String>::new());
    let checked = memory.snapshot(|snapshot| check(snapshot, &mut |_, _| {})).unwrap();
    let count = |table| checked.tables.iter().find(|(this, _)| *this == table).unwrap().1;
    assert_eq!((count(Table::Domains), count(Table::Datastores), count(Table::Log)), (1, 1, 2));
}

#[test]
fn a_piece_of_the_log_that_is_lost_is_named() {
    let memory = house();
    let mut large = change();
    for n in 0..=enfilade_facts::limits::LOG_KEYS_MAX as u128 {
        large.put(&DomainId::from_bytes(n.to_be_bytes()), &Domain::new(Realm::local()));
    }
    memory.commit(&large).unwrap();
    assert_eq!(problems(&memory), Vec::<String>::new());
    put_something(&memory);
    assert_eq!(problems(&memory), Vec::<String>::new());
    memory.damage(Table::Log, &PieceKey { revision: Revision(3), number: 1 }.bytes(), |_| None);
    assert_eq!(problems(&memory), ["the change log contains 1 of the 2 pieces of change 3"]);
}

#[test]
fn a_name_under_the_key_of_another_name_is_named() {
    let memory = house();
    let stored = |name: &str| (NameKey::domain(&name.parse().unwrap()), Name::new([1; 16], "Größe"));
    let (key, row) = stored("other");
    memory.commit(change().put(&key, &row)).unwrap();
    let problems = problems(&memory);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("not a valid record of this table (`Größe`)"), "{problems:?}");
}

#[test]
fn each_kind_of_damage_is_named() {
    let flip = |stored: &[u8]| Some(stored.iter().map(|byte| byte ^ 1).collect());
    let none = |_: &[u8]| None;
    type Damage<'d> = &'d dyn Fn(&[u8]) -> Option<Vec<u8>>;
    let key = tally_key(Table::Domains, ID.bytes());
    let cases: [(Table, &[u8], Damage<'_>, &str); 6] = [
        (Table::Domains, ID.bytes(), &flip, "layout version"),
        (Table::Domains, ID.bytes(), &none, "0 records found, 1 expected (`local`)"),
        (Table::Tallies, &key, &none, "1 records found, 0 expected (`local`)"),
        (Table::Tallies, &[Table::Domains as u8], &flip, "table `domains`: 1 records found"),
        (Table::Log, &2u64.to_be_bytes(), &none, "ends at change 1, but the newest change of the store is 2"),
        (Table::Head, b"head", &none, "table `head`"),
    ];
    for (table, key, damage, expected) in cases {
        let memory = house();
        memory.damage(table, key, damage);
        let problems = problems(&memory);
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
}
