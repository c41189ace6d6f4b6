//! The index of all datastores in the process. A lookup parses nothing, takes no lock and makes no system call, for any number of datastores.

use crate::operation_ledger::LedgerSlot;
use crate::view::{Known, Record, file_fault};
use enfilade_facts::tables::{Datastore, DatastoreProfile, FileFault, Key, Table};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, Indexed, SourceError, View};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher};
use std::sync::Arc;

/// The number of parts of the index. A change of one datastore copies only one part, and the list of pointers to the parts.
const PARTS: usize = 1024;

/// All datastores at one revision, each with a handle `H`. The handle contains state that is expensive to rebuild. A handle is kept as long as the
/// path of the datastore's content does not change; other changes do not affect the handle.
pub struct Stores<H> {
    parts: Arc<[Arc<Part<H>>]>,
    fault: Option<Arc<FileFault>>,
}

type Part<H> = HashMap<DatastoreName, Store<H>, BuildHasherDefault<NameHasher>>;

struct Store<H> {
    known: Arc<Known>,
    handle: Arc<H>,
    place: LedgerSlot,
}

impl<H> Clone for Stores<H> {
    fn clone(&self) -> Self {
        Stores { parts: Arc::clone(&self.parts), fault: self.fault.clone() }
    }
}

impl<H> Clone for Store<H> {
    fn clone(&self) -> Self {
        Store { known: Arc::clone(&self.known), handle: Arc::clone(&self.handle), place: self.place.clone() }
    }
}

impl<H> Stores<H> {
    fn store(&self, name: &DatastoreName) -> Option<&Store<H>> {
        self.parts.get(part_of(name))?.get(name)
    }

    /// The facts about a datastore at the revision of this index.
    pub fn record(&self, name: &DatastoreName, at: At) -> Record {
        let store = self.store(name).map(|store| Arc::clone(&store.known));
        Record { at, store, file_fault: self.fault.clone() }
    }

    /// Every datastore's name and facts.
    pub fn each(&self) -> impl Iterator<Item = (&DatastoreName, &Known)> {
        self.parts.iter().flat_map(|part| part.iter()).map(|(name, store)| (name, &*store.known))
    }

    /// The place where a datastore's operations are counted, and the datastore's handle; `None` if the datastore does not exist.
    pub fn entrance(&self, name: &DatastoreName) -> Option<(&LedgerSlot, &Arc<H>)> {
        self.store(name).map(|store| (&store.place, &store.handle))
    }
}

/// The number of the part of the index that contains a datastore. The table in the part uses other bits of the hash.
fn part_of(name: &DatastoreName) -> usize {
    let hash = BuildHasherDefault::<NameHasher>::default().hash_one(name);
    (hash >> 32) as usize % PARTS
}

/// The hash of a datastore's name. A hash without a key suffices, because only users who may create datastores choose names. The hash reads eight
/// bytes at once. The default hash would take a third of the time of a lookup.
#[derive(Default)]
struct NameHasher(u64);

impl NameHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl<H: Default + Send + Sync + 'static> Indexed for Stores<H> {
    const TABLES: &'static [Table] = &[Table::Datastores, Table::Files, Table::DatastoreProfiles];

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        let mut parts: Vec<Part<H>> = (0..PARTS).map(|_| Part::default()).collect();
        let mut profiles: HashMap<_, _> = view.list::<DatastoreProfile>(&[])?.into_iter().collect();
        for (name, datastore) in view.list::<Datastore>(&[])? {
            let known = Arc::new(Known::of(&name, datastore, profiles.remove(&name)));
            let store = Store { known, handle: Arc::default(), place: LedgerSlot::default() };
            if let Some(part) = parts.get_mut(part_of(&name)) {
                part.insert(name, store);
            }
        }
        Ok(Stores { parts: parts.into_iter().map(Arc::new).collect(), fault: file_fault(view)? })
    }

    fn update(&mut self, view: &View<'_>, table: Table, key: &[u8]) -> Result<(), SourceError> {
        if table == Table::Files {
            self.fault = file_fault(view)?;
            return Ok(());
        }
        let Some(name) = DatastoreName::from_bytes(key) else { return Ok(()) };
        let known = Known::on(view, &name)?;
        let Some(part) = Arc::make_mut(&mut self.parts).get_mut(part_of(&name)) else { return Ok(()) };
        let part = Arc::make_mut(part);
        let before = part.remove(&name);
        if let Some(known) = known {
            let place = before.as_ref().map(|before| before.place.clone()).unwrap_or_default();
            let handle = before
                .filter(|before| before.known.root == known.root)
                .map(|before| before.handle)
                .unwrap_or_default();
            part.insert(name, Store { known, handle, place });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datastores_are_spread_over_the_parts() {
        let mut parts = vec![0; PARTS];
        for n in 0..10_000 {
            let name = format!("store-{n}").parse().unwrap();
            parts.get_mut(part_of(&name)).map(|count| *count += 1).unwrap();
        }
        // On average, a part contains ten datastores.
        assert!(parts.iter().all(|count| *count < 50), "{parts:?}");
    }

    #[test]
    fn names_of_the_same_part_have_different_hashes() {
        let hash = |name: &DatastoreName| BuildHasherDefault::<NameHasher>::default().hash_one(name);
        let names = (0..100_000).map(|n| format!("store-{n}").parse().unwrap());
        let of_a_part: Vec<DatastoreName> = names.filter(|name| part_of(name) == 7).collect();
        // A table uses the lowest bits of a hash to find a place, and the highest seven bits to compare entries.
        let bits = |bits: fn(u64) -> u64| -> usize {
            of_a_part.iter().map(|name| bits(hash(name))).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert!(of_a_part.len() > 60, "{}", of_a_part.len());
        assert!(bits(|hash| hash & 0xff) > 50 && bits(|hash| hash >> 57) > 40);
    }
}
