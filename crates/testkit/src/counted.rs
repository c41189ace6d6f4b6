//! Facts that count how many records are read.

use crate::context::change_context;
use enfilade_admin::{ChangeContext, ReservedPaths};
use enfilade_facts::{
    At, Change, Clocks, CommitError, Each, Found, Snapshot, Source, SourceError, StoreId, Table, View,
};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::memory::Memory;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The numbers of records that were read, by table.
type Reads = Mutex<BTreeMap<Table, u64>>;

/// A store that counts the records that are read from it.
pub struct Counted {
    facts: Arc<dyn Source>,
    reads: Reads,
}

impl Counted {
    /// Counts the records that are read from these facts.
    pub fn new(facts: Arc<dyn Source>) -> Self {
        Counted { facts, reads: Mutex::default() }
    }

    /// The number of records that were read.
    pub fn reads(&self) -> u64 {
        self.reads.lock().unwrap().values().sum()
    }

    /// The number of records that were read from this table.
    pub fn reads_of(&self, table: Table) -> u64 {
        self.reads.lock().unwrap().get(&table).copied().unwrap_or(0)
    }
}

impl Source for Counted {
    fn at(&self) -> At {
        self.facts.at()
    }
    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.facts.with_view(&mut |view| look(&View::new(&Counting(view, &self.reads))))
    }
    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        self.facts.commit(change)
    }
}

struct Counting<'a>(&'a dyn Snapshot, &'a Reads);

impl Counting<'_> {
    fn count(&self, table: Table) {
        *self.1.lock().unwrap().entry(table).or_default() += 1;
    }
}

impl Snapshot for Counting<'_> {
    fn at(&self) -> At {
        self.0.at()
    }
    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        self.count(table);
        self.0.get(table, key)
    }
    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        self.0.scan(table, prefix, &mut |key, stored| {
            self.count(table);
            each(key, stored)
        })
    }
    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        self.count(table);
        self.0.at_or_after(table, key)
    }
}

type Act = Box<dyn FnOnce(&ChangeContext<'_>) + Send>;

/// A store for changes by `enfilade_admin`. It is empty at first, and counts the records that are read.
pub struct CountedFacts {
    counted: Counted,
    /// A change that another server makes right before the next commit.
    meanwhile: Mutex<Option<(Clocks, Act)>>,
    files: FileSet,
    reserved: ReservedPaths,
}

impl CountedFacts {
    /// An empty store.
    #[allow(clippy::new_without_default, reason = "for tests")]
    pub fn new() -> Self {
        CountedFacts {
            counted: Counted::new(Arc::new(Memory::new(StoreId(1)))),
            meanwhile: Mutex::default(),
            files: FileSet::new(Path::new("/nowhere")),
            reserved: ReservedPaths::default(),
        }
    }

    /// The number of records that were read.
    pub fn reads(&self) -> u64 {
        self.counted.reads()
    }

    /// Lets another server make the change `act` right before the next commit, at the time `now`.
    pub fn before_next_commit(&self, now: Clocks, act: impl FnOnce(&ChangeContext<'_>) + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some((now, Box::new(act)));
    }

    /// The context in which an administrator makes changes at the time `now`.
    pub fn change_context(&self, now: Clocks) -> ChangeContext<'_> {
        change_context(self, &self.files, &self.reserved, now)
    }
}

impl Source for CountedFacts {
    fn at(&self) -> At {
        self.counted.at()
    }
    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.counted.with_view(look)
    }
    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        let act = self.meanwhile.lock().unwrap().take();
        if let Some((now, act)) = act {
            act(&self.change_context(now));
        }
        self.counted.commit(change)
    }
}
