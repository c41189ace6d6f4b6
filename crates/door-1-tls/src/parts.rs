//! The parts of the index from names to files, and the chunks of files. For many certificates, several cores share the work of making the parts.

use std::sync::Arc;

/// The index of names is divided into this number of parts. A change copies only the parts in which it changes an entry.
pub(crate) const PARTS: usize = 4096;
/// The number of files in a chunk. A chunk is copied when one of its files changes.
pub(crate) const CHUNK: usize = 256;
/// Work on at least this number of names is divided among several cores. For fewer names, one core is faster.
const SHARED_MIN: usize = 65_536;

/// The digest of a name or path, with the number of the file that has the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: u64,
    pub(crate) file: u32,
}

/// The entries of a part, sorted by digest.
pub(crate) type Part = Arc<[Entry]>;
pub(crate) type Chunk<T> = Arc<[Option<Arc<T>>]>;

/// The number of the part that contains this digest.
pub(crate) fn part_of(digest: u64) -> usize {
    (digest >> 52) as usize % PARTS
}

/// The entries of `part` with this digest.
pub(crate) fn entries(part: &[Entry], digest: u64) -> &[Entry] {
    let from = part.partition_point(|entry| entry.name < digest);
    let rest = part.get(from..).unwrap_or_default();
    let count = rest.iter().take_while(|entry| entry.name == digest).count();
    rest.get(..count).unwrap_or_default()
}

/// Makes all parts of the index. `names` gets a file and a function, and calls this function with the digest of each name of the file and of its
/// path. `count` is the number of all names.
///
/// Each core groups the names of some of the files by parts, and then makes some of the parts.
pub(crate) fn parts<T: Sync>(
    files: &[T],
    count: usize,
    names: impl Fn(&T, &mut dyn FnMut(u64)) + Sync,
) -> Vec<Part> {
    let cores = cores(count);
    let numbered: Vec<(u32, &T)> = (0..).zip(files).collect();
    let grouped = shared(&numbered, cores, |files| {
        // On average, a file has this many entries: its names and its path.
        let each = count.div_ceil(numbered.len().max(1)) + 1;
        let mut all = Vec::with_capacity(files.len() * each);
        for (number, file) in files {
            names(file, &mut |name| all.push(Entry { name, file: *number }));
        }
        vec![Grouped::of(&all)]
    });
    let all: Vec<usize> = (0..PARTS).collect();
    shared(&all, cores, |numbers| {
        // The vector is used again for each part, so that each part needs only one allocation.
        let mut part: Vec<Entry> = Vec::new();
        let whole = |number: &usize| {
            part.clear();
            grouped.iter().for_each(|grouped| part.extend_from_slice(grouped.part(*number)));
            part.sort_unstable_by_key(|entry| (entry.name, entry.file));
            Part::from(part.as_slice())
        };
        numbers.iter().map(whole).collect()
    })
}

/// The entries of some files, grouped by parts. One vector contains all entries: a vector for each part would need thousands of allocations, and a
/// thread that has just started gets new memory only in small steps.
struct Grouped {
    entries: Vec<Entry>,
    /// For each part, the position after its last entry.
    ends: Vec<usize>,
}

impl Grouped {
    fn of(all: &[Entry]) -> Self {
        let mut counts = vec![0_usize; PARTS];
        for entry in all {
            counts.get_mut(part_of(entry.name)).into_iter().for_each(|count| *count += 1);
        }
        // Each element is the position of the next entry of a part. After the last entry it is the end of the part.
        let mut ends = Vec::with_capacity(PARTS);
        let mut first = 0;
        for count in counts {
            ends.push(first);
            first += count;
        }
        let mut entries = all.to_vec();
        for entry in all {
            if let Some(next) = ends.get_mut(part_of(entry.name)) {
                entries.get_mut(*next).into_iter().for_each(|place| *place = *entry);
                *next += 1;
            }
        }
        Grouped { entries, ends }
    }

    fn part(&self, number: usize) -> &[Entry] {
        let end = |number: usize| self.ends.get(number).copied().unwrap_or_default();
        let from = number.checked_sub(1).map_or(0, end);
        self.entries.get(from..end(number)).unwrap_or_default()
    }
}

/// Divides the files into chunks.
pub(crate) fn chunks<T>(files: Vec<Arc<T>>) -> Vec<Chunk<T>> {
    let mut files = files.into_iter().map(Some);
    let next = || Some(files.by_ref().take(CHUNK).collect::<Chunk<T>>()).filter(|chunk| !chunk.is_empty());
    std::iter::from_fn(next).collect()
}

/// How many cores to use for `count` names.
fn cores(count: usize) -> usize {
    match count < SHARED_MIN {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Returns the result of a thread. If the thread panicked, the caller panics, too: without the result of the thread, the server would serve wrong
/// certificates.
fn joined<T>(one: std::thread::ScopedJoinHandle<'_, T>) -> T {
    one.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
}

/// Divides the items of `all` among `cores` threads, and calls `of` once on each thread. Returns the results in the order of the items.
fn shared<T: Sync, R: Send>(all: &[T], cores: usize, of: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    if cores < 2 {
        return of(all);
    }
    let share = all.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let of = &of;
        let running: Vec<_> = all.chunks(share).map(|share| scope.spawn(move || of(share))).collect();
        running.into_iter().flat_map(joined).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A digest that is equal to digests of other files, or a random digest.
    fn name() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), (0..8_u64).prop_map(|n| (n << 52) | (n % 3))]
    }

    proptest! {
        /// If `divided` is true, several cores share the work, as for many names. Otherwise, one core does the work, as for few names.
        #[test]
        fn each_part_has_exactly_its_entries_in_order(
            files in proptest::collection::vec(proptest::collection::vec(name(), 0..6), 0..300),
            divided: bool,
        ) {
            let count = if divided { SHARED_MIN } else { 0 };
            let mut expected: BTreeMap<usize, Vec<(u64, u32)>> = BTreeMap::new();
            for (file, names) in (0..).zip(&files) {
                names.iter().for_each(|name| expected.entry(part_of(*name)).or_default().push((*name, file)));
            }
            expected.values_mut().for_each(|part| part.sort_unstable());
            let parts = parts(&files, count, |names, found| names.iter().copied().for_each(found));
            prop_assert_eq!(parts.len(), PARTS);
            for (number, part) in parts.iter().enumerate() {
                let found: Vec<(u64, u32)> = part.iter().map(|entry| (entry.name, entry.file)).collect();
                prop_assert_eq!(found, expected.remove(&number).unwrap_or_default());
            }
        }
    }
}
