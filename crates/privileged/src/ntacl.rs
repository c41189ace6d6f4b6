//! Checks whether the bytes of an attribute `security.NTACL` are well formed. Door 4 (`door-4-access/src/ntacl.rs`) has its own parser. This check is
//! separate, because the helper must not contain other code of the server. A test (`interop/privileged.rs`) compares this check with that parser.

use crate::protocol::ACL_BYTES_MAX;

const SELF_RELATIVE: u16 = 0x8000;
const DACL_PRESENT: u16 = 0x0004;
const HEADER_BYTES: usize = 20;
const ENTRIES_MAX: usize = 1024;
const SUBAUTHORITIES_MAX: usize = 15;
/// In versions 3 and 4, the offset of the data after the hash. This data follows the header, a pointer, the kind of the hash, and the hash.
const DESCRIPTION: usize = 8 + 4 + 2 + 64;

/// Whether a blob has one of the versions 1 to 4 of Samba's format of `security.NTACL`, and contains a complete security descriptor.
pub fn is_well_formed(blob: &[u8]) -> bool {
    blob.len() <= ACL_BYTES_MAX
        && descriptor_at(blob).is_some_and(|start| is_descriptor(blob, start) == Some(true))
}

/// The offset of the security descriptor.
fn descriptor_at(blob: &[u8]) -> Option<usize> {
    let version = u16_at(blob, 0)?;
    if u16_at(blob, 2)? != version || u32_at(blob, 4)? == 0 {
        return None;
    }
    let aligned = |offset: usize| offset.next_multiple_of(4);
    match version {
        1 => Some(8),
        2 => Some(8 + 4 + 16),
        3 => Some(aligned(DESCRIPTION)),
        4 => {
            let length = blob.get(DESCRIPTION..)?.iter().position(|byte| *byte == 0)?;
            Some(aligned(aligned(DESCRIPTION + length + 1) + 8 + 64))
        }
        _ => None,
    }
}

fn is_descriptor(blob: &[u8], start: usize) -> Option<bool> {
    let control = u16_at(blob, start + 2)?;
    if u16_at(blob, start)? != 1 || control & SELF_RELATIVE == 0 {
        return None;
    }
    for field in [4, 8] {
        if let Some(at) = part(blob, start, field)? {
            sid_bytes(blob, at)?;
        }
    }
    match (control & DACL_PRESENT != 0, part(blob, start, 16)?) {
        (_, None) => Some(true),
        (true, Some(at)) => is_list(blob, at),
        (false, Some(_)) => None,
    }
}

/// The offset of a part of the security descriptor in the blob; `Some(None)` if the descriptor has no such part, and `None` if the offset is not
/// valid.
fn part(blob: &[u8], start: usize, field: usize) -> Option<Option<usize>> {
    match u32_at(blob, start + field)? as usize {
        0 => Some(None),
        offset => (offset >= start + HEADER_BYTES).then_some(Some(offset)),
    }
}

fn is_list(blob: &[u8], start: usize) -> Option<bool> {
    let (revision, bytes) = (u16_at(blob, start)?, usize::from(u16_at(blob, start + 2)?));
    let count = u32_at(blob, start + 4)? as usize;
    if !matches!(revision, 2 | 4) || bytes < 8 || count > ENTRIES_MAX {
        return None;
    }
    let list = blob.get(start..)?.get(..bytes)?;
    let mut at = 8;
    for _ in 0..count {
        let size = usize::from(u16_at(list, at + 2)?);
        let entry = list.get(at..)?.get(..size).filter(|entry| entry.len() >= 16)?;
        match entry.first()? {
            0..=3 if 8 + sid_bytes(entry, 8)? == entry.len() => {}
            // An entry with one of these numbers is a mandatory label, a resource attribute or a policy id. Such an entry neither grants nor denies a
            // right.
            0x11..=0x13 => {}
            _ => return None,
        }
        at += size;
    }
    Some(at == bytes)
}

/// The length of a SID, which has at least one sub-authority.
fn sid_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    let (revision, count) = (*bytes.get(at)?, usize::from(*bytes.get(at + 1)?));
    let length = 8 + 4 * count;
    let is_sid = revision == 1 && (1..=SUBAUTHORITIES_MAX).contains(&count);
    bytes.get(at..)?.get(..length).filter(|_| is_sid).map(|_| length)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|field| u16::from_le_bytes(*field))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|field| u32::from_le_bytes(*field))
}
