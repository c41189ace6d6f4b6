//! Copies of all facts: backups, which are exact, and dumps, which people can read.
//!
//! A backup begins with one line of JSON about its origin. All stored records follow, in the order of tables and keys. A backup ends with the number
//! of records and their digest. A dump is one line of JSON for each record. Backups and dumps are read record by record, and are never loaded into
//! memory as a whole. So damage may be found only at the last record. A program that uses the records of a copy must be able to undo all its work
//! until it has read the last record.

mod body;
mod gather;

pub use gather::{Gathered, Views};

use body::Body;
use enfilade_facts::codec::{self, Reader, Writer};
use enfilade_facts::format::{FORMAT, bring_up};
use enfilade_facts::journal::{Identity, IdentityKey};
use enfilade_facts::tables::{Fact, Key, RowVisitor};
use enfilade_facts::{SourceError, Table, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead, Read, Write};

/// The format number in copies of stores of format 2. In a copy with this number, the field `revision` contains LMDB's transaction id, and the field
/// `change` contains the revision.
const FORMAT_OF_2: u32 = 1;

const BACKUP: &str = "backup";
const DUMP: &str = "dump";
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
    change: Option<u64>,
    /// The time of the copy, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The number of records in the copy.
    pub records: u64,
    /// Whether the copy contains secrets and hashes of secrets.
    pub secrets: bool,
}

/// A record without its header: table, key and value.
pub type Record = (Table, Vec<u8>, Vec<u8>);

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

impl Origin {
    /// Describes a backup of the view: its store, its revision and its time.
    fn of(view: &View<'_>, unix_seconds: i64) -> Result<Self, SourceError> {
        let counts = Table::of_facts().map(|table| view.tally(table, &[]).map(|tally| tally.count));
        let identity = view.get::<Identity>(&IdentityKey)?;
        let format = identity.map_or(FORMAT, |identity| identity.format);
        let head = view.head()?;
        // A copy of a store of format 2 has the fields that programs of that format write and read.
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
            return Err(body::cut(kind));
        }
        let mut origin: Origin =
            serde_json::from_slice(line).map_err(|why| what(format!("line 1: {why}")))?;
        if origin.enfilade_facts != kind {
            return Err(what(format!("the input is a {}", origin.enfilade_facts)));
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

/// A function that is called with the progress so far and with the total, in records or bytes.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// A copy that is read record by record.
pub struct Copy<'r> {
    /// The store from which the copy was made, and the time.
    pub origin: Origin,
    /// The records. If any item is an error, the caller must not use any record.
    pub records: Box<dyn Iterator<Item = Result<Record, CopyError>> + 'r>,
}

/// Reads a backup.
///
/// # Errors
/// When the first line is damaged. The iterator of records ends with an error if a byte of the records is damaged or missing.
pub fn read_backup<'r>(mut from: impl BufRead + 'r) -> Result<Copy<'r>, CopyError> {
    let origin = first_line(&mut from, BACKUP)?;
    let (format, expected) = (origin.format, origin.records);
    let damaged =
        |why: &str| CopyError::Malformed(format!("the backup is damaged: {why}; use another backup"));
    let mut body = Body::of(from);
    let mut next = move || {
        let Some((table, key, stored)) = body.next()? else {
            return match body.count() == expected {
                true => Ok(None),
                false => Err(damaged("the number of records differs from the number in the first line")),
            };
        };
        let (_, value) = codec::open(table, &key, &stored)?;
        let (key, value) = bring_up(format, table, &key, value)
            .ok_or_else(|| damaged("a record is not valid for its table"))?;
        Ok(Some((table, key, value)))
    };
    Ok(Copy { origin, records: Box::new(std::iter::from_fn(move || next().transpose())) })
}

fn first_line(from: &mut impl BufRead, kind: &str) -> Result<Origin, CopyError> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    Origin::read(&line, kind)
}

impl Gathered {
    /// A reader of the bytes of a backup, from the first byte.
    ///
    /// # Errors
    /// When the gathered facts cannot be read.
    pub fn backup(&mut self) -> io::Result<impl Read + '_> {
        let mut line = serde_json::to_vec(&self.origin)?;
        line.push(b'\n');
        Ok(io::Cursor::new(line).chain(self.body()?))
    }

    /// Writes a backup. `progress` counts bytes.
    ///
    /// # Errors
    /// When the backup cannot be written.
    pub fn write_backup(&mut self, to: &mut dyn Write, progress: Progress<'_>) -> Result<(), CopyError> {
        let all = self.bytes()?;
        let mut backup = self.backup()?;
        let mut done = 0;
        loop {
            let copied = io::copy(&mut (&mut backup).take(1 << 20), to)?;
            if copied == 0 {
                return Ok(());
            }
            done += copied;
            progress(done, all);
        }
    }

    /// Writes a dump: one line of JSON for its origin, and one line for each record. If `secrets` is false, every secret and every hash of a secret
    /// is replaced by a fixed word. `progress` counts records.
    ///
    /// # Errors
    /// When the dump cannot be written, or a record does not have the form of its table.
    pub fn write_dump(
        &mut self,
        secrets: bool,
        to: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<(), CopyError> {
        let origin = Origin { enfilade_facts: DUMP.to_owned(), secrets, ..self.origin.clone() };
        let mut line = |value: &Value| -> Result<(), CopyError> {
            serde_json::to_writer(&mut *to, value).map_err(io::Error::from)?;
            Ok(to.write_all(b"\n")?)
        };
        line(&serde_json::to_value(&origin).map_err(io::Error::from)?)?;
        let mut body = Body::of(self.body()?);
        while let Some((table, key, stored)) = body.next()? {
            let (_, value) = codec::open(table, &key, &stored)?;
            let described = table.visit(Describe { key: &key, value, secrets }).flatten();
            let form = || codec::damaged(table, &key, "it is not a valid record of this table");
            line(&described.ok_or_else(form)?)?;
            progress(body.count(), origin.records);
        }
        Ok(())
    }

    /// The gathered facts as a copy that another store can read.
    ///
    /// # Errors
    /// When the gathered facts cannot be read.
    pub fn into_copy(self) -> Result<Copy<'static>, CopyError> {
        let mut line = serde_json::to_vec(&self.origin).map_err(io::Error::from)?;
        line.push(b'\n');
        let body = self.into_body()?;
        read_backup(io::Cursor::new(line).chain(body))
    }
}

struct Describe<'r> {
    key: &'r [u8],
    value: &'r [u8],
    secrets: bool,
}

impl RowVisitor for Describe<'_> {
    type Output = Option<Value>;
    fn with<R: Fact>(self) -> Option<Value>
    where
        R::Key: Serialize + DeserializeOwned,
    {
        let mut row = R::decode(&mut Reader::new(self.value))?;
        if !self.secrets {
            row.redact();
        }
        let key = serde_json::to_value(R::Key::from_bytes(self.key)?).ok()?;
        let row = serde_json::to_value(row).ok()?;
        Some(json!({ "table": R::TABLE.name(), "key": key, "row": row }))
    }
}

/// Reads a dump. The records of a dump may be in any order.
///
/// # Errors
/// When the first line of the dump is malformed. The iterator of records ends with an error at the first malformed line, with the number of that
/// line. It also ends with an error if the number of records differs from the number in the first line.
pub fn read_dump<'r>(mut from: impl BufRead + 'r) -> Result<Copy<'r>, CopyError> {
    let origin = first_line(&mut from, DUMP)?;
    let (format, expected) = (origin.format, origin.records);
    let (mut lines, mut count) = (from.lines(), 0);
    let mut next = move || {
        let Some(line) = lines.next().transpose()? else {
            return match count == expected {
                true => Ok(None),
                false => Err(CopyError::Malformed(format!(
                    "the dump has {count} records, but its first line says {expected}: lines were lost or added; use another dump"
                ))),
            };
        };
        count += 1;
        let wrong = |why: String| CopyError::Malformed(format!("line {}: {why}", count + 1));
        let mut line: Line = serde_json::from_str(&line).map_err(|why| wrong(why.to_string()))?;
        if format < 6 && line.table == Table::Names.name() {
            line = name_of_5(line);
        }
        let table = Table::named(&line.table).ok_or_else(|| wrong(format!("no table `{}`", line.table)))?;
        let record = table.visit(Undescribe { key: line.key, row: line.row });
        let record = record.ok_or_else(|| wrong(format!("a dump cannot contain table `{}`", line.table)))?;
        Ok(Some(record.map_err(|why| wrong(why.to_string()))?))
    };
    Ok(Copy { origin, records: Box::new(std::iter::from_fn(move || next().transpose())) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    table: String,
    key: Value,
    row: Value,
}

/// In dumps of format 5 and older, the key of a name contained the name, and the record was the id.
fn name_of_5(mut line: Line) -> Line {
    let name = line.key.as_object_mut().and_then(|key| key.remove("name"));
    line.row = json!({ "id": line.row, "name": name });
    line
}

struct Undescribe {
    key: Value,
    row: Value,
}

impl RowVisitor for Undescribe {
    type Output = serde_json::Result<Record>;
    fn with<R: Fact>(self) -> Self::Output
    where
        R::Key: Serialize + DeserializeOwned,
    {
        let key: R::Key = serde_json::from_value(self.key)?;
        let mut row: R = serde_json::from_value(self.row)?;
        row.arrive();
        let mut value = Writer::default();
        row.encode(&mut value);
        Ok((R::TABLE, row.complete(key).bytes(), value.into_bytes()))
    }
}
