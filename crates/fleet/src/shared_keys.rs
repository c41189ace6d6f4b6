//! The keys of sessions that all members use (rule 3 of docs/fleet-protocol.md). These keys are not facts, and are not in the log. The keys in etcd
//! are encrypted, and this crate does not decrypt them.
//!
//! ```text
//! sessions/id       the id of the newest keys
//! sessions/sealed   the newest keys, encrypted
//! keys/<id>         a digest of the keys that the process with the id `<id>` uses (`registration.rs`)
//! ```

use crate::etcd::{exists, has_value, is_absent, put, read};
use crate::log::{Log, LogError, damaged};
use crate::registration::{KeysDigest, random};

/// An identifier of keys of sessions: the number of changes of the keys, and a random number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeysId([u8; 8]);

impl KeysId {
    /// The identifier of the keys that replace the keys with the identifier `before`.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn after(before: Option<KeysId>) -> Result<Self, LogError> {
        let changes = before.map_or(0, KeysId::changes).saturating_add(1);
        let number: [u8; 4] = random()?;
        let mut id = [0; 8];
        id.iter_mut().zip(changes.to_be_bytes().into_iter().chain(number)).for_each(|(to, from)| *to = from);
        Ok(KeysId(id))
    }

    /// The identifier that consists of these bytes.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        KeysId(bytes)
    }

    /// The bytes of the identifier.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }

    fn changes(self) -> u32 {
        self.0.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    /// Whether the keys with this identifier are older than the keys with the identifier `other`. If they are older, no member may use them any more.
    pub(crate) fn is_before(self, other: KeysId) -> bool {
        self.changes() < other.changes()
    }
}

/// Keys of sessions in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedKeys {
    /// The identifier of the keys.
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
    /// When etcd does not answer, when the log belongs to another store, or when a value is damaged.
    pub async fn shared_keys(&self) -> Result<Option<SharedKeys>, LogError> {
        self.head().await?;
        let reads = [self.keys_id_key(), self.key("sessions", "sealed")].map(|key| read(key, Vec::new()));
        let found = self.etcd().transact(Vec::new(), reads.to_vec()).await?;
        let mut found = found.unwrap_or_default().into_iter().map(|rows| rows.into_iter().next());
        let (Some(Some(id)), Some(Some(sealed))) = (found.next(), found.next()) else { return Ok(None) };
        Ok(Some(SharedKeys {
            id: id.value.try_into().map(KeysId).map_err(|_| damaged(&id.key, "it does not have 8 bytes"))?,
            sealed: String::from_utf8(sealed.value).map_err(|_| damaged(&sealed.key, "it is not text"))?,
        }))
    }

    /// Gives new keys to all members, if the keys `before` are still the newest keys. Returns whether the keys were replaced.
    ///
    /// # Errors
    /// [`LogError::NotMember`], or when etcd does not answer.
    pub async fn share_keys(&self, before: Option<KeysId>, keys: &SharedKeys) -> Result<bool, LogError> {
        let newest = self.keys_id_key();
        let mut conditions = vec![match before {
            Some(before) => has_value(newest.clone(), before.0.to_vec()),
            None => is_absent(newest.clone()),
        }];
        // A machine that has left the fleet, or was expelled, must not change anything.
        conditions.extend(self.member().map(|member| exists(self.key("member", member))));
        let operations = vec![
            put(newest, keys.id.0.to_vec()),
            put(self.key("sessions", "sealed"), keys.sealed.clone().into_bytes()),
        ];
        let is_shared = self.etcd().transact(conditions, operations).await?.is_some();
        match self.member() {
            Some(name) if !is_shared && !self.is_member(name).await? => {
                Err(LogError::NotMember { name: name.to_owned() })
            }
            _ => Ok(is_shared),
        }
    }

    /// The registered processes that have not reported that they use the keys with this digest.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn without_keys(&self, digest: KeysDigest) -> Result<Vec<String>, LogError> {
        let [nodes, keys] = self.read_all(["node", "keys"]).await?;
        let uses = |id: &String| keys.iter().any(|(of, used)| of == id && *used == digest);
        Ok(nodes.into_iter().map(|(id, _)| id).filter(|id| !uses(id)).collect())
    }
}
