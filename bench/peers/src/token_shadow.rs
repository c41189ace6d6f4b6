//! `token.shadow`, the file with the hashes of API tokens, as Proxmox Backup Server reads and changes it (`pbs-config/src/token_shadow.rs`).
//! libxcrypt, the library of the original, computes the hashes.

use super::libxcrypt::{Libxcrypt, SETTING};
use super::proxmox_files::{Locked, Owner, lock, replace};
use crate::Failure;
use serde_json::Value;
use std::collections::HashMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// An auth id as in the original: one string, the offset at which the user's name ends in this string, and the name of the token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tokenid {
    data: String,
    name_len: usize,
    token: Option<String>,
}

impl Tokenid {
    /// The id of a token of a user in a realm.
    pub fn new(name: &str, realm: &str, token: &str) -> Self {
        Tokenid { data: format!("{name}@{realm}"), name_len: name.len(), token: Some(token.to_owned()) }
    }

    /// Parses the id of a token as the original does: the last `@` begins the realm, and the last `!` after this `@` begins the name of the token.
    fn parse(text: &str) -> Result<Self, Failure> {
        let (name, rest) = text.rsplit_once('@').ok_or("not an auth id")?;
        let (realm, token) = rest.rsplit_once('!').ok_or("not an API token ID")?;
        Ok(Tokenid::new(name, realm, token))
    }

    fn text(&self) -> String {
        format!("{}!{}", self.data, self.token.as_deref().unwrap_or_default())
    }

    pub(super) fn is_token(&self) -> bool {
        self.token.is_some()
    }
}

/// The state of the file by which the original recognises a change: the time of its last change, and its length.
pub(super) type Stat = Option<(SystemTime, u64)>;

/// Counters of work: the hashes that verifications computed, and the bytes that verifications and changes read.
#[derive(Default)]
pub struct Work {
    hashes: AtomicU64,
    bytes: AtomicU64,
}

impl Work {
    /// The slow hashes that verifications computed.
    pub fn hashes(&self) -> u64 {
        self.hashes.load(Ordering::Relaxed)
    }

    /// The number of bytes that were read and parsed.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The file `token.shadow`, the library that makes its hashes, and counters of work.
pub struct Shadow {
    path: PathBuf,
    /// The library that makes the hashes.
    pub libxcrypt: Libxcrypt,
    /// The work that was done so far.
    pub work: Work,
}

impl Shadow {
    /// Writes the file, with the same hash for every token.
    pub fn write<'a>(
        path: &Path,
        tokens: impl Iterator<Item = &'a Tokenid>,
        hash: &str,
    ) -> Result<Self, Failure> {
        let entries: HashMap<String, &str> = tokens.map(|token| (token.text(), hash)).collect();
        std::fs::write(path, serde_json::to_vec(&entries)?)?;
        Ok(Shadow { path: path.to_owned(), libxcrypt: Libxcrypt::default(), work: Work::default() })
    }

    /// Verifies a secret as the versions without the cache did: the file is read and parsed, and the secret is hashed.
    pub fn verify(&self, token: &Tokenid, secret: &str) -> Result<bool, Failure> {
        let hash = self.hash_of(token)?;
        self.work.hashes.fetch_add(1, Ordering::Relaxed);
        let made = self.libxcrypt.hash(secret, &hash)?;
        Ok(equal(made.as_bytes(), hash.as_bytes()))
    }

    /// The stored hash of a token. A verification reads this hash before it hashes the secret.
    pub fn hash_of(&self, token: &Tokenid) -> Result<String, Failure> {
        Ok(self.entries()?.remove(token).ok_or("invalid API token")?)
    }

    /// Reads and parses the file. As in the original, the text becomes a JSON value, and the value becomes a map.
    fn entries(&self) -> Result<HashMap<Tokenid, String>, Failure> {
        let text = std::fs::read(&self.path)?;
        self.work.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        let Value::Object(entries) = serde_json::from_slice(&text)? else {
            return Err("token.shadow: expected an object".into());
        };
        let entry = |(token, hash): (String, Value)| match hash {
            Value::String(hash) => Ok((Tokenid::parse(&token)?, hash)),
            _ => Err(Failure::from("token.shadow: expected a hash")),
        };
        entries.into_iter().map(entry).collect()
    }

    /// Writes the hash of a new secret of a token, or removes the token, under the lock of the file. Returns the lock, and the state of the file
    /// before the change.
    pub(super) fn change(&self, token: &Tokenid, secret: Option<&str>) -> Result<(Locked, Stat), Failure> {
        let locked = lock(&self.path.with_extension("shadow.lock"))?;
        let before = self.stat();
        let mut entries = self.entries()?;
        match secret {
            Some(secret) => entries.insert(token.clone(), self.libxcrypt.hash(secret, SETTING)?),
            None => entries.remove(token),
        };
        let entries: HashMap<String, String> =
            entries.into_iter().map(|(token, hash)| (token.text(), hash)).collect();
        replace(&self.path, &serde_json::to_vec(&entries)?, 0o640, Owner::backup()?, true)?;
        Ok((locked, before))
    }

    pub(super) fn stat(&self) -> Stat {
        let meta = std::fs::metadata(&self.path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    }
}

/// Compares two byte strings. The time depends only on their length.
pub(super) fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && black_box(one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b))) == 0
}
