//! Facts on their way out of a store and back into one: backups for machines, dumps for people.
//!
//! A backup is one line of JSON that says where it was taken, then every record with its checksum, then how many there
//! were and their digest. A dump is one line of JSON for each record.

use enfilade_facts::codec::{self, Reader, Writer};
use enfilade_facts::format::{FORMAT, bring_up};
use enfilade_facts::journal::{Identity, IdentityKey, Tally};
use enfilade_facts::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use enfilade_facts::tables::{Fact, Key, Visit};
use enfilade_facts::{Revision, SourceError, Table, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead, Read, Write};
use std::ops::ControlFlow;

/// What copies of stores of format 2 called theirs: their revision was LMDB's own number, and the number of the change stood beside it.
const FORMAT_OF_2: u32 = 1;

/// Where and when a copy was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// What kind of copy: `backup` or `dump`.
    pub enfilade_facts: String,
    /// The format of the store: the form of its records. This program reads none that is newer than its own.
    pub format: u32,
    /// The store, as it names itself.
    pub store: String,
    /// At which revision: what a restored store must not be behind.
    pub revision: u64,
    /// The same in copies of stores of format 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<u64>,
    /// When, seconds since the epoch.
    pub unix_seconds: i64,
    /// How many records follow.
    pub records: u64,
    /// Whether hashes of secrets are in it.
    pub secrets: bool,
}

/// A record without its header.
pub type Record = (Table, Vec<u8>, Vec<u8>);

/// A copy could not be made or taken in.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Reading or writing the file.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The facts.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The file is not what it should be.
    #[error("{0}")]
    Malformed(String),
}

impl Origin {
    fn of(view: &View<'_>, kind: &str, unix_seconds: i64, secrets: bool) -> Result<Self, SourceError> {
        let counts = Table::of_facts().map(|table| view.tally(table, &[]).map(|tally| tally.count));
        let identity = view.get::<Identity>(&IdentityKey)?;
        let format = identity.map_or(FORMAT, |identity| identity.format);
        let head = view.head()?;
        // As the programs of that format wrote it and read it.
        let (format, revision, change) = match format {
            2 => (FORMAT_OF_2, head.commit, Some(head.revision.0)),
            format => (format, head.revision.0, None),
        };
        Ok(Origin {
            enfilade_facts: kind.to_owned(),
            format,
            store: view.at().store.to_string(),
            revision,
            change,
            unix_seconds,
            records: counts.sum::<Result<u64, _>>()?,
            secrets,
        })
    }

    fn read(line: &[u8], kind: &str) -> Result<Self, CopyError> {
        let what = |why: String| CopyError::Malformed(format!("this is no {kind} of facts: {why}"));
        let mut origin: Origin =
            serde_json::from_slice(line).map_err(|why| what(format!("line 1: {why}")))?;
        if origin.enfilade_facts != kind {
            return Err(what(format!("it is a {}", origin.enfilade_facts)));
        }
        if FORMAT < origin.format {
            return Err(what(format!("it has format {}, this program knows {FORMAT}", origin.format)));
        }
        if origin.format == FORMAT_OF_2 {
            origin.revision =
                origin.change.take().ok_or_else(|| what("line 1: its change is missing".into()))?;
            origin.format = 2;
        }
        Ok(origin)
    }
}

/// Told after every record how many there were so far, and how many there will be.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

pub(crate) fn each_fact(
    view: &View<'_>,
    mut each: impl FnMut(Table, &[u8], &[u8]) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    for table in Table::of_facts() {
        let mut failed = None;
        view.scan_values(table, &[], &mut |key, value| {
            Ok(match each(table, key, value) {
                Ok(()) => ControlFlow::Continue(()),
                Err(why) => {
                    failed = Some(why);
                    ControlFlow::Break(())
                }
            })
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Writes a backup of what the view holds.
///
/// # Errors
/// When the facts cannot be read and believed to the last record, or the file cannot be written.
pub fn backup(
    view: &View<'_>,
    unix_seconds: i64,
    to: &mut dyn Write,
    progress: Progress<'_>,
) -> Result<Origin, CopyError> {
    let origin = Origin::of(view, "backup", unix_seconds, true)?;
    serde_json::to_writer(&mut *to, &origin).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    let mut tally = Tally::default();
    each_fact(view, |table, key, value| {
        let stored = codec::seal(table, key, Revision(origin.revision), value);
        tally.add(&stored);
        to.write_all(&[table as u8])?;
        for part in [key, &stored] {
            to.write_all(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes())?;
            to.write_all(part)?;
        }
        progress(tally.count, origin.records);
        Ok(())
    })?;
    to.write_all(&[END])?;
    to.write_all(&tally.count.to_be_bytes())?;
    to.write_all(&tally.digest.to_be_bytes())?;
    Ok(origin)
}

/// Stands where the number of a table would.
const END: u8 = u8::MAX;

/// Reads a backup and believes it whole or not at all.
///
/// # Errors
/// When a byte of it is not what was written.
pub fn read_backup(
    mut from: impl BufRead,
    progress: Progress<'_>,
) -> Result<(Origin, Vec<Record>), CopyError> {
    let mut line = Vec::new();
    (&mut from).take(4096).read_until(b'\n', &mut line)?;
    let origin = Origin::read(&line, "backup")?;
    let mut records = Vec::new();
    let mut tally = Tally::default();
    let damaged = |why: &str| CopyError::Malformed(format!("the backup is damaged: {why}"));
    loop {
        let [number] = fixed(&mut from)?;
        if number == END {
            break;
        }
        let table = Table::of_facts().find(|table| *table as u8 == number);
        let table = table.ok_or_else(|| damaged("a record of no known table"))?;
        let [key, stored] = [KEY_BYTES_MAX, VALUE_BYTES_MAX + 64].map(|limit| {
            let bytes = u32::from_be_bytes(fixed(&mut from)?) as usize;
            if limit < bytes {
                return Err(damaged("a record larger than any can be"));
            }
            let mut part = vec![0; bytes];
            from.read_exact(&mut part)?;
            Ok(part)
        });
        let (key, stored) = (key?, stored?);
        let (_, value) = codec::open(table, &key, &stored)?;
        tally.add(&stored);
        let value = bring_up(origin.format, table, value);
        let value =
            value.ok_or_else(|| damaged("a record is not valid for its table: use another backup"))?;
        records.push((table, key, value));
        progress(tally.count, origin.records);
    }
    let end = Tally {
        count: u64::from_be_bytes(fixed(&mut from)?),
        digest: u128::from_be_bytes(fixed(&mut from)?),
    };
    if end != tally || tally.count != origin.records {
        return Err(damaged("records are missing or are not those that were written"));
    }
    Ok((origin, records))
}

fn fixed<const N: usize>(from: &mut impl Read) -> Result<[u8; N], CopyError> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map_err(|why| match why.kind() {
        io::ErrorKind::UnexpectedEof => CopyError::Malformed("the backup ends too early".into()),
        _ => why.into(),
    })?;
    Ok(bytes)
}

/// Writes a dump: one line of JSON for where it was taken and one for each record. Without `secrets`, a word stands in
/// the place of every hash of one.
///
/// # Errors
/// As [`backup`].
pub fn dump(
    view: &View<'_>,
    unix_seconds: i64,
    secrets: bool,
    to: &mut dyn Write,
) -> Result<Origin, CopyError> {
    let origin = Origin::of(view, "dump", unix_seconds, secrets)?;
    let mut line = |value: &Value| -> Result<(), CopyError> {
        serde_json::to_writer(&mut *to, value).map_err(io::Error::from)?;
        Ok(to.write_all(b"\n")?)
    };
    line(&serde_json::to_value(&origin).map_err(io::Error::from)?)?;
    each_fact(view, |table, key, value| {
        let describe = Describe { key, value, secrets };
        let described = table.visit(describe).flatten();
        line(&described.ok_or_else(|| codec::damaged(table, key, "it is not a valid record of this table"))?)
    })?;
    Ok(origin)
}

struct Describe<'r> {
    key: &'r [u8],
    value: &'r [u8],
    secrets: bool,
}

impl Visit for Describe<'_> {
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

/// Reads a dump.
///
/// # Errors
/// At the first line that is not what it should be, with its number.
pub fn read_dump(from: impl BufRead) -> Result<(Origin, Vec<Record>), CopyError> {
    let mut lines = from.lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let origin = Origin::read(first.as_bytes(), "dump")?;
    let mut records = Vec::new();
    for (index, line) in lines.enumerate() {
        let wrong = |why: String| CopyError::Malformed(format!("line {}: {why}", index + 2));
        let line: Line = serde_json::from_str(&line?).map_err(|why| wrong(why.to_string()))?;
        let table = Table::named(&line.table).ok_or_else(|| wrong(format!("no table `{}`", line.table)))?;
        let record = table.visit(Undescribe { key: line.key, row: line.row });
        let record = record.ok_or_else(|| wrong(format!("table `{}` holds no facts", line.table)))?;
        records.push(record.map_err(|why| wrong(why.to_string()))?);
    }
    if records.len() as u64 != origin.records {
        let why = format!("{} records, and line 1 says {}", records.len(), origin.records);
        return Err(CopyError::Malformed(why));
    }
    Ok((origin, records))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    table: String,
    key: Value,
    row: Value,
}

struct Undescribe {
    key: Value,
    row: Value,
}

impl Visit for Undescribe {
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
        Ok((R::TABLE, key.bytes(), value.into_bytes()))
    }
}
