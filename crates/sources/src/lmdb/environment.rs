//! Opening the environment: once in a process for each directory, with a database for each table and the store's identity.

use super::{OpenError, place};
use enfilade_facts::{StoreId, Table};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, WithTls};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Address space, not disk: the file grows as it is filled. Where address space is rationed a smaller map will do.
const MAP_BYTES: [usize; 3] = [1 << 36, 1 << 32, 1 << 30];
const READERS_MAX: u32 = 4096;
/// The layout of the whole store; a store of a newer one is not opened.
pub(super) const FORMAT: u32 = 1;
/// Where, in the meta table, the store says who it is. No row has a key that begins with NUL.
pub(super) const IDENTITY_KEY: &[u8] = b"\0store";

pub(super) type Records = Database<'static, Bytes, Bytes>;
type Tables = [Records; Table::ALL.len()];

/// An open environment.
pub(super) struct Environment {
    pub(super) env: Env<WithTls>,
    pub(super) store: StoreId,
    /// In the order of `Table::ALL`.
    tables: Tables,
}

impl Environment {
    /// The database of a table.
    pub(super) fn records(&self, table: Table) -> heed::Result<&Records> {
        let found = Table::ALL.iter().zip(&self.tables).find(|(this, _)| **this == table);
        // `Table::ALL` lists every table, so this error is for nobody.
        found.map(|(_, records)| records).ok_or(heed::Error::Mdb(heed::MdbError::BadDbi))
    }
}

/// LMDB's locks belong to the process: opened twice, closing one environment would drop the locks of the other. So the
/// environments of this process are shared, by what their file is, not by how its path is spelled.
static OPEN: Mutex<Option<Shared>> = Mutex::new(None);
type Shared = HashMap<(u64, u64), Weak<Environment>>;

/// The environment in this directory, opened now or shared with whoever opened it before.
pub(super) fn open(path: &Path) -> Result<Arc<Environment>, OpenError> {
    place::prepare(path)?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    open.retain(|_, environment| environment.strong_count() > 0);
    if let Some(environment) = data_file(path).ok().and_then(|file| open.get(&file)).and_then(Weak::upgrade) {
        return Ok(environment);
    }
    let environment = Arc::new(open_anew(path)?);
    let file = data_file(path).map_err(|why| OpenError::io(path, &why))?;
    open.insert(file, Arc::downgrade(&environment));
    Ok(environment)
}

/// Device and inode: while the environment is open no other file can have them.
fn data_file(path: &Path) -> std::io::Result<(u64, u64)> {
    let meta = std::fs::metadata(path.join("data.mdb"))?;
    Ok((meta.dev(), meta.ino()))
}

fn open_anew(path: &Path) -> Result<Environment, OpenError> {
    let failed = |why: &dyn std::fmt::Display| OpenError::io(path, why);
    let env = open_map(path).map_err(|why| failed(&why))?;
    place::close_to_others(path).map_err(|why| failed(&why))?;
    // Readers that died while nobody was here would make the file grow from the first commit on.
    env.clear_stale_readers().map_err(|why| failed(&why))?;
    let (tables, Identity(identity)) = match open_tables(&env).map_err(|why| failed(&why))? {
        CommitOrAbort::Commit(opened) => opened,
        CommitOrAbort::Abort(Foreign) => return Err(OpenError::Foreign(path.to_owned())),
    };
    let (format, store) =
        identity.ok_or_else(|| failed(&"the record that says which store it is cannot be read"))?;
    if format > FORMAT {
        return Err(OpenError::Newer { path: path.to_owned(), found: format });
    }
    Ok(Environment { env, store, tables })
}

fn open_map(path: &Path) -> heed::Result<Env<WithTls>> {
    let mut last = heed::Error::EnvAlreadyOpened;
    for bytes in MAP_BYTES {
        match open_map_of(path, bytes) {
            // Its last user is letting go of it on another thread at this moment.
            Err(heed::Error::EnvAlreadyOpened) => {
                let closing = path.canonicalize().ok().and_then(heed::env_closing_event);
                if let Some(closing) = closing {
                    closing.wait_timeout(Duration::from_secs(5));
                }
                return open_map_of(path, bytes);
            }
            Err(why @ heed::Error::Io(_)) => last = why,
            done => return done,
        }
    }
    Err(last)
}

#[expect(unsafe_code, reason = "heed marks opening a memory map as unsafe")]
fn open_map_of(path: &Path, bytes: usize) -> heed::Result<Env<WithTls>> {
    let mut options = EnvOpenOptions::new().read_txn_with_tls();
    options.map_size(bytes).max_readers(READERS_MAX).max_dbs(Table::ALL.len() as u32);
    // SAFETY: the file is changed by LMDB alone (mode 0600 in a 0700 directory of ours, never on a network file
    // system), no flag that weakens its locking is set, and no transaction outlives a short synchronous block.
    unsafe { options.open(path) }
}

/// The store's format and id, as read inside the transaction that may have made them.
struct Identity(Option<(u32, StoreId)>);

impl heed::OnCommit for Identity {
    type Committed = Self;
    fn on_commit(self, _: &heed::CommitToken) -> Self {
        self
    }
}

/// The environment is not empty and holds no store of ours.
struct Foreign;

/// One transaction, so that of two processes that make the store at once the second finds what the first made.
fn open_tables(env: &Env<WithTls>) -> heed::Result<CommitOrAbort<(Tables, Identity), Foreign>> {
    env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let is_new = opener.open_database::<Bytes, Bytes>(txn, Some(Table::Meta.name()))?.is_none();
        let root = opener.open_database::<Bytes, Bytes>(txn, None)?;
        if let Some(root) = root
            && is_new
            && root.first(txn)?.is_some()
        {
            return Ok::<_, heed::Error>(CommitOrAbort::Abort(Foreign));
        }
        let meta = opener.create_database::<Bytes, Bytes>(txn, Some(Table::Meta.name()))?;
        if is_new {
            let mut id = [0; 16];
            getrandom::fill(&mut id)
                .map_err(|why| heed::Error::Io(std::io::Error::other(why.to_string())))?;
            meta.put(txn, IDENTITY_KEY, &[FORMAT.to_be_bytes().as_slice(), &id].concat())?;
        }
        let identity = Identity(meta.get(txn, IDENTITY_KEY)?.and_then(read_identity));
        let mut tables = [meta; Table::ALL.len()];
        for (records, table) in tables.iter_mut().zip(Table::ALL) {
            *records = opener.create_database(txn, Some(table.name()))?;
        }
        Ok(CommitOrAbort::Commit((tables, identity)))
    })
}

fn read_identity(stored: &[u8]) -> Option<(u32, StoreId)> {
    let (format, id) = stored.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*format), StoreId(u128::from_be_bytes(id.try_into().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn an_environment_of_somebody_else_is_left_alone() {
        let scratch = Scratch::new();
        let path = scratch.path().join("other");
        std::fs::DirBuilder::new().create(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let env = open_map_of(&path, 1 << 20).unwrap();
        let theirs = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
            let root = opener.create_database::<Bytes, Bytes>(txn, None)?;
            root.put(txn, b"cn=admin", b"theirs")?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        });
        assert!(theirs.is_ok());
        drop(env);
        let why = open(&path).err().unwrap().to_string();
        assert!(why.contains("no store of facts"), "{why}");
    }
}
