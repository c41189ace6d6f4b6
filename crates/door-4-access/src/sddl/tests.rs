use super::*;
use proptest::prelude::*;

fn ace(kind: AceType, flags: u8, mask: u32, sid: Sid) -> Ace {
    Ace { kind, flags: AceFlags(flags), mask: AccessMask(mask), sid }
}

/// Reads the line from which Samba packed an ACL for the tests in `ntacl.rs`, and reads lines from Windows.
#[test]
fn lines_of_others() {
    let text =
        "O:S-1-5-21-1-2-3-1000G:S-1-5-21-1-2-3-513D:PAI(A;OICIIO;GA;;;CO)(A;ID;FA;;;BA)S:(AU;SAFA;FA;;;WD)";
    let read = from_sddl(text).unwrap();
    assert_eq!(read.owner, Some(Sid::of_store([1, 2, 3], 1000)));
    assert!(read.is_protected);
    let expected = [
        ace(AceType::Allow, 0xb, 0x1000_0000, Sid::CREATOR_OWNER),
        ace(AceType::Allow, 0x10, 0x1f_01ff, Sid::ADMINISTRATORS),
    ];
    assert_eq!(read.dacl.as_deref(), Some(expected.as_slice()));
    assert_eq!(
        to_sddl(&read),
        "O:S-1-5-21-1-2-3-1000G:S-1-5-21-1-2-3-513D:P(A;OICIIO;0x10000000;;;CO)(A;ID;0x1f01ff;;;BA)"
    );
    assert_eq!(from_sddl("D:").unwrap().dacl, Some(Vec::new()), "an empty list grants nothing");
    assert_eq!(from_sddl("D:NO_ACCESS_CONTROL").unwrap().dacl, None, "no list grants everything");
    // A system list may contain texts in brackets. Characters in such a text that look like `D:` or `S:` do not begin a part.
    let attributes = r#"D:(A;;FA;;;WD)S:(RA;;;;;WD;("Drive",TS,0,"D:","S:"))O:BA"#;
    let read = from_sddl(attributes).unwrap();
    assert_eq!((read.owner, read.dacl.unwrap().len()), (Some(Sid::ADMINISTRATORS), 1));
    let sums = from_sddl("D:(D;;CCDCLCSWRPWPDTLOCRSDRCWDWO;;;SY)").unwrap().dacl.unwrap();
    assert_eq!(sums[0].mask, AccessMask(0xf_01ff));
    assert_eq!(from_sddl("D:(A;;1179817;;;WD)").unwrap().dacl.unwrap()[0].mask, AccessMask(0x12_00a9));
    for (text, why) in [
        ("O:BAO:SYD:", "`O:` is not expected"),
        ("G:BAG:SYD:", "`G:` is not expected"),
        ("", "no `D:`"),
        ("O:WD", "no `D:`"),
        ("D:(A;;FA;;;WD)D:(A;;FA;;;WD)", "each once"),
        ("D:(A;;FA;;;WD", "not closed"),
        ("D:(A;;FA;;WD)", "expected `(TYPE"),
        ("D:(X;;FA;;;WD)", "expected the type"),
        ("D:(OA;;FA;bf967aba-0de6-11d0-a285-00aa003049e2;;WD)", "objects of Active Directory"),
        ("D:(A;XX;FA;;;WD)", "is not a flag"),
        ("D:(A;;XX;;;WD)", "not a set of rights"),
        ("D:(A;;0xg;;;WD)", "not a set of rights"),
        ("D:(A;;FA;;;DA)", "not a known principal"),
        ("D:(A;;FA;;;WD)x", "expected `(`"),
        ("D:NO_ACCESS_CONTROL(A;;FA;;;WD)", "contradict"),
        ("X:WD", "expected `O:`"),
    ] {
        let said = from_sddl(text).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
}

fn any_sid() -> impl Strategy<Value = Sid> {
    prop_oneof![
        any::<([u32; 3], u32)>().prop_map(|(words, rid)| Sid::of_store(words, rid)),
        (0..SIDS.len()).prop_map(|at| SIDS[at].1.parse().unwrap()),
    ]
}

fn any_ace() -> impl Strategy<Value = Ace> {
    let kind = prop_oneof![Just(AceType::Allow), Just(AceType::Deny), Just(AceType::Audit)];
    // One bit of the flags (0x20) has no meaning. SDDL has no letters for this bit.
    (kind, any::<u8>(), any::<u32>(), any_sid())
        .prop_map(|(kind, flags, mask, sid)| ace(kind, flags & !0x20, mask, sid))
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        owner in proptest::option::of(any_sid()),
        group in proptest::option::of(any_sid()),
        dacl in proptest::option::of(proptest::collection::vec(any_ace(), 0..10)),
        is_protected in any::<bool>(),
    ) {
        let descriptor = SecurityDescriptor { owner, group, dacl, is_protected };
        prop_assert_eq!(from_sddl(&to_sddl(&descriptor)), Ok(descriptor));
    }

    #[test]
    fn fuzzed_no_text_panics(text in "[OGDSAPI:();0-9xWDFCUL\u{e9} -]{0,60}") {
        let _ = from_sddl(&text);
    }
}
