//! Errors of changes, with the next step for the operator.

use enfilade_facts::vocabulary::Malformed;
use enfilade_facts::{CommitError, SourceError};

/// Why a change or a query failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A named record does not exist.
    #[error("there is no {what} `{name}`; {hint}")]
    Missing {
        /// The kind of record.
        what: &'static str,
        /// The name of the record.
        name: String,
        /// The next step.
        hint: &'static str,
    },
    /// A record of this name already exists.
    #[error("{what} `{name}` already exists; {hint}")]
    Exists {
        /// The kind of record.
        what: &'static str,
        /// The name of the record.
        name: String,
        /// The next step.
        hint: &'static str,
    },
    /// The requested change is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The change is valid, but the present state of the facts does not allow it.
    #[error("{0}")]
    Refused(String),
    /// A malformed text.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The facts could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The facts could not be changed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A file could not be changed.
    #[error("{0}")]
    File(String),
    /// A refusal of door 5 (content).
    #[error(transparent)]
    Content(#[from] enfilade_content::Refusal),
    /// A refusal of door 2 (identity).
    #[error(transparent)]
    Identity(#[from] enfilade_identity::Refusal),
    /// A refusal of door 4 (access).
    #[error(transparent)]
    Access(#[from] enfilade_access::Refusal),
}

pub(crate) fn missing(what: &'static str, id: impl std::fmt::Display) -> Error {
    Error::Missing { what, name: id.to_string(), hint: "list the existing records" }
}
