//! The `security.NTACL` attribute, in the layout of Samba's `vfs_acl_xattr` (librpc/idl/xattr.idl). The encoding is NDR, little-endian. The blob
//! consists of a version, the same version once more (the discriminant of an NDR union), a referent pointer, and a self-relative security descriptor.
//! The offsets in the descriptor count from the start of the blob. Versions 1 to 4 are read; version 1 is written.

use crate::security_descriptor::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::limits::{ACE_COUNT_MAX, ACL_BYTES_MAX};
use enfilade_facts::vocabulary::{AccessMask, Sid};

/// The reason why an ACL cannot be read, is malformed, or cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAcl(String);

impl BadAcl {
    pub(crate) fn new(why: &str) -> Self {
        BadAcl(why.to_owned())
    }
}

fn bad<T>(why: &str) -> Result<T, BadAcl> {
    Err(BadAcl(why.to_owned()))
}

const SELF_RELATIVE: u16 = 0x8000;
const DACL_PRESENT: u16 = 0x0004;
const DACL_PROTECTED: u16 = 0x1000;
const REFERENT: u32 = 0x0002_0000;
const HEADER_BYTES: usize = 20;
/// The offset in bytes at which the description begins in a blob of version 4: after the header, a pointer, the kind of the hash, and the hash.
const DESCRIPTION: usize = 8 + 4 + 2 + 64;

impl SecurityDescriptor {
    /// Reads a blob.
    ///
    /// # Errors
    /// When a part of the blob is not understood.
    pub fn from_ntacl(blob: &[u8]) -> Result<Self, BadAcl> {
        if blob.len() > ACL_BYTES_MAX {
            return bad("the ACL is larger than 64 KiB");
        }
        let version = u16_at(blob, 0)?;
        if u16_at(blob, 2)? != version || u32_at(blob, 4)? == 0 {
            return bad("the header is not an NTACL header");
        }
        // In versions 2 to 4, a pointer, hashes and other data come before the descriptor.
        let descriptor = match version {
            1 => 8,
            2 => 8 + 4 + 16,
            3 => aligned(DESCRIPTION),
            4 => {
                let text = blob.get(DESCRIPTION..).unwrap_or_default();
                let Some(length) = text.iter().position(|byte| *byte == 0) else {
                    return bad("the description in the ACL does not end with a zero byte");
                };
                aligned(aligned(DESCRIPTION + length + 1) + 8 + 64)
            }
            other => return bad(&format!("version {other} is not known; expected 1 to 4")),
        };
        read_descriptor(blob, descriptor)
    }

    /// Writes a blob of version 1.
    ///
    /// # Errors
    /// When there are more than 1,024 entries, or the blob is larger than 64 KiB.
    pub fn to_ntacl(&self) -> Result<Vec<u8>, BadAcl> {
        let mut body = Vec::new();
        let mut place = |bytes: Vec<u8>| {
            let offset = if bytes.is_empty() { 0 } else { (8 + HEADER_BYTES + body.len()) as u32 };
            body.extend_from_slice(&bytes);
            offset
        };
        let owner = place(self.owner.as_ref().map(Sid::to_bytes).unwrap_or_default());
        let group = place(self.group.as_ref().map(Sid::to_bytes).unwrap_or_default());
        let dacl = place(self.dacl.as_deref().map(write_dacl).transpose()?.unwrap_or_default());
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        // DACL_PRESENT with an offset of 0 means that there is no list.
        let control = SELF_RELATIVE | DACL_PRESENT | flag(self.is_protected, DACL_PROTECTED);
        let mut blob = Vec::with_capacity(8 + HEADER_BYTES + body.len());
        blob.extend_from_slice(&1u16.to_le_bytes());
        blob.extend_from_slice(&1u16.to_le_bytes());
        blob.extend_from_slice(&REFERENT.to_le_bytes());
        blob.extend_from_slice(&1u16.to_le_bytes());
        blob.extend_from_slice(&control.to_le_bytes());
        for offset in [owner, group, 0, dacl] {
            blob.extend_from_slice(&offset.to_le_bytes());
        }
        blob.extend_from_slice(&body);
        if blob.len() > ACL_BYTES_MAX {
            return bad("the ACL would be larger than 64 KiB");
        }
        Ok(blob)
    }
}

/// NDR aligns numbers of four bytes to four bytes.
fn aligned(offset: usize) -> usize {
    offset.next_multiple_of(4)
}

fn read_descriptor(blob: &[u8], start: usize) -> Result<SecurityDescriptor, BadAcl> {
    let control = u16_at(blob, start + 2)?;
    if u16_at(blob, start)? != 1 || control & SELF_RELATIVE == 0 {
        return bad("the security descriptor is not self-relative or not of revision 1");
    }
    // The offset of a part. `None` if the descriptor does not contain the part. Every part comes after the header.
    let part = |field: usize| match u32_at(blob, start + field)? as usize {
        0 => Ok(None),
        offset if offset < start + HEADER_BYTES => {
            bad("a part of the security descriptor lies inside the header")
        }
        offset => Ok(Some(offset)),
    };
    let sid_at = |field: usize| part(field)?.map(|at| read_sid(blob, at).map(|(sid, _)| sid)).transpose();
    let dacl = match (control & DACL_PRESENT != 0, part(16)?) {
        (true, None) => None,
        // Windows reads a descriptor without DACL_PRESENT as a descriptor without a list, which grants everything. Samba writes such descriptors, and
        // reads them as an empty list. This server reads such descriptors as Samba does, because an empty list grants less.
        (false, None) => Some(Vec::new()),
        (true, Some(at)) => Some(read_dacl(blob, at)?),
        // The descriptor contains a list, but its flag says that there is no list. Such an ACL is refused, because a single bit must not decide
        // whether the list counts.
        (false, Some(_)) => return bad("the ACL contains a list, but the flag DACL_PRESENT is not set"),
    };
    let is_protected = control & DACL_PROTECTED != 0;
    Ok(SecurityDescriptor { owner: sid_at(4)?, group: sid_at(8)?, dacl, is_protected })
}

fn read_dacl(blob: &[u8], start: usize) -> Result<Vec<Ace>, BadAcl> {
    let revision = u16_at(blob, start)?;
    let bytes = usize::from(u16_at(blob, start + 2)?);
    let count = u32_at(blob, start + 4)? as usize;
    if !matches!(revision, 2 | 4) || bytes < 8 {
        return bad("the list of entries is not of revision 2 or 4");
    }
    if count > ACE_COUNT_MAX {
        return bad("the ACL has more than 1,024 entries");
    }
    let Some(list) = blob.get(start..).and_then(|rest| rest.get(..bytes)) else {
        return bad("the list of entries reaches past the end of the ACL");
    };
    let mut at = 8;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let size = usize::from(u16_at(list, at + 2)?);
        let Some(entry) = list.get(at..).and_then(|rest| rest.get(..size)).filter(|entry| entry.len() >= 16)
        else {
            return bad("an entry is shorter than 16 bytes, or reaches past the end of the list");
        };
        entries.extend(read_ace(entry)?);
        at += size;
    }
    // Bytes after the last counted entry could be a further entry that denies a right. So a list with such bytes is refused.
    if at != bytes {
        return bad("the list of entries has further bytes after its last entry");
    }
    Ok(entries)
}

/// Reads an entry. `None` for a type that belongs only to the system list (SACL), because this type neither grants nor denies rights.
fn read_ace(entry: &[u8]) -> Result<Option<Ace>, BadAcl> {
    let &[kind, flags, ..] = entry else { return bad("an entry is too short") };
    let kind = match kind {
        0 => AceType::Allow,
        1 => AceType::Deny,
        2 | 3 => AceType::Audit,
        // Three types of entries: for a mandatory label, for a resource attribute, and for a policy id (MS-DTYP §2.4.4.1).
        0x11..=0x13 => return Ok(None),
        // Object entries and callback entries contain conditions, which determine whether such an entry applies. This server does not support these
        // conditions.
        other => return bad(&format!("the ACL has an entry of the unsupported type {other}")),
    };
    let (sid, bytes) = read_sid(entry, 8)?;
    if 8 + bytes != entry.len() {
        return bad("an entry has further bytes after its SID");
    }
    Ok(Some(Ace { kind, flags: AceFlags(flags), mask: AccessMask(u32_at(entry, 4)?), sid }))
}

fn write_dacl(entries: &[Ace]) -> Result<Vec<u8>, BadAcl> {
    if entries.len() > ACE_COUNT_MAX {
        return bad("the ACL would have more than 1,024 entries");
    }
    let mut list = Vec::new();
    for ace in entries {
        let sid = ace.sid.to_bytes();
        list.push(match ace.kind {
            AceType::Allow => 0,
            AceType::Deny => 1,
            AceType::Audit => 2,
        });
        list.push(ace.flags.0);
        list.extend_from_slice(&((8 + sid.len()) as u16).to_le_bytes());
        list.extend_from_slice(&ace.mask.0.to_le_bytes());
        list.extend_from_slice(&sid);
    }
    let Ok(bytes) = u16::try_from(8 + list.len()) else { return bad("the ACL would be larger than 64 KiB") };
    let mut dacl = Vec::with_capacity(usize::from(bytes));
    dacl.extend_from_slice(&2u16.to_le_bytes());
    dacl.extend_from_slice(&bytes.to_le_bytes());
    dacl.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    dacl.extend_from_slice(&list);
    Ok(dacl)
}

fn read_sid(bytes: &[u8], at: usize) -> Result<(Sid, usize), BadAcl> {
    let sid = bytes.get(at..).and_then(Sid::from_bytes);
    // A SID without a sub-authority is the SID of no user or group, and has no text form.
    sid.filter(|(sid, _)| !sid.subs().is_empty())
        .ok_or_else(|| BadAcl("a SID in the ACL cannot be read".into()))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, BadAcl> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map(|field| u16::from_le_bytes(*field)).ok_or_else(|| BadAcl("the ACL ends too early".into()))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, BadAcl> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map(|field| u32::from_le_bytes(*field)).ok_or_else(|| BadAcl("the ACL ends too early".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blobs that Samba 4.17 packed: owner …-1000, group …-513, allow …-1001 0x1200a9 for files and directories, deny everyone WRITE_DAC. The blobs
    /// have the versions 1 to 4. The hashes in versions 2 to 4 consist of the bytes 0xaa or 0xbb.
    fn from_samba() -> [Vec<u8>; 4] {
        SAMBA.map(hex)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().map(|b| char::from(b).to_digit(16).unwrap() as u8).collect();
        digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
    }

    const SAMBA: [&str; 4] = [
        "0100010000000200010004801c0000003800000000000000540000000105000000000005150000000100000002000000\
         03000000e803000001050000000000051500000001000000020000000300000001020000040040000200000000032400\
         a9001200010500000000000515000000010000000200000003000000e903000001001400000004000101000000000001\
         00000000",
        "020002000000020004000200aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa01000480300000004c0000000000000068000000\
         010500000000000515000000010000000200000003000000e80300000105000000000005150000000100000002000000\
         0300000001020000040040000200000000032400a9001200010500000000000515000000010000000200000003000000\
         e90300000100140000000400010100000000000100000000",
        "0300030000000200040002000100aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
         aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa000001000480640000008000000000000000\
         9c000000010500000000000515000000010000000200000003000000e803000001050000000000051500000001000000\
         020000000300000001020000040040000200000000032400a90012000105000000000005150000000100000002000000\
         03000000e90300000100140000000400010100000000000100000000",
        "0400040000000200040002000100aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
         aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa6162630000000500000000000000bbbbbbbb\
         bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\
         bbbbbbbbbbbbbbbbbbbbbbbb01000480b0000000cc00000000000000e800000001050000000000051500000001000000\
         0200000003000000e8030000010500000000000515000000010000000200000003000000010200000400400002000000\
         00032400a9001200010500000000000515000000010000000200000003000000e9030000010014000000040001010000\
         0000000100000000",
    ];

    #[test]
    fn every_version_of_samba_reads_the_same() {
        let base = |rid| Sid::of_store([1, 2, 3], rid);
        let expected = SecurityDescriptor {
            owner: Some(base(1000)),
            group: Some("S-1-5-21-1-2-3-513".parse().unwrap()),
            dacl: Some(vec![
                Ace {
                    kind: AceType::Allow,
                    flags: AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES),
                    mask: AccessMask(0x0012_00a9),
                    sid: base(1001),
                },
                Ace {
                    kind: AceType::Deny,
                    flags: AceFlags(0),
                    mask: AccessMask::WRITE_ACL,
                    sid: Sid::EVERYONE,
                },
            ]),
            is_protected: false,
        };
        for blob in from_samba() {
            assert_eq!(SecurityDescriptor::from_ntacl(&blob), Ok(expected.clone()), "version {}", blob[0]);
        }
        assert_eq!(SecurityDescriptor::from_ntacl(&expected.to_ntacl().unwrap()), Ok(expected));
    }

    /// After the description come a zero byte, the time, which begins at a multiple of four bytes, and a second hash.
    #[test]
    fn a_description_may_have_any_length() {
        let [first, .., fourth] = from_samba();
        // The header of version 4: 8 bytes, a pointer, the kind of the hash, and the hash.
        let header = &fourth[..78];
        for description in ["", "a", "ab", "abc", "abcd", "abcdef"] {
            let mut blob = [header, description.as_bytes(), &[0]].concat();
            blob.resize(blob.len().next_multiple_of(4) + 8 + 64, 0xbb);
            // The offsets of owner, group and list count from the beginning of the blob.
            let (moved, mut descriptor) = (blob.len() - 8, first[8..].to_vec());
            for field in [4, 8, 16] {
                let offset = u32_at(&descriptor, field).unwrap() + moved as u32;
                descriptor[field..field + 4].copy_from_slice(&offset.to_le_bytes());
            }
            blob.extend(descriptor);
            let expected = SecurityDescriptor::from_ntacl(&first);
            assert_eq!(SecurityDescriptor::from_ntacl(&blob), expected, "`{description}`");
        }
    }

    #[test]
    fn a_list_is_as_long_as_an_attribute_and_no_longer() {
        let entry = |subauthorities: usize| {
            let sid = format!("S-1-5{}", "-1".repeat(subauthorities)).parse().unwrap();
            Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask(1), sid }
        };
        let of = |entries| {
            let dacl = Some(entries);
            SecurityDescriptor { dacl, ..SecurityDescriptor::default() }
        };
        for (count, fits) in [(1023, true), (1024, true), (1025, false), (1026, false)] {
            let written = of(vec![entry(1); count]).to_ntacl();
            assert_eq!(written.is_ok(), fits, "{count} entries");
            if let Ok(blob) = written {
                let read = SecurityDescriptor::from_ntacl(&blob).unwrap();
                assert_eq!(read.dacl.map(|entries| entries.len()), Some(count));
            }
        }
        // The size is 28 bytes, plus 8 for the list, plus 16 for each entry and 4 for each sub-authority of its SID.
        for (wide, bytes) in [(374, 65_532), (375, 65_536), (376, 65_540)] {
            let entries = [vec![entry(13); wide], vec![entry(12); 1_000 - wide]].concat();
            let written = of(entries).to_ntacl();
            assert_eq!(written.as_ref().map(Vec::len).ok(), (bytes <= ACL_BYTES_MAX).then_some(bytes));
            if let Ok(blob) = written {
                assert!(SecurityDescriptor::from_ntacl(&blob).is_ok(), "{bytes}");
            }
        }
    }

    #[test]
    fn what_is_cut_or_unknown_is_refused() {
        for blob in from_samba() {
            for length in 0..blob.len() {
                let read = SecurityDescriptor::from_ntacl(&blob[..length]);
                assert!(read.is_err(), "version {} cut to {length}: {read:?}", blob[0]);
            }
        }
        let mut unknown = from_samba()[0].clone();
        let ace = unknown.len() - 20;
        unknown[ace] = 9;
        let why = SecurityDescriptor::from_ntacl(&unknown).unwrap_err().to_string();
        assert!(why.contains("type 9"), "{why}");
    }

    /// Reads the first fixture after `alter` changed it. In the fixture, the descriptor begins at 8, the list at 84, the first entry (36 bytes) at
    /// 92, and the second entry (20 bytes) at 128.
    fn altered(alter: impl FnOnce(&mut Vec<u8>)) -> Result<SecurityDescriptor, BadAcl> {
        let mut blob = from_samba()[0].clone();
        alter(&mut blob);
        SecurityDescriptor::from_ntacl(&blob)
    }

    #[test]
    fn nothing_is_guessed() {
        for (why, read) in [
            ("the flag DACL_PRESENT is not set", altered(|blob| blob[10] &= !4)),
            ("inside the header", altered(|blob| blob[24] = 20)),
            ("inside the header", altered(|blob| blob[12] = 8)),
            ("after its last entry", altered(|blob| blob[88] = 1)),
            ("ends too early", altered(|blob| blob[88] = 3)),
            ("after its SID", altered(|blob| blob[101] = 4)),
            ("SID in the ACL cannot be read", altered(|blob| blob[136] = 2)),
            ("SID in the ACL cannot be read", altered(|blob| blob[137] = 0)),
            ("more than 1,024", altered(|blob| blob[90] = 1)),
            ("type 5", altered(|blob| blob[92] = 5)),
            ("type 9", altered(|blob| blob[92] = 9)),
            ("revision 2 or 4", altered(|blob| blob[84] = 3)),
            ("not self-relative", altered(|blob| blob[11] = 0)),
            ("header is not", altered(|blob| blob[2] = 2)),
            ("header is not", altered(|blob| blob[4..8].fill(0))),
            ("version 5", altered(|blob| (blob[0], blob[2]) = (5, 5))),
            ("64 KiB", altered(|blob| blob.resize(ACL_BYTES_MAX + 1, 0))),
        ] {
            let said = read.unwrap_err().to_string();
            assert!(said.contains(why), "{said}, expected {why}");
        }
    }

    #[test]
    fn what_decides_nothing_is_no_damage() {
        // An alarm entry is read as an audit entry. A mandatory label belongs to the system list (SACL), so it is left out.
        let kinds = |read: Result<SecurityDescriptor, BadAcl>| {
            read.unwrap().dacl.unwrap().iter().map(|ace| ace.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(altered(|blob| blob[92] = 3)), [AceType::Audit, AceType::Deny]);
        assert_eq!(kinds(altered(|blob| blob[92] = 0x11)), [AceType::Deny]);
    }

    /// ACLs that Samba 4.17 packed: from `…D:PAI(A;OICIIO;GA;;;CO)(A;ID;FA;;;BA)S:(AU;SAFA;FA;;;WD)`; without a list (`O:G:` only); with an empty
    /// list (`D:`); with neither owner nor group; and with an object entry (`OA`). In these ACLs, `FA` is 0x1ff.
    #[test]
    fn what_else_samba_writes() {
        let system_list = "0100010000000200010014941c0000003800000054000000700000000105000000000005150000000100000002000000\
             03000000e80300000105000000000005150000000100000002000000030000000102000004001c000100000002c01400ff0100000101000000\
             000001000000000400340002000000000b14000000001001010000000000030000000000101800ff0100000102000000000005200000002002\
             0000";
        let no_list = "0100010000000200010000801c0000003800000000000000000000000105000000000005150000000100000002000000\
             03000000e803000001050000000000051500000001000000020000000300000001020000";
        let empty = "0100010000000200010004801c000000380000000000000054000000010500000000000515000000010000000200000003000000\
             e8030000010500000000000515000000010000000200000003000000010200000400080000000000";
        let nobodys = "0100010000000200010004800000000000000000000000001c00000004001c000100000000001400ff01000001010000\
             0000000100000000";
        let object = "0100010000000200010004801c0000002c000000000000003c0000000102000000000005200000002002000001020000\
             000000052000000020020000040030000100000005002800ff01000001000000ba7a96bfe60dd011a28500aa003049e201010000000000010000\
             0000";
        let ace = |flags, mask, sid| Ace {
            kind: AceType::Allow,
            flags: AceFlags(flags),
            mask: AccessMask(mask),
            sid,
        };
        let read = |text: &str| SecurityDescriptor::from_ntacl(&hex(text));
        assert_eq!(
            read(system_list).unwrap().dacl.unwrap(),
            [ace(0xb, 0x1000_0000, Sid::CREATOR_OWNER), ace(0x10, 0x1ff, Sid::ADMINISTRATORS)]
        );
        assert_eq!(read(no_list).unwrap().dacl, Some(Vec::new()), "as Samba judges it");
        assert_eq!(read(empty).unwrap().dacl, Some(Vec::new()));
        let everybody = vec![ace(0, 0x1ff, Sid::EVERYONE)];
        let nobodys = read(nobodys).unwrap();
        assert_eq!(nobodys, SecurityDescriptor { dacl: Some(everybody), ..SecurityDescriptor::default() });
        assert!(read(system_list).unwrap().is_protected && !nobodys.is_protected);
        assert!(read(object).unwrap_err().to_string().contains("type 5"));
    }

    fn any_sid() -> impl Strategy<Value = Sid> {
        (any::<[u32; 3]>(), any::<u32>()).prop_map(|(words, rid)| Sid::of_store(words, rid))
    }

    fn any_descriptor() -> impl Strategy<Value = SecurityDescriptor> {
        let kind = prop_oneof![Just(AceType::Allow), Just(AceType::Deny), Just(AceType::Audit)];
        let ace = (kind, any::<u8>(), any::<u32>(), any_sid());
        let ace = ace.prop_map(|(kind, flags, mask, sid)| Ace {
            kind,
            flags: AceFlags(flags),
            mask: AccessMask(mask),
            sid,
        });
        let dacl = proptest::option::of(proptest::collection::vec(ace, 0..20));
        (proptest::option::of(any_sid()), proptest::option::of(any_sid()), dacl, any::<bool>()).prop_map(
            |(owner, group, dacl, is_protected)| SecurityDescriptor { owner, group, dacl, is_protected },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(descriptor in any_descriptor()) {
            prop_assert_eq!(SecurityDescriptor::from_ntacl(&descriptor.to_ntacl().unwrap()), Ok(descriptor));
        }

        #[test]
        fn fuzzed_no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = SecurityDescriptor::from_ntacl(&bytes);
        }

        #[test]
        fn fuzzed_no_altered_blob_panics_and_what_is_read_can_be_written(
            version in 0usize..4,
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut blob = from_samba()[version].clone();
            for (at, to) in changes {
                let at = at.index(blob.len());
                blob[at] = to;
            }
            if let Some(cut) = cut {
                blob.truncate(cut.index(blob.len()));
            }
            if let Ok(read) = SecurityDescriptor::from_ntacl(&blob) {
                prop_assert_eq!(SecurityDescriptor::from_ntacl(&read.to_ntacl().unwrap()), Ok(read));
            }
        }
    }
}
