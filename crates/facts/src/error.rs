//! The reasons why facts cannot be read, and why a change was not made.

use crate::table::Table;

/// The facts could not be read. The caller must refuse the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A record exists but is damaged. A damaged record is never used.
    #[error("damaged record in table `{}`, key {key}: {why}; run `enfilade facts check`", table.name())]
    Damaged {
        /// The table.
        table: Table,
        /// The key, printable.
        key: String,
        /// The kind of damage.
        why: String,
    },
    /// The store itself does not answer.
    #[error("facts cannot be read: {0}")]
    Unavailable(String),
}

/// The error of an attempt to make a change. With [`CommitError::Unknown`], it is possible that the change was made. With every other variant,
/// nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Another change was committed before this change, and a record no longer has the state that this change expects. The caller must read the facts
    /// again and repeat the change.
    #[error("the change was not made, because a record on which it depends was changed meanwhile (table `{}`, key {key}); try again", table.name())]
    Conflict {
        /// The table.
        table: Table,
        /// The key, printable.
        key: String,
    },
    /// Another process has been writing to the store for too long. The text identifies the process and says what to do.
    #[error("{0}")]
    Busy(String),
    /// The memory map of the store is nearly full. The rest of the map is reserved for other kinds of changes.
    #[error(
        "this change was refused: the facts use {} of their {} MiB, and the rest is kept for {kept_for}; \
        set `[facts] map_mebibytes` to a larger number in enfilade.toml and restart every enfilade process on this data directory, or \
        stop all of them and run `enfilade facts compact`",
        .used_bytes >> 20,
        .map_bytes >> 20
    )]
    Full {
        /// The part of the map that is in use, in bytes.
        used_bytes: u64,
        /// The size of the map, in bytes.
        map_bytes: u64,
        /// The kind of changes for which the rest of the map is reserved.
        kept_for: &'static str,
    },
    /// A key or value is larger than a store accepts.
    #[error("the change was not made: in table `{}`, a {what} of {bytes} bytes exceeds the limit of {limit} bytes", table.name())]
    TooLarge {
        /// The table.
        table: Table,
        /// "key" or "value".
        what: &'static str,
        /// The size of the key or value, in bytes.
        bytes: usize,
        /// The largest allowed size, in bytes.
        limit: usize,
    },
    /// It is not known whether every member of the fleet has the change. Either etcd did not answer, or this member could not apply the change, or
    /// the membership of this server ended. The change may have been made already, or may be made later.
    #[error("{0}")]
    Unknown(String),
    /// The store could not be read or written.
    #[error("{}", not_changed(.0))]
    Source(SourceError),
}

impl From<SourceError> for CommitError {
    fn from(why: SourceError) -> Self {
        CommitError::Source(why)
    }
}

/// The text for a change that failed because the store did not answer. If a record is damaged, the text is about the record.
fn not_changed(why: &SourceError) -> String {
    match why {
        SourceError::Unavailable(why) => format!("facts cannot be changed: {why}"),
        damaged @ SourceError::Damaged { .. } => damaged.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_failed_does_not_say_that_reading_failed() {
        let why = SourceError::Unavailable("the disk is full: make room".into());
        assert_eq!(why.to_string(), "facts cannot be read: the disk is full: make room");
        assert_eq!(
            CommitError::from(why).to_string(),
            "facts cannot be changed: the disk is full: make room"
        );
    }
}
