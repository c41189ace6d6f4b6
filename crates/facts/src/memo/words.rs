//! The memo for results that fit into one word of 64 bits.

use super::{KeyMaker, MemoKey, MemoSeed, WAYS, sets_in};
use crate::vocabulary::AccessMask;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A result that can be stored as one word.
pub trait Word: Copy {
    /// Converts the result to a word. Equal results have equal words.
    fn to_word(self) -> u64;
    /// Converts a word back to the result.
    fn from_word(word: u64) -> Self;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(word: u64) -> Self {
        word
    }
}

impl Word for bool {
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> Self {
        word != 0
    }
}

impl Word for AccessMask {
    fn to_word(self) -> u64 {
        u64::from(self.0)
    }
    fn from_word(word: u64) -> Self {
        AccessMask(word as u32)
    }
}

/// A bounded table of remembered words.
pub struct WordMemo<V> {
    seed: MemoSeed,
    table: Table<AtomicU64>,
    values: std::marker::PhantomData<fn() -> V>,
}

impl<V: Word> WordMemo<V> {
    /// A memo of at most `bytes` bytes. If `bytes` is smaller than one set, the memo has one set nevertheless.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        let set = size_of::<[Entry<AtomicU64>; WAYS]>();
        WordMemo { seed, table: Table::new(sets_in(bytes, set)), values: std::marker::PhantomData }
    }

    /// Starts a key for the pure function that the name `step` identifies.
    pub fn key(&self, step: &'static str) -> KeyMaker {
        KeyMaker::new(&self.seed, step)
    }

    /// The remembered result, if any.
    pub fn get(&self, key: MemoKey) -> Option<V> {
        self.table.get(key.0).map(V::from_word)
    }

    /// The remembered results of many keys. Two words of every set are read first, and then the entries, so that the CPU handles the cache misses in
    /// parallel.
    pub fn get_all(&self, keys: &[MemoKey]) -> Vec<Option<V>> {
        self.touch(keys.iter().copied());
        keys.iter().map(|key| self.get(*key)).collect()
    }

    /// Remembers many results. First reads two words of every set, as [`WordMemo::get_all`] does.
    pub fn put_all(&self, each: &[(MemoKey, V)]) {
        self.touch(each.iter().map(|(key, _)| *key));
        each.iter().for_each(|(key, value)| self.put(*key, *value));
    }

    fn touch(&self, keys: impl Iterator<Item = MemoKey>) {
        std::hint::black_box(keys.fold(0, |touched, key| touched ^ self.table.touch(key.0)));
    }

    /// Remembers a result.
    pub fn put(&self, key: MemoKey, value: V) {
        self.table.put(key.0, value.to_word());
    }
}

/// An atomic word. In tests, it can also be the atomic word of a model checker.
trait Atomic {
    fn new(word: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, word: u64);
}

impl Atomic for AtomicU64 {
    fn new(word: u64) -> Self {
        AtomicU64::new(word)
    }
    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
    fn store(&self, word: u64) {
        self.store(word, Ordering::Relaxed);
    }
}

/// Three words: the two halves of the key, each mixed with the value, and the value. A reader may get some words from before a write and some words
/// from after the write. Practically no lookup has a key that matches such a combination of words, so the entry is not found. That is why the loads
/// and stores of the three words need no memory order.
struct Entry<A>([A; 3]);

impl<A: Atomic> Entry<A> {
    fn new() -> Self {
        // An entry with the key 0 and the value 0 would look empty. A digest is practically never 0.
        Entry([A::new(0), A::new(0), A::new(0)])
    }

    /// The value, if the entry has this key.
    fn get(&self, key: u128) -> Option<u64> {
        let value = self.0[2].load();
        let [low, high] = mixed(key, value);
        (self.0[0].load() == low && self.0[1].load() == high && key != 0).then_some(value)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load() == 0)
    }

    fn put(&self, key: u128, value: u64) {
        let [low, high] = mixed(key, value);
        self.0[0].store(low);
        self.0[1].store(high);
        self.0[2].store(value);
    }
}

/// Mixes the value into both halves of the key, in different ways. The multiplier is odd, so no two values have the same product.
fn mixed(key: u128, value: u64) -> [u64; 2] {
    [key as u64 ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15), (key >> 64) as u64 ^ value.rotate_left(32)]
}

struct Table<A> {
    sets: Box<[[Entry<A>; WAYS]]>,
    /// A counter that chooses the entry to replace in a full set.
    turn: AtomicUsize,
}

impl<A: Atomic> Table<A> {
    fn new(sets: usize) -> Self {
        let set = || std::array::from_fn(|_| Entry::new());
        Table { sets: (0..sets).map(|_| set()).collect(), turn: AtomicUsize::new(0) }
    }

    fn set(&self, key: u128) -> &[Entry<A>; WAYS] {
        // `sets` is never empty and its length is a power of two.
        let index = (key as usize) & (self.sets.len() - 1);
        #[expect(clippy::indexing_slicing, reason = "the mask keeps the index below the number of sets")]
        &self.sets[index]
    }

    /// Reads a word of the first and a word of the last entry of a set, which are in two cache lines.
    fn touch(&self, key: u128) -> u64 {
        let [first, .., last] = self.set(key);
        first.0[0].load() ^ last.0[2].load()
    }

    fn get(&self, key: u128) -> Option<u64> {
        self.set(key).iter().find_map(|entry| entry.get(key))
    }

    fn put(&self, key: u128, value: u64) {
        let set = self.set(key);
        let same = set.iter().find(|entry| entry.get(key).is_some());
        let entry = same.or_else(|| set.iter().find(|entry| entry.is_empty())).or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % WAYS;
            set.get(turn)
        });
        if let Some(entry) = entry {
            entry.put(key, value);
        }
    }
}

/// Overwrites all words, because some results are about secrets.
impl<V> Drop for WordMemo<V> {
    fn drop(&mut self) {
        for entry in self.table.sets.iter().flatten() {
            entry.0.iter().for_each(|word| Atomic::store(word, 0));
        }
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Atomic for loom::sync::atomic::AtomicU64 {
        fn new(word: u64) -> Self {
            Self::new(word)
        }
        fn load(&self) -> u64 {
            self.load(Ordering::Relaxed)
        }
        fn store(&self, word: u64) {
            self.store(word, Ordering::Relaxed);
        }
    }

    type Modelled = Table<loom::sync::atomic::AtomicU64>;

    const KEYS: [u128; 2] = [(7 << 64) | 5, (9 << 64) | 11];

    type ModelledEntry = Entry<loom::sync::atomic::AtomicU64>;

    fn check(entry: &ModelledEntry) {
        for key in KEYS {
            assert!(entry.get(key).is_none_or(|value| value == key as u64 * 3));
        }
    }

    /// A reader reads an entry while a writer overwrites the entry. In every order of the loads and stores, the reader finds the value of its key, or
    /// nothing.
    #[test]
    fn no_order_of_loads_and_stores_gives_the_value_of_another_key() {
        loom::model(|| {
            let entry = loom::sync::Arc::new(ModelledEntry::new());
            entry.put(KEYS[0], KEYS[0] as u64 * 3);
            let written = loom::sync::Arc::clone(&entry);
            let writer = loom::thread::spawn(move || written.put(KEYS[1], KEYS[1] as u64 * 3));
            check(&entry);
            writer.join().unwrap();
            assert_eq!(KEYS.map(|key| entry.get(key)), [None, Some(33)]);
        });
    }

    /// Two writers write one entry at the same time. Afterwards the entry has the value of one of the writers, or no value.
    #[test]
    fn no_order_of_two_writers_leaves_a_value_under_another_key() {
        loom::model(|| {
            let entry = loom::sync::Arc::new(ModelledEntry::new());
            let writers = KEYS.map(|key| {
                let entry = loom::sync::Arc::clone(&entry);
                loom::thread::spawn(move || entry.put(key, key as u64 * 3))
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            check(&entry);
        });
    }

    /// If the value is not mixed into the key, a reader finds the wrong value. This proves that the tests above can fail.
    #[test]
    #[should_panic(expected = "the value of another key")]
    fn an_entry_whose_words_do_not_vouch_for_each_other_is_found_out() {
        loom::model(|| {
            let words: [loom::sync::atomic::AtomicU64; 2] = [Atomic::new(0), Atomic::new(0)];
            let entry = loom::sync::Arc::new(words);
            let writers = KEYS.map(|key| {
                let entry = loom::sync::Arc::clone(&entry);
                loom::thread::spawn(move || {
                    Atomic::store(&entry[0], key as u64);
                    Atomic::store(&entry[1], key as u64 * 3);
                })
            });
            let (key, value) = (Atomic::load(&entry[0]), Atomic::load(&entry[1]));
            assert!(key == 0 || value == 0 || value == key * 3, "the value of another key");
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
    }

    #[test]
    fn a_set_that_is_full_loses_one_entry_for_each_new_one() {
        loom::model(|| {
            let table = Modelled::new(1);
            let keys: Vec<u128> = (1..=5).map(|n| (n << 64) | n).collect();
            keys.iter().for_each(|key| table.put(*key, *key as u64));
            let kept: Vec<u64> = keys.iter().filter_map(|key| table.get(*key)).collect();
            assert_eq!(kept, [2, 3, 4, 5]);
            table.put(keys[4], 9);
            assert_eq!((table.get(keys[4]), table.get(keys[3])), (Some(9), Some(4)));
        });
    }
}
