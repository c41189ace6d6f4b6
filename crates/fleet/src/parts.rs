//! Changes that are too large for one record of etcd. Such changes are written in parts, and an entry of the log refers to the parts.
//!
//! ```text
//! staging/<id>       exists while the parts with this id are being written; has a lease
//! part/<id>/<k>      part k
//! large/<n>          the id of the parts of the entry `log/<n>`
//! ```
//!
//! A part is written only while `staging/<id>` exists. The entry is added only if `staging/<id>` and all parts exist, and the same transaction
//! deletes `staging/<id>`. So an entry of the log has all its parts. If the id of parts is in neither `staging` nor `large`, the parts can be
//! deleted, because no entry can refer to them any more.

use crate::entry::{
    Body, CHANGES_BYTES_MAX, CHECKSUM_BYTES, Encoded, Entry, PART_BYTES, Parts, PartsId, Stored, checksum,
    read_changes,
};
use crate::etcd::{EtcdError, delete, exists, is_absent, put, put_leased, read_keys};
use crate::log::{Log, LogError, damaged};
use crate::messages::{Compare, Operation};
use crate::registration::random;
use enfilade_facts::Revision;
use std::collections::BTreeSet;

/// How long etcd keeps `staging/<id>` if the author does not renew its lease, in seconds.
const STAGING_SECONDS: i64 = 60;
/// The number of parts that are written before the lease is renewed. Writing a part takes at most [`TRIES`] calls of 1 s, so the lease is renewed
/// before it ends.
const RENEW_EVERY: usize = 8;
/// The largest number of attempts to send a part.
const TRIES: u32 = 5;
/// The number of keys of parts that are read at once. Even a log of the greatest size has fewer parts.
const KEYS_AT_ONCE: i64 = 4_096;
/// The version of the format of a part.
const VERSION: u8 = 1;

impl Log {
    /// Writes changes to etcd in parts. If the caller does not commit the changes, the caller must call [`Log::discard`], which deletes the parts.
    ///
    /// # Errors
    /// [`LogError::TooLarge`], or when etcd does not answer. After an error, no change was made.
    pub(crate) async fn stage(&self, encoded: Encoded) -> Result<Encoded, LogError> {
        let bytes = encoded.bytes();
        if bytes.len() > CHANGES_BYTES_MAX {
            return Err(LogError::TooLarge { bytes: bytes.len(), limit: CHANGES_BYTES_MAX });
        }
        let id = PartsId(random()?);
        match self.put_parts(id, bytes).await {
            Ok(checksums) => Ok(encoded.in_parts(Parts { id, checksums })),
            Err(why) => {
                self.discard_parts(id).await;
                Err(why)
            }
        }
    }

    async fn put_parts(&self, id: PartsId, bytes: &[u8]) -> Result<Vec<[u8; CHECKSUM_BYTES]>, LogError> {
        let lease = self.etcd().lease(STAGING_SECONDS).await?;
        let staging = put_leased(self.staging_key(id), Vec::new(), lease);
        self.etcd().transact(Vec::new(), vec![staging]).await?;
        let mut checksums = Vec::new();
        for (nth, part) in bytes.chunks(PART_BYTES).enumerate() {
            if nth % RENEW_EVERY == RENEW_EVERY - 1 {
                self.etcd().renew(lease).await?;
            }
            let key = self.part_key(id, nth);
            checksums.push(checksum(VERSION, &key, part));
            self.put_part(id, put(key, part.to_vec())).await?;
        }
        Ok(checksums)
    }

    /// Writes a part. Writing the same part twice does no harm.
    async fn put_part(&self, id: PartsId, part: Operation) -> Result<(), LogError> {
        let mut outcome = Err(EtcdError::Unavailable("no call".to_owned()));
        for _ in 0..TRIES {
            let conditions = vec![exists(self.staging_key(id))];
            outcome = self.etcd().transact(conditions, vec![part.clone()]).await;
            if !matches!(outcome, Err(EtcdError::Unavailable(_))) {
                break;
            }
        }
        outcome?.map(drop).ok_or(LogError::PartsDeleted)
    }

    /// The conditions that `staging/<id>` and all parts of these changes exist in etcd. The list is empty if the changes are not in parts. The
    /// conditions must hold when the entry with these changes is added.
    pub(crate) fn has_parts(&self, encoded: &Encoded) -> Vec<Compare> {
        let parts = encoded.parts().map(|parts| {
            let parts_exist = (0..parts.checksums.len()).map(|nth| exists(self.part_key(parts.id, nth)));
            parts_exist.chain([exists(self.staging_key(parts.id))])
        });
        parts.into_iter().flatten().collect()
    }

    /// The operations that the transaction must contain when the entry is added: they put `large/<n>` and delete `staging/<id>`. `last` is the number
    /// of the entry's last change.
    pub(crate) fn names_parts(&self, encoded: &Encoded, last: Revision) -> Vec<Operation> {
        let named = encoded.parts().map(|parts| {
            let named = put(self.large_key(last), parts.id.0.to_vec());
            [named, delete(self.staging_key(parts.id), Vec::new())]
        });
        named.into_iter().flatten().collect()
    }

    /// Deletes the parts of changes that were not committed. If an entry of the log refers to the parts, nothing is deleted.
    pub(crate) async fn discard(&self, encoded: &Encoded) {
        if let Some(parts) = encoded.parts() {
            self.discard_parts(parts.id).await;
        }
    }

    async fn discard_parts(&self, id: PartsId) {
        let staging = self.staging_key(id);
        let operations = vec![delete(staging.clone(), Vec::new()), self.deletes_parts(&id.text())];
        // If etcd does not answer, a member deletes the parts later (`delete_unnamed_parts`).
        let _ = self.etcd().transact(vec![exists(staging)], operations).await;
    }

    /// The entry with its changes, which are read from etcd if they are in parts.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if a part is missing or changed, [`LogError::Trimmed`] if the entry is not in the log any more.
    pub(crate) async fn complete(&self, stored: Stored) -> Result<Entry, LogError> {
        let (key, after) = (self.entry_key(stored.last()), Revision(stored.first.0.saturating_sub(1)));
        let Stored { id, first, state, body } = stored;
        let (count, parts) = match body {
            Body::Whole(changes) => return Ok(Entry { id, first, state, changes }),
            Body::Parted { count, parts } => (count, parts),
        };
        let mut bytes = Vec::new();
        for (nth, expected) in parts.checksums.iter().enumerate() {
            let part_key = self.part_key(parts.id, nth);
            let found = self.etcd().read(part_key.clone(), Vec::new(), 1).await?;
            let Some(part) = found.first() else {
                return Err(match self.etcd().read(key, Vec::new(), 1).await?.is_empty() {
                    true => LogError::Trimmed { after },
                    false => damaged(&part_key, "it is missing, and an entry of the log names it"),
                });
            };
            if part.value.len() > PART_BYTES || checksum(VERSION, &part_key, &part.value) != *expected {
                return Err(damaged(&part_key, "its checksum is not the one in the entry of the log"));
            }
            bytes.extend_from_slice(&part.value);
        }
        let changes = read_changes(&bytes, count);
        let changes = changes.ok_or_else(|| damaged(&key, "its parts do not have the form of changes"))?;
        Ok(Entry { id, first, state, changes })
    }

    /// Deletes parts to which no entry of the log refers, and which no process is writing. These are the parts of deleted entries, and the parts of
    /// processes that ended before they added their entry.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub(crate) async fn delete_unnamed_parts(&self) -> Result<(), LogError> {
        let all = |table: &str| (self.key(table, ""), self.after_all(table));
        let (part, end) = all("part");
        let (large, end_of_large) = all("large");
        let (staging, end_of_staging) = all("staging");
        let reads = vec![
            read_keys(part, end, KEYS_AT_ONCE),
            crate::etcd::read(large, end_of_large),
            read_keys(staging, end_of_staging, 0),
        ];
        let found = self.etcd().transact(Vec::new(), reads).await?.unwrap_or_default();
        let [parts, large, staging] = <[_; 3]>::try_from(found).unwrap_or_default();
        let named = large.into_iter().filter_map(|row| Some(PartsId(row.value.try_into().ok()?).text()));
        let written = staging.iter().filter_map(|row| self.id_of("staging", row));
        let used: BTreeSet<String> = named.chain(written).collect();
        let id_of = |row| Some(self.id_of("part", row)?.split_once('/')?.0.to_owned());
        let unused: BTreeSet<String> =
            parts.iter().filter_map(id_of).filter(|id| !used.contains(id)).collect();
        for id in unused {
            let nobody_writes = is_absent(self.key("staging", &id));
            self.etcd().transact(vec![nobody_writes], vec![self.deletes_parts(&id)]).await?;
        }
        Ok(())
    }

    fn deletes_parts(&self, id: &str) -> Operation {
        // `0` follows `/` in ASCII.
        delete(self.key("part", &format!("{id}/")), self.key("part", &format!("{id}0")))
    }

    fn staging_key(&self, id: PartsId) -> Vec<u8> {
        self.key("staging", &id.text())
    }

    fn part_key(&self, id: PartsId, nth: usize) -> Vec<u8> {
        self.key("part", &format!("{}/{nth:02}", id.text()))
    }

    /// The key of `large/<n>`. It contains the number in the same form as the key of an entry. So the trimming of the log can delete the records
    /// `large/<n>` and the entries up to the same number.
    pub(crate) fn large_key(&self, last: Revision) -> Vec<u8> {
        self.key("large", &format!("{:020}", last.0))
    }
}
