//! Opens the memory map of a store.

use super::Terms;
use super::place::LOCK_FILE;
use crate::mapping::{lock_file_bytes, reserve};
use enfilade_facts::Table;
use heed::{Env, EnvFlags, EnvOpenOptions, WithTls};
use std::path::Path;
use std::time::Duration;

/// The sizes of the map that are tried, in bytes. A smaller size is used if the address space is limited. A large map needs much address space, but
/// no disk space: the file grows only when records are added.
pub(super) const MAP_BYTES: [usize; 3] = [1 << 36, 1 << 32, 1 << 30];
/// The number of reader slots of a store.
pub(super) const READERS_MAX: u32 = 4096;

/// Opens the map with the size in `terms`. If `terms` has no size, the largest size that the address space allows is used.
pub(super) fn open_map(path: &Path, terms: Terms) -> heed::Result<Env<WithTls>> {
    let mut last = heed::Error::EnvAlreadyOpened;
    let said = terms.map_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    for bytes in said.map_or(MAP_BYTES.to_vec(), |bytes| vec![bytes]) {
        match open_map_of(path, bytes, EnvFlags::empty()) {
            // Another thread is closing the environment at this moment. So this thread waits until the environment is closed, and opens it again.
            Err(heed::Error::EnvAlreadyOpened) => {
                let closing = path.canonicalize().ok().and_then(heed::env_closing_event);
                if let Some(closing) = closing {
                    closing.wait_timeout(Duration::from_secs(5));
                }
                return open_map_of(path, bytes, EnvFlags::empty());
            }
            Err(why @ heed::Error::Io(_)) => last = why,
            done => return done,
        }
    }
    Err(last)
}

/// Opens a map of this size.
#[expect(unsafe_code, reason = "heed's function `open` is unsafe, because it maps a file")]
pub(super) fn open_map_of(path: &Path, bytes: usize, flags: EnvFlags) -> heed::Result<Env<WithTls>> {
    // LMDB maps the lock file for writing. Without disk space for the lock file, a write into the map would end the process.
    reserve(&path.join(LOCK_FILE), lock_file_bytes(READERS_MAX))?;
    let mut options = EnvOpenOptions::new().read_txn_with_tls();
    options.map_size(bytes).max_readers(READERS_MAX).max_dbs(Table::ALL.len() as u32);
    // SAFETY: LMDB alone changes the file. Only the owner or one group can open its directory, which is never on a network file system. No flag that
    // weakens LMDB's locking is set, and no transaction outlives a short synchronous block.
    unsafe { options.flags(flags).open(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_map_is_as_large_as_the_address_space_allows() {
        const GIBIBYTE: usize = 1_073_741_824;
        assert_eq!(MAP_BYTES, [64 * GIBIBYTE, 4 * GIBIBYTE, GIBIBYTE]);
        let scratch = Scratch::new();
        let path = scratch.path().join("map");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(open_map(&path, Terms::default()).unwrap().info().map_size, 64 * GIBIBYTE);
    }
}
