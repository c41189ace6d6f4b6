//! The files with which a Proxmox Backup Server checks logins: `shadow.json` (hashes of passwords in the realm `pbs`), `domains.cfg` (realms) and
//! `tfa.json` (second factors). An import reads these files. This program never writes them. Error messages never quote the content of `shadow.json`
//! and `tfa.json`.

use super::section_config::{self, LineError};
use enfilade_facts::limits::COMMENT_BYTES_MAX;
use enfilade_facts::vocabulary::{Authid, Realm, Userid, excerpt};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The name of the file with hashes of passwords.
pub const SHADOW: &str = "shadow.json";
/// The name of the file with realms.
pub const DOMAINS: &str = "domains.cfg";
/// The name of the file with second factors.
pub const SECOND_FACTORS: &str = "tfa.json";

/// For each user, the hash of the password. The key of an entry is the name of the user without the realm `pbs`. The value is `None` for an entry
/// that is not a string.
pub type Passwords = BTreeMap<String, Option<String>>;

/// Reads `shadow.json`. If a name has two entries, the last one counts, as in Proxmox.
///
/// # Errors
/// When the file is not a JSON object.
pub fn passwords(bytes: &[u8]) -> Result<Passwords, LineError> {
    let entries: Map<String, Value> = parsed(bytes, "names and hashes")?;
    Ok(entries.into_iter().map(|(name, hash)| (name, hash.as_str().map(str::to_owned))).collect())
}

/// A realm of `domains.cfg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealmSection {
    /// The method with which Proxmox checks logins of the realm: `pam`, `pbs`, `ldap`, `ad` or `openid`.
    pub kind: String,
    /// The comment of the realm.
    pub comment: Option<String>,
}

/// The parsed `domains.cfg`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Realms {
    /// The realms.
    pub realms: BTreeMap<Realm, RealmSection>,
    /// Sections that cannot be used: the id of the section (empty if the id cannot be read), and the problem.
    pub broken: Vec<(String, LineError)>,
}

/// Reads `domains.cfg`. Properties that only Proxmox uses, such as the address of a directory server, are not checked.
pub fn realms(bytes: &[u8]) -> Realms {
    let parsed = section_config::parse(bytes);
    let mut found = Realms::default();
    for section in parsed.sections {
        let wrong = |reason: String| LineError { line: section.line, reason };
        let comment = section.properties.iter().find(|(key, _)| key == "comment");
        let comment = comment.map(|(_, text)| text.clone()).filter(|text| text.len() <= COMMENT_BYTES_MAX);
        match (section.error, Realm::from_proxmox(&section.id)) {
            (None, Ok(realm)) => {
                found.realms.insert(realm, RealmSection { kind: section.kind, comment });
            }
            (Some(error), _) => found.broken.push((excerpt(&section.id), error)),
            (None, Err(why)) => found.broken.push((excerpt(&section.id), wrong(why.to_string()))),
        }
    }
    found.broken.extend(parsed.errors.into_iter().map(|error| (String::new(), error)));
    found
}

/// For each user, the kinds of second factors and the number of factors of each kind.
pub type SecondFactors = BTreeMap<Userid, BTreeMap<String, usize>>;

/// Reads `tfa.json`. A disabled factor counts as well, because its owner wanted a second factor. An entry of unknown form also counts as a second
/// factor. If a name has two entries, both count.
///
/// # Errors
/// When the file does not have the form of Proxmox's file, because then it is unknown which users have a second factor. An unknown name at the top
/// level of the file, next to `users`, is also an error, because it could be the name of a user.
pub fn second_factors(bytes: &[u8]) -> Result<SecondFactors, LineError> {
    let wrong = |reason: &str| LineError { line: 0, reason: reason.to_owned() };
    let Top(sections) = parsed(bytes, "`users` and their second factors")?;
    let mut found = SecondFactors::new();
    for (userid, Pairs(factors)) in sections.into_iter().flat_map(|Pairs(users)| users) {
        let user = Authid::from_proxmox(&userid).ok().filter(|authid| authid.token.is_none());
        let user = user.ok_or_else(|| wrong("expected names of the form USER@REALM below `users`"))?.user;
        let kinds = factors
            .into_iter()
            .filter(|(kind, _)| !STATES.contains(&kind.as_str()))
            .map(|(kind, entries)| (excerpt(&kind), count(&entries)))
            .filter(|(_, count)| *count > 0);
        for (kind, count) in kinds {
            *found.entry(user.clone()).or_default().entry(kind).or_default() += count;
        }
    }
    Ok(found)
}

/// The names of settings at the top level of `tfa.json`. These settings do not belong to a user.
const SETTINGS: [&str; 2] = ["u2f", "webauthn"];

/// The entries of a JSON object in the order of the file. If a name has two entries, both are in the list.
struct Pairs<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Pairs<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs<V>, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_map(Entries(PhantomData))
    }
}

/// The objects with the name `users` at the top level of `tfa.json`. The file should have only one object with this name, but all objects with this
/// name are read.
struct Top(Vec<Pairs<Pairs<Value>>>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Sections;
        impl<'de> Visitor<'de> for Sections {
            type Value = Top;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Top, M::Error> {
                let mut users = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "users" => users.extend(map.next_value::<Option<_>>()?),
                        name if SETTINGS.contains(&name) => drop(map.next_value::<IgnoredAny>()?),
                        _ => return Err(de::Error::custom("unknown name")),
                    }
                }
                Ok(Top(users))
            }
        }
        from.deserialize_map(Sections)
    }
}

/// Keys in the entry of a user in `tfa.json` that are not second factors.
const STATES: [&str; 2] = ["totp-locked", "tfa-locked-until"];

fn count(entries: &Value) -> usize {
    match entries {
        Value::Null | Value::Bool(false) => 0,
        Value::Array(entries) => entries.len(),
        // Recovery keys are a single object, and count as one factor.
        _ => 1,
    }
}

fn parsed<'b, T: Deserialize<'b>>(bytes: &'b [u8], of: &str) -> Result<T, LineError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(text).map_err(|why| LineError {
        line: u32::try_from(why.line()).unwrap_or(0),
        // Only the line and the column are copied from the parser's error, because the text of the error could contain a part of a secret.
        reason: format!("expected a JSON object of {of} (column {})", why.column()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_by_name_and_no_error_quotes_them() {
        let read = passwords(br#"{"ann":"$5$a","bob":7}"#).unwrap();
        assert_eq!(read["ann"].as_deref(), Some("$5$a"));
        assert_eq!(read["bob"], None);
        for bad in [&br#"["$5$secret"]"#[..], br#"{"ann":"$5$secret""#, b""] {
            let why = passwords(bad).unwrap_err();
            assert!(!why.reason.contains("secret"), "{why:?}");
        }
    }

    #[test]
    fn realms_with_their_kind_and_comment() {
        let text = "ldap: corp\n\tserver1 ldap.example.org\n\tcomment The company\n\nopenid: sso\n\tissuer-url x\n\n\
                    ad: -\n\tserver1 x\n\nldap: half\n\tserver1\n\n";
        let read = realms(text.as_bytes());
        let of = |name: &str| read.realms[&name.parse().unwrap()].clone();
        assert_eq!(of("corp"), RealmSection { kind: "ldap".into(), comment: Some("The company".into()) });
        assert_eq!(of("sso").kind, "openid");
        let broken: Vec<_> = read.broken.iter().map(|(id, why)| (id.as_str(), why.line)).collect();
        assert_eq!(broken, [("-", 8), ("half", 12)]);
    }

    #[test]
    fn a_user_with_anything_like_a_second_factor_has_one() {
        let text = br#"{"webauthn":{"id":"x"},"users":{
            "ann@pbs":{"totp":[{"info":{"enable":false}},{}],"recovery":{"secret":"s"},"u2f":[]},
            "bob@pam":{"future":"x"},
            "eve@pbs":{"totp":[],"recovery":null,"totp-locked":true,"tfa-locked-until":7}}}"#;
        let read = second_factors(text).unwrap();
        let of = |name: &str| read.get(&name.parse().unwrap()).cloned();
        assert_eq!(of("ann@pbs").unwrap(), BTreeMap::from([("recovery".into(), 1), ("totp".into(), 2)]));
        assert_eq!(of("bob@pam").unwrap(), BTreeMap::from([("future".into(), 1)]));
        assert_eq!(of("eve@pbs"), None);
        for none in [&b"{}"[..], br#"{"users":null}"#, br#"{"webauthn":{"id":"x"},"u2f":null}"#] {
            assert!(second_factors(none).unwrap().is_empty());
        }
        for bad in [&b"[]"[..], br#"{"users":[]}"#, br#"{"users":{"ann":{}}}"#, br#"{"users":{"a@pbs":[]}}"#]
        {
            assert!(second_factors(bad).is_err());
        }
    }

    #[test]
    fn a_second_factor_in_another_shape_is_refused_and_never_dropped() {
        for bad in [
            &br#"{"tina":{"totp":["otpauth://secret"]}}"#[..],
            br#"{"tina@pbs":{"totp":["otpauth://secret"]}}"#,
            br#"{"users":{},"Users":{"tina@pbs":{"totp":["otpauth://secret"]}}}"#,
        ] {
            let why = second_factors(bad).unwrap_err();
            assert!(!why.reason.contains("secret") && !why.reason.contains("tina"), "{why:?}");
        }
        // If a name has two entries, the factors of both entries count.
        let twice = br#"{"users":{"a@pbs":{"totp":[1],"totp":[]},"a@pbs":{"recovery":{}}},"users":{"a@pbs":{"totp":[2]}}}"#;
        let read = second_factors(twice).unwrap();
        assert_eq!(
            read[&"a@pbs".parse().unwrap()],
            BTreeMap::from([("recovery".into(), 1), ("totp".into(), 2)])
        );
    }
}
