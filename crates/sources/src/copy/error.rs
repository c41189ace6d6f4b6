//! The reasons why a copy could not be made or read.

use enfilade_facts::SourceError;
use std::io;

/// A copy could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The facts could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file is malformed.
    #[error("{0}")]
    Malformed(String),
}

/// The error for a copy that ends too early.
pub(super) fn cut(kind: &str) -> CopyError {
    CopyError::Malformed(format!(
        "the {kind} ends too early: it was cut short when it was written or copied; use another {kind}"
    ))
}
