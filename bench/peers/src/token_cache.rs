//! Verification of API tokens with the cache of Proxmox Backup Server since 4.1.6. The cache keeps secrets that matched, and a lock protects it.
//! Earlier versions have no cache, and compute a hash for each verification, as [`Shadow::verify`] does.
//!
//! As in the original, the cache is emptied in two cases. The first case: another process changed a token, which increments a shared generation
//! number. The second case: the file has changed. The file is checked once a minute. A change by the same process affects only the changed token.
//!
//! The original was measured with Proxmox's own crates, 100 tokens and `$y$` hashes of cost 5, on a machine where a `$5$` hash took 1.99 ms. A
//! verification took 16.76 ms before 4.1.6, and 0.146 µs with the cache. Two threads were measured while tokens changed ten times a second. They made
//! 8.56 million verifications a second if the same process changed the tokens. If another process changed the tokens, they made 4.32 million.

use super::token_shadow::{Shadow, Stat, Tokenid, equal};
use crate::Failure;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The shared generation number. In Proxmox Backup Server, all processes map it into memory. Here it belongs to this process.
#[derive(Default)]
struct SharedVersions {
    tokens: AtomicUsize,
}

static VERSIONS: OnceLock<Arc<SharedVersions>> = OnceLock::new();

fn versions() -> Arc<SharedVersions> {
    VERSIONS.get_or_init(Arc::default).clone()
}

fn generation() -> usize {
    versions().tokens.load(Ordering::Acquire)
}

struct Looked {
    stat: Stat,
    at: i64,
}

#[derive(Default)]
struct Inner {
    secrets: HashMap<Tokenid, String>,
    generation: usize,
    looked: Option<Looked>,
}

impl Inner {
    /// Whether the cache has this secret for the token, and no other process has changed a token since the cache was last updated.
    fn has(&self, token: &Tokenid, secret: &str) -> bool {
        self.generation == generation()
            && self.secrets.get(token).is_some_and(|known| equal(known.as_bytes(), secret.as_bytes()))
    }

    /// Forgets all secrets if another process has changed a token.
    fn follow(&mut self, generation: usize) {
        if self.generation != generation {
            *self = Inner { generation, ..Inner::default() };
        }
    }
}

/// Verifies API tokens by a cache of secrets, and by the file if the cache does not have the secret.
pub struct TokenCache {
    /// The file with the hashes.
    pub shadow: Shadow,
    inner: RwLock<Inner>,
}

/// The time between two checks of the file, in seconds.
const TTL: i64 = 60;

#[expect(clippy::disallowed_methods, reason = "the original asks the wall clock each time")]
fn epoch() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

impl TokenCache {
    /// An empty cache for the tokens of this file.
    pub fn new(shadow: Shadow) -> Self {
        TokenCache { shadow, inner: RwLock::default() }
    }

    /// Caches a secret as if it had been verified.
    pub fn warm(&self, token: &Tokenid, secret: &str) {
        self.refresh();
        self.inner.write().secrets.insert(token.clone(), secret.to_owned());
    }

    /// Whether this is the secret of the token.
    ///
    /// # Errors
    /// If `token` is not the id of a token. A verification without the cache also fails if the file cannot be read or does not contain the token, or
    /// if the hash cannot be computed.
    pub fn verify(&self, token: &Tokenid, secret: &str) -> Result<bool, Failure> {
        if !token.is_token() {
            return Err("not an API token ID".into());
        }
        if let Some(inner) = self.inner.try_read() {
            let now = epoch();
            let is_fresh =
                inner.looked.as_ref().is_some_and(|looked| now >= looked.at && now - looked.at < TTL);
            if is_fresh && inner.has(token, secret) {
                return Ok(true);
            }
        }
        if self.refresh() && self.inner.try_read().is_some_and(|inner| inner.has(token, secret)) {
            return Ok(true);
        }
        let before = generation();
        let matches = self.shadow.verify(token, secret)?;
        if matches {
            self.insert(token, secret, before);
        }
        Ok(matches)
    }

    /// Brings the cache up to date with other processes and with the file. Returns whether the secrets in the cache may be used. They may not be used
    /// in three cases: another thread has the lock, the file is checked for the first time, or the file has changed.
    fn refresh(&self) -> bool {
        let Some(mut inner) = self.inner.try_write() else { return false };
        inner.follow(generation());
        let now = epoch();
        if inner.looked.as_ref().is_some_and(|looked| now >= looked.at && now - looked.at < TTL) {
            return true;
        }
        let stat = self.shadow.stat();
        match inner.looked.replace(Looked { stat, at: now }) {
            Some(before) if before.stat == stat => true,
            before => {
                inner.secrets.clear();
                if before.is_some() {
                    inner.generation = versions().tokens.fetch_add(1, Ordering::AcqRel) + 1;
                }
                false
            }
        }
    }

    /// Puts a verified secret into the cache, if no token was changed during the verification and the lock is free.
    fn insert(&self, token: &Tokenid, secret: &str, before: usize) {
        let Some(mut inner) = self.inner.try_write() else { return };
        let now = generation();
        inner.follow(now);
        if now == before {
            inner.secrets.insert(token.clone(), secret.to_owned());
        }
    }

    /// Sets or removes the secret of a token, as the API does in this process. The secrets of other tokens stay in the cache, unless another process
    /// changed a token or the file.
    pub fn change(&self, token: &Tokenid, secret: Option<&str>) -> Result<(), Failure> {
        let (_locked, before) = self.shadow.change(token, secret)?;
        let own = versions().tokens.fetch_add(1, Ordering::AcqRel) + 1;
        let mut inner = self.inner.write();
        if generation() != own {
            inner.follow(generation());
            return Ok(());
        }
        if inner.looked.as_ref().is_some_and(|looked| looked.stat != before) {
            inner.secrets.clear();
        }
        match secret {
            Some(secret) => inner.secrets.insert(token.clone(), secret.to_owned()),
            None => inner.secrets.remove(token),
        };
        inner.generation = own;
        inner.looked = Some(Looked { stat: self.shadow.stat(), at: epoch() });
        Ok(())
    }

    /// Sets or removes the secret of a token, as another process does: first the file changes, then the shared generation number.
    pub fn change_elsewhere(&self, token: &Tokenid, secret: Option<&str>) -> Result<(), Failure> {
        let _locked = self.shadow.change(token, secret)?;
        self.changed_elsewhere();
        Ok(())
    }

    /// Increments the shared generation number, as another process does after a change of a token.
    pub fn changed_elsewhere(&self) {
        versions().tokens.fetch_add(1, Ordering::AcqRel);
    }
}
