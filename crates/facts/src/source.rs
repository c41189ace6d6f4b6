//! Where facts come from, seen from inside: one view at a time, one change at a time.

use crate::change::{Change, Requester};
use crate::tables::Table;
use crate::view::View;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which store the facts are in. A restored backup is another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub u128);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The number of a change, and of the facts as they are after it. Changes are counted from 1 since the store was first
/// made, without gaps, through backup and restore. Equal revision of an equal store: nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A store at a revision: what a memo of a verdict is keyed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// The store.
    pub store: StoreId,
    /// Its revision.
    pub revision: Revision,
}

impl At {
    /// Where the next change of this store leads.
    #[must_use]
    pub fn next(self) -> Self {
        At { revision: Revision(self.revision.0 + 1), ..self }
    }
}

/// The facts could not be had. Whoever asked has to refuse (invariant D5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A record is there but cannot be believed (invariant F3).
    #[error("damaged record in table `{}`, key {key}: {why}", table.name())]
    Damaged {
        /// The table.
        table: Table,
        /// The key, printable.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store itself does not answer.
    #[error("facts cannot be read: {0}")]
    Unavailable(String),
}

/// A change was not made; nothing of it is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed what this change was based on: look again and redo it.
    #[error("table `{}`, key {key}: changed by somebody else meanwhile, try again", table.name())]
    Conflict {
        /// The table.
        table: Table,
        /// The key, printable.
        key: String,
    },
    /// Another process has been writing for too long; the text names it and says what to do.
    #[error("{0}")]
    Busy(String),
    /// The store has nearly filled its map, and the rest of it is kept for other changes.
    #[error(
        "this change was refused: the facts use {} of the {} MiB they may have, and the rest is kept for {kept_for}; \
        set `[facts] map_mebibytes` to a larger number in enfilade.toml and restart every enfilade process on this data directory, or \
        stop all of them and run `enfilade facts compact`",
        .used_bytes >> 20,
        .map_bytes >> 20
    )]
    Full {
        /// How much of the map is in use, in bytes.
        used_bytes: u64,
        /// How large the map is, in bytes.
        map_bytes: u64,
        /// Which changes are made nevertheless.
        kept_for: &'static str,
    },
    /// A key or value is larger than the store takes.
    #[error("table `{}`: {what} of {bytes} bytes is over the limit of {limit}", table.name())]
    TooLarge {
        /// The table.
        table: Table,
        /// "key" or "value".
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The store could not do it.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// A place facts live in.
pub trait Source: Send + Sync {
    /// The newest revision, read in nanoseconds. A view taken afterwards is at least this new;
    /// never use it as the revision of a view taken before.
    fn at(&self) -> At;

    /// Lends a view of one revision to `look`, once.
    ///
    /// # Errors
    /// When the store cannot be read; then `look` was not called.
    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError>;

    /// Makes the change whole and durable, or not at all. Says which revision it has; a view shows that or a later one.
    /// A change that writes nothing has the revision of the one before.
    ///
    /// # Errors
    /// [`CommitError`]; nothing of the change is there then.
    fn commit(&self, change: &Change) -> Result<At, CommitError>;

    /// Whether there is room for changes that are made with these rights, as long as they only take away. It is asked before something else
    /// is changed that the facts have to follow.
    ///
    /// # Errors
    /// [`CommitError::Full`], or when the store cannot be read.
    fn has_room_for(&self, _requester: Requester) -> Result<(), CommitError> {
        Ok(())
    }
}

/// The way everybody reads: a short synchronous look (invariants F2 and E1).
pub trait Read {
    /// Runs `look` on a fresh view and hands back what it returns.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> Result<R, SourceError>;
}

impl<S: Source + ?Sized> Read for S {
    fn read<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> Result<R, SourceError> {
        let mut look = Some(look);
        let mut answer = None;
        self.with_view(&mut |view| {
            if let Some(look) = look.take() {
                answer = Some(look(view));
            }
        })?;
        answer.ok_or_else(|| SourceError::Unavailable("the source lent no view".into()))
    }
}
