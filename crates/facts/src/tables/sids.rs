//! The SIDs that this store of facts has issued, and the key of its hashes of token secrets.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::Sid;
use serde::{Deserialize, Serialize};

/// The numbers from which the SIDs of this store are made: three random words and the next relative id. Relative ids start at 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidSpace {
    /// Three random words, chosen once for the store.
    pub words: [u32; 3],
    /// The next relative id. No relative id is given out twice.
    pub next_rid: u32,
    /// The key of the hashes of token secrets; `None` if the store is from an older program that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_key: Option<KnownKey>,
}

/// Identifies the key of the hashes of token secrets, without revealing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownKey {
    /// A keyed hash of a constant text.
    #[serde(with = "super::names::as_hex")]
    pub check: [u8; 16],
    /// Since when the key is in use, in seconds since the epoch.
    pub since: i64,
}

impl SidSpace {
    /// The first relative id that a store gives out.
    pub const FIRST_RID: u32 = 1000;

    /// Returns the next SID, and the record to store once that SID is issued. Returns `None` if no relative id is left.
    pub fn take(self) -> Option<(Sid, SidSpace)> {
        let next_rid = self.next_rid.checked_add(1)?;
        Some((Sid::of_store(self.words, self.next_rid), SidSpace { next_rid, ..self }))
    }
}

impl Row for SidSpace {
    const TABLE: Table = Table::Meta;
    type Key = SidSpaceKey;

    fn encode(&self, to: &mut Writer) {
        self.words.iter().for_each(|word| {
            to.u32(*word);
        });
        to.u32(self.next_rid).tail(self.token_key, |to, key| {
            to.fixed(&key.check).i64(key.since);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(SidSpace {
            words: [from.u32()?, from.u32()?, from.u32()?],
            next_rid: from.u32()?,
            token_key: from.tail(|from| Some(KnownKey { check: from.fixed()?, since: from.i64()? }))?,
        })
    }
}

/// The key of the only record of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidSpaceKey;

impl Key for SidSpaceKey {
    fn bytes(&self) -> Vec<u8> {
        b"sid-space".to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes == b"sid-space").then_some(SidSpaceKey)
    }
}
