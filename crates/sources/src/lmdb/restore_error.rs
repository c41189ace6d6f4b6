//! The reasons why facts were not restored.

use super::OpenError;
use crate::copy::CopyError;
use enfilade_facts::{CommitError, Revision};
use std::path::PathBuf;

/// The facts were not replaced; the store is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Later revocations would be undone.
    #[error(
        "these facts are of revision {found}, and {expected} was acknowledged: all later revocations and removals would be undone; \
        to accept that, say --accept-rollback"
    )]
    GoesBack {
        /// The revision of the facts in the copy.
        found: Revision,
        /// The newest acknowledged revision.
        expected: Revision,
    },
    /// Later revocations might be undone.
    #[error(
        "`{path}`, which says up to which revision changes were acknowledged, cannot be read: {why}; so it is unknown whether these facts are \
        older, and later revocations and removals would be undone; to accept that, say --accept-rollback"
    )]
    UnknownAge {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The old store was moved away, and neither the new one nor the old one could be moved to its place.
    #[error(
        "`{path}` is missing now: the restored store is whole in `{new}`, and the one that cannot be opened is in `{aside}`; neither could be \
        moved to its place ({why}): stop every enfilade on this data directory and run `mv -T '{new}' '{path}'`"
    )]
    Halfway {
        /// Where the store has to be.
        path: PathBuf,
        /// Where the restored store is.
        new: PathBuf,
        /// Where the old store is.
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
