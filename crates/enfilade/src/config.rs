//! Reads `enfilade.toml`, and applies the environment variables, which override the file. An unknown key is an error. The error suggests the most
//! similar known key.

mod collector;
mod datastore_names;
mod fleet;
mod keys;
mod lost;
mod shown;
mod url_origin;
mod values;

pub(crate) use collector::CollectorUrl;
pub(crate) use fleet::{MemberName, ProofMillis};
pub(crate) use keys::{Facts, Identity, KEYS, Key, Tls, Traces};
pub(crate) use lost::{RECORD, had, lost_file, refuse_lost, remember};
pub(crate) use shown::{Origin, Setting, example, settings, without_effect};
pub(crate) use url_origin::UrlOrigin;
pub(crate) use values::{Check, MailAddress, MapSize, TransportSecurity, Users};

use crate::owner::uid_of;
use anyhow::{Context, bail};
use enfilade_admin::{CertificatePlace, FernetKeys, IndexUse, LimitModel, PasswordRules};
use enfilade_facts::limits::{LIMITS, LimitError, Limits};
use enfilade_passage::TrashTerms;
use enfilade_sources::lmdb::Terms;
use enfilade_tls::{Match, Rules};
use fleet::MemberAddress;
use keys::{
    Access, Backup, Console, Datastores, Decisions, Effect, Fleet, Http, Operations, Passwords, Privileges,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use values::{Duration, Matching, UseOfIndex, UseOfLimits};

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) tls: Tls,
    pub(crate) http: Http,
    pub(crate) identity: Identity,
    pub(crate) passwords: Passwords,
    pub(crate) access: Access,
    pub(crate) datastores: Datastores,
    pub(crate) console: Console,
    pub(crate) decisions: Decisions,
    pub(crate) privileges: Privileges,
    pub(crate) operations: Operations,
    pub(crate) traces: Traces,
    pub(crate) facts: Facts,
    pub(crate) fleet: Fleet,
    pub(crate) backup: Backup,
    pub(crate) limits: Bounds,
}

impl Tls {
    /// The place of the certificates: a crt-list or a directory.
    pub(crate) fn place(&self, data: &Path) -> CertificatePlace {
        match &self.crt_list {
            Some(list) => CertificatePlace::List(list.clone()),
            None => {
                CertificatePlace::Directory(self.certificates.clone().unwrap_or_else(|| data.join("tls")))
            }
        }
    }

    /// The paths of the Unix sockets on which the server listens for proxies.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        self.plain_listen.iter().flat_map(|listen| listen.sockets())
    }

    /// The names for the certificate that the server makes for itself.
    pub(crate) fn names(&self) -> &[String] {
        self.names.as_ref().map_or(&[], |names| &names.0)
    }

    /// The names of the certificate that an ACME authority issues.
    pub(crate) fn acme_names(&self) -> &[String] {
        self.acme.as_ref().map_or(&[], |names| &names.0)
    }

    /// The value of the key `index`, converted to a type of the crate `enfilade-admin`.
    pub(crate) fn index_use(&self) -> IndexUse {
        match self.index {
            UseOfIndex::Off => IndexUse::Off,
            UseOfIndex::Checked => IndexUse::Checked,
            UseOfIndex::Trusted => IndexUse::Trusted,
        }
    }

    /// The rules by which door 1 (TLS) chooses a certificate.
    pub(crate) fn rules(&self) -> Rules {
        let matching = match self.r#match {
            Matching::ExactFirst => Match::ExactFirst,
            Matching::Haproxy => Match::Haproxy,
        };
        Rules { matching, strict: self.strict_sni }
    }
}

impl UseOfLimits {
    /// The enforcement model for limits, converted to a type of the crate `enfilade-admin`.
    pub(crate) fn model(self) -> LimitModel {
        match self {
            UseOfLimits::Flat => LimitModel::Flat,
            UseOfLimits::StrictTwoLevel => LimitModel::StrictTwoLevel,
        }
    }
}

/// The default time for which a user is locked, in seconds. Keystone has the same default.
const LOCKOUT_SECONDS: i64 = 1_800;

impl Config {
    /// The address of the listener for other members of the fleet.
    pub(crate) fn member_address(&self) -> Option<SocketAddr> {
        self.fleet.listen.map(|MemberAddress(address)| address)
    }

    /// The repository of Fernet keys.
    pub(crate) fn fernet_keys(&self, data: &Path) -> FernetKeys {
        let directory = self.identity.fernet_keys.clone().unwrap_or_else(|| data.join("keys/fernet"));
        FernetKeys::new(directory).shared_by(self.facts.group)
    }

    /// The rules for passwords and logins, converted to a type of the crate `enfilade-admin`.
    pub(crate) fn password_rules(&self) -> PasswordRules {
        let (passwords, identity) = (&self.passwords, &self.identity);
        let seconds = |time: &Option<Duration>, usual| time.as_ref().map_or(usual, |time| time.seconds);
        PasswordRules {
            characters_min: passwords.characters_min.get(),
            kinds_min: passwords.kinds_min.get(),
            seconds_max: seconds(&passwords.expire_after, 0),
            seconds_min: seconds(&passwords.keep_for, 0),
            unlike_last: passwords.unlike_last.get(),
            change_given: passwords.change_given,
            regex: passwords.regex.clone().map(|expression| expression.0),
            regex_description: passwords.regex_description.clone(),
            lockout_failures: u32::try_from(identity.lockout_failures.get()).unwrap_or(u32::MAX),
            lockout_seconds: seconds(&identity.lockout_duration, LOCKOUT_SECONDS),
            inactive_days: i64::try_from(identity.inactive_days.get()).unwrap_or(i64::MAX),
        }
    }
}

impl Console {
    /// The settings of the trash.
    pub(crate) fn trash(&self) -> TrashTerms {
        let without = self.no_trash.as_ref().map(|names| names.0.clone()).unwrap_or_default();
        TrashTerms { days: self.trash_days.into(), without }
    }
}

impl Decisions {
    /// The user numbers (UIDs) of the users in `[decisions] users`. If this key is not set, only the UID of the user of this process. Only processes
    /// of these users may ask for decisions over the Unix sockets.
    ///
    /// # Errors
    /// When this machine has no user with one of the names.
    pub(crate) fn uids(&self) -> anyhow::Result<Vec<u32>> {
        let Some(Users(users)) = &self.users else { return Ok(vec![rustix::process::geteuid().as_raw()]) };
        let uid = |user: &String| {
            uid_of(user).with_context(|| {
                format!("`decisions.users`: this machine has no user `{user}`; correct the name, or create the user")
            })
        };
        users.iter().map(uid).collect()
    }
}

impl Privileges {
    /// Lets this process use the helper process, if a helper is configured.
    pub(crate) fn use_helper(&self) {
        self.helper.clone().map(PathBuf::from).inspect(|path| enfilade_privileged::client::use_helper(path));
    }
}

impl Facts {
    /// The options with which the store of facts is opened.
    pub(crate) fn terms(&self) -> Terms {
        Terms { group: self.group, map_bytes: self.map_mebibytes.map(MapSize::bytes) }
    }
}

/// The section `[limits]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "BTreeMap<String, u64>", into = "BTreeMap<String, u64>")]
pub(crate) struct Bounds(pub(crate) Limits);

impl TryFrom<BTreeMap<String, u64>> for Bounds {
    type Error = LimitError;
    fn try_from(set: BTreeMap<String, u64>) -> Result<Self, LimitError> {
        let mut limits = Limits::default();
        set.iter().try_for_each(|(key, value)| limits.set(key, *value))?;
        Ok(Bounds(limits))
    }
}

impl From<Bounds> for BTreeMap<String, u64> {
    fn from(Bounds(limits): Bounds) -> Self {
        LIMITS.iter().map(|row| (row.key.to_owned(), limits.of(row))).collect()
    }
}

/// All keys of the configuration, including the keys of `[limits]`. Each item contains the name of a key, and the time at which a change of the key
/// takes effect.
fn keys() -> impl Iterator<Item = (String, Effect)> {
    let limits = LIMITS.iter().map(|row| (format!("limits.{}", row.key), Effect::Restart));
    KEYS.iter().map(|key| (format!("{}.{}", key.section, key.name()), key.effect)).chain(limits)
}

impl Config {
    /// The keys that have a different value in `changed`, if a change of the key takes effect only after a restart.
    pub(crate) fn waits_for_restart(&self, changed: &Config) -> anyhow::Result<Vec<String>> {
        let (old, new) = (toml::Table::try_from(self)?, toml::Table::try_from(changed)?);
        let value = |table: &toml::Table, key: &str| {
            let (section, key) = key.split_once('.')?;
            table.get(section)?.get(key).cloned()
        };
        let waits = keys().filter(|(_, effect)| *effect == Effect::Restart);
        Ok(waits.map(|(key, _)| key).filter(|key| value(&old, key) != value(&new, key)).collect())
    }

    /// Makes relative paths absolute. A relative path is relative to the directory of the configuration file, and not to the working directory.
    fn begin_paths_at(&mut self, directory: &Path) {
        let Config { tls, identity, facts, fleet, .. } = self;
        let paths = [
            &mut tls.acme_challenges,
            &mut tls.acme_roots,
            &mut tls.certificates,
            &mut tls.crt_list,
            &mut tls.issuers,
            &mut identity.fernet_keys,
            &mut facts.files,
            &mut fleet.ca,
            &mut fleet.certificate,
            &mut fleet.key,
        ];
        for path in paths.into_iter().flatten() {
            let joined = directory.join(&path);
            *path = std::path::absolute(&joined).unwrap_or(joined);
        }
    }

    /// Refuses a Unix socket if `trusted_proxies` does not contain `unix`. Also refuses `unix` if no Unix socket is configured. Over a Unix socket,
    /// only a trusted proxy can report the client's address. So without `unix`, every request over the socket would be refused. If `unix` were
    /// allowed without a socket, it would apply unnoticed to a socket that is added later.
    fn check_sockets(&self) -> anyhow::Result<()> {
        match (self.tls.sockets().next(), self.http.trusted_proxies.unix) {
            (Some(socket), false) => bail!(
                "`tls.plain_listen` has the Unix socket `{}`, but `http.trusted_proxies` does not have \"unix\", so every request over this socket \
                 would be refused: if only proxies can connect to the socket, add \"unix\" to `http.trusted_proxies`; otherwise remove the socket \
                 from `tls.plain_listen`",
                socket.display()
            ),
            (None, true) => bail!(
                "`http.trusted_proxies` has \"unix\", but `tls.plain_listen` has no Unix socket: set \
                 `tls.plain_listen = \"unix:/run/enfilade/http.sock\"`, or remove \"unix\""
            ),
            (Some(_), true) | (None, false) => Ok(()),
        }
    }
}

const FILE: &str = "enfilade.toml";
const ENVIRONMENT_PREFIX: &str = "ENFILADE_";

/// The path of the configuration file: `file` if it is given, and otherwise `enfilade.toml` in the data directory.
pub(crate) fn path(data: &Path, file: Option<&Path>) -> PathBuf {
    file.map_or_else(|| data.join(FILE), Path::to_path_buf)
}

/// Reads the configuration of a data directory. If the file cannot be parsed, the error contains the path of the file, the line and the reason.
pub(crate) fn read(data: &Path, file: Option<&Path>) -> anyhow::Result<Config> {
    let path = path(data, file);
    let text = file_text(&path, file.is_some())?;
    parse_file(&text).with_context(|| format!("configuration `{}`", path.display()))?;
    let environment = std::env::vars().filter(|(name, _)| name.contains("__"));
    let mut config = with_environment(&text, environment)?;
    config.check_sockets().with_context(|| format!("configuration `{}`", path.display()))?;
    config.begin_paths_at(path.parent().unwrap_or(data));
    Ok(config)
}

/// The text of a configuration file. Only the default file may be missing.
fn file_text(path: &Path, is_named: bool) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound && !is_named => Ok(String::new()),
        read => read.with_context(|| format!("configuration `{}` cannot be read", path.display())),
    }
}

/// The key that an environment variable sets, such as `tls.listen` for `ENFILADE_TLS__LISTEN`.
fn key_of_variable(name: &str) -> Option<String> {
    let key = name.strip_prefix(ENVIRONMENT_PREFIX)?;
    key.contains("__").then(|| key.to_ascii_lowercase().replacen("__", ".", 1))
}

/// The keys that environment variables set.
fn keys_of_environment() -> impl Iterator<Item = String> {
    variables().filter_map(|name| key_of_variable(&name))
}

/// Warnings about environment variables that set no key, because their names have only one `_` after the section instead of two.
pub(crate) fn unread_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let sections: BTreeSet<String> =
        keys().filter_map(|(key, _)| Some(key.split_once('.')?.0.to_ascii_uppercase())).collect();
    let warning = |name: String| {
        let (section, key) = name.strip_prefix(ENVIRONMENT_PREFIX)?.split_once('_')?;
        let is_unread = sections.contains(section) && !key.is_empty() && key_of_variable(&name).is_none();
        is_unread.then(|| {
            format!("the environment variable `{name}` sets no key: did you mean `{ENVIRONMENT_PREFIX}{section}__{key}`, with two `_`?")
        })
    };
    names.filter_map(warning).collect()
}

/// The names of all variables of the environment.
pub(crate) fn variables() -> impl Iterator<Item = String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())
}

/// Parses the file without the environment variables, because errors must contain line numbers. The error lists all wrong lines in their order.
pub(crate) fn parse_file(text: &str) -> anyhow::Result<Config> {
    let line = |span: Range<usize>| {
        let before = text.as_bytes().get(..span.start).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    };
    let on_one_line = |why: toml::de::Error| {
        let line = why.span().map_or(1, line);
        let twice = text.lines().nth(line - 1).map(str::trim).filter(|_| why.message() == "duplicate key");
        let says = match twice {
            Some(table) if table.starts_with('[') => {
                format!("the table {table} appears twice: move the keys of the second one into the first one")
            }
            Some(_) => "the key appears twice: remove one of the two lines".to_owned(),
            None => says(&why),
        };
        anyhow::anyhow!("line {line}: {says}")
    };
    let spans = toml::de::DeTable::parse(text).map_err(on_one_line)?;
    let values: toml::Table = text.parse().map_err(on_one_line)?;
    let mut wrong = BTreeMap::new();
    for (section, keys) in spans.get_ref() {
        let name = section.get_ref();
        let (Some(keys), Some(values)) =
            (keys.get_ref().as_table(), values.get(&**name).and_then(toml::Value::as_table))
        else {
            wrong.insert(line(section.span()), unknown(name));
            continue;
        };
        for (key, value) in keys {
            let path = format!("{name}.{}", key.get_ref());
            let alone = values.get(&**key.get_ref()).map(|value| alone(name, key.get_ref(), value));
            let checked = known(&path).map_err(|why| (key.span(), why));
            let checked = checked.and_then(|()| alone.transpose().map_err(|why| (value.span(), why)));
            if let Err((span, why)) = checked {
                wrong.entry(line(span)).or_insert(why);
            }
        }
    }
    let wrong: Vec<String> = wrong.iter().map(|(line, why)| format!("line {line}: {why}")).collect();
    match wrong.is_empty() {
        true => toml::from_str(text).map_err(on_one_line),
        false => bail!("{}", wrong.join("; ")),
    }
}

/// A configuration that sets only this key. With this configuration, the value of the key is checked independently of all other keys.
fn alone(section: &str, key: &str, value: &toml::Value) -> Result<Config, String> {
    let keys = toml::Table::from_iter([(key.to_owned(), value.clone())]);
    let table = toml::Table::from_iter([(section.to_owned(), keys.into())]);
    toml::Value::Table(table).try_into().map_err(|why| says(&why))
}

/// The message of an error of the TOML library, on one line. The library says which Rust type it expected, so this function replaces the names of
/// these types.
fn says(why: &toml::de::Error) -> String {
    let message = why.message().replace('\n', ", ");
    let whole = ["usize", "u64", "u32", "u16", "i64"].map(|name| format!("expected {name}"));
    match whole.iter().find_map(|expected| message.strip_suffix(expected.as_str())) {
        Some(wrong) => format!("{wrong}expected a whole number"),
        None => message,
    }
}

/// Applies the variables of the environment. The error lists all wrong variables.
fn with_environment(
    text: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<Config> {
    let mut table: toml::Table = text.parse()?;
    let mut wrong = Vec::new();
    for (name, value) in environment {
        let Some(key) = key_of_variable(&name) else { continue };
        let Some((section, key_in_section)) = key.split_once('.') else { continue };
        // Numbers and booleans keep their types. Every other value is a string.
        let value = match (value.parse::<i64>(), value.parse::<bool>()) {
            (Ok(number), _) => toml::Value::from(number),
            (_, Ok(yes)) => toml::Value::from(yes),
            _ => toml::Value::from(value),
        };
        if let Err(why) = known(&key).and_then(|()| alone(section, key_in_section, &value)) {
            wrong.push(format!("environment variable `{name}`: {why}"));
            continue;
        }
        let section = table.entry(section).or_insert_with(|| toml::Table::new().into());
        let Some(section) = section.as_table_mut() else {
            bail!("environment variable `{name}` sets a key below a value that is not a table")
        };
        section.insert(key_in_section.to_owned(), value);
    }
    match wrong.is_empty() {
        true => Ok(toml::Value::Table(table).try_into()?),
        false => bail!("{}", wrong.join("; ")),
    }
}

fn known(key: &str) -> Result<(), String> {
    if keys().any(|(known, _)| known == key) { Ok(()) } else { Err(unknown(key)) }
}

/// Suggests a known key for an unknown key. If another section has a key with the same name, suggests that key. Otherwise suggests the most similar
/// key of the same section.
fn unknown(key: &str) -> String {
    let split = |key: &str| key.split_once('.').map(|(section, name)| (section.to_owned(), name.to_owned()));
    let written = split(key);
    let unlike = |known: &str| {
        let is_elsewhere =
            split(known).is_some_and(|(_, name)| written.as_ref().is_some_and(|it| it.1 == name));
        let is_of_section =
            split(known).is_some_and(|(section, _)| written.as_ref().is_some_and(|it| it.0 == section));
        (!is_elsewhere, !is_of_section, distance(key, known))
    };
    let nearest = keys().map(|(known, _)| known).min_by_key(|known| unlike(known)).unwrap_or_default();
    format!("unknown key `{key}`; the nearest known one is `{nearest}`")
}

/// The edit distance of two words (Levenshtein).
pub(crate) fn distance(a: &str, b: &str) -> usize {
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
mod tests;
