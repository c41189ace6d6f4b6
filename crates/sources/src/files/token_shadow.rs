//! `token.shadow`: one JSON object of token ids and crypt(3) hashes, as Proxmox writes it.

use super::section_config::{LineError, shown};
use enfilade_facts::vocabulary::Authid;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The file, with every entry in its order, also those that make no sense here: they go back as they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenShadow {
    entries: Vec<(String, Value)>,
}

/// What it says.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Hashes {
    /// The hash of each token.
    pub(crate) hashes: BTreeMap<Authid, String>,
    /// Tokens of which it says nothing that can be believed.
    pub(crate) broken: BTreeMap<Authid, LineError>,
    /// What is wrong and belongs to no token.
    pub(crate) problems: Vec<String>,
}

impl TokenShadow {
    /// Reads a file. A byte-order mark is forgiven.
    ///
    /// # Errors
    /// When it is no JSON object; the error never quotes the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        serde_json::from_slice(text).map_err(|why| LineError {
            line: u32::try_from(why.line()).unwrap_or(0),
            // The rest of the message could hold a piece of a hash.
            reason: format!("expected a JSON object of token ids and hashes (column {})", why.column()),
        })
    }

    /// The file.
    pub fn print(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Sets the hash of a token's secret.
    pub fn set(&mut self, token: &Authid, hash: String) {
        let name = token.to_string();
        let place = self.entries.iter().position(|(key, _)| *key == name).unwrap_or(self.entries.len());
        self.entries.retain(|(key, _)| *key != name);
        self.entries.insert(place.min(self.entries.len()), (name, Value::String(hash)));
    }

    /// Takes a token's out; says whether it was there.
    pub fn remove(&mut self, token: &Authid) -> bool {
        let before = self.entries.len();
        self.entries.retain(|(key, _)| *key != token.to_string());
        self.entries.len() < before
    }

    pub(crate) fn hashes(&self) -> Hashes {
        let mut found = Hashes::default();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let wrong = |reason: &str| LineError { line: 0, reason: reason.to_owned() };
        for (key, value) in &self.entries {
            let token: Authid = match key.parse::<Authid>() {
                Ok(token) if token.token.is_some() => token,
                _ => {
                    found
                        .problems
                        .push(format!("`{}` is no token id (expected USER@REALM!NAME)", shown(key)));
                    continue;
                }
            };
            let is_first = seen.insert(key);
            match value {
                Value::String(hash) if is_first && !hash.contains('\0') => {
                    found.hashes.insert(token, hash.clone());
                }
                Value::String(_) if is_first => {
                    found.broken.insert(token, wrong("the hash holds a NUL"));
                }
                _ if is_first => {
                    found.broken.insert(token, wrong("its hash is no text"));
                }
                // The original takes the last of two; which one is meant nobody knows.
                _ => {
                    found.hashes.remove(&token);
                    found.broken.insert(token, wrong("it is there more than once"));
                }
            }
        }
        found
    }
}

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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_stand_alone_and_go_back_as_they_were() {
        let text = r#"{"a@pbs!one":"$5$x","b@pbs":"$5$y","c@pbs!t":7,"d@pbs!t":"$5$1","a@pbs!two":"$y$z","d@pbs!t":"$5$2","e@pbs!t":"a\u0000b"}"#;
        let mut shadow = TokenShadow::parse(format!("\u{feff}{text}\r\n").as_bytes()).unwrap();
        assert_eq!(shadow.print(), text.as_bytes());
        let found = shadow.hashes();
        let hashes: Vec<_> = found.hashes.iter().map(|(id, hash)| format!("{id} {hash}")).collect();
        assert_eq!(hashes, ["a@pbs!one $5$x", "a@pbs!two $y$z"]);
        let broken: Vec<_> = found.broken.iter().map(|(id, why)| format!("{id}: {}", why.reason)).collect();
        assert_eq!(
            broken,
            [
                "c@pbs!t: its hash is no text",
                "d@pbs!t: it is there more than once",
                "e@pbs!t: the hash holds a NUL"
            ]
        );
        assert_eq!(found.problems, ["`b@pbs` is no token id (expected USER@REALM!NAME)"]);
        shadow.set(&"d@pbs!t".parse().unwrap(), "$5$new".into());
        shadow.set(&"new@pbs!t".parse().unwrap(), "$5$n".into());
        assert!(shadow.remove(&"a@pbs!two".parse().unwrap()));
        assert!(!shadow.remove(&"a@pbs!two".parse().unwrap()));
        let expected = r#"{"a@pbs!one":"$5$x","b@pbs":"$5$y","c@pbs!t":7,"d@pbs!t":"$5$new","e@pbs!t":"a\u0000b","new@pbs!t":"$5$n"}"#;
        assert_eq!(String::from_utf8(shadow.print()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_object_says_where_and_quotes_nothing() {
        for (text, line) in
            [("", 1), ("{\n\"a@pbs!t\":\"$5$sec", 2), ("[]", 1), ("{}x", 1), ("\0", 1), ("{\"a\":1,}", 1)]
        {
            let why = TokenShadow::parse(text.as_bytes()).unwrap_err();
            assert_eq!(why.line, line, "{text:?}");
            assert!(!why.reason.contains("sec"), "{why:?}");
        }
        assert!(TokenShadow::parse(b"{}").unwrap().hashes() == Hashes::default());
    }

    proptest! {
        #[test]
        fn printing_and_parsing_is_the_same(entries in proptest::collection::vec((".{0,9}", ".{0,9}"), 0..8)) {
            let entries = entries.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
            let shadow = TokenShadow { entries };
            prop_assert_eq!(TokenShadow::parse(&shadow.print()).unwrap(), shadow);
        }
    }
}
