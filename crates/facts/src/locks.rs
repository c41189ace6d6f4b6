//! The interface of the store of WebDAV locks. Locks change often, and every commit of facts invalidates all remembered verdicts of the doors. So
//! locks are not facts, but rows of a separate store. All servers with the same data directory share this store, and its rows survive a restart.

use std::ops::ControlFlow;

/// The store of locks does not answer. The caller must refuse the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the locks of files cannot be used: {0}")]
pub struct LocksError(pub String);

/// The callback of [`LockRows::scan`], which gets the key and the value of a row.
pub type EachRow<'e> = &'e mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Rows in the order of their keys, as they are at one moment.
pub trait LockRows {
    /// The value of a key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LocksError>;

    /// Calls `each` for every row with a key that begins with `prefix`, until `each` returns `Break`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan(&self, prefix: &[u8], each: EachRow<'_>) -> Result<(), LocksError>;
}

/// Rows that can also be changed.
pub trait LockRowsMut: LockRows {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), LocksError>;

    /// Removes a row, if it exists.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn delete(&mut self, key: &[u8]) -> Result<(), LocksError>;
}

/// A store of WebDAV locks.
pub trait LockStore: Send + Sync {
    /// Calls `look` once with the rows as they are at one moment.
    ///
    /// # Errors
    /// When the store cannot be read. In that case `look` was not called.
    fn read(&self, look: &mut dyn FnMut(&dyn LockRows)) -> Result<(), LocksError>;

    /// Calls `change` with the rows; no other writer runs at the same time. When this call returns, all changes are durable. If `change` returns
    /// `Break`, nothing is changed.
    ///
    /// # Errors
    /// When the store cannot be written. In that case nothing was changed.
    fn write(
        &self,
        change: &mut dyn FnMut(&mut dyn LockRowsMut) -> ControlFlow<()>,
    ) -> Result<(), LocksError>;
}
