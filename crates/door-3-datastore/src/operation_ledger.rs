//! Counts the active operations of each datastore: its readers and writers in every process of the machine.
//!
//! An operation is counted first, and then reads the state of the datastore. A maintenance change is committed first, and then the ledger is read. So
//! the reader of the ledger finds every operation that did not see the change (`docs/freshness.md`, rule 5).
//!
//! Each process counts in its own memory-mapped file, which other processes can read. The kernel releases the lock of the file when the process ends,
//! even if the process was killed. When an operation begins, it adds itself to the count of its datastore; this fails if the datastore has no place
//! in the file yet and no place is left. When the operation ends, it subtracts itself from the count.
//!
//! ```text
//! word 0        magic and version; written last when the ledger is created
//! word 1        process id
//! word 2        when the process began, seconds since the epoch
//! word 3        the number of datastores that have a place
//! word 4        the revision that the process had read when it last closed the root directories of datastores without active operations
//! word 5        the number of shards
//! from 64       for each place four words: the name of the datastore, padded with zeros
//! after that    for each shard and place a cache line of eight words:
//!               word 0: the count of active readers in the low half, and of active writers in the high half
//!               word 1: the time when word 0 last rose from zero, in seconds since the epoch
//!               words 2 to 4: the numbers of lookups, reads and writes since the process began
//!               words 5 to 7: reserved
//! ```
//! Each place belongs to the same name until the process ends. Each thread counts in one of the shards, of which there are at most 16. Threads with
//! different shards do not share a cache line.

use crate::refuse::Refusal;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_facts::{Clocks, Revision};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory that one process writes, and that other processes can read.
pub trait LedgerWords: Send + Sync {
    /// The words of the memory. Every call returns the same number of words.
    fn words(&self) -> &[AtomicU64];
}

impl LedgerWords for Vec<AtomicU64> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// "enfops" and the version of this layout.
const MAGIC: u64 = u64::from_be_bytes(*b"enfops\x00\x02");
const HEADER_WORDS: usize = 64;
const NAME_WORDS: usize = 4;
/// The number of words for one shard and place: a cache line.
const SEAT_WORDS: usize = 8;

/// The numbers that determine the offsets of the parts of a ledger.
#[derive(Clone, Copy, Debug)]
struct Layout {
    places: usize,
    shards: usize,
}

impl Layout {
    fn words_for(self) -> usize {
        HEADER_WORDS + self.places * (NAME_WORDS + SEAT_WORDS * self.shards)
    }

    fn in_words(words: usize, shards: usize) -> Self {
        let places = words.saturating_sub(HEADER_WORDS) / (NAME_WORDS + SEAT_WORDS * shards);
        Layout { places, shards }
    }

    fn name(place: usize) -> usize {
        HEADER_WORDS + place * NAME_WORDS
    }

    fn count(self, shard: usize, place: usize) -> usize {
        HEADER_WORDS + self.places * NAME_WORDS + SEAT_WORDS * (shard * self.places + place)
    }

    fn since(self, shard: usize, place: usize) -> usize {
        self.count(shard, place) + 1
    }

    fn entered(self, shard: usize, place: usize, kind: OperationKind) -> usize {
        let word = match kind {
            OperationKind::Lookup => 2,
            OperationKind::Read => 3,
            OperationKind::Write => 4,
        };
        self.count(shard, place) + word
    }
}

/// The number of words of a ledger for `stores` datastores and `threads` threads.
pub fn ledger_words(stores: usize, threads: usize) -> usize {
    Layout { places: stores, shards: shards(threads) }.words_for()
}

const SHARDS_MAX: usize = 16;

fn shards(threads: usize) -> usize {
    threads.next_power_of_two().min(SHARDS_MAX)
}

/// The active operations of a datastore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Active {
    /// The number of running reads.
    pub readers: u64,
    /// The number of running writes.
    pub writers: u64,
    /// The time when the count of a shard last rose from zero, in seconds since the epoch. If several shards have running operations, this is the
    /// earliest of their times. So it is possible that all running operations began later.
    pub since: i64,
}

/// The number of operations on a datastore since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// Lookups.
    pub lookups: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// The content of the ledger of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub id: u32,
    /// When the process began, in seconds since the epoch.
    pub began: i64,
    /// The process last closed the root directories of datastores without active operations after it had read this revision.
    pub closed: Revision,
    /// The active operations of each datastore that has any.
    pub inside: Vec<(DatastoreName, Active)>,
}

/// Counts the active operations of this process.
pub struct Ledger {
    words: Arc<dyn LedgerWords>,
    layout: Layout,
    shards: Vec<Arc<Shard>>,
    places: Mutex<HashMap<DatastoreName, u32>>,
    everybody: Option<Everybody>,
}

/// Reads the ledgers of every process of the machine.
pub type Everybody = Arc<dyn Fn() -> Vec<Process> + Send + Sync>;

/// The number of the place where the operations on a datastore are counted, plus one; 0 before the first operation. The number is stored with the
/// datastore, so that the place is looked up only once.
#[derive(Default)]
pub struct LedgerSlot(AtomicU32);

/// The counters of one shard, for all datastores. The type is aligned, so that its reference count has its own cache lines.
#[repr(align(64))]
struct Shard {
    words: Arc<dyn LedgerWords>,
    layout: Layout,
    number: usize,
}

/// The guard of one counted operation. Dropping it ends the operation and cannot fail.
pub struct OperationGuard {
    shard: Arc<Shard>,
    place: u32,
    kind: OperationKind,
}

impl Ledger {
    /// Creates a ledger in this memory, which must contain only zeros.
    pub fn new(words: Arc<dyn LedgerWords>, process: u32, threads: usize, now: Clocks) -> Self {
        let shards = shards(threads);
        let layout = Layout::in_words(words.words().len(), shards);
        let header = [MAGIC, u64::from(process), now.unix_seconds as u64, 0, 0, shards as u64];
        // The magic is written last: without it the ledger is not valid for readers.
        for (word, value) in words.words().iter().take(header.len()).zip(header).rev() {
            word.store(value, Ordering::SeqCst);
        }
        let shard = |number| Arc::new(Shard { words: Arc::clone(&words), layout, number });
        let shards = (0..shards).map(shard).collect();
        Ledger { words, layout, shards, places: Mutex::default(), everybody: None }
    }

    /// Adds a function that reads the ledgers of all processes.
    #[must_use]
    pub fn with_processes(self, everybody: Everybody) -> Self {
        Ledger { everybody: Some(everybody), ..self }
    }

    /// Every known process, including this one.
    pub fn everybody(&self) -> Vec<Process> {
        match &self.everybody {
            Some(everybody) => everybody(),
            None => self.process().into_iter().collect(),
        }
    }

    /// Creates a ledger in memory of this process, for at most `stores` datastores.
    pub fn private(stores: usize, now: Clocks) -> Self {
        let words: Vec<_> = (0..ledger_words(stores, 1)).map(|_| AtomicU64::new(0)).collect();
        Self::new(Arc::new(words), 0, 1, now)
    }

    /// Counts an operation. After this call, the caller opens the view that is used to judge the datastore. Call this function only for datastores
    /// that exist, because every name gets a place.
    ///
    /// # Errors
    /// When no place is left for another datastore.
    pub fn enter(
        &self,
        name: &DatastoreName,
        place: &LedgerSlot,
        kind: OperationKind,
        now: Clocks,
    ) -> Result<OperationGuard, Refusal> {
        let place = match place.0.load(Ordering::Relaxed) {
            0 => self.find(name, place)?,
            known => known - 1,
        };
        let shard = SHARD.with(|shard| *shard) & self.shards.len().wrapping_sub(1);
        let shard = Arc::clone(self.shards.get(shard).ok_or(Refusal::LedgerFull(0))?);
        if let Some(count) = shard.count(place)
            && count.come_in(unit(kind)) == 0
            && let Some(since) = shard.since(place)
        {
            since.store(now.unix_seconds as u64, Ordering::Relaxed);
        }
        if let Some(entered) = shard.word(shard.layout.entered(shard.number, place as usize, kind)) {
            entered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(OperationGuard { shard, place, kind })
    }

    /// The place of a name. The first call for a name assigns the place.
    #[cold]
    fn find(&self, name: &DatastoreName, known: &LedgerSlot) -> Result<u32, Refusal> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(name) {
            known.0.store(place + 1, Ordering::Relaxed);
            return Ok(*place);
        }
        let (place, layout) = (places.len(), self.layout);
        let number = u32::try_from(place).unwrap_or(u32::MAX);
        if place >= layout.places || number == u32::MAX {
            return Err(Refusal::LedgerFull(layout.places));
        }
        let words = self.words.words();
        let bytes = padded(name);
        let name_words = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        for (word, value) in words.iter().skip(Layout::name(place)).zip(name_words) {
            word.store(value, Ordering::SeqCst);
        }
        // The number of places is written after the name, so a reader of the new number finds the name.
        words.iter().skip(3).take(1).for_each(|word| word.store(place as u64 + 1, Ordering::SeqCst));
        places.insert(name.clone(), number);
        known.0.store(number + 1, Ordering::Relaxed);
        Ok(number)
    }

    /// Records that this process closed the root directories of datastores without active operations after it had read this revision.
    pub fn closed_up_to(&self, revision: Revision) {
        self.words.words().iter().skip(4).take(1).for_each(|word| word.store(revision.0, Ordering::SeqCst));
    }

    /// The active operations of this process on a datastore.
    pub fn active(&self, name: &DatastoreName) -> Active {
        let inside = self.process().map(|process| process.inside).unwrap_or_default();
        inside.into_iter().find(|(of, _)| of == name).map_or_else(Active::default, |(_, active)| active)
    }

    /// The number of operations of this process on each datastore.
    pub fn entered(&self) -> Vec<(DatastoreName, Entered)> {
        let places: Vec<_> = {
            let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.iter().map(|(name, place)| (name.clone(), *place as usize)).collect()
        };
        let total = |place: usize, kind| {
            let words = self.shards.iter().map(|shard| shard.layout.entered(shard.number, place, kind));
            let words = words.filter_map(|at| self.words.words().get(at));
            words.map(|word| word.load(Ordering::Relaxed)).sum()
        };
        let of_place = |place| Entered {
            lookups: total(place, OperationKind::Lookup),
            reads: total(place, OperationKind::Read),
            writes: total(place, OperationKind::Write),
        };
        places.into_iter().map(|(name, place)| (name, of_place(place))).collect()
    }

    /// The content of this process's ledger, as other processes read it.
    pub fn process(&self) -> Option<Process> {
        let words = self.words.words();
        Process::read(words.len(), |at| words.get(at).map_or(0, Count::look))
    }
}

impl Process {
    /// Reads a ledger; `None` if the memory contains no complete ledger of this layout. If called after a commit that closes a datastore, the result
    /// contains every running read and write that did not see the commit.
    pub fn read(words: usize, word: impl Fn(usize) -> u64) -> Option<Self> {
        fence(Ordering::SeqCst);
        let header: [u64; 6] = std::array::from_fn(&word);
        let [magic, id, began, count, closed, shards] = header;
        let shards = usize::try_from(shards).ok().filter(|shards| (1..=SHARDS_MAX).contains(shards))?;
        let layout = Layout::in_words(words, shards);
        let count = usize::try_from(count).ok().filter(|count| magic == MAGIC && *count <= layout.places)?;
        let store = |place: usize| -> Option<(DatastoreName, Active)> {
            let mut active = Active::default();
            for shard in 0..layout.shards {
                let count = word(layout.count(shard, place));
                if count == 0 {
                    continue;
                }
                active.readers += count & 0xffff_ffff;
                active.writers += count >> 32;
                let since = word(layout.since(shard, place)) as i64;
                active.since = if active.since == 0 { since } else { active.since.min(since) };
            }
            (active.readers + active.writers > 0).then(|| name_at(&word, place)).flatten().zip(Some(active))
        };
        Some(Process {
            id: u32::try_from(id).ok()?,
            began: began as i64,
            closed: Revision(closed),
            inside: (0..count).filter_map(store).collect(),
        })
    }
}

fn padded(name: &DatastoreName) -> [u8; NAME_WORDS * 8] {
    let mut bytes = [0; NAME_WORDS * 8];
    bytes.iter_mut().zip(name.as_str().bytes()).for_each(|(place, byte)| *place = byte);
    bytes
}

fn name_at(word: &impl Fn(usize) -> u64, place: usize) -> Option<DatastoreName> {
    let begin = Layout::name(place);
    let bytes: Vec<u8> = (begin..begin + NAME_WORDS).flat_map(|at| word(at).to_le_bytes()).collect();
    let text = bytes.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

thread_local! {
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// The three steps on a count: an operation begins, an operation ends, and a waiting process reads the count. The steps are the methods of a trait,
/// so that a model checker can try every order of them.
trait Count {
    /// Adds an operation to the count, before the operation reads anything. Returns the count before the addition.
    fn come_in(&self, unit: u64) -> u64;
    /// Subtracts an operation from the count, after all other work of the operation.
    fn go(&self, unit: u64);
    /// Reads the count. The read comes after all earlier work of the caller.
    fn look(&self) -> u64;
}

macro_rules! count {
    ($word:ty, $fence:path) => {
        impl Count for $word {
            fn come_in(&self, unit: u64) -> u64 {
                let before = self.fetch_add(unit, Ordering::SeqCst);
                $fence(Ordering::SeqCst);
                before
            }
            fn go(&self, unit: u64) {
                self.fetch_sub(unit, Ordering::SeqCst);
            }
            fn look(&self) -> u64 {
                $fence(Ordering::SeqCst);
                self.load(Ordering::SeqCst)
            }
        }
    };
}
count!(AtomicU64, fence);

impl Clone for LedgerSlot {
    fn clone(&self) -> Self {
        LedgerSlot(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

/// The amount that one operation adds to the count. A lookup adds 0, because no process waits for the end of a lookup.
fn unit(kind: OperationKind) -> u64 {
    match kind {
        OperationKind::Lookup => 0,
        OperationKind::Read => 1,
        OperationKind::Write => 1 << 32,
    }
}

impl Shard {
    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.words.words().get(at)
    }

    fn count(&self, place: u32) -> Option<&AtomicU64> {
        self.word(self.layout.count(self.number, place as usize))
    }

    fn since(&self, place: u32) -> Option<&AtomicU64> {
        self.word(self.layout.since(self.number, place as usize))
    }
}

impl Clone for OperationGuard {
    /// Counts one more operation of the same kind on the same datastore.
    fn clone(&self) -> Self {
        if let Some(count) = self.shard.count(self.place) {
            count.come_in(unit(self.kind));
        }
        OperationGuard { shard: Arc::clone(&self.shard), place: self.place, kind: self.kind }
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        if let Some(count) = self.shard.count(self.place) {
            count.go(unit(self.kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    const NOW: Clocks = Clocks { unix_seconds: 1_000, tick_millis: 0, mirror: MirrorHealth::Current };

    fn name(text: &str) -> DatastoreName {
        text.parse().unwrap()
    }

    #[test]
    fn counts_readers_and_writers_until_they_leave() {
        let ledger = Ledger::private(8, NOW);
        let enter =
            |store: &str, kind| ledger.enter(&name(store), &LedgerSlot::default(), kind, NOW).unwrap();
        let _lookup = enter("tank", OperationKind::Lookup);
        assert_eq!(ledger.process().unwrap().inside, []);
        let reader = enter("tank", OperationKind::Read);
        let again = reader.clone();
        let writer = enter("tank.lock", OperationKind::Write);
        let active = |readers, writers| Active { readers, writers, since: 1_000 };
        let inside = ledger.process().unwrap().inside;
        assert_eq!(inside, [(name("tank"), active(2, 0)), (name("tank.lock"), active(0, 1))]);
        drop(reader);
        assert_eq!(ledger.active(&name("tank")), active(1, 0));
        drop((again, writer));
        let process = ledger.process().unwrap();
        assert_eq!((process.inside, process.began, process.id), (vec![], 1_000, 0));
        let mut entered = ledger.entered();
        entered.sort_by(|(a, _), (b, _)| a.cmp(b));
        let [(_, tank), (_, other)] = entered.as_slice() else { panic!("{entered:?}") };
        assert_eq!(*tank, Entered { lookups: 1, reads: 1, writes: 0 });
        assert_eq!(*other, Entered { lookups: 0, reads: 0, writes: 1 });
        ledger.closed_up_to(Revision(7));
        assert_eq!(ledger.process().unwrap().closed, Revision(7));
    }

    #[test]
    fn a_full_ledger_says_so_and_keeps_counting_what_it_has() {
        let ledger = Ledger::private(2, NOW);
        let names = ["a-store", "b-store", "c-store"].map(name);
        let place = LedgerSlot::default();
        let enter = |n: usize, place: &LedgerSlot| ledger.enter(&names[n], place, OperationKind::Read, NOW);
        let guard = enter(0, &place);
        assert!(enter(1, &LedgerSlot::default()).is_ok());
        assert_eq!(enter(2, &LedgerSlot::default()).err(), Some(Refusal::LedgerFull(2)));
        // Two of the three `LedgerSlot`s contain the place of the datastore. The third is empty, so the place has to be looked up.
        let others = [enter(0, &place), enter(0, &place.clone()), enter(0, &LedgerSlot::default())];
        assert_eq!(ledger.active(&names[0]).readers, 4);
        drop((guard, others));
        assert_eq!(ledger.process().unwrap().inside, []);
    }

    #[test]
    fn a_name_has_one_place_however_often_it_is_looked_up() {
        let ledger = Ledger::private(2, NOW);
        let names = ["a-store", "b-store"].map(name);
        let enter =
            |n: usize, place: &LedgerSlot| ledger.enter(&names[n], place, OperationKind::Read, NOW).unwrap();
        let _one = enter(0, &LedgerSlot::default());
        // The first lookup gives the name its place. A lookup with another `LedgerSlot` finds this place. Both slots remember it.
        let (first, found) = (LedgerSlot::default(), LedgerSlot::default());
        let _others = [&first, &first, &found, &found].map(|place| enter(1, place));
        assert_eq!([0, 1].map(|n| ledger.active(&names[n]).readers), [1, 4]);
        assert_eq!([&first, &found, &found.clone()].map(|place| place.0.load(Ordering::Relaxed)), [2; 3]);
    }

    #[test]
    fn the_words_are_where_the_layout_says() {
        // For three datastores and two shards: from word 64, a name of four words for each datastore; then a cache line for each shard and place.
        assert_eq!(ledger_words(3, 2), 64 + 3 * 4 + 2 * 3 * 8);
        let layout = Layout::in_words(ledger_words(3, 2), 2);
        assert_eq!((layout.places, layout.shards), (3, 2));
        assert_eq!([0, 1, 2].map(Layout::name), [64, 68, 72]);
        for (shard, place, line) in
            [(0, 0, 76), (0, 1, 84), (0, 2, 92), (1, 0, 100), (1, 1, 108), (1, 2, 116)]
        {
            let kinds = [OperationKind::Lookup, OperationKind::Read, OperationKind::Write];
            let entered = kinds.map(|kind| layout.entered(shard, place, kind));
            assert_eq!((layout.count(shard, place), layout.since(shard, place)), (line, line + 1));
            assert_eq!(entered, [line + 2, line + 3, line + 4]);
        }
        for (threads, expected) in [(1, 1), (2, 2), (3, 4), (16, 16), (17, 16), (1_000, 16)] {
            assert_eq!(shards(threads), expected, "{threads}");
        }
    }

    #[test]
    fn every_process_is_asked_where_others_can_be_read() {
        let ledger = Ledger::private(1, NOW);
        let own = ledger.process().unwrap();
        assert_eq!(ledger.everybody(), std::slice::from_ref(&own));
        let both = vec![own.clone(), Process { id: 7, ..own }];
        let others = both.clone();
        assert_eq!(ledger.with_processes(Arc::new(move || others.clone())).everybody(), both);
    }

    #[test]
    fn the_longest_names_fit_and_what_is_no_ledger_is_not_read() {
        let ledger = Ledger::private(2, NOW);
        let longest = ["x", "y"].map(|letter| name(&letter.repeat(32)));
        let _inside = longest
            .each_ref()
            .map(|name| ledger.enter(name, &LedgerSlot::default(), OperationKind::Read, NOW).unwrap());
        assert_eq!(longest.map(|name| ledger.active(&name).readers), [1, 1]);
        for word in [0, 1, u64::MAX] {
            assert_eq!(Process::read(1_000, |_| word), None);
        }
    }

    #[test]
    fn threads_that_come_and_go_leave_nothing_behind() {
        let words: Vec<_> = (0..ledger_words(4, 4)).map(|_| AtomicU64::new(0)).collect();
        let ledger = Ledger::new(Arc::new(words), 1, 4, NOW);
        let stores = ["tank-0", "tank-1", "tank-2"].map(name);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (ledger, stores) = (&ledger, &stores);
                scope.spawn(move || {
                    for n in 0..1_000 {
                        let (store, place) = (&stores[(n + thread) % 3], LedgerSlot::default());
                        let kind = if n % 2 == 0 { OperationKind::Read } else { OperationKind::Write };
                        let guard = ledger.enter(store, &place, kind, NOW).unwrap();
                        // Sometimes the guard is dropped by another thread than the thread that called `enter`.
                        if n % 100 == 0 {
                            std::thread::spawn(move || drop(guard)).join().unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(ledger.process().unwrap().inside, []);
    }

    mod every_order {
        use super::super::Count;
        use loom::sync::Arc;
        use loom::sync::atomic::{AtomicU64, Ordering, fence};
        use loom::thread;

        count!(AtomicU64, fence);

        /// An operation runs while a maintenance change is committed and then the ledger is read. The test fails if an operation works on the
        /// datastore after the ledger showed no operation.
        fn change_beside_operation(enters_first: bool) {
            loom::model(move || {
                let [count, closed, at_work] = [0; 3].map(|zero| Arc::new(AtomicU64::new(zero)));
                let of_operation = (Arc::clone(&count), Arc::clone(&closed), Arc::clone(&at_work));
                let operation = thread::spawn(move || {
                    let (count, closed, at_work) = of_operation;
                    if enters_first {
                        count.come_in(1);
                    }
                    let is_open = closed.load(Ordering::Acquire) == 0;
                    if !enters_first {
                        count.come_in(1);
                    }
                    if is_open {
                        at_work.store(1, Ordering::Relaxed);
                        at_work.store(2, Ordering::Relaxed);
                    }
                    count.go(1);
                    is_open
                });
                closed.store(1, Ordering::Release);
                let is_acknowledged = count.look() == 0;
                let seen = at_work.load(Ordering::Relaxed);
                let did_work = operation.join().unwrap();
                if is_acknowledged {
                    // Either the operation ended and its effects are visible, or it never began.
                    assert_eq!(seen, if did_work { 2 } else { 0 });
                }
                assert_eq!(count.look(), 0);
            });
        }

        #[test]
        fn an_operation_is_counted_or_saw_the_change() {
            change_beside_operation(true);
        }

        /// Here the operation judges the datastore before the ledger counts the operation. So the operation can miss the change, while the ledger
        /// does not show the operation. This test shows that the test above can fail.
        #[test]
        #[should_panic(expected = "assertion")]
        fn whoever_looks_before_entering_is_missed() {
            change_beside_operation(false);
        }

        /// Two operations share one count, in its lower and upper half. Two threads each add one operation at the same time. When both threads have
        /// ended, the main thread subtracts both operations, and the count is zero.
        #[test]
        fn counts_of_two_come_to_nothing() {
            loom::model(|| {
                let count = Arc::new(AtomicU64::new(0));
                let workers = [1_u64, 1 << 32].map(|unit| {
                    let count = Arc::clone(&count);
                    thread::spawn(move || {
                        count.come_in(unit);
                        assert!(count.look() >= unit);
                        count
                    })
                });
                let [one, other] = workers.map(|worker| worker.join().unwrap());
                one.go(1 << 32);
                other.go(1);
                assert_eq!(count.look(), 0);
            });
        }
    }
}
