//! The keys of sessions that all members use (rule 3 of docs/fleet-protocol.md). They are not facts, and not in the log. This crate does not read them:
//! they are encrypted.
//!
//! ```text
//! sessions/id       the id of the newest keys
//! sessions/sealed   these keys
//! keys/<id>         a digest of the keys that a process uses (`registration.rs`)
//! ```

use crate::etcd::{has_value, is_absent, put, read};
use crate::log::{Log, LogError, damaged};

/// An identifier of keys of sessions.
pub type KeysId = [u8; 8];

/// Keys of sessions in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedKeys {
    /// Their identifier.
    pub id: KeysId,
    /// The encrypted keys.
    pub sealed: String,
}

impl Log {
    pub(crate) fn keys_id_key(&self) -> Vec<u8> {
        self.key("sessions", "id")
    }

    /// The newest keys; `None` if no keys were shared yet.
    ///
    /// # Errors
    /// When etcd does not answer, or a value is damaged.
    pub async fn shared_keys(&self) -> Result<Option<SharedKeys>, LogError> {
        let reads = [self.keys_id_key(), self.key("sessions", "sealed")].map(|key| read(key, Vec::new()));
        let found = self.etcd().transact(Vec::new(), reads.to_vec()).await?;
        let mut found = found.unwrap_or_default().into_iter().map(|rows| rows.into_iter().next());
        let (Some(Some(id)), Some(Some(sealed))) = (found.next(), found.next()) else { return Ok(None) };
        Ok(Some(SharedKeys {
            id: id.value.try_into().map_err(|_| damaged(&id.key, "it does not have 8 bytes"))?,
            sealed: String::from_utf8(sealed.value).map_err(|_| damaged(&sealed.key, "it is not text"))?,
        }))
    }

    /// Gives new keys to all members, if the keys `before` are still the newest ones. Returns whether they were.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn share_keys(&self, before: Option<KeysId>, keys: &SharedKeys) -> Result<bool, LogError> {
        let newest = self.keys_id_key();
        let condition = match before {
            Some(before) => has_value(newest.clone(), before.to_vec()),
            None => is_absent(newest.clone()),
        };
        let operations = vec![
            put(newest, keys.id.to_vec()),
            put(self.key("sessions", "sealed"), keys.sealed.clone().into_bytes()),
        ];
        Ok(self.etcd().transact(vec![condition], operations).await?.is_some())
    }
}
