//! Remembering pure steps.
//!
//! A memo key holds every input of the step, each with a tag and its length, through a digest whose key is random
//! per process. So an entry can never be asked for with another input, and there is nothing to invalidate.
//! The table is set-associative and bounded: a colliding neighbour can only push out an entry of its own set.

use crate::source::At;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::sync::{Mutex, PoisonError};

/// The key of the digest. Random, one per process, never written down.
#[derive(Clone, Copy)]
pub struct MemoSeed(pub [u8; 16]);

/// The digest of all inputs of a pure step, compared whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoKey(u128);

impl std::fmt::Debug for MemoKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoKey")
    }
}

/// Takes the inputs one after the other.
pub struct KeyMaker(SipHasher24);

impl KeyMaker {
    /// For the step called `step`.
    pub fn new(seed: &MemoSeed, step: &'static str) -> Self {
        KeyMaker(SipHasher24::new_with_key(&seed.0)).bytes(step.as_bytes())
    }
    /// An input of any length.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.write(&[1]);
        self.0.write(&(bytes.len() as u64).to_le_bytes());
        self.0.write(bytes);
        self
    }
    /// A number.
    #[must_use]
    pub fn number(mut self, n: u64) -> Self {
        self.0.write(&[2]);
        self.0.write(&n.to_le_bytes());
        self
    }
    /// Something that may be missing.
    #[must_use]
    pub fn maybe(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            None => self.number(0),
            Some(bytes) => self.number(1).bytes(bytes),
        }
    }
    /// A store at a revision.
    #[must_use]
    pub fn at(self, at: At) -> Self {
        self.bytes(&at.store.0.to_le_bytes()).number(at.revision.0)
    }
    /// The key.
    pub fn key(self) -> MemoKey {
        MemoKey(self.0.finish128().as_u128())
    }
}

const WAYS: usize = 4;

#[derive(Clone)]
struct Entry<V> {
    key: MemoKey,
    value: V,
    /// When it was last put, in the set's own count: the oldest goes first.
    age: u32,
}

struct Set<V> {
    count: u32,
    entries: [Option<Entry<V>>; WAYS],
}

/// A bounded table of remembered results.
pub struct Memo<V> {
    seed: MemoSeed,
    sets: Box<[Mutex<Set<V>>]>,
}

impl<V: Clone> Memo<V> {
    /// Room for about `entries` results (rounded up to a power of two, at least one set).
    pub fn new(seed: MemoSeed, entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS).max(1).next_power_of_two();
        let set = || Mutex::new(Set { count: 0, entries: [None, None, None, None] });
        Memo { seed, sets: (0..sets).map(|_| set()).collect() }
    }

    /// Starts a key for the step called `step`.
    pub fn key(&self, step: &'static str) -> KeyMaker {
        KeyMaker::new(&self.seed, step)
    }

    /// What is remembered.
    pub fn get(&self, key: MemoKey) -> Option<V> {
        let set = self.set(key).lock().unwrap_or_else(PoisonError::into_inner);
        set.entries.iter().flatten().find(|entry| entry.key == key).map(|entry| entry.value.clone())
    }

    /// Remembers.
    pub fn put(&self, key: MemoKey, value: V) {
        let mut set = self.set(key).lock().unwrap_or_else(PoisonError::into_inner);
        set.count = set.count.wrapping_add(1);
        let (count, entry) = (set.count, Entry { key, value, age: set.count });
        let age = |slot: &Option<Entry<V>>| match slot {
            Some(old) if old.key == entry.key => u32::MAX,
            None => u32::MAX - 1,
            Some(old) => count.wrapping_sub(old.age).min(u32::MAX - 2),
        };
        if let Some(slot) = set.entries.iter_mut().max_by_key(|slot| age(slot)) {
            *slot = Some(entry);
        }
    }

    fn set(&self, key: MemoKey) -> &Mutex<Set<V>> {
        // The low bits choose the set; `sets` is never empty and its length is a power of two.
        let index = (key.0 as usize) & (self.sets.len() - 1);
        #[expect(clippy::indexing_slicing, reason = "masked by the length above")]
        &self.sets[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memo(entries: usize) -> Memo<u32> {
        Memo::new(MemoSeed([7; 16]), entries)
    }

    #[test]
    fn remembers_under_the_whole_input() {
        let memo = memo(64);
        memo.put(memo.key("step").bytes(b"ab").bytes(b"c").key(), 1);
        assert_eq!(memo.get(memo.key("step").bytes(b"ab").bytes(b"c").key()), Some(1));
        for other in [
            memo.key("step").bytes(b"a").bytes(b"bc").key(),
            memo.key("step").bytes(b"abc").key(),
            memo.key("step").bytes(b"ab").bytes(b"c").number(0).key(),
            memo.key("other").bytes(b"ab").bytes(b"c").key(),
            Memo::<u32>::new(MemoSeed([8; 16]), 64).key("step").bytes(b"ab").bytes(b"c").key(),
        ] {
            assert_eq!(memo.get(other), None);
        }
    }

    #[test]
    fn is_bounded_and_the_oldest_of_a_set_goes_first() {
        let memo = memo(4);
        let key = |n| memo.key("n").number(n).key();
        for n in 0..5 {
            memo.put(key(n), n as u32);
        }
        assert_eq!(memo.get(key(0)), None);
        assert_eq!((1..5).filter_map(|n| memo.get(key(n))).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn putting_again_replaces() {
        let memo = memo(4);
        let key = memo.key("n").number(1).key();
        memo.put(key, 1);
        memo.put(key, 2);
        assert_eq!(memo.get(key), Some(2));
        assert_eq!(memo.sets[0].lock().unwrap().entries.iter().flatten().count(), 1);
    }
}
