//! Looking at the facts of one revision.

use crate::codec::{self, Reader};
use crate::source::{At, SourceError};
use crate::tables::{Key, Row, Table};
use std::ops::ControlFlow;

/// What a scan calls for every key and stored record, until it breaks.
pub type Each<'a> = &'a mut (dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a);

/// Raw records of one revision, as a source holds them.
pub trait Snapshot {
    /// The revision every answer belongs to.
    fn at(&self) -> At;
    /// The stored record, header included.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError>;
    /// All stored records whose key starts with `prefix`, in key order, until `each` breaks.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError>;
}

/// Facts at one revision (invariant F2). Short-lived: one synchronous block, never across an `.await`.
pub struct View<'a> {
    snapshot: &'a dyn Snapshot,
}

impl<'a> View<'a> {
    /// Over a source's snapshot.
    pub fn new(snapshot: &'a dyn Snapshot) -> Self {
        View { snapshot }
    }

    /// The revision of this view: what is judged on it is remembered under this and nothing else.
    pub fn at(&self) -> At {
        self.snapshot.at()
    }

    /// One record.
    ///
    /// # Errors
    /// When it cannot be read or cannot be believed (invariant F3).
    pub fn get<R: Row>(&self, key: &R::Key) -> Result<Option<R>, SourceError> {
        let key = key.bytes();
        match self.snapshot.get(R::TABLE, &key)? {
            None => Ok(None),
            Some(stored) => decode::<R>(&key, stored).map(Some),
        }
    }

    /// All records whose key starts with `prefix`, in key order, until `each` breaks.
    ///
    /// # Errors
    /// At the first record that cannot be read or believed.
    pub fn scan<R: Row>(
        &self,
        prefix: &[u8],
        mut each: impl FnMut(R::Key, R) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let mut damage = None;
        self.snapshot.scan(R::TABLE, prefix, &mut |key, stored| {
            let record = R::Key::from_bytes(key)
                .ok_or_else(|| codec::damaged(R::TABLE, key, "the key has not the form of this table's keys"))
                .and_then(|k| decode::<R>(key, stored).map(|r| (k, r)));
            match record {
                Ok((key, record)) => each(key, record),
                Err(why) => {
                    damage = Some(why);
                    ControlFlow::Break(())
                }
            }
        })?;
        damage.map_or(Ok(()), Err)
    }

    /// Whether any key of the table starts with `prefix`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn any<R: Row>(&self, prefix: &[u8]) -> Result<bool, SourceError> {
        let mut found = false;
        self.snapshot.scan(R::TABLE, prefix, &mut |_, _| {
            found = true;
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// All records of a table whose key starts with `prefix`.
    ///
    /// # Errors
    /// At the first record that cannot be read or believed.
    pub fn list<R: Row>(&self, prefix: &[u8]) -> Result<Vec<(R::Key, R)>, SourceError> {
        let mut rows = Vec::new();
        self.scan::<R>(prefix, |key, row| {
            rows.push((key, row));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

fn decode<R: Row>(key: &[u8], stored: &[u8]) -> Result<R, SourceError> {
    let (_, value) = codec::open(R::TABLE, key, stored)?;
    let mut reader = Reader::new(value);
    R::decode(&mut reader)
        .filter(|_| reader.is_empty())
        .ok_or_else(|| codec::damaged(R::TABLE, key, "the value has not the form of this table's records"))
}
