//! The change log: what each change wrote, who made it and when. Indexes catch up from it, and it is what the audit log
//! is written from.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::limits::LOG_KEYS_MAX;
use crate::source::Revision;

impl Key for Revision {
    fn bytes(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Revision(u64::from_be_bytes(bytes)))
    }
}

/// One change. Its key is its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Who made it: an authid, a person at the command line, a file.
    pub who: String,
    /// What was done, in the words of the command line.
    pub what: String,
    /// When, seconds since the epoch.
    pub unix_seconds: i64,
    /// What was put or deleted; `None` when it was more than [`LOG_KEYS_MAX`] records: then an index is built anew.
    pub written: Option<Vec<(Table, Vec<u8>)>>,
}

impl Row for LogEntry {
    const TABLE: Table = Table::Log;
    type Key = Revision;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.who).text(&self.what).i64(self.unix_seconds);
        let written = self.written.as_ref().filter(|written| written.len() <= LOG_KEYS_MAX);
        to.option(written, |to, written| {
            to.list(written, |to, (table, key)| {
                to.u8(*table as u8).bytes(key);
            });
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let table = |number: u8| Table::ALL.into_iter().find(|table| *table as u8 == number);
        Some(LogEntry {
            who: from.text()?,
            what: from.text()?,
            unix_seconds: from.i64()?,
            written: from
                .option(|from| from.list(|from| Some((table(from.u8()?)?, from.bytes()?.to_vec()))))?,
        })
    }
}
