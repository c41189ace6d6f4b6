//! Remembering pure steps.
//!
//! A memo key holds every input of the step, each with a tag and its length, through a digest whose key is random
//! per process. So an entry can never be asked for with another input, and there is nothing to invalidate.
//! The tables are set-associative and bounded in bytes: a colliding neighbour can only push out an entry of its own set.
//! Reading takes no lock and writes nothing that other readers read. [`WordMemo`] holds what fits into a word, in place;
//! [`Memo`] holds anything else, behind a pointer.

mod shared;
mod words;

pub use shared::{Memo, Weigh};
pub use words::{Word, WordMemo};

use crate::source::At;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// The key of the digest. Random, one per process, never written down.
#[derive(Clone, Copy)]
pub struct MemoSeed(pub [u8; 16]);

/// The digest of all inputs of a pure step, compared whole.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MemoKey(u128);

impl MemoKey {
    /// Stands for this input and another one, in this order.
    #[must_use]
    pub fn and(self, other: MemoKey) -> Self {
        // Both are pseudo-random already; the order is kept by turning one.
        MemoKey(self.0.rotate_left(1) ^ other.0)
    }

    /// For choosing something else by it, in a way nobody outside this process can foresee.
    pub fn as_choice(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// For choosing a place in a table.
    pub fn low_bits(self) -> usize {
        self.0 as usize
    }
}

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

/// How many entries of equal low bits there can be at once.
const WAYS: usize = 4;

/// The number of sets that fit into so many bytes: a power of two, at least one.
fn sets_in(bytes: usize, bytes_per_set: usize) -> usize {
    let sets = (bytes / bytes_per_set).max(1);
    // The greatest power of two that is not more.
    1 << (usize::BITS - 1 - sets.leading_zeros())
}
