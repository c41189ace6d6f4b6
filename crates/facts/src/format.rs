//! The formats of a store, and the conversion of records from one format to the next.
//!
//! All records of a store have the same format. A store of another format is not opened. An upgrade converts it to this program's format: one
//! transaction converts every record with [`bring_up`].
//!
//! # When the format changes
//! The format changes when there is a new table, when a record gets a new field, or when this program would misread a record of an older build. A new
//! last field that may be missing ([`Writer::tail`]) needs no conversion, because this program can read records without it. Records with the new
//! field still need a new format number, because older builds would report these records as damaged. When you change the format:
//! 1. increase [`FORMAT`] by one, and let `step` convert a record of the previous form to the new form;
//! 2. keep a store that was written before the change in `interop/fixtures/format-N`. `interop/upgrade.rs` defines the content of this store,
//!    upgrades the store in every run of the tests, and fails if the store is missing.

use crate::codec::{Reader, Writer};
use crate::tables::{MirroredFile, Row, Table};

/// The layout of a whole store and the form of its records.
///
/// | format | what is new |
/// |---|---|
/// | 2 | the first that can be upgraded; records carry LMDB's transaction id of the commit |
/// | 3 | records carry the revision, which is the number of the change; entries of the log no longer have a field for LMDB's transaction id |
/// | 4 | each mark has a second record, by its last second (older marks get it at the first purge); the log has large lists of keys in pieces |
/// | 5 | the record of the next SID also identifies the key of API tokens; entries of the log have the id of the request; names of imported records |
pub const FORMAT: u32 = 5;
/// The oldest format that can be upgraded.
pub const FORMAT_OLDEST: u32 = 2;

/// Converts the value of a record from the older format `from` to the format [`FORMAT`]; `None` if the value does not have the form of `from`.
pub fn bring_up(from: u32, table: Table, value: &[u8]) -> Option<Vec<u8>> {
    (from..FORMAT).try_fold(value.to_vec(), |value, format| step(format, table, value))
}

/// Converts the value of a record to the next format. From format 4 on, the table of the log has two kinds of records: entries and pieces.
fn step(format: u32, table: Table, value: Vec<u8>) -> Option<Vec<u8>> {
    match (format, table) {
        (2, Table::Log) => log_entry_of_2(&value),
        (2, Table::Files) => kept_file_of_2(&value),
        _ => Some(value),
    }
}

/// An entry of format 2 has LMDB's transaction id after the time. This field is dropped.
fn log_entry_of_2(value: &[u8]) -> Option<Vec<u8>> {
    let mut from = Reader::new(value);
    let mut to = Writer::default();
    to.text(&from.text()?).text(&from.text()?).i64(from.i64()?);
    from.u64()?;
    to.fixed(from.rest());
    Some(to.into_bytes())
}

/// In format 2, the field named `good` contains a transaction id of LMDB. The revision of that transaction is unknown, so the field becomes `None`.
fn kept_file_of_2(value: &[u8]) -> Option<Vec<u8>> {
    let mut from = Reader::new(value);
    let row = MirroredFile::decode(&mut from).filter(|_| from.is_empty())?;
    let mut to = Writer::default();
    MirroredFile { good: None, ..row }.encode(&mut to);
    Some(to.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::Revision;
    use crate::tables::{LogEntry, Written};

    #[test]
    fn a_new_table_is_a_new_format() {
        assert_eq!((FORMAT, Table::ALL.len()), (5, 29), "see \"When the format changes\" in format.rs");
    }

    #[test]
    fn records_of_format_2_become_those_of_today() {
        let mut old = Writer::default();
        old.text("who").text("what").i64(7).u64(45).option(None::<()>, |_, ()| {});
        let new = bring_up(2, Table::Log, &old.into_bytes()).unwrap();
        let entry = LogEntry {
            who: "who".into(),
            what: "what".into(),
            unix_seconds: 7,
            request: None,
            written: Written::Unsaid,
        };
        assert_eq!(LogEntry::decode(&mut Reader::new(&new)), Some(entry));

        let row = MirroredFile { good: Some(Revision(45)), problem_count: 1, ..MirroredFile::default() };
        let mut old = Writer::default();
        row.encode(&mut old);
        let new = bring_up(2, Table::Files, &old.into_bytes()).unwrap();
        assert_eq!(MirroredFile::decode(&mut Reader::new(&new)), Some(MirroredFile { good: None, ..row }));

        assert_eq!(bring_up(2, Table::Users, b"as it is"), Some(b"as it is".to_vec()));
        assert_eq!(bring_up(2, Table::Log, b"too short"), None);
        assert_eq!(bring_up(FORMAT, Table::Log, b"of today"), Some(b"of today".to_vec()));
    }
}
