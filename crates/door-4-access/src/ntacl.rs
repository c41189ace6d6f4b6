//! The `security.NTACL` attribute, as Samba's `vfs_acl_xattr` lays it out (librpc/idl/xattr.idl): NDR, little-endian;
//! a version and a union level, a referent pointer, and a self-relative security descriptor whose offsets count from the
//! start of the blob. Versions 1 to 4 are read; version 1 is written.

use crate::acl::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::limits::{ACE_COUNT_MAX, ACL_BYTES_MAX};
use enfilade_facts::vocabulary::{AccessMask, Sid};

/// An ACL that cannot be believed, or that is too large to be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAcl(String);

fn bad<T>(why: &str) -> Result<T, BadAcl> {
    Err(BadAcl(why.to_owned()))
}

const SELF_RELATIVE: u16 = 0x8000;
const DACL_PRESENT: u16 = 0x0004;
const REFERENT: u32 = 0x0002_0000;
const HEADER_BYTES: usize = 20;

impl SecurityDescriptor {
    /// Reads a blob.
    ///
    /// # Errors
    /// When it is not wholly understood: an ACL of which a part is guessed is no ACL.
    pub fn from_ntacl(blob: &[u8]) -> Result<Self, BadAcl> {
        if blob.len() > ACL_BYTES_MAX {
            return bad("it is larger than 64 KiB");
        }
        let version = u16_at(blob, 0)?;
        if u16_at(blob, 2)? != version || u32_at(blob, 4)? == 0 {
            return bad("its header is not that of an NTACL");
        }
        // Before the descriptor versions 2 to 4 have a pointer to it, then hashes and more that say what it was made from.
        let descriptor = match version {
            1 => 8,
            2 => 8 + 4 + 16,
            3 => aligned(8 + 4 + 2 + 64),
            4 => {
                let description = 8 + 4 + 2 + 64;
                let text = blob.get(description..).unwrap_or_default();
                let Some(length) = text.iter().position(|byte| *byte == 0) else {
                    return bad("its description has no end");
                };
                aligned(aligned(description + length + 1) + 8 + 64)
            }
            other => return bad(&format!("version {other} is not known; expected 1 to 4")),
        };
        read_descriptor(blob, descriptor)
    }

    /// Writes a blob of version 1.
    ///
    /// # Errors
    /// When there are more than 1,024 entries, or it is larger than 64 KiB.
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
        let control = SELF_RELATIVE | if self.dacl.is_some() { DACL_PRESENT } else { 0 };
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
        return bad("its security descriptor is not a self-relative one of revision 1");
    }
    let sid_at = |field: usize| match u32_at(blob, start + field)? {
        0 => Ok(None),
        offset => read_sid(blob, offset as usize).map(|(sid, _)| Some(sid)),
    };
    let dacl = match (control & DACL_PRESENT != 0, u32_at(blob, start + 16)?) {
        (false, _) | (true, 0) => None,
        (true, offset) => Some(read_dacl(blob, offset as usize)?),
    };
    Ok(SecurityDescriptor { owner: sid_at(4)?, group: sid_at(8)?, dacl })
}

fn read_dacl(blob: &[u8], start: usize) -> Result<Vec<Ace>, BadAcl> {
    let revision = u16_at(blob, start)?;
    let bytes = usize::from(u16_at(blob, start + 2)?);
    let count = u32_at(blob, start + 4)? as usize;
    if !matches!(revision, 2 | 4) || bytes < 8 {
        return bad("its list is not an ACL of revision 2 or 4");
    }
    if count > ACE_COUNT_MAX {
        return bad("it has more than 1,024 entries");
    }
    let Some(list) = blob.get(start..).and_then(|rest| rest.get(..bytes)) else {
        return bad("its list reaches past its end");
    };
    let mut at = 8;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let size = usize::from(u16_at(list, at + 2)?);
        let Some(entry) = list.get(at..).and_then(|rest| rest.get(..size)).filter(|entry| entry.len() >= 16)
        else {
            return bad("an entry reaches past the end of the list");
        };
        entries.push(read_ace(entry)?);
        at += size;
    }
    Ok(entries)
}

fn read_ace(entry: &[u8]) -> Result<Ace, BadAcl> {
    let &[kind, flags, ..] = entry else { return bad("an entry is too short") };
    let kind = match kind {
        0 => AceType::Allow,
        1 => AceType::Deny,
        2 | 3 => AceType::Audit,
        // Object and callback entries have conditions we do not know; whether one grants or denies depends on them.
        other => return bad(&format!("it has an entry of type {other}, which is not known")),
    };
    let (sid, _) = read_sid(entry, 8)?;
    Ok(Ace { kind, flags: AceFlags(flags), mask: AccessMask(u32_at(entry, 4)?), sid })
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
    sid.ok_or_else(|| BadAcl("a SID in it cannot be read".into()))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, BadAcl> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map(|field| u16::from_le_bytes(*field)).ok_or_else(|| BadAcl("it ends too early".into()))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, BadAcl> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    field.map(|field| u32::from_le_bytes(*field)).ok_or_else(|| BadAcl("it ends too early".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packed by Samba 4.17: owner …-1000, group …-513, allow …-1001 0x1200a9 for files and directories, deny everyone
    /// WRITE_DAC; in version 3 and 4 with a hash of 0xaa and 0xbb bytes.
    fn from_samba() -> [Vec<u8>; 4] {
        let hex = |text: &str| {
            let digits: Vec<u8> = text.bytes().map(|b| char::from(b).to_digit(16).unwrap() as u8).collect();
            digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect::<Vec<u8>>()
        };
        SAMBA.map(hex)
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
        };
        for blob in from_samba() {
            assert_eq!(SecurityDescriptor::from_ntacl(&blob), Ok(expected.clone()), "version {}", blob[0]);
        }
        assert_eq!(SecurityDescriptor::from_ntacl(&expected.to_ntacl().unwrap()), Ok(expected));
    }

    #[test]
    fn what_is_cut_or_unknown_is_refused() {
        for blob in from_samba() {
            for length in 0..blob.len() {
                // The last two words are padding of the original's.
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
        (proptest::option::of(any_sid()), proptest::option::of(any_sid()), dacl)
            .prop_map(|(owner, group, dacl)| SecurityDescriptor { owner, group, dacl })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(descriptor in any_descriptor()) {
            prop_assert_eq!(SecurityDescriptor::from_ntacl(&descriptor.to_ntacl().unwrap()), Ok(descriptor));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = SecurityDescriptor::from_ntacl(&bytes);
        }

        #[test]
        fn no_flipped_byte_panics(version in 0usize..4, at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let mut blob = from_samba()[version].clone();
            let at = at.index(blob.len());
            blob[at] = to;
            let _ = SecurityDescriptor::from_ntacl(&blob);
        }
    }
}
