//! What is left of the map. The last of it is for changes that take rights away: a user who is disabled or a session that is revoked must not
//! wait until somebody has made room.

use super::environment::Environment;
use super::unavailable;
use enfilade_facts::journal::{Write, only_takes};
use enfilade_facts::limits::MAP_PERCENT_MAX;
use enfilade_facts::{CommitError, Snapshot, SourceError};
use heed::RoTxn;

/// The pages of a record, and of the tree above it, are no more than so many times as large as the record, once it is large.
const PAGES_PER_BYTE: u64 = 4;
/// A small record alone has pages of each level of its tree copied, and of that of its tally.
const BYTES_PER_WRITE: u64 = 16 * 4096;

/// The room for the changes of one transaction.
pub(super) struct Room {
    map_bytes: u64,
    /// How much may be in use before only changes that take away are made.
    most: u64,
    /// How long the file was, and what the changes may take since, at most: no more than that is in use.
    file_bytes: u64,
    /// How much was in use; it is not asked for while the file is short.
    used_bytes: Option<u64>,
    /// Whether changes that give something may have come into what is not for them.
    is_doubtful: bool,
}

impl Environment {
    /// What is left, as a transaction that writes begins.
    pub(super) fn room(&self, txn: &RoTxn<'_>) -> heed::Result<Room> {
        let info = self.env.info();
        let map_bytes = info.map_size as u64;
        let most = map_bytes / 100 * MAP_PERCENT_MAX;
        let file_bytes = info.last_page_number as u64 * self.page_bytes(txn)?;
        let used_bytes = (most < file_bytes).then(|| self.used_in(txn)).transpose()?;
        Ok(Room { map_bytes, most, file_bytes, used_bytes, is_doubtful: false })
    }
}

impl Room {
    /// Notes what a change writes. Says why it may not be made, if it may not.
    pub(super) fn take(
        &mut self,
        before: &dyn Snapshot,
        writes: &[Write],
    ) -> Result<Option<CommitError>, SourceError> {
        let of_write = |Write { key, stored, .. }: &Write| {
            let bytes = key.len() + stored.as_ref().map_or(0, Vec::len);
            bytes as u64 * PAGES_PER_BYTE + BYTES_PER_WRITE
        };
        self.file_bytes = self.file_bytes.saturating_add(writes.iter().map(of_write).sum());
        if self.file_bytes <= self.most || only_takes(before, writes)? {
            return Ok(None);
        }
        self.is_doubtful = true;
        Ok(self.used_bytes.filter(|used| self.most < *used).map(|used| self.full(used)))
    }

    /// Refuses the transaction where changes that give something came into what is not for them.
    pub(super) fn check(&self, environment: &Environment, txn: &RoTxn<'_>) -> Result<(), CommitError> {
        if !self.is_doubtful {
            return Ok(());
        }
        let used = environment.used_in(txn).map_err(unavailable)?;
        if self.most < used { Err(self.full(used)) } else { Ok(()) }
    }

    fn full(&self, used_bytes: u64) -> CommitError {
        CommitError::Full { used_bytes, map_bytes: self.map_bytes }
    }
}
