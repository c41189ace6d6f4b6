//! The output of the configuration: each key with its value and origin, settings without effect, and the commented example.

use super::keys::Backup;
use super::values::AcmeDirectory;
use super::{Config, KEYS, file_text, keys, keys_of_environment, path, read};
use crate::listen::Addresses;
use crate::reference::default_of;
use enfilade_facts::limits::LIMITS;
use std::fmt::Write as _;
use std::path::Path;

/// The place from which the value of a key comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File,
    Environment,
}

impl Origin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::File => "file",
            Origin::Environment => "environment",
        }
    }
}

/// A key with its value. The value is `None` if the key is not set and has no default.
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: Option<toml::Value>,
    pub(crate) origin: Origin,
}

/// Every key, in the order of the reference.
pub(crate) fn settings(data: &Path, file: Option<&Path>) -> anyhow::Result<Vec<Setting>> {
    let table = toml::Table::try_from(read(data, file)?)?;
    let written: toml::Table = file_text(&path(data, file), file.is_some())?.parse()?;
    let environment: Vec<String> = keys_of_environment().collect();
    let value = |table: &toml::Table, key: &str| {
        let (section, key) = key.split_once('.')?;
        table.get(section)?.get(key).cloned()
    };
    let setting = |key: String| {
        let origin = match () {
            () if environment.contains(&key) => Origin::Environment,
            () if value(&written, &key).is_some() => Origin::File,
            () => Origin::Default,
        };
        Setting { value: value(&table, &key), key, origin }
    };
    Ok(keys().map(|(key, _)| setting(key)).collect())
}

/// Warnings about settings that have no effect because of other settings. Each warning contains the next step.
pub(crate) fn without_effect(config: &Config) -> Vec<String> {
    let tls = &config.tls;
    let rules = [
        (
            tls.acme_challenges.is_some() && tls.http_listen.is_none(),
            "`tls.acme_challenges` has no effect without `tls.http_listen`: set `tls.http_listen = \":80\"`",
        ),
        (
            tls.acme.is_some() && tls.crt_list.is_some(),
            "`tls.acme` has no effect, because the certificates come from `tls.crt_list`: remove one of the two",
        ),
        (
            tls.acme.is_none()
                && (tls.acme_contact.is_some()
                    || tls.acme_roots.is_some()
                    || tls.acme_directory != AcmeDirectory::default()),
            "`tls.acme_directory`, `tls.acme_contact` and `tls.acme_roots` have no effect without `tls.acme`: set `tls.acme` to the host \
             names",
        ),
        (
            tls.certificates.is_some() && tls.crt_list.is_some(),
            "`tls.certificates` has no effect, because the certificates come from `tls.crt_list`: remove one of the two",
        ),
        (
            config.identity.lockout_duration.is_some() && config.identity.lockout_failures.get() == 0,
            "`identity.lockout_duration` has no effect without `identity.lockout_failures`: set the number of failures",
        ),
        (
            config.passwords.regex_description.is_some() && config.passwords.regex.is_none(),
            "`passwords.regex_description` describes no rule: set `passwords.regex`, or remove the description",
        ),
        (
            config.backup.directory.is_none() && config.backup != Backup::default(),
            "no backups are made, because `backup.every`, `backup.keep` and `backup.recipients` have no effect without `backup.directory`: set \
             `backup.directory` to a directory on another disk",
        ),
    ];
    let useless = rules.into_iter().filter(|(holds, _)| *holds).map(|(_, says)| says.to_owned());
    useless
        .chain(unread_roots(config))
        .chain(unread_challenges(config))
        .chain(sockets_without_place(config))
        .chain(unknown_users(config))
        .chain(bound_twice(config))
        .collect()
}

/// A warning if the directory of the challenge files cannot be read.
fn unread_challenges(config: &Config) -> Option<String> {
    let directory = config.tls.acme_challenges.as_ref().filter(|_| config.tls.http_listen.is_some())?;
    let why = std::fs::read_dir(directory).err()?;
    Some(format!(
        "`tls.acme_challenges`: the directory `{}` cannot be read ({why}), so the server cannot answer challenges from its files: create the \
         directory, or correct the path",
        directory.display()
    ))
}

/// Warnings about Unix sockets in a directory that does not exist. A server cannot start before the service manager or the operator has created the
/// directory.
fn sockets_without_place(config: &Config) -> Vec<String> {
    let without =
        |(_, socket): &(&str, std::path::PathBuf)| socket.parent().is_some_and(|place| !place.is_dir());
    let says = |(key, socket): (&str, std::path::PathBuf)| {
        format!(
            "`{key}`: the directory of the socket `{}` does not exist, and without this directory the server does not start: create it \
             (`RuntimeDirectory=` of the service), or correct the path",
            socket.display()
        )
    };
    let plain = config.tls.sockets().map(|socket| ("tls.plain_listen", socket));
    let decisions = config.decisions.listen.iter().flat_map(|listen| listen.sockets());
    let decisions = decisions.map(|socket| ("decisions.listen", socket));
    plain.chain(decisions).filter(without).map(says).collect()
}

/// A warning if a user that may ask for decisions does not exist on this machine. In this case the server does not start.
fn unknown_users(config: &Config) -> Option<String> {
    config.decisions.uids().err().map(|why| format!("{why}; until then the server does not start"))
}

/// A warning if the CA certificates that verify the ACME authority cannot be read. The server starts, but obtains no certificate.
fn unread_roots(config: &Config) -> Option<String> {
    let roots = config.tls.acme_roots.as_ref().filter(|_| config.tls.acme.is_some())?;
    let why = std::fs::File::open(roots).err()?;
    Some(format!(
        "`tls.acme_roots`: `{}` cannot be read, so no certificate is obtained: {why}; correct the path",
        roots.display()
    ))
}

/// Warnings about addresses that are configured for two listeners.
fn bound_twice(config: &Config) -> Vec<String> {
    let tls = &config.tls;
    let listeners = [
        ("tls.listen", tls.listen.texts()),
        ("tls.plain_listen", tls.plain_listen.as_ref().map_or(&[], Addresses::texts)),
        ("tls.http_listen", tls.http_listen.as_ref().map_or(&[], Addresses::texts)),
        ("decisions.listen", config.decisions.listen.as_ref().map_or(&[], Addresses::texts)),
        ("operations.listen", config.operations.listen.texts()),
    ];
    let mut found = Vec::new();
    for (at, (key, addresses)) in listeners.iter().enumerate() {
        for (other, others) in listeners.iter().skip(at + 1) {
            // For port 0, the system assigns a different port to each listener.
            let shared = addresses.iter().find(|text| others.contains(text) && !text.ends_with(":0"));
            found.extend(shared.map(|address| {
                format!("`{key}` and `{other}` both have the address {address}, which only one can bind: change one of the two")
            }));
        }
    }
    found
}

/// A configuration file in which every key is a comment, with its meaning, its values and its default.
pub(crate) fn example() -> anyhow::Result<String> {
    let mut text = "# The configuration of enfilade. Each key is shown with its default. A key without a default is shown with an example, and its\n\
                    # comment says what applies while it is unset. Remove the `#` before a key to change it. Write each [section] only once.\n\
                    # `enfilade config check` checks this file, `enfilade config show` prints the values that apply.\n"
        .to_owned();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            write!(text, "\n[{section}]\n")?;
        }
        writeln!(text, "# {}", key.what())?;
        let default = default_of(key)?;
        let unset = if default.is_none() { format!(" Unset: {}.", key.unset) } else { String::new() };
        writeln!(text, "# Values: {}.{unset} A change needs a {}.", (key.expected)(), key.effect.name())?;
        let value = default.unwrap_or_else(|| (key.sample)().to_owned());
        writeln!(text, "# {} = {value}", key.name())?;
    }
    text.push_str("\n[limits]\n");
    for row in LIMITS {
        let (least, most) = row.range;
        writeln!(text, "# {} In {}, {least} to {most}.", row.what.trim(), row.unit)?;
        writeln!(text, "# {} = {}", row.key, row.usual)?;
    }
    Ok(text)
}
