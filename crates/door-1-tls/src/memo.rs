//! Keeps a bounded number of parsed certificates and keys that recent handshakes needed.
//!
//! When the memo is full and a new entry is added, the memo examines the entries in order. An entry that was used since its last examination stays.
//! The first entry that was not used since its last examination is dropped. So if a client asks once for each of many thousand names, it displaces
//! only its own entries. The entries that other clients use stay.

use crate::permit::TlsPermit;
use crate::ready::Ready;
use crate::view::{CertificateFile, Digest};
use enfilade_facts::MemoKey;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// The parsed certificate files with their private keys. An entry is found by path, version and policy.
pub struct KeyMemo {
    hot: RwLock<Hot>,
    most: usize,
}

#[derive(Default)]
struct Hot {
    slots: HashMap<MemoKey, Slot>,
    /// The keys of `slots`, in the order in which the slots are examined.
    order: VecDeque<MemoKey>,
}

struct Slot {
    ready: Ready,
    is_used: AtomicBool,
}

impl KeyMemo {
    /// Creates a memo for at most `most` files. If `most` is 0, the memo has room for one file.
    pub fn new(most: usize) -> Self {
        KeyMemo { hot: RwLock::default(), most: most.max(1) }
    }

    /// The key under which the memo stores the certificate file of this permit.
    pub fn key(&self, permit: &TlsPermit, digest: &Digest) -> MemoKey {
        permit.file.key(digest)
    }

    /// The file under this key, if it is remembered.
    pub fn get(&self, key: MemoKey) -> Option<Ready> {
        let hot = self.hot.read().unwrap_or_else(PoisonError::into_inner);
        let slot = hot.slots.get(&key)?;
        slot.is_used.store(true, Ordering::Relaxed);
        Some(slot.ready.clone())
    }

    /// Whether this version of a file is remembered, and can be served.
    pub fn can_serve(&self, file: &CertificateFile, digest: &Digest) -> bool {
        let hot = self.hot.read().unwrap_or_else(PoisonError::into_inner);
        hot.slots.get(&file.key(digest)).is_some_and(|slot| matches!(slot.ready, Ready::Serves { .. }))
    }

    /// Remembers a file. If the memo is full, drops another file.
    pub fn put(&self, key: MemoKey, ready: Ready) {
        let mut hot = self.hot.write().unwrap_or_else(PoisonError::into_inner);
        while hot.slots.len() >= self.most && !hot.slots.contains_key(&key) {
            let Some(first) = hot.order.pop_front() else { break };
            let again = hot.slots.get(&first).is_some_and(|slot| slot.is_used.swap(false, Ordering::Relaxed));
            match again {
                true => hot.order.push_back(first),
                false => drop(hot.slots.remove(&first)),
            }
        }
        if hot.slots.insert(key, Slot { ready, is_used: AtomicBool::new(false) }).is_none() {
            hot.order.push_back(key);
        }
    }

    /// How many files are remembered.
    pub fn len(&self) -> usize {
        self.hot.read().unwrap_or_else(PoisonError::into_inner).slots.len()
    }

    /// Whether no file is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MemoSeed;
    use enfilade_facts::memo::KeyMaker;
    use std::sync::Arc;

    #[test]
    fn a_used_file_stays_while_others_are_used_once_and_dropped() {
        let memo = KeyMemo::new(4);
        let key = |n: u64| KeyMaker::new(&MemoSeed([1; 16]), "test").number(n).key();
        let ready = || Ready::Unusable(Arc::from("why"));
        (0..4).for_each(|n| memo.put(key(n), ready()));
        for n in 10..1_000 {
            assert!(memo.get(key(1)).is_some() && memo.get(key(2)).is_some(), "{n}");
            memo.put(key(n), ready());
            assert_eq!(memo.len(), 4);
        }
        assert!(memo.get(key(0)).is_none());
        // If two files are put under the same key, the memo has only one entry for this key.
        memo.put(key(1), ready());
        assert_eq!(memo.len(), 4);
    }
}
