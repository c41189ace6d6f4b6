//! Finds the tables of a store in LMDB, and makes them in an empty environment.
//!
//! This module creates the tables of a new store, and the missing tables of a replica that keeps its older format. An upgrade creates the tables that
//! an older store lacks. In each of these cases the head is written in the same transaction. Otherwise the head would contain the number of an
//! earlier commit, and the store would count as damaged.

use enfilade_facts::codec::{self, Reader};
use enfilade_facts::journal::{Head, Identity, IdentityKey, Write};
use enfilade_facts::tables::Key;
use enfilade_facts::{At, Revision, Row, SourceError, StoreId, Table};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, DatabaseOpener, Env, RoTxn, WithTls};

pub(super) type Records<'e> = Database<'e, Bytes, Bytes>;
/// The databases of all tables, in the order of `Table::ALL`; `None` for a table that does not exist.
pub(super) type Tables<'e> = [Option<Records<'e>>; Table::ALL.len()];

/// The records of a table, if it exists.
pub(super) fn of<'t, 'e>(tables: &'t Tables<'e>, table: Table) -> Option<&'t Records<'e>> {
    let found = Table::ALL.iter().zip(tables).find(|(this, _)| **this == table);
    found.and_then(|(_, records)| records.as_ref())
}

/// The records of a table; an error if the table does not exist.
pub(super) fn existing<'t, 'e>(tables: &'t Tables<'e>, table: Table) -> heed::Result<&'t Records<'e>> {
    of(tables, table).ok_or(heed::Error::Mdb(heed::MdbError::BadDbi))
}

/// The content of an environment.
pub(super) enum There {
    /// The environment is empty.
    Nothing,
    /// The environment contains data that is not a store of facts.
    Foreign,
    /// A store with a damaged identity.
    Damaged(SourceError),
    /// A store: its format, and the tables that this program knows.
    Store(u32, Box<Tables<'static>>),
}

/// Finds the existing tables. Changes nothing.
pub(super) fn find(env: &Env<WithTls>) -> heed::Result<There> {
    let mut format = 0;
    let found = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let key = IdentityKey.bytes();
        let head = opener.open_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
        let stored = head.map(|head| head.get(txn, &key)).transpose()?.flatten();
        format = match (head, stored.map(|stored| format_of(&key, stored))) {
            (_, Some(Ok(format))) => format,
            (_, Some(Err(why))) => return Ok(CommitOrAbort::Abort(There::Damaged(why))),
            (None, None) if !holds_anything(opener, txn)? => return Ok(CommitOrAbort::Abort(There::Nothing)),
            (_, None) => return Ok(CommitOrAbort::Abort(There::Foreign)),
        };
        let mut tables: Tables<'_> = [None; Table::ALL.len()];
        for (table, records) in Table::ALL.into_iter().zip(&mut tables) {
            *records = opener.open_database(txn, Some(table.name()))?;
        }
        Ok::<_, heed::Error>(CommitOrAbort::Commit(tables))
    })?;
    Ok(match found {
        CommitOrAbort::Commit(tables) => There::Store(format, Box::new(tables)),
        CommitOrAbort::Abort(there) => there,
    })
}

fn format_of(key: &[u8], stored: &[u8]) -> Result<u32, SourceError> {
    let (_, value) = codec::open(Table::Head, key, stored)?;
    let identity = Identity::decode(&mut Reader::new(value));
    let form = "the value is not a valid record of this table";
    Ok(identity.ok_or_else(|| codec::damaged(Table::Head, key, form))?.format)
}

/// Makes a store of this format with these tables, if the environment is empty.
pub(super) fn make(env: &Env<WithTls>, format: u32, tables: &[Table]) -> heed::Result<()> {
    let failed = |why: getrandom::Error| heed::Error::Io(std::io::Error::other(why.to_string()));
    env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        if holds_anything(opener, txn)? {
            return Ok::<_, heed::Error>(CommitOrAbort::Abort(()));
        }
        for table in tables {
            opener.create_database::<Bytes, Bytes>(txn, Some(table.name()))?;
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(failed)?;
        let store = StoreId(u128::from_be_bytes(id));
        let at = At { store, revision: Revision(0) };
        let head = opener.create_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
        let identity = Write::put(&IdentityKey, &Identity { format, store }, at);
        let start = Head { revision: at.revision, commit: txn.id() as u64 }.write();
        for Write { key, stored, .. } in [identity, start] {
            head.put(txn, &key, &stored.unwrap_or_default())?;
        }
        Ok(CommitOrAbort::Commit(()))
    })?;
    Ok(())
}

/// Makes the tables that a replica of an older format lacks. No change in the log of the fleet uses them until the format of the fleet is raised. A
/// program of the older format ignores them.
pub(super) fn make_missing(env: &Env<WithTls>) -> heed::Result<()> {
    let damaged = |why: SourceError| heed::Error::Io(std::io::Error::other(why.to_string()));
    env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        for table in Table::ALL {
            opener.create_database::<Bytes, Bytes>(txn, Some(table.name()))?;
        }
        let head = opener.create_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
        let found = Head::open(head.get(txn, Head::KEY)?).map_err(damaged)?;
        let Write { key, stored, .. } = Head { commit: txn.id() as u64, ..found }.write();
        head.put(txn, &key, &stored.unwrap_or_default())?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
    })?;
    Ok(())
}

fn holds_anything(opener: &DatabaseOpener<'_, WithTls>, txn: &RoTxn<'_>) -> heed::Result<bool> {
    let root = opener.open_database::<Bytes, Bytes>(txn, None)?;
    Ok(match root {
        Some(root) => root.first(txn)?.is_some(),
        None => false,
    })
}
