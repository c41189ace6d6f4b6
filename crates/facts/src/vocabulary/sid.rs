//! Security identifiers, by which ACL entries identify their subjects (MS-DTYP §2.4.2).

use super::Malformed;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

const SUBS_MAX: usize = 15;

/// A SID. SIDs are ordered by their parts, so that sets of SIDs can be sorted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sid {
    authority: [u8; 6],
    count: u8,
    subs: [u32; SUBS_MAX],
}

impl Sid {
    /// Every principal, owner and group included (`S-1-1-0`).
    pub const EVERYONE: Sid = Sid::well_known(1, &[0]);
    /// In an inheritable entry: the creator of the child (`S-1-3-0`).
    pub const CREATOR_OWNER: Sid = Sid::well_known(3, &[0]);
    /// In an inheritable entry: the creator's primary group (`S-1-3-1`).
    pub const CREATOR_GROUP: Sid = Sid::well_known(3, &[1]);
    /// The owner of the object. An entry with this SID replaces the owner's implied rights (`S-1-3-4`).
    pub const OWNER_RIGHTS: Sid = Sid::well_known(3, &[4]);
    /// Every principal that connects over the network (`S-1-5-2`).
    pub const NETWORK: Sid = Sid::well_known(5, &[2]);
    /// Every authenticated principal (`S-1-5-11`).
    pub const AUTHENTICATED: Sid = Sid::well_known(5, &[11]);
    /// The administrators of the server (`S-1-5-32-544`).
    pub const ADMINISTRATORS: Sid = Sid::well_known(5, &[32, 544]);

    const fn well_known(authority: u8, parts: &[u32]) -> Sid {
        let mut subs = [0; SUBS_MAX];
        let (head, _) = subs.split_at_mut(parts.len());
        head.copy_from_slice(parts);
        Sid { authority: [0, 0, 0, 0, 0, authority], count: parts.len() as u8, subs }
    }

    /// `S-1-5-21-a-b-c-rid`: the form of the SIDs that a store of facts issues.
    pub const fn of_store(words: [u32; 3], rid: u32) -> Sid {
        let [a, b, c] = words;
        Sid::well_known(5, &[21, a, b, c, rid])
    }

    /// `S-1-5-rid`: every principal that logged on in the same way, such as over the network.
    pub const fn of_logon(rid: u32) -> Sid {
        Sid::well_known(5, &[rid])
    }

    /// `S-1-22-1-uid`: the SID of a UNIX user of the machine in ACLs that Samba writes.
    pub const fn of_unix_user(uid: u32) -> Sid {
        Sid::well_known(22, &[1, uid])
    }

    /// `S-1-22-2-gid`: the SID of a UNIX group of the machine in ACLs that Samba writes.
    pub const fn of_unix_group(gid: u32) -> Sid {
        Sid::well_known(22, &[2, gid])
    }

    /// The sub-authorities.
    pub fn subs(&self) -> &[u32] {
        self.subs.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// The number of a UNIX user (`false`) or group (`true`) of the machine; `None` for every other SID.
    pub fn unix_number(&self) -> Option<(bool, u32)> {
        match self.subs() {
            [kind @ 1..=2, number] if self.authority == [0, 0, 0, 0, 0, 22] => Some((*kind == 2, *number)),
            _ => None,
        }
    }

    /// A hash for lookups: equal SIDs have equal hashes.
    pub fn mark(&self) -> u64 {
        let mixed = |mark: u64, word: u64| (mark ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        let [a, b, c, d, e, f] = self.authority;
        let first = u64::from_be_bytes([self.count, 0, a, b, c, d, e, f]);
        self.subs().iter().fold(mixed(0, first), |mark, sub| mixed(mark, u64::from(*sub)))
    }

    /// The packet form (MS-DTYP §2.4.2.2): revision, count, authority big-endian, sub-authorities little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![1, self.count];
        bytes.extend_from_slice(&self.authority);
        self.subs().iter().for_each(|sub| bytes.extend_from_slice(&sub.to_le_bytes()));
        bytes
    }

    /// Reads the packet form from the front of `bytes`; also returns the number of bytes read.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Sid, usize)> {
        let (&[1, count, a, b, c, d, e, f], rest) = bytes.split_first_chunk::<8>()? else { return None };
        if usize::from(count) > SUBS_MAX {
            return None;
        }
        let words = rest.get(..usize::from(count) * 4)?;
        let mut subs = [0; SUBS_MAX];
        for (sub, word) in subs.iter_mut().zip(words.chunks_exact(4)) {
            *sub = u32::from_le_bytes(word.try_into().ok()?);
        }
        Some((Sid { authority: [a, b, c, d, e, f], count, subs }, 8 + words.len()))
    }
}

impl Hash for Sid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The sub-authorities after `count` are always 0. So the hash does not need them. Hashing them would take most of the time.
        self.authority.hash(state);
        self.subs().hash(state);
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.authority;
        let authority = u64::from_be_bytes([0, 0, a, b, c, d, e, g]);
        f.write_str("S-1-")?;
        fmt::Display::fmt(&authority, f)?;
        self.subs().iter().try_for_each(|sub| f.write_str("-").and_then(|()| fmt::Display::fmt(sub, f)))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sid {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let parse = || {
            let mut parts = text.strip_prefix("S-1-")?.split('-');
            // Digits only: `str::parse` would accept a `+`, but each SID must have only one text form.
            let number = |part: &str| {
                let canonical =
                    part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
                canonical.then(|| part.parse::<u64>().ok()).flatten()
            };
            let authority = number(parts.next()?).filter(|n| *n < 1 << 48)?;
            let [_, _, authority @ ..] = authority.to_be_bytes();
            let (mut subs, mut count) = ([0; SUBS_MAX], 0u8);
            for part in parts {
                *subs.get_mut(usize::from(count))? = u32::try_from(number(part)?).ok()?;
                count += 1;
            }
            (count > 0).then_some(Sid { authority, count, subs })
        };
        parse().ok_or_else(|| {
            Malformed::new("SID", text, "expected S-1-<authority>-<number>…, as in S-1-5-21-1-2-3-1000")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_packet_form_read_back() {
        for text in ["S-1-1-0", "S-1-5-21-1-2-4294967295-1000", "S-1-5-32-544", "S-1-281474976710655-7"] {
            let sid: Sid = text.parse().unwrap();
            assert_eq!(sid.to_string(), text);
            assert_eq!(Sid::from_bytes(&sid.to_bytes()), Some((sid, sid.to_bytes().len())));
        }
        for text in
            ["", "S-1", "S-1-5", "S-1-5-", "S-2-5-1", "S-1-5-+1", "S-1-5-01", "S-1-5-4294967296", "s-1-5-1"]
        {
            assert!(text.parse::<Sid>().is_err(), "{text}");
        }
        assert_eq!(Sid::EVERYONE.to_bytes(), [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(Sid::from_bytes(&[1, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]), None);
    }
}
