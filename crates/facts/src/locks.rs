//! Where locks of files are kept, seen from inside. They change all the time and every commit of facts empties memos, so they are no facts:
//! they are rows of a store of their own, which every server of the machine shares and a restart does not lose.

use std::ops::ControlFlow;

/// The store of locks does not answer. The caller must refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the locks of files cannot be used: {0}")]
pub struct LocksError(pub String);

/// Looks at a row, key and value.
pub type EachRow<'e> = &'e mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Rows in the order of their keys, as they are at one moment.
pub trait LockRows {
    /// The value of a key.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LocksError>;

    /// Shows every row whose key begins so, until it was enough.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan(&self, prefix: &[u8], each: EachRow<'_>) -> Result<(), LocksError>;
}

/// The same, to be changed.
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

/// A place locks live in.
pub trait LockStore: Send + Sync {
    /// Lends the rows of one moment to `look`, once.
    ///
    /// # Errors
    /// When the store cannot be read; then `look` was not called.
    fn read(&self, look: &mut dyn FnMut(&dyn LockRows)) -> Result<(), LocksError>;

    /// Lends the rows to `change`, which alone may change them now. When this returns all changes are durable, or none was made where
    /// `change` says so.
    ///
    /// # Errors
    /// When the store cannot be written; nothing is changed then.
    fn write(
        &self,
        change: &mut dyn FnMut(&mut dyn LockRowsMut) -> ControlFlow<()>,
    ) -> Result<(), LocksError>;
}
