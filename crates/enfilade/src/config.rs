//! `enfilade.toml`, and the environment over it. An unknown key is an error that names the nearest known one.

use anyhow::{Context, bail};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) tls: Tls,
    pub(crate) identity: Identity,
    pub(crate) operations: Operations,
    pub(crate) facts: Facts,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Tls {
    /// Where HTTPS is served.
    pub(crate) listen: SocketAddr,
    /// Where HTTP without TLS is served, for a proxy in front; off unless set.
    pub(crate) plain_listen: Option<SocketAddr>,
    /// The directory of PEM bundles; `tls` in the data directory unless set.
    pub(crate) certificates: Option<PathBuf>,
}

impl Default for Tls {
    fn default() -> Self {
        Tls { listen: SocketAddr::from(([127, 0, 0, 1], 8443)), plain_listen: None, certificates: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Identity {
    /// How many slow hashes are computed at once; half the cores unless set.
    pub(crate) hash_slots: Option<usize>,
    /// Whether failing to come in costs a delay and in the end a pause; it does unless this is false.
    pub(crate) penalties: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Operations {
    /// Where metrics and health are served.
    pub(crate) listen: SocketAddr,
}

impl Default for Operations {
    fn default() -> Self {
        Operations { listen: SocketAddr::from(([127, 0, 0, 1], 9443)) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    /// Where `datastore.cfg` is; the data directory unless set.
    pub(crate) files: Option<PathBuf>,
    /// The number of the group whose members share the facts; the directories' owner alone unless set.
    pub(crate) group: Option<u32>,
}

/// Every key there is.
const KEYS: [&str; 8] = [
    "tls.listen",
    "tls.plain_listen",
    "tls.certificates",
    "identity.hash_slots",
    "identity.penalties",
    "operations.listen",
    "facts.files",
    "facts.group",
];

const FILE: &str = "enfilade.toml";
const ENVIRONMENT_PREFIX: &str = "ENFILADE_";

/// Reads the configuration of a data directory.
pub(crate) fn read(data: &Path, file: Option<&Path>) -> anyhow::Result<Config> {
    let path = file.map_or_else(|| data.join(FILE), Path::to_path_buf);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        // Only the file nobody asked for may be missing.
        Err(why) if why.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
        Err(why) => {
            return Err(why).with_context(|| format!("configuration `{}` cannot be read", path.display()));
        }
    };
    let environment = std::env::vars().filter(|(name, _)| name.contains("__"));
    parse(&text, environment).with_context(|| format!("configuration `{}`", path.display()))
}

fn parse(text: &str, environment: impl Iterator<Item = (String, String)>) -> anyhow::Result<Config> {
    let mut table: toml::Table = text.parse()?;
    for (name, value) in environment {
        let Some(key) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        let key = key.to_ascii_lowercase();
        let Some((section, key)) = key.split_once("__") else { continue };
        let section = table.entry(section).or_insert_with(|| toml::Table::new().into());
        let Some(section) = section.as_table_mut() else {
            bail!("`{name}` sets a key of something that is no table")
        };
        // A number stays a number, and so do yes and no; everything else is text.
        let value = match (value.parse::<i64>(), value.parse::<bool>()) {
            (Ok(number), _) => toml::Value::from(number),
            (_, Ok(yes)) => toml::Value::from(yes),
            _ => toml::Value::from(value),
        };
        section.insert(key.to_owned(), value);
    }
    for (section, value) in &table {
        let Some(keys) = value.as_table() else { return Err(unknown(section)) };
        if let Some(key) =
            keys.keys().map(|key| format!("{section}.{key}")).find(|key| !KEYS.contains(&key.as_str()))
        {
            return Err(unknown(&key));
        }
    }
    Ok(toml::Value::Table(table).try_into()?)
}

fn unknown(key: &str) -> anyhow::Error {
    let nearest = KEYS.iter().min_by_key(|known| distance(key, known)).copied().unwrap_or_default();
    anyhow::anyhow!("unknown key `{key}`; the nearest known one is `{nearest}`")
}

/// How many letters have to be changed, added or left out to make one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (to, up) in b.bytes().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(from != to)).min(left + 1).min(up + 1);
            diagonal = *up;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, environment: &[(&str, &str)]) -> anyhow::Result<Config> {
        parse(text, environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn the_environment_is_over_the_file() {
        let config = of("[tls]\nlisten = '[::1]:1'\n", &[("ENFILADE_TLS__LISTEN", "127.0.0.1:2")]).unwrap();
        assert_eq!(config.tls.listen.to_string(), "127.0.0.1:2");
        let config = of("", &[("ENFILADE_IDENTITY__HASH_SLOTS", "3")]).unwrap();
        assert_eq!((config.identity.hash_slots, config.tls.listen.port()), (Some(3), 8443));
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        for (text, nearest) in [
            ("[tls]\nplain_listne = 1", "tls.plain_listen"),
            ("[tsl]\nlisten = '127.0.0.1:1'", "tls.listen"),
            ("listen = 1", "tls.listen"),
            ("[identity]\nhashslots = 1", "identity.hash_slots"),
        ] {
            let why = of(text, &[]).unwrap_err().to_string();
            assert!(why.ends_with(&format!("`{nearest}`")), "{why}");
        }
        assert!(of("[tls]\nlisten = 'nowhere'", &[]).is_err());
        assert!(of("[tls", &[]).unwrap_err().to_string().contains("line 1"));
    }
}
