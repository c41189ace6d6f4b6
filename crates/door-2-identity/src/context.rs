//! The state of the process that door 2 needs to judge a credential, in addition to the stored facts.

use crate::fernet::KeyRing;
use crate::generated::HashKey;
use crate::memo::IdentityMemo;
use crate::nonces::Nonces;
use crate::revocations::Revocations;
use enfilade_facts::Index;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The context that most entry functions of the door get.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The key of the fast hash of generated secrets.
    pub hash_key: &'a HashKey,
    /// The Fernet keys, the index of revocations, and the nonces of OAuth requests.
    pub sessions: &'a SessionState,
    /// The memos of the door.
    pub memo: &'a IdentityMemo,
}

/// The Fernet keys (as they were when they were last read), the index of revocations, and the nonces of OAuth requests.
pub struct SessionState {
    ring: RwLock<Option<Arc<Ring>>>,
    /// The generation of the ring; 0 when there is no ring. If the verdict on a session is cached, only the generation is read, without the lock of
    /// `ring`.
    generation: AtomicU64,
    readings: AtomicU64,
    /// The index of revocations.
    pub revocations: Index<Revocations>,
    /// The nonces of OAuth requests.
    pub(crate) nonces: Nonces,
}

/// A snapshot of the keys. A cached verdict on a session admits a request only if the session's token was opened with the current ring.
#[derive(Debug)]
pub struct Ring {
    /// The keys.
    pub keys: KeyRing,
    /// The generation of this ring: a number greater than 0. No two rings of a process have the same number.
    pub(crate) generation: u64,
}

impl Default for SessionState {
    fn default() -> Self {
        let (ring, generation, readings) = (RwLock::default(), AtomicU64::new(0), AtomicU64::new(1));
        SessionState { ring, generation, readings, revocations: Index::new(), nonces: Nonces::default() }
    }
}

impl SessionState {
    /// Replaces the keys. `None` means that there are no keys: then every token is refused.
    pub fn set_keys(&self, keys: Option<KeyRing>) {
        let generation = self.readings.fetch_add(1, Ordering::Relaxed);
        let ring = keys.map(|keys| Arc::new(Ring { keys, generation }));
        let mut current = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        // The keys are replaced before the generation, because a thread that reads the new generation must not find the old keys.
        let generation = ring.as_ref().map_or(0, |ring| ring.generation);
        *current = ring;
        self.generation.store(generation, Ordering::Release);
    }

    /// The current keys.
    pub fn ring(&self) -> Option<Arc<Ring>> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The generation of the current ring; 0 when there is no ring.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_of_the_keys_has_a_number_of_its_own_and_none_has_0() {
        let sessions = SessionState::default();
        assert_eq!(sessions.generation(), 0);
        let mut seen = vec![0];
        for keys in [Some([1; 32]), Some([1; 32]), None, Some([2; 32])] {
            sessions.set_keys(keys.map(|key| KeyRing::new(&[(1, &key)]).unwrap()));
            let of_ring = sessions.ring().map_or(0, |ring| ring.generation);
            assert_eq!(sessions.generation(), of_ring);
            assert_eq!(of_ring == 0, keys.is_none());
            assert!(keys.is_none() || !seen.contains(&of_ring), "{of_ring} after {seen:?}");
            seen.push(of_ring);
        }
    }
}
