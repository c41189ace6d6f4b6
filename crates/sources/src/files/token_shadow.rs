//! `token.shadow`, as Proxmox writes it: a JSON object. Its keys are token ids, and its values are crypt(3) hashes.

use super::section_config::LineError;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{Authid, Userid, excerpt};
use enfilade_facts::{MemoKey, MemoSeed};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The content of the file, with all entries in order. Invalid entries are also kept, and are written back unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenShadow {
    entries: Vec<(String, Value)>,
}

/// The error of a token with several entries.
const TWICE: &str = "it has more than one entry";

/// The parsed content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hashes {
    /// The hash of each token, by its id.
    pub hashes: HashMap<String, String>,
    /// Tokens with an unusable entry.
    pub broken: BTreeMap<Authid, LineError>,
    /// Problems that cannot be attributed to a token.
    pub problems: Vec<String>,
}

impl TokenShadow {
    /// Parses the content of the file. A byte-order mark is accepted.
    ///
    /// # Errors
    /// When the file is not a JSON object. The error never quotes the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        serde_json::from_slice(text).map_err(|why| LineError {
            line: u32::try_from(why.line()).unwrap_or(0),
            // Only the line and the column are copied from the parser's error, because the text of the error could contain a part of a hash.
            reason: format!("expected a JSON object of token ids and hashes (column {})", why.column()),
        })
    }

    /// The bytes of the file.
    pub fn print(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Sets the hash of a token's secret.
    pub fn set(&mut self, token: &Authid, hash: String) {
        let name = token.to_proxmox();
        let place = self.entries.iter().position(|(key, _)| *key == name).unwrap_or(self.entries.len());
        self.entries.retain(|(key, _)| *key != name);
        self.entries.insert(place.min(self.entries.len()), (name, Value::String(hash)));
    }

    /// Removes the entry of a token. Returns whether the entry existed.
    pub fn remove(&mut self, token: &Authid) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(key, _)| *key != token.to_proxmox());
        self.entries.len() < before
    }

    /// Removes the entries of every token of a user.
    pub fn remove_all_of(&mut self, user: &Userid) {
        self.entries.retain(|(key, _)| !Authid::from_proxmox(key).is_ok_and(|authid| authid.user == *user));
    }

    /// The hashes and problems of the file.
    pub fn hashes(self) -> Hashes {
        let mut found = Hashes { hashes: HashMap::with_capacity(self.entries.len()), ..Hashes::default() };
        let mut wrong: Vec<(String, &str)> = Vec::new();
        for (key, value) in self.entries {
            if !Authid::from_proxmox(&key).is_ok_and(|token| token.token.is_some()) {
                found
                    .problems
                    .push(format!("`{}` is not a token id (expected USER@REALM!NAME)", excerpt(&key)));
                continue;
            }
            match value {
                Value::String(hash) if hash.contains('\0') => {
                    wrong.push((key, "the hash contains a NUL byte"))
                }
                Value::String(hash) => {
                    match found.hashes.entry(key) {
                        Entry::Vacant(new) => {
                            new.insert(hash);
                        }
                        // Proxmox uses the last of two entries, but it is unknown which entry the author wants.
                        Entry::Occupied(first) => wrong.push((first.remove_entry().0, TWICE)),
                    }
                }
                _ => wrong.push((key, "its hash is not a string")),
            }
        }
        for (key, reason) in wrong {
            if let Ok(token) = Authid::from_proxmox(&key) {
                let once = found.hashes.remove(&key).is_none() && !found.broken.contains_key(&token);
                let reason = if once { reason } else { TWICE };
                found.broken.insert(token, LineError { line: 0, reason: reason.to_owned() });
            }
        }
        found
    }
}

/// Tokens with changed entries: the new hash, or `None` for a removed entry.
pub(crate) type Changes = Vec<(Authid, Option<String>)>;

/// The part of `token.shadow` that must be compared with the stored facts.
pub(crate) enum Secrets {
    /// The whole file, and the tokens with a changed entry. `None` if it is not known which entries changed.
    Whole(Hashes, Option<Vec<Authid>>),
    /// Only the changed entries. No other token has to be compared.
    Alone(Changes),
}

/// Digests of all entries of a file. With these digests, one pass over a new version of the file finds the changed entries.
#[derive(Clone)]
pub(crate) struct Seen {
    /// For each token, a digest of its hash, and the number of the last pass in which the token was found.
    entries: HashMap<String, (MemoKey, u64)>,
    walk: u64,
    seed: MemoSeed,
}

impl Seen {
    pub(crate) fn new(said: &Hashes, seed: MemoSeed) -> Self {
        let mut seen = Seen { entries: HashMap::with_capacity(said.hashes.len()), walk: 0, seed };
        for (token, hash) in &said.hashes {
            seen.entries.insert(token.clone(), (seen.digest(hash), 0));
        }
        seen
    }

    fn digest(&self, hash: &str) -> MemoKey {
        KeyMaker::new(&self.seed, "token.shadow").bytes(hash.as_bytes()).key()
    }

    /// The changed tokens of a new version of the file. The digests are replaced by the digests of the new version. `None` if the file has problems.
    /// In this case the whole file must be parsed, and these digests must not be used again.
    pub(crate) fn changes(&mut self, bytes: &[u8]) -> Option<Changes> {
        self.walk += 1;
        let mut changes = Changes::new();
        let mut met = 0;
        let mut each = |token: &str, hash: &str| {
            let digest = self.digest(hash);
            let (is_same, is_again) = match self.entries.get_mut(token) {
                Some((seen, walk)) => {
                    let before = (std::mem::replace(seen, digest), std::mem::replace(walk, self.walk));
                    (before.0 == digest, before.1 == self.walk)
                }
                None => {
                    self.entries.insert(token.to_owned(), (digest, self.walk));
                    (false, false)
                }
            };
            met += 1;
            if !is_same {
                let authid = Authid::from_proxmox(token).ok().filter(|authid| authid.token.is_some())?;
                changes.push((authid, Some(hash.to_owned())));
            }
            (!is_again && !hash.contains('\0')).then_some(())
        };
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        deserializer.deserialize_map(Walk(&mut each)).and_then(|()| deserializer.end()).ok()?;
        if met < self.entries.len() {
            let walk = self.walk;
            for (token, _) in self.entries.extract_if(|_, (_, met)| *met < walk) {
                changes.push((Authid::from_proxmox(&token).ok()?, None));
            }
        }
        Some(changes)
    }
}

/// Calls a function for each entry of a JSON object of strings, without storing the entries. Any other content is an error.
struct Walk<'f>(&'f mut dyn FnMut(&str, &str) -> Option<()>);

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object in which each value is a string")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((token, hash)) = map.next_entry::<Text<'de>, Text<'de>>()? {
            (self.0)(&token.0, &hash.0).ok_or_else(|| serde::de::Error::custom("not the usual"))?;
        }
        Ok(())
    }
}

/// A string that is borrowed from the file, or owned if it has to be unescaped.
#[derive(Deserialize)]
struct Text<'t>(#[serde(borrow)] Cow<'t, str>);

impl Serialize for TokenShadow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.entries.len()))?;
        self.entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for TokenShadow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = TokenShadow;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TokenShadow, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TokenShadow { entries })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests;
