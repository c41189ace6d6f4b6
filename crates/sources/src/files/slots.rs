//! A file of bounded size for data that changes too often to be stored as facts. It consists of sets of four slots, and each slot has a checksum.
//! Slots are written in place and never synced, so after a power cut the data of the last minutes may be missing.

use enfilade_facts::MemoSeed;
use enfilade_facts::memo::KeyMaker;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The number of slots in a set.
pub(super) const WAYS: usize = 4;
const SUM_BYTES: usize = 8;

/// The file. `N` is the length of a slot in bytes. The last eight bytes of a slot are the checksum.
pub(super) struct Slots<const N: usize> {
    file: File,
    step: &'static str,
}

impl<const N: usize> Slots<N> {
    /// Opens the file, or creates it. Unused slots are holes and take no space.
    pub(super) fn open(path: &Path, step: &'static str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Slots { file, step })
    }

    /// The slots of a set. An unwritten or damaged slot is `None`.
    pub(super) fn set(&self, place: u16) -> [Option<[u8; N]>; WAYS] {
        let mut slots = [[0; N]; WAYS];
        let bytes = slots.as_flattened_mut();
        let mut length = 0;
        while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset::<N>(place, 0) + length as u64) {
                Ok(0) | Err(_) => break,
                Ok(count) => length += count,
            }
        }
        slots.map(|slot| self.whole(slot))
    }

    /// Writes a slot. An error of the disk is ignored.
    pub(super) fn put(&self, place: u16, way: usize, content: &[u8]) {
        let slot = [content, &self.sum(content)].concat();
        debug_assert_eq!(slot.len(), N);
        let _ = self.file.write_all_at(&slot, offset::<N>(place, way));
    }

    /// All slots that are in use.
    pub(super) fn all(&self) -> Vec<[u8; N]> {
        let sets = self.file.metadata().map_or(0, |metadata| metadata.len().div_ceil((N * WAYS) as u64));
        let places = (0..sets).filter_map(|place| u16::try_from(place).ok());
        places.flat_map(|place| self.set(place)).flatten().collect()
    }

    fn whole(&self, slot: [u8; N]) -> Option<[u8; N]> {
        let (content, sum) = slot.split_last_chunk::<SUM_BYTES>()?;
        (*sum == self.sum(content)).then_some(slot)
    }

    fn sum(&self, content: &[u8]) -> [u8; SUM_BYTES] {
        let key = KeyMaker::new(&MemoSeed(*b"enfilade lastuse"), self.step).bytes(content).key();
        (key.low_bits() as u64).to_be_bytes()
    }
}

fn offset<const N: usize>(place: u16, way: usize) -> u64 {
    (usize::from(place) * WAYS + way) as u64 * N as u64
}
