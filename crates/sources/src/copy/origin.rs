//! The first line of a copy: the store from which the copy was made, and the time.

use super::error::{CopyError, cut};
use enfilade_facts::format::{FORMAT, REPLICA};
use enfilade_facts::journal::{Identity, IdentityKey};
use enfilade_facts::{SourceError, Table, View};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read};

/// The format number in copies of stores of format 2. In a copy with this number, the field `revision` contains LMDB's transaction id, and the field
/// `change` contains the revision.
const FORMAT_OF_2: u32 = 1;

pub(super) const BACKUP: &str = "backup";
pub(super) const DUMP: &str = "dump";
/// The greatest length of the first line, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// The store from which a copy was made, and the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The kind of copy: `backup` or `dump`.
    pub enfilade_facts: String,
    /// The format of the store: the form of its records. This program does not read a newer format than its own.
    pub format: u32,
    /// The id of the store.
    pub store: String,
    /// The revision of the facts. After a restore of the copy, the store has a later revision.
    pub revision: u64,
    /// In copies of stores of format 2, the revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<u64>,
    /// The time of the copy, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The number of records in the copy.
    pub records: u64,
    /// Whether the copy contains secrets and hashes of secrets.
    pub secrets: bool,
}

impl Origin {
    /// Describes a backup of the view: its store, its revision and its time.
    pub(super) fn of(view: &View<'_>, unix_seconds: i64) -> Result<Self, SourceError> {
        let counts = Table::of_facts().map(|table| view.tally(table, &[]).map(|tally| tally.count));
        let identity = view.get::<Identity>(&IdentityKey)?;
        let format = identity.map_or(FORMAT, |identity| identity.format & !REPLICA);
        let head = view.head()?;
        // A copy of a store of format 2 has the fields that older versions of the program (the versions with format 2) write and read.
        let (format, revision, change) = match format {
            2 => (FORMAT_OF_2, head.commit, Some(head.revision.0)),
            format => (format, head.revision.0, None),
        };
        Ok(Origin {
            enfilade_facts: BACKUP.to_owned(),
            format,
            store: view.at().store.to_string(),
            revision,
            change,
            unix_seconds,
            records: counts.sum::<Result<u64, _>>()?,
            secrets: true,
        })
    }

    fn read(line: &[u8], kind: &str) -> Result<Self, CopyError> {
        let what = |why: String| {
            CopyError::Malformed(format!("the input cannot be read as a {kind} of Enfilade facts: {why}"))
        };
        if !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX as usize {
            return Err(cut(kind));
        }
        let mut origin: Origin =
            serde_json::from_slice(line).map_err(|why| what(format!("line 1: {why}")))?;
        if origin.enfilade_facts != kind {
            return Err(what(format!(
                "the input is a {}; `enfilade facts restore` reads a backup, and `enfilade facts load` reads a dump",
                origin.enfilade_facts
            )));
        }
        if FORMAT < origin.format {
            return Err(what(format!(
                "the input has format {}, and this program reads formats up to {FORMAT}. Use a newer version of enfilade",
                origin.format
            )));
        }
        if origin.format == FORMAT_OF_2 {
            origin.revision =
                origin.change.take().ok_or_else(|| what("line 1: the field `change` is missing".into()))?;
            origin.format = 2;
        }
        Ok(origin)
    }
}

/// Reads the first line of a copy of this kind.
///
/// # Errors
/// When the line is damaged, or belongs to another kind of copy or to a newer format.
pub(super) fn first_line(from: &mut impl BufRead, kind: &str) -> Result<Origin, CopyError> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Origin::read(&line, kind)
}
