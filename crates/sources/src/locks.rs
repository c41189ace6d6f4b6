//! Stores the WebDAV locks of files in a separate LMDB environment, or in memory for tests and for commands that only read.

use crate::faults::{self, FAULTED, Store, within};
use crate::files::directory::share_file;
use crate::mapping::{lock_file_bytes, reserve};
use crate::new_map;
use crate::structure::{self, Depth};
use crate::turn::{NoTurn, Turns, WAIT};
use enfilade_facts::locks::{EachRow, LockRows, LockRowsMut, LockStore, LocksError};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RoTxn, RwTxn, WithTls};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The size of the map, in bytes. It is enough for more than a hundred thousand locks.
const MAP_BYTES: usize = 1 << 30;
const READERS_MAX: u32 = 4096;

type Rows = Database<'static, Bytes, Bytes>;

/// Locks in a directory that all servers of the machine share.
pub struct LmdbLocks {
    store: Store,
    env: Env<WithTls>,
    rows: Rows,
    turns: Turns,
}

impl LmdbLocks {
    /// Opens the locks in this existing directory. A process must not open a directory that it has open already, because LMDB's locks belong to the
    /// process. Only the owner can open the files; if a group is given, the members of the group can open the files, too.
    ///
    /// # Errors
    /// When the locks cannot be opened, when the disk is full, or when another process writes for more than ten seconds.
    pub fn open(directory: &Path, group: Option<u32>) -> Result<Self, LocksError> {
        let failed = |why: std::io::Error| LocksError(why.to_string());
        let store = Store::new(directory, ADVICE).map_err(failed)?;
        faults::end_with_a_message();
        check(directory)?;
        within(store, || Self::open_sound(directory, group, store))
    }

    fn open_sound(directory: &Path, group: Option<u32>, store: Store) -> Result<Self, LocksError> {
        let failed = |why: std::io::Error| LocksError(why.to_string());
        let turns = Turns::open(&directory.join("writer.lock"), "writing to the store of WebDAV locks")
            .map_err(failed)?;
        let mut options = EnvOpenOptions::new().read_txn_with_tls();
        options.map_size(MAP_BYTES).max_readers(READERS_MAX);
        new_map::make_where_missing(directory, |place| open(&options, place)).map_err(unavailable)?;
        let env = open(&options, directory).map_err(unavailable)?;
        for name in ["data.mdb", "lock.mdb", "writer.lock"] {
            share_file(&directory.join(name), group).map_err(failed)?;
        }
        // The reader slots of dead processes are freed. Otherwise LMDB could not reuse old pages.
        env.clear_stale_readers().map_err(unavailable)?;
        let turn = turns.take(WAIT).map_err(no_turn)?;
        let txn = env.write_txn().map_err(unavailable)?;
        let made = env.create_databases_and_commit(txn, |opener, txn| {
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(opener.create_database(txn, None)?))
        });
        drop(turn);
        match made.map_err(unavailable)? {
            CommitOrAbort::Commit(rows) => Ok(LmdbLocks { store, env, rows, turns }),
            CommitOrAbort::Abort(()) => Err(LocksError("the table of locks cannot be created".to_owned())),
        }
    }
}

/// The advice in the message that is printed when LMDB causes a fatal signal.
const ADVICE: &str = "stop every enfilade process on this data directory, then remove only the subdirectory `locks` of the data directory: all locks of files end, and nothing else is lost\n";

/// Returns an error if pages of the file are damaged. Must be called before LMDB maps the file.
fn check(directory: &Path) -> Result<(), LocksError> {
    let data = directory.join("data.mdb");
    let why = match (directory.join(FAULTED).exists(), data.exists()) {
        (true, _) => {
            Some("an enfilade process ended when it read or wrote damaged pages of this file".to_owned())
        }
        (false, true) => {
            structure::damage(&data, Depth::ByLength).map_err(|why| LocksError(why.to_string()))?
        }
        (false, false) => None,
    };
    why.map_or(Ok(()), |why| {
        let why =
            format!("`{}` is damaged: {why}; nothing was changed; {}", data.display(), ADVICE.trim_end());
        Err(LocksError(why))
    })
}

#[expect(unsafe_code, reason = "heed's function `open` is unsafe, because it maps a file")]
fn open(options: &EnvOpenOptions<WithTls>, directory: &Path) -> heed::Result<Env<WithTls>> {
    // LMDB maps the lock file for writing. Without disk space for the lock file, a write into the map would end the process.
    reserve(&directory.join("lock.mdb"), lock_file_bytes(READERS_MAX))?;
    // SAFETY: LMDB alone changes the file, in a directory of this server, and no flag that weakens LMDB's locking is set.
    unsafe { options.open(directory) }
}

fn unavailable(why: heed::Error) -> LocksError {
    LocksError(why.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn no_turn(why: NoTurn) -> LocksError {
    LocksError(why.to_string())
}

struct Reading<'t> {
    rows: Rows,
    txn: &'t RoTxn<'t>,
}

impl LockRows for Reading<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LocksError> {
        Ok(self.rows.get(self.txn, key).map_err(unavailable)?.map(<[u8]>::to_vec))
    }

    fn scan(&self, prefix: &[u8], each: EachRow<'_>) -> Result<(), LocksError> {
        for row in self.rows.prefix_iter(self.txn, prefix).map_err(unavailable)? {
            let (key, value) = row.map_err(unavailable)?;
            if each(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

struct Writing<'t> {
    rows: Rows,
    txn: RwTxn<'t>,
}

impl LockRows for Writing<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LocksError> {
        Reading { rows: self.rows, txn: &self.txn }.get(key)
    }

    fn scan(&self, prefix: &[u8], each: EachRow<'_>) -> Result<(), LocksError> {
        Reading { rows: self.rows, txn: &self.txn }.scan(prefix, each)
    }
}

impl LockRowsMut for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), LocksError> {
        self.rows.put(&mut self.txn, key, value).map_err(unavailable)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), LocksError> {
        self.rows.delete(&mut self.txn, key).map(drop).map_err(unavailable)
    }
}

impl LockStore for LmdbLocks {
    fn read(&self, look: &mut dyn FnMut(&dyn LockRows)) -> Result<(), LocksError> {
        within(self.store, || {
            let txn = self.env.read_txn().map_err(unavailable)?;
            look(&Reading { rows: self.rows, txn: &txn });
            Ok(())
        })
    }

    fn write(
        &self,
        change: &mut dyn FnMut(&mut dyn LockRowsMut) -> ControlFlow<()>,
    ) -> Result<(), LocksError> {
        let _turn = self.turns.take(WAIT).map_err(no_turn)?;
        within(self.store, || {
            let mut writing = Writing { rows: self.rows, txn: self.env.write_txn().map_err(unavailable)? };
            match change(&mut writing) {
                ControlFlow::Continue(()) => writing.txn.commit().map_err(unavailable),
                ControlFlow::Break(()) => Ok(()),
            }
        })
    }
}

/// Locks in the memory of this process. They are lost when the process ends.
#[derive(Debug, Default)]
pub struct MemoryLocks(Mutex<Map>);

#[derive(Clone, Debug, Default)]
struct Map(BTreeMap<Vec<u8>, Vec<u8>>);

impl LockRows for Map {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LocksError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], each: EachRow<'_>) -> Result<(), LocksError> {
        for (key, value) in self.0.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix)) {
            if each(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl LockRowsMut for Map {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), LocksError> {
        self.0.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), LocksError> {
        self.0.remove(key);
        Ok(())
    }
}

impl LockStore for MemoryLocks {
    fn read(&self, look: &mut dyn FnMut(&dyn LockRows)) -> Result<(), LocksError> {
        look(&*self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    fn write(
        &self,
        change: &mut dyn FnMut(&mut dyn LockRowsMut) -> ControlFlow<()>,
    ) -> Result<(), LocksError> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = rows.clone();
        if change(&mut after).is_continue() {
            *rows = after;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn keeps_what_was_changed_whole_or_not_at_all(store: &dyn LockStore) {
        let rows = || {
            let mut rows = Vec::new();
            let look = &mut |shown: &dyn LockRows| {
                let each = &mut |key: &[u8], value: &[u8]| {
                    rows.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                };
                shown.scan(b"a", each).unwrap();
            };
            store.read(look).unwrap();
            rows
        };
        let write = |and: ControlFlow<()>| {
            let change = &mut |rows: &mut dyn LockRowsMut| {
                for key in [b"a2", b"a1", b"b1"] {
                    rows.put(key, b"x").unwrap();
                }
                assert_eq!(rows.get(b"a1").unwrap(), Some(b"x".to_vec()));
                and
            };
            store.write(change).unwrap();
        };
        write(ControlFlow::Break(()));
        assert_eq!(rows(), []);
        write(ControlFlow::Continue(()));
        let row = |key: &[u8]| (key.to_vec(), b"x".to_vec());
        assert_eq!(rows(), [row(b"a1"), row(b"a2")]);
        let delete = &mut |rows: &mut dyn LockRowsMut| {
            rows.delete(b"a1").unwrap();
            rows.delete(b"gone").unwrap();
            ControlFlow::Continue(())
        };
        store.write(delete).unwrap();
        assert_eq!(rows(), [row(b"a2")]);
    }

    #[test]
    fn either_store_keeps_what_was_changed_whole_or_not_at_all() {
        let scratch = Scratch::new();
        keeps_what_was_changed_whole_or_not_at_all(&LmdbLocks::open(scratch.path(), None).unwrap());
        keeps_what_was_changed_whole_or_not_at_all(&MemoryLocks::default());
    }

    #[test]
    fn locks_are_there_after_a_restart() {
        let scratch = Scratch::new();
        let put = &mut |rows: &mut dyn LockRowsMut| {
            rows.put(b"a", b"x").unwrap();
            ControlFlow::Continue(())
        };
        LmdbLocks::open(scratch.path(), None).unwrap().write(put).unwrap();
        let mut found = None;
        let again = LmdbLocks::open(scratch.path(), None).unwrap();
        again.read(&mut |rows| found = rows.get(b"a").unwrap()).unwrap();
        assert_eq!(found, Some(b"x".to_vec()));
    }
}
