//! For each API token: the time of its last use, and the address of the client.
//!
//! ```text
//! credential id 16 | address 16 (IPv6, or IPv4 mapped) | seconds since the epoch i64 | checksum u64      for each slot
//! ```
//! The id of a token selects four slots, and the last use of the token is stored in one of them. If all four slots are in use, the slot with the
//! oldest use is overwritten.

use super::slots::Slots;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_facts::{Clocks, MemoSeed, WordMemo};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// The size of a slot, in bytes. If every slot is used, the file is 12 MiB long.
const SLOT_BYTES: usize = 48;
/// The length of a period in milliseconds. In each period, at most one use of a token is written.
const STEP_MILLIS: u64 = 60_000;
/// The size of the memo of recently recorded tokens, in bytes. It is enough for about 200,000 tokens.
const RECENT_BYTES: usize = 8 << 20;

/// The file of last uses.
pub struct LastUsed {
    slots: Slots<SLOT_BYTES>,
    /// For each token, the minute in which a use was last written. Because of this field, most uses need only a lookup in memory.
    recent: WordMemo<u64>,
}

/// A use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The time of the use, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The address of the client.
    pub from: IpAddr,
}

impl LastUsed {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// When the file cannot be opened or created.
    pub fn open(path: &Path, seed: MemoSeed) -> io::Result<Self> {
        let slots = Slots::open(path, "last used")?;
        Ok(LastUsed { slots, recent: WordMemo::new(seed, RECENT_BYTES) })
    }

    /// Records a use, at most once a minute for each token. An error of the disk is ignored.
    pub fn note(&self, credential: &CredentialId, from: IpAddr, now: Clocks) {
        let key = self.recent.key("used").bytes(credential.bytes()).key();
        let minute = now.tick_millis / STEP_MILLIS + 1;
        if self.recent.get(key) == Some(minute) {
            return;
        }
        self.recent.put(key, minute);
        let ways = self.set(credential).into_iter().enumerate();
        let rank = |slot: &Option<(CredentialId, Use)>| match slot {
            Some((of, _)) if of == credential => i64::MIN,
            None => i64::MIN + 1,
            Some((_, used)) => used.unix_seconds,
        };
        if let Some((way, _)) = ways.min_by_key(|(_, slot)| rank(slot)) {
            let used = Use { unix_seconds: now.unix_seconds, from };
            self.slots.put(place(credential), way, &encode(credential, used));
        }
    }

    /// The last use of a token; `None` if no use is stored.
    pub fn of(&self, credential: &CredentialId) -> Option<Use> {
        let mut ways = self.set(credential).into_iter().flatten();
        ways.find(|(of, _)| of == credential).map(|(_, used)| used)
    }

    /// The four slots in which the last use of the token may be stored.
    fn set(&self, credential: &CredentialId) -> [Option<(CredentialId, Use)>; 4] {
        self.slots.set(place(credential)).map(|slot| decode(&slot?))
    }
}

/// The number of the group of four slots in which the last use of a token may be stored. Ids are random, so their first two bytes distribute the
/// tokens evenly.
fn place(credential: &CredentialId) -> u16 {
    let [a, b, ..] = *credential.bytes();
    u16::from_be_bytes([a, b])
}

fn encode(credential: &CredentialId, used: Use) -> Vec<u8> {
    let address = match used.from {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    [credential.bytes().as_slice(), &address.octets(), &used.unix_seconds.to_be_bytes()].concat()
}

fn decode(slot: &[u8; SLOT_BYTES]) -> Option<(CredentialId, Use)> {
    let (id, rest) = slot.split_first_chunk::<16>()?;
    let (address, rest) = rest.split_first_chunk::<16>()?;
    let unix_seconds = i64::from_be_bytes(*rest.first_chunk()?);
    let from = IpAddr::V6(Ipv6Addr::from(*address)).to_canonical();
    Some((CredentialId::from_bytes(*id), Use { unix_seconds, from }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use enfilade_facts::MirrorHealth;
    use std::os::unix::fs::FileExt;

    fn now(minutes: u64) -> Clocks {
        Clocks {
            unix_seconds: 1000 + minutes as i64 * 60,
            tick_millis: minutes * STEP_MILLIS,
            mirror: MirrorHealth::Current,
        }
    }

    fn id(n: u8) -> CredentialId {
        // The first two bytes are equal, so all tokens use the same four slots.
        let mut bytes = [7; 16];
        bytes[15] = n;
        CredentialId::from_bytes(bytes)
    }

    #[test]
    fn the_last_use_is_seen_by_every_process_and_written_once_a_minute() {
        let scratch = Scratch::new();
        let path = scratch.path().join("last-used");
        let open = || LastUsed::open(&path, MemoSeed([1; 16])).unwrap();
        let (one, other) = (open(), open());
        let (here, there): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), "2001:db8::1".parse().unwrap());
        assert_eq!(other.of(&id(1)), None);
        one.note(&id(1), here, now(0));
        assert_eq!(other.of(&id(1)), Some(Use { unix_seconds: 1000, from: here }));
        one.note(&id(1), there, now(0));
        assert_eq!(other.of(&id(1)).unwrap().from, here, "less than a minute later");
        one.note(&id(1), there, now(1));
        assert_eq!(other.of(&id(1)), Some(Use { unix_seconds: 1060, from: there }));
    }

    #[test]
    fn of_five_in_one_place_the_one_used_longest_ago_gives_way() {
        let scratch = Scratch::new();
        let used = LastUsed::open(&scratch.path().join("last-used"), MemoSeed([1; 16])).unwrap();
        for n in 0..5 {
            used.note(&id(n), [192, 0, 2, n].into(), now(u64::from(n)));
        }
        let known: Vec<bool> = (0..5).map(|n| used.of(&id(n)).is_some()).collect();
        assert_eq!(known, [false, true, true, true, true]);
    }

    #[test]
    fn a_slot_that_was_written_half_says_nothing() {
        let scratch = Scratch::new();
        let path = scratch.path().join("last-used");
        let used = LastUsed::open(&path, MemoSeed([1; 16])).unwrap();
        used.note(&id(1), [192, 0, 2, 1].into(), now(0));
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let begin = u64::from(place(&id(1))) * 4 * SLOT_BYTES as u64;
        for at in begin..begin + SLOT_BYTES as u64 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            assert_eq!(used.of(&id(1)), None, "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(used.of(&id(1)).is_some());
    }
}
