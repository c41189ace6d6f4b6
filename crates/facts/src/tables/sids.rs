//! The record from which a store issues SIDs. The record also identifies the key with which the server hashes token secrets.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::revision::StoreId;
use crate::vocabulary::Sid;
use serde::{Deserialize, Serialize};

/// The numbers from which the SIDs of this store are made: three random words and the next relative id. Relative ids start at 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidSpace {
    /// Three random words, chosen once for the store.
    pub words: [u32; 3],
    /// The next relative id. No relative id is issued twice.
    pub next_rid: u32,
    /// Identifies the key with which the server hashes token secrets; `None` if the store is from an older program that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_key: Option<KnownKey>,
}

/// Identifies the key with which the server hashes token secrets, without revealing the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownKey {
    /// A hash of a constant text, computed with the key.
    #[serde(with = "super::names::as_hex")]
    pub check: [u8; 16],
    /// Since when the key is in use, in seconds since the epoch.
    pub since: i64,
}

impl SidSpace {
    /// The first relative id that a store issues.
    pub const FIRST_RID: u32 = 1000;

    /// Returns the next SID of the store, and the record to store when that SID is issued. Returns `None` if no relative id is left.
    ///
    /// The SID depends on the id of the store, and a restored backup has another id. So a SID that was issued after the backup, and that ACLs of
    /// files may still contain, is never issued again.
    pub fn take(self, store: StoreId) -> Option<(Sid, SidSpace)> {
        let next_rid = self.next_rid.checked_add(1)?;
        let id = store.0.to_be_bytes();
        let (parts, _) = id.as_chunks::<4>();
        let mut words = self.words;
        words.iter_mut().zip(parts).for_each(|(word, part)| *word ^= u32::from_be_bytes(*part));
        Some((Sid::of_store(words, self.next_rid), SidSpace { next_rid, ..self }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_never_issues_a_sid_of_the_store_before() {
        let space = SidSpace { words: [1, 2, 3], next_rid: SidSpace::FIRST_RID, token_key: None };
        let sid = |store: u128| space.take(StoreId(store)).unwrap().0;
        let sids: std::collections::BTreeSet<Sid> =
            [1 << 32, 1 << 64, 1 << 96, u128::MAX].into_iter().map(sid).collect();
        assert_eq!(sids.len(), 4);
        let (first, rest) = space.take(StoreId(7)).unwrap();
        assert_ne!(first, rest.take(StoreId(7)).unwrap().0);
    }
}
