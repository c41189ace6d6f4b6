//! What can go wrong with a change, in words for whoever has to act.

use enfilade_facts::vocabulary::Malformed;
use enfilade_facts::{CommitError, SourceError};

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something named is not there.
    #[error("there is no {what} `{name}`; {hint}")]
    Missing {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
        /// The next step.
        hint: &'static str,
    },
    /// Something is there already.
    #[error("{what} `{name}` is there already; {hint}")]
    Exists {
        /// What kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
        /// The next step.
        hint: &'static str,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// It may not be done with this thing as it is.
    #[error("{0}")]
    Refused(String),
    /// A text has not the form it has to have.
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
    /// Door 5 could not do it.
    #[error(transparent)]
    Content(#[from] enfilade_content::Refusal),
    /// Door 2 could not do it.
    #[error(transparent)]
    Identity(#[from] enfilade_identity::Refusal),
    /// Door 4 could not do it.
    #[error(transparent)]
    Access(#[from] enfilade_access::Refusal),
}

pub(crate) fn missing(what: &'static str, id: impl std::fmt::Display) -> Error {
    Error::Missing { what, name: id.to_string(), hint: "look at the list of them" }
}
