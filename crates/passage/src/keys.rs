//! What sessions are judged by: the keys as they were read last, what was revoked, and how long sessions last.

use enfilade_facts::{At, Clocks, CommitError};
use enfilade_identity::{Revocations, Ring, Tokens};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTerms {
    /// How long a token is good, in seconds.
    pub token_seconds: i64,
    /// How long after that services may still have it validated, in seconds.
    pub expired_seconds: i64,
}

impl Default for SessionTerms {
    /// Keystone's.
    fn default() -> Self {
        SessionTerms { token_seconds: 3_600, expired_seconds: 172_800 }
    }
}

/// Fills with random bytes; says whether it could. Only the binary has a real one.
pub type Random = Arc<dyn Fn(&mut [u8]) -> bool + Send + Sync>;

/// Lets sessions be issued up to a second, at a time. Only `admin` changes facts, so the house is built with this.
pub type AllowIssue = Arc<dyn Fn(Clocks, i64) -> Result<At, CommitError> + Send + Sync>;

/// The keys as they were read last, and what was revoked.
pub(crate) struct Sessions {
    pub(crate) ring: RwLock<Option<Arc<Ring>>>,
    /// Of the ring; 0 while there is none. Read without a lock for those who are known.
    pub(crate) generation: AtomicU64,
    pub(crate) generations: AtomicU64,
    pub(crate) revocations: enfilade_facts::Index<Revocations>,
}

impl Sessions {
    pub(crate) fn new() -> Self {
        Sessions {
            ring: RwLock::default(),
            generation: AtomicU64::new(0),
            generations: AtomicU64::new(1),
            revocations: enfilade_facts::Index::new(),
        }
    }

    /// Which reading of the keys is the present one; 0 while there are none.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn ring(&self) -> Option<Arc<Ring>> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lends what tokens are judged by.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Tokens<'_>) -> R) -> R {
        let ring = self.ring();
        look(&Tokens { ring: ring.as_deref(), revocations: &self.revocations })
    }
}
