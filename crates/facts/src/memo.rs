//! Memos: tables of bounded size that cache the results of pure functions.
//!
//! A memo key is a digest of all inputs of the function. Each input is hashed with a tag and with its length. So a lookup with different inputs has a
//! different memo key, and no entry needs to be invalidated. The digest is keyed with a seed that is random per process ([`MemoSeed`]). The tables
//! are set-associative and bounded in bytes: a new entry can replace only an entry of its own set. A lookup takes no lock. [`WordMemo`] stores
//! results that fit into a word. The results are in the table itself, and a lookup writes to no shared memory. [`Memo`] stores other results. Each
//! result is behind a pointer, and a lookup writes only to the reference count of the entry that it finds.
//!
//! Measured (`bench/runs/2026-11-27-tokens-07bc8bb41c.json`, 100,000 entries, medians): a lookup takes 29 ns; with `dashmap` it takes 86 ns, with
//! `quick_cache` 102 ns, with `papaya` 131 ns. With two threads, a lookup takes 17 ns; with `dashmap` 86 ns, with `quick_cache` 87 ns, with `papaya`
//! 81 ns.

mod shared;
mod words;

pub use shared::{Held, Memo, Weigh};
pub use words::{Word, WordMemo};

use crate::revision::At;

/// The secret key of the hash function (SipHash) that computes memo keys. A memo gets a random seed when the process starts, and the seed is never
/// stored. Code that needs equal digests in all processes uses a constant seed.
#[derive(Clone, Copy)]
pub struct MemoSeed(pub [u8; 16]);

/// The digest of all inputs of a pure function: SipHash-1-3 with 128 bits, compared as a whole. No client ever sees the `MemoKey` of an entry of a
/// memo. If an attacker does not know the seed, the best known differential attack makes the internal states for two inputs equal with a probability
/// of 2^-167 (Dobraunig, Mendel, Schläffer 2014). This probability is less than 2^-128, the probability that two random digests are equal.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MemoKey(u128);

impl MemoKey {
    /// The key for the inputs of both keys: first the inputs of this key, then the inputs of `other`.
    #[must_use]
    pub fn and(self, other: MemoKey) -> Self {
        // Both keys are already pseudo-random. One key is rotated, so that the result depends on the order of the keys.
        MemoKey(self.0.rotate_left(1) ^ other.0)
    }

    /// The digest as bytes. If the seed is random, nobody outside this process can predict a choice that depends on these bytes.
    pub fn as_choice(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Bits that choose a position in a table.
    pub fn low_bits(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Debug for MemoKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoKey")
    }
}

/// Computes a memo key from the inputs, in the order in which they are added. The inputs are hashed as words. For each input, the first word contains
/// its tag and its length. The bytes of the input follow, padded with zeros. An input of fewer than eight bytes is stored in its first word, after
/// tag and length.
///
/// The digest is SipHash-1-3 of these words. This file computes the digest without a library. Most inputs are short, and a library that takes bytes
/// would spend most of its time on joining the bytes into words. Tests compare the digest with the digest of a library.
#[derive(Clone, Copy)]
pub struct KeyMaker {
    state: [u64; 4],
    words: u64,
}

impl KeyMaker {
    /// Starts a key for the pure function that the name `step` identifies.
    pub fn new(seed: &MemoSeed, step: &'static str) -> Self {
        let seed = u128::from_le_bytes(seed.0);
        let (low, high) = (seed as u64, (seed >> 64) as u64);
        // The initial state of SipHash is the text "somepseudorandomlygeneratedbytes" as four words. The constant 0xee selects a digest of 128 bits.
        let state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ];
        KeyMaker { state, words: 0 }.bytes(step.as_bytes())
    }

    /// Adds an input of any length. The function is always inlined, because a call would write the state to memory and read it back for every input.
    #[must_use]
    #[inline(always)]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let Some(last) = bytes.last_chunk::<8>() else {
            // Most names are short: a name of up to seven bytes is in the same word as its tag and its length.
            self.word(short_word(bytes) << 8 | (bytes.len() as u64) << 4 | 4);
            return self;
        };
        // Tag and length fit into one word, because no input has 2^56 bytes.
        self.word((bytes.len() as u64) << 8 | 1);
        let (whole, rest) = bytes.as_chunks::<8>();
        whole.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            // `last` holds the last eight bytes. The shift drops the bytes that are hashed already. So one load replaces a loop.
            self.word(u64::from_le_bytes(*last) >> (64 - 8 * rest.len()));
        }
        self
    }

    /// Adds a number.
    #[must_use]
    #[inline]
    pub fn number(mut self, n: u64) -> Self {
        self.word(2);
        self.word(n);
        self
    }

    /// Adds a list of numbers.
    #[must_use]
    #[inline]
    pub fn numbers(mut self, all: &[u64]) -> Self {
        self.word((all.len() as u64) << 8 | 3);
        all.iter().for_each(|n| self.word(*n));
        self
    }

    /// Adds an input that may be missing.
    #[must_use]
    #[inline]
    pub fn maybe(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            None => self.number(0),
            Some(bytes) => self.number(1).bytes(bytes),
        }
    }

    /// Adds a store and a revision.
    #[must_use]
    pub fn at(self, at: At) -> Self {
        self.bytes(&at.store.0.to_le_bytes()).number(at.revision.0)
    }

    /// The key.
    #[inline]
    pub fn key(mut self) -> MemoKey {
        self.word(self.words << 59);
        self.state[2] ^= 0xee;
        let low = self.finish();
        self.state[1] ^= 0xdd;
        let high = self.finish();
        MemoKey(u128::from(high) << 64 | u128::from(low))
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.state[3] ^= word;
        self.round();
        self.state[0] ^= word;
        self.words += 1;
    }

    #[inline]
    fn finish(&mut self) -> u64 {
        (0..3).for_each(|_| self.round());
        let [a, b, c, d] = self.state;
        a ^ b ^ c ^ d
    }

    #[inline]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.state;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.state = [a, b, c, d];
    }
}

/// Up to seven bytes as a little-endian number. For four to seven bytes, the function joins two loads of four bytes each. The loads can overlap,
/// because the overlapping bits are equal.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let shifted = |word: u64, from: usize| word << (8 * from);
    match (bytes, bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (_, Some(head), Some(tail)) => {
            u64::from(u32::from_le_bytes(*head))
                | shifted(u64::from(u32::from_le_bytes(*tail)), bytes.len() - 4)
        }
        ([a, b, c], ..) => u64::from(*a) | shifted(u64::from(*b), 1) | shifted(u64::from(*c), 2),
        ([a, b], ..) => u64::from(*a) | shifted(u64::from(*b), 1),
        ([a], ..) => u64::from(*a),
        _ => 0,
    }
}

/// The number of entries in a set. Keys with the same low bits share a set.
const WAYS: usize = 4;

/// The number of sets that fit into `bytes`: a power of two, at least one.
fn sets_in(bytes: usize, bytes_per_set: usize) -> usize {
    let sets = (bytes / bytes_per_set).max(1);
    // The greatest power of two that is at most `sets`.
    1 << (usize::BITS - 1 - sets.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip128::SipHasher13;

    proptest! {
        #[test]
        fn a_key_is_what_the_library_makes_of_the_same_words(
            seed: [u8; 16],
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
            n: u64,
            all in proptest::collection::vec(any::<u64>(), 0..5),
        ) {
            let mut key = KeyMaker::new(&MemoSeed(seed), "step");
            let mut words = Vec::new();
            let mut put = |part: &[u8]| {
                match part.len() {
                    len @ ..8 => words.push(len as u8 * 16 + 4),
                    len => words.extend((len as u64 * 256 + 1).to_le_bytes()),
                }
                words.extend(part);
                words.resize(words.len().next_multiple_of(8), 0);
            };
            put(b"step");
            for part in &parts {
                key = key.bytes(part);
                put(part);
            }
            words.extend(2_u64.to_le_bytes());
            words.extend(n.to_le_bytes());
            words.extend((all.len() as u64 * 256 + 3).to_le_bytes());
            words.extend(all.iter().flat_map(|n| n.to_le_bytes()));
            let expected = SipHasher13::new_with_key(&seed).hash(&words).as_u128();
            prop_assert_eq!(key.number(n).numbers(&all).key().0, expected);
        }
    }
}
