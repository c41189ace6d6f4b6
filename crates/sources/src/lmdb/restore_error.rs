//! The reasons why facts were not restored.

use super::OpenError;
use crate::copy::CopyError;
use enfilade_facts::{CommitError, Revision};
use std::path::PathBuf;

/// The reason why facts were not replaced. The store is unchanged, with two exceptions: after [`RestoreError::Halfway`], and if only the last sync of
/// [`set_aside`](super::Lmdb::set_aside) failed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The copy is older than the store, so a restore would undo later revocations.
    #[error(
        "the facts to restore have revision {found}, but the store has already acknowledged revision {expected}. A restore would undo all later revocations and removals; to accept this, add --accept-rollback"
    )]
    GoesBack {
        /// The revision of the facts in the copy.
        found: Revision,
        /// The newest acknowledged revision.
        expected: Revision,
    },
    /// It is unknown whether the copy is older than the store, so a restore might undo later revocations.
    #[error(
        "`{path}` cannot be read: {why}. This file contains the newest acknowledged revision. Without it, the backup may be older than the current facts, and the restore may undo later revocations and removals; to accept this risk, add --accept-rollback"
    )]
    UnknownAge {
        /// The file of the high-water mark.
        path: PathBuf,
        /// The reason why the file cannot be read.
        why: String,
    },
    /// The old store was renamed, and after that neither the new nor the old store could be renamed to the path of the store.
    #[error(
        "`{path}` is missing now. The restored store is complete in `{new}`, and the old store, which cannot be opened, is in `{aside}`. Neither \
        could be moved to `{path}` ({why}). Stop every enfilade process on this data directory and run `mv -T '{new}' '{path}'`"
    )]
    Halfway {
        /// The path of the store.
        path: PathBuf,
        /// The present path of the restored store.
        new: PathBuf,
        /// The present path of the old store.
        aside: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The copy or the existing facts could not be read completely.
    #[error(transparent)]
    Copy(#[from] CopyError),
}
