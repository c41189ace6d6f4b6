use super::*;
use proptest::prelude::*;

const OF: Owner = Owner { uid: 1000, gid: 100 };
const FI: u8 = AceFlags::FILES;
const DI: u8 = AceFlags::DIRECTORIES;
const IO: u8 = AceFlags::INHERIT_ONLY;

fn blob(flags: u32, entries: &[[u32; 5]]) -> Vec<u8> {
    let words = [flags, entries.len() as u32].into_iter().chain(entries.iter().flatten().copied());
    words.flat_map(u32::to_be_bytes).collect()
}

fn read(entries: &[[u32; 5]]) -> Vec<Ace> {
    SecurityDescriptor::from_nfs4(&blob(0, entries), OF).unwrap().dacl.unwrap()
}

fn ace(flags: u8, sid: Sid, mask: u32) -> Ace {
    Ace { kind: AceType::Allow, flags: AceFlags(flags), mask: AccessMask(mask), sid }
}

#[test]
fn people_are_numbers_and_a_few_are_special() {
    let (user, group) = (Sid::of_unix_user, Sid::of_unix_group);
    for (special, who, flags, sid) in [
        (0, 7, 0, user(7)),
        (0, 7, IS_GROUP, group(7)),
        (1, 1, 0, user(1000)),
        (1, 2, IS_GROUP, group(100)),
        (1, 2, 0, group(100)),
        (1, 3, 0, Sid::EVERYONE),
        (1, 5, 0, Sid::NETWORK),
        (1, 9, 0, Sid::AUTHENTICATED),
    ] {
        assert_eq!(read(&[[0, flags, special, 1, who]]), [ace(0, sid, 1)], "{special} {who} {flags:x}");
    }
    let whole = SecurityDescriptor::from_nfs4(&blob(2, &[]), OF).unwrap();
    assert_eq!((whole.owner, whole.group, whole.is_protected), (Some(user(1000)), Some(group(100)), true));
    assert_eq!(whole.dacl, Some(Vec::new()), "an empty list grants nothing");
}

#[test]
fn what_the_owner_hands_on_is_for_whoever_owns_the_child() {
    let (owner, group) = (Sid::of_unix_user(1000), Sid::of_unix_group(100));
    let (fd, of_owner) = (u32::from(FI | DI), Sid::CREATOR_OWNER);
    assert_eq!(read(&[[0, fd, 1, 7, 1]]), [ace(0, owner, 7), ace(FI | DI | IO, of_owner, 7)]);
    assert_eq!(read(&[[0, fd | 8, 1, 7, 1]]), [ace(FI | DI | IO, of_owner, 7)]);
    assert_eq!(
        read(&[[0, fd | 0x80, 1, 7, 2]]),
        [ace(AceFlags::INHERITED, group, 7), ace(FI | DI | IO | AceFlags::INHERITED, Sid::CREATOR_GROUP, 7)]
    );
    // An entry for a named user stays an entry for this user, even if this user is the owner.
    assert_eq!(read(&[[0, fd, 0, 7, 1000]]), [ace(FI | DI, owner, 7)]);
}

#[test]
fn what_is_not_wholly_understood_is_refused() {
    let one = blob(0, &[[0, 0, 1, 1, 3]]);
    let short = one.get(..one.len() - 1).unwrap().to_vec();
    let many = blob(0, &vec![[0, 0, 1, 1, 3]; 1025]);
    let long = [one.clone(), vec![0; 20]].concat();
    let cases = [
        (vec![0; 7], "header"),
        (short, "length"),
        (long, "length"),
        (many, "1,024"),
        (blob(8, &[]), "flags"),
        (blob(0, &[[4, 0, 1, 1, 3]]), "type"),
        (blob(0, &[[0, 0x100, 1, 1, 3]]), "flags"),
        (blob(0, &[[0, 0, 2, 1, 3]]), "flags"),
        (blob(0, &[[0, 0, 1, 1, 11]]), "special"),
    ];
    for (blob, why) in cases {
        let refused = SecurityDescriptor::from_nfs4(&blob, OF).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn each_entry_is_written_word_for_word() {
    let (user, group) = (Sid::of_unix_user, Sid::of_unix_group);
    for (flags, sid, expected) in [
        (0, Sid::EVERYONE, [0, 1, 3]),
        (FI | DI, Sid::EVERYONE, [3, 1, 3]),
        (FI | IO, Sid::EVERYONE, [9, 1, 3]),
        (AceFlags::INHERITED, Sid::EVERYONE, [0x80, 1, 3]),
        (0x40, Sid::EVERYONE, [0x10, 1, 3]),
        (0x80, Sid::EVERYONE, [0x20, 1, 3]),
        // The file's owner and group are written as OWNER@ and GROUP@, unless children inherit the entry.
        (0, user(1000), [0, 1, 1]),
        (FI, user(1000), [1, 0, 1000]),
        (AceFlags::INHERITED, user(1000), [0x80, 1, 1]),
        (0, user(7), [0, 0, 7]),
        (0, group(100), [IS_GROUP, 1, 2]),
        (FI, group(100), [IS_GROUP | 1, 0, 100]),
        (0, group(7), [IS_GROUP, 0, 7]),
        (0, user(100), [0, 0, 100]),
        (0, group(1000), [IS_GROUP, 0, 1000]),
        // CREATOR OWNER and CREATOR GROUP stand for the owner and the group of a new child.
        (FI, Sid::CREATOR_OWNER, [9, 1, 1]),
        (FI | IO, Sid::CREATOR_OWNER, [9, 1, 1]),
        (DI, Sid::CREATOR_GROUP, [IS_GROUP | 0xa, 1, 2]),
    ] {
        let [flags_there, special, who] = expected;
        for (kind, number) in [(AceType::Allow, 0), (AceType::Deny, 1), (AceType::Audit, 2)] {
            let entry = Ace { kind, ..ace(flags, sid, 5) };
            assert_eq!(written(&entry, OF), Ok([number, flags_there, special, 5, who]), "{entry:?}");
        }
    }
}

#[test]
fn each_type_is_read_and_a_list_is_protected_only_if_it_says_so() {
    let kinds = [(0, AceType::Allow), (1, AceType::Deny), (2, AceType::Audit), (3, AceType::Audit)];
    for (number, kind) in kinds {
        assert_eq!(read(&[[number, 0, 1, 1, 3]]), [Ace { kind, ..ace(0, Sid::EVERYONE, 1) }]);
    }
    for (flags, expected) in [(0, false), (1, false), (2, true), (4, false), (7, true)] {
        let descriptor = SecurityDescriptor::from_nfs4(&blob(flags, &[]), OF).unwrap();
        assert_eq!(descriptor.is_protected, expected, "{flags}");
    }
}

#[test]
fn a_list_has_1024_entries_at_most() {
    assert_eq!(read(&[[0, 0, 1, 1, 3]; 1024]).len(), 1024);
    for (entries, fits) in [(1023, true), (1024, true), (1025, false), (1026, false)] {
        let dacl = Some(vec![ace(0, Sid::EVERYONE, 1); entries]);
        let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
        assert_eq!(descriptor.to_nfs4(OF).is_ok(), fits, "{entries}");
    }
}

#[test]
fn what_it_has_no_words_for_is_said() {
    let with = |ace| SecurityDescriptor { dacl: Some(vec![ace]), ..SecurityDescriptor::default() };
    let named = with(ace(0, Sid::of_store([1, 2, 3], 1000), 1)).to_nfs4(OF).unwrap_err().to_string();
    assert!(named.contains("S-1-5-21-1-2-3-1000") && named.contains("--uid"), "{named}");
    let owned = SecurityDescriptor { owner: Some(Sid::ADMINISTRATORS), ..with(ace(0, Sid::EVERYONE, 1)) };
    assert!(owned.to_nfs4(OF).unwrap_err().to_string().contains("chown"));
    assert!(SecurityDescriptor::default().to_nfs4(OF).unwrap_err().to_string().contains("everyone"));
}

fn any_entry() -> impl Strategy<Value = [u32; 5]> {
    let who = prop_oneof![Just(1000_u32), Just(100), 1_u32..11, any::<u32>()];
    (0_u32..4, 0_u32..0x100, 0_u32..2, any::<u32>(), who)
        .prop_map(|(kind, flags, special, mask, who)| [kind, flags, special, mask, who])
}

proptest! {
    #[test]
    fn what_was_read_is_written_and_reads_the_same(
        flags in 0_u32..8,
        entries in proptest::collection::vec(any_entry(), 0..20),
    ) {
        if let Ok(descriptor) = SecurityDescriptor::from_nfs4(&blob(flags, &entries), OF) {
            let again = SecurityDescriptor::from_nfs4(&descriptor.to_nfs4(OF).unwrap(), OF).unwrap();
            let mapped = |descriptor: &SecurityDescriptor| -> Vec<Ace> {
                let entries = descriptor.dacl.clone().unwrap_or_default().into_iter();
                entries.map(|ace| Ace { mask: map_generic(ace.mask), ..ace }).collect()
            };
            prop_assert_eq!(mapped(&again), mapped(&descriptor));
            prop_assert_eq!(again.is_protected, descriptor.is_protected);
        }
    }

    #[test]
    fn fuzzed_no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = SecurityDescriptor::from_nfs4(&bytes, OF);
    }

    #[test]
    fn fuzzed_no_altered_list_panics(
        entries in proptest::collection::vec(any_entry(), 0..20),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut blob = blob(0, &entries);
        for (at, to) in changes {
            let at = at.index(blob.len());
            blob[at] = to;
        }
        if let Some(cut) = cut {
            blob.truncate(cut.index(blob.len()));
        }
        let _ = SecurityDescriptor::from_nfs4(&blob, OF);
    }
}
