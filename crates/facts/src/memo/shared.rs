//! The memo for results that do not fit into a word. Each entry is behind a pointer.

use super::{KeyMaker, MemoKey, MemoSeed, WAYS, sets_in};
use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A result that can report how much memory it takes on the heap.
pub trait Weigh {
    /// The bytes that the result takes on the heap, in addition to its own size.
    fn heap_bytes(&self) -> usize;
}

/// An entry is written once, then only read, and replaced as a whole. The fields are in this order so that a lookup reads only one cache line of the
/// entry: the cache line that also contains the reference count.
#[repr(C)]
struct Entry<V> {
    key: MemoKey,
    value: V,
    /// The position of the entry in the order in which entries were stored in its set. The oldest entry is replaced first.
    age: u32,
    bytes: usize,
}

/// A result, shared with the memo. The result stays valid when the memo drops the entry.
pub struct Held<V>(Arc<Entry<V>>);

impl<V> Held<V> {
    /// A result that is in no memo.
    pub fn new(value: V) -> Self {
        Held(Arc::new(Entry { key: MemoKey::default(), value, age: 0, bytes: 0 }))
    }
}

impl<V> Clone for Held<V> {
    fn clone(&self) -> Self {
        Held(Arc::clone(&self.0))
    }
}

impl<V> std::ops::Deref for Held<V> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.0.value
    }
}

impl<V: std::fmt::Debug> std::fmt::Debug for Held<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        V::fmt(self, f)
    }
}

impl<V> Drop for Entry<V> {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.key.0);
    }
}

/// A set is one cache line: its tags, and the pointers to its entries.
#[repr(align(64))]
struct Set<V> {
    /// The high half of each entry's key, so that a lookup reads only the matching entry. Two keys can have the same tag, so the lookup also compares
    /// the key in the entry.
    tags: [AtomicU64; WAYS],
    entries: [ArcSwapOption<Entry<V>>; WAYS],
}

/// A bounded table of remembered results.
pub struct Memo<V> {
    seed: MemoSeed,
    sets: Box<[Set<V>]>,
    /// The number of puts into each set.
    counts: Box<[AtomicU32]>,
    bytes_max: usize,
    bytes: AtomicUsize,
    /// The set that is emptied next when the results take too many bytes.
    hand: AtomicUsize,
}

impl<V: Weigh> Memo<V> {
    /// A memo of at most `bytes`, including the heap memory of the results.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        // There is about one set for each entry that fits into the memory, and each set has room for four entries. So a set is seldom full. A set
        // takes less memory than an entry.
        let sets = sets_in(bytes, set_bytes::<V>() + entry_bytes::<V>());
        let bytes_max = bytes.saturating_sub(sets * set_bytes::<V>());
        let set = || Set::<V> {
            tags: Default::default(),
            entries: std::array::from_fn(|_| ArcSwapOption::empty()),
        };
        let sets: Box<[Set<V>]> = (0..sets).map(|_| set()).collect();
        let counts = sets.iter().map(|_| AtomicU32::new(0)).collect();
        Memo { seed, sets, counts, bytes_max, bytes: AtomicUsize::new(0), hand: AtomicUsize::new(0) }
    }

    /// Starts a key for the pure function that the name `step` identifies.
    pub fn key(&self, step: &'static str) -> KeyMaker {
        KeyMaker::new(&self.seed, step)
    }

    /// The remembered result, if any.
    pub fn get(&self, key: MemoKey) -> Option<Held<V>> {
        let (set, _) = self.set(key);
        set.tags
            .iter()
            .zip(&set.entries)
            .filter(|(tag, _)| tag.load(Ordering::Relaxed) == tag_of(key))
            .find_map(|(_, entry)| {
                entry.load().as_ref().filter(|entry| entry.key == key).map(|entry| Held(Arc::clone(entry)))
            })
    }

    /// Remembers a result.
    pub fn put(&self, key: MemoKey, value: V) -> Held<V> {
        let (set, count) = self.set(key);
        let age = count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let bytes = entry_bytes::<V>() + value.heap_bytes();
        let entry = Arc::new(Entry { key, value, age, bytes });
        let rank = |slot: &ArcSwapOption<Entry<V>>| match &*slot.load() {
            Some(old) if old.key == key => u32::MAX,
            None => u32::MAX - 1,
            Some(old) => age.wrapping_sub(old.age).min(u32::MAX - 2),
        };
        let slot = set.tags.iter().zip(&set.entries).max_by_key(|(_, slot)| rank(slot));
        if let Some((tag, slot)) = slot {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.forget(slot.swap(Some(Arc::clone(&entry))));
            tag.store(tag_of(key), Ordering::Relaxed);
        }
        // Results differ in size, so a few large results can exceed the limit in bytes. So the entries of the next sets are dropped until the results
        // fit.
        while self.bytes_max < self.bytes.load(Ordering::Relaxed) {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) & (self.sets.len() - 1);
            let slots = self.sets.get(hand).into_iter().flat_map(|set| &set.entries);
            // Most slots are empty, and a swap is expensive, so only full slots are swapped.
            let full = slots.filter(|slot| slot.load().is_some());
            full.for_each(|slot| self.forget(slot.swap(None)));
        }
        Held(entry)
    }

    fn forget(&self, entry: Option<Arc<Entry<V>>>) {
        if let Some(entry) = entry {
            self.bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
        }
    }

    /// The approximate number of bytes that the results take.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn set(&self, key: MemoKey) -> (&Set<V>, &AtomicU32) {
        // The low bits choose the set; `sets` is never empty and its length is a power of two.
        let index = (key.0 as usize) & (self.sets.len() - 1);
        #[expect(clippy::indexing_slicing, reason = "the mask keeps the index below the number of sets")]
        (&self.sets[index], &self.counts[index])
    }
}

fn set_bytes<V>() -> usize {
    size_of::<Set<V>>() + size_of::<AtomicU32>()
}

/// The size of an entry with the two reference counts of its `Arc`.
fn entry_bytes<V>() -> usize {
    size_of::<Entry<V>>() + 2 * size_of::<usize>()
}

fn tag_of(key: MemoKey) -> u64 {
    (key.0 >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for u32 {
        fn heap_bytes(&self) -> usize {
            0
        }
    }

    impl Weigh for Vec<u8> {
        fn heap_bytes(&self) -> usize {
            self.len()
        }
    }

    fn memo(bytes: usize) -> Memo<u32> {
        Memo::new(MemoSeed([7; 16]), bytes)
    }

    fn get(memo: &Memo<u32>, key: MemoKey) -> Option<u32> {
        memo.get(key).map(|held| *held)
    }

    #[test]
    fn remembers_under_the_whole_input() {
        let memo = memo(1 << 16);
        memo.put(memo.key("step").bytes(b"ab").bytes(b"c").key(), 1);
        assert_eq!(get(&memo, memo.key("step").bytes(b"ab").bytes(b"c").key()), Some(1));
        for other in [
            memo.key("step").bytes(b"a").bytes(b"bc").key(),
            memo.key("step").bytes(b"abc").key(),
            memo.key("step").bytes(b"ab").bytes(b"c").number(0).key(),
            memo.key("other").bytes(b"ab").bytes(b"c").key(),
            Memo::<u32>::new(MemoSeed([8; 16]), 64).key("step").bytes(b"ab").bytes(b"c").key(),
        ] {
            assert_eq!(get(&memo, other), None);
        }
    }

    #[test]
    fn is_bounded_and_the_oldest_of_a_set_goes_first() {
        let memo = memo(1 << 16);
        let key = |n| memo.key("n").number(n).key();
        let first_set = |key: &MemoKey| key.low_bits() & (memo.sets.len() - 1) == 0;
        let keys: Vec<MemoKey> = (0..).map(key).filter(first_set).take(5).collect();
        for (key, n) in keys.iter().zip(0..) {
            memo.put(*key, n);
        }
        assert_eq!(get(&memo, keys[0]), None);
        assert_eq!(keys[1..].iter().filter_map(|key| get(&memo, *key)).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn putting_again_replaces() {
        let memo = memo(1 << 16);
        let key = memo.key("n").number(1).key();
        memo.put(key, 1);
        let bytes = memo.bytes();
        memo.put(key, 2);
        assert_eq!((get(&memo, key), memo.bytes()), (Some(2), bytes));
    }

    #[test]
    fn large_results_do_not_take_more_than_their_bytes() {
        let memo = Memo::<Vec<u8>>::new(MemoSeed([7; 16]), 1 << 20);
        let key = |n| memo.key("n").number(n).key();
        for n in 0..100 {
            memo.put(key(n), vec![0; 100_000]);
            assert!(memo.bytes() <= 1 << 20, "{}", memo.bytes());
        }
        memo.put(key(7), vec![0; 2 << 20]);
        assert!(memo.bytes() <= 1 << 20);
        let kept = (0..100).filter(|n| memo.get(key(*n)).is_some()).count();
        assert!(kept < 11, "{kept}");
        memo.put(key(1), vec![1]);
        assert_eq!(memo.get(key(1)).as_deref(), Some(&vec![1]));
    }

    #[test]
    fn threads_that_put_and_get_at_once_see_whole_results_of_their_own_key() {
        let memo = Memo::<Vec<u8>>::new(MemoSeed([7; 16]), 1 << 10);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000u64 {
                        let n = round % 13;
                        let key = memo.key("n").number(n).key();
                        match memo.get(key) {
                            Some(value) => assert_eq!(*value, [n as u8; 20]),
                            None => drop(memo.put(key, vec![n as u8; 20])),
                        }
                    }
                });
            }
        });
    }
}
