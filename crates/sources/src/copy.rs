//! Copies of all facts: backups, which are exact, and dumps, which people can read.
//!
//! A backup begins with one line of JSON about its origin. All stored records follow, in the order of tables and keys. A backup ends with the number
//! of records and their digest. A dump has one line of JSON about its origin, and one line for each record. Backups and dumps are read record by
//! record, and are never loaded into memory as a whole. So damage may be found only at the end. A program that uses the records of a copy must be
//! able to undo all its work until it has read the copy to its end.

mod body;
mod error;
mod gather;
mod origin;

pub use error::CopyError;
pub use gather::{Gathered, Views};
pub use origin::Origin;

use body::Body;
use enfilade_facts::Table;
use enfilade_facts::codec::{self, Reader, Writer};
use enfilade_facts::format::bring_up;
use enfilade_facts::tables::{Fact, Key, RowVisitor};
use origin::{BACKUP, DUMP, first_line};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead, Read, Write};

/// A record without its header: table, key and value.
pub type Record = (Table, Vec<u8>, Vec<u8>);

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

/// Converts a line of the table of names. In dumps of format 5 and older, `key` contains the name, and `row` is only the id.
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
