//! `enfilade.toml`, overridden by environment variables. An unknown key is an error that names the nearest known one.

mod values;

pub(crate) use values::{AtMost, Duration, MapSize, Roots, TransportSecurity};

use crate::listen::Networks;
use anyhow::{Context, bail};
use enfilade_admin::{CertificatePlace, IndexUse, PASSWORDS_KEPT_MAX, PasswordRules};
use enfilade_facts::limits::{LIMITS, LimitError, Limits, TOKEN_SECONDS_MAX};
use enfilade_sources::lmdb::Terms;
use enfilade_tls::{Match, Rules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) tls: Tls,
    pub(crate) identity: Identity,
    pub(crate) passwords: Passwords,
    pub(crate) access: Access,
    pub(crate) datastores: Datastores,
    pub(crate) operations: Operations,
    pub(crate) facts: Facts,
    pub(crate) limits: Bounds,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Tls {
    /// Where HTTPS is served.
    pub(crate) listen: SocketAddr,
    /// The address for HTTP without TLS, behind a proxy; off unless set.
    pub(crate) plain_listen: Option<SocketAddr>,
    /// The address for plain HTTP that redirects to HTTPS; off unless set.
    pub(crate) http_listen: Option<SocketAddr>,
    /// The directory of ACME challenges (HTTP-01), as certbot's webroot writes them.
    pub(crate) acme_challenges: Option<PathBuf>,
    /// Load balancers trusted to send a PROXY v2 header: addresses and networks; none unless set.
    pub(crate) proxy_from: Networks,
    /// The directory of PEM bundles; `tls` in the data directory unless set.
    pub(crate) certificates: Option<PathBuf>,
    /// A crt-list as HAProxy takes it, in the place of the directory: which file answers which names, and under which terms.
    pub(crate) crt_list: Option<PathBuf>,
    /// A directory of authorities' certificates, for bundles that hold only their leaf.
    pub(crate) issuers: Option<PathBuf>,
    /// How far the index of an earlier start is trusted; `checked` unless set.
    pub(crate) index: UseOfIndex,
    /// When keys are verified; `background` unless set.
    pub(crate) check: Check,
    /// Which of several certificates with a name answers; `exact-first` unless set.
    #[serde(rename = "match")]
    pub(crate) matching: Matching,
    /// Whether a server name without a certificate is refused instead of answered with the default certificate; it is not unless set.
    pub(crate) strict_sni: bool,
    /// The value of `Strict-Transport-Security` on every response over TLS, such as `max-age=31536000; includeSubDomains`; not sent
    /// unless set.
    pub(crate) hsts: Option<TransportSecurity>,
}

/// When keys are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Check {
    /// Before the server listens; an unusable certificate stops the start.
    Eager,
    /// While the server runs; an unusable certificate is no longer served, and a warning is logged.
    #[default]
    Background,
    /// At the first handshake that needs it.
    Lazy,
}

/// How far the index of certificates is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UseOfIndex {
    /// Every file is read at every start.
    Off,
    /// Every file is checked for changes before its names are served.
    #[default]
    Checked,
    /// Files are checked for changes after their names are served.
    Trusted,
}

/// Which of several certificates with a name answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Matching {
    /// A certificate with the exact name before one with a wildcard.
    #[default]
    ExactFirst,
    /// As HAProxy: an ECDSA certificate first, with the exact name or a wildcard.
    Haproxy,
}

impl Tls {
    /// Where certificates are.
    pub(crate) fn place(&self, data: &Path) -> CertificatePlace {
        match &self.crt_list {
            Some(list) => CertificatePlace::List(list.clone()),
            None => {
                CertificatePlace::Directory(self.certificates.clone().unwrap_or_else(|| data.join("tls")))
            }
        }
    }

    /// The setting in the type of the reader of certificates.
    pub(crate) fn index_use(&self) -> IndexUse {
        match self.index {
            UseOfIndex::Off => IndexUse::Off,
            UseOfIndex::Checked => IndexUse::Checked,
            UseOfIndex::Trusted => IndexUse::Trusted,
        }
    }

    /// The rules for door 1.
    pub(crate) fn rules(&self) -> Rules {
        let matching = match self.matching {
            Matching::ExactFirst => Match::ExactFirst,
            Matching::Haproxy => Match::Haproxy,
        };
        Rules { matching, strict: self.strict_sni }
    }
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            listen: SocketAddr::from(([127, 0, 0, 1], 8443)),
            plain_listen: None,
            http_listen: None,
            acme_challenges: None,
            proxy_from: Networks::default(),
            certificates: None,
            crt_list: None,
            issuers: None,
            index: UseOfIndex::default(),
            check: Check::default(),
            matching: Matching::default(),
            strict_sni: false,
            hsts: None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Access {
    /// Whether listings use the kernel's notifications of changed files; they do unless this is false.
    pub(crate) watch: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Datastores {
    /// The directories beneath which datastores may be made over HTTP; `datastores` in the data directory unless set.
    pub(crate) roots: Option<Roots>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Identity {
    /// How many slow hashes are computed at once; half the cores unless set.
    pub(crate) hash_slots: Option<usize>,
    /// Whether failed logins are delayed and in the end barred for a while; they are unless this is false.
    pub(crate) penalties: Option<bool>,
    /// The directory of Fernet keys, with the layout of `keystone-manage`; `keys/fernet` in the data directory unless set.
    pub(crate) fernet_keys: Option<PathBuf>,
    /// The most keys in it; 3 unless set.
    pub(crate) max_active_keys: Option<usize>,
    /// How often a server rotates the keys: a number and s, m, h or d; never unless set.
    pub(crate) rotate_every: Option<Duration>,
    /// How long a Fernet token is valid, in seconds, at most 31 days; 3600 unless set.
    pub(crate) token_seconds: Option<AtMost<{ TOKEN_SECONDS_MAX as u64 }>>,
    /// How long after its expiry services may still validate it, in seconds; 172800 unless set.
    pub(crate) expired_seconds: Option<i64>,
}

/// Password rules. All are off unless set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Passwords {
    /// The fewest characters.
    pub(crate) characters_min: Option<AtMost<511>>,
    /// The fewest kinds of characters: lower case, upper case, digits, others.
    pub(crate) kinds_min: Option<AtMost<4>>,
    /// When a password expires: a number and s, m, h or d.
    pub(crate) expire_after: Option<Duration>,
    /// How long a user must keep a new password, likewise.
    pub(crate) keep_for: Option<Duration>,
    /// How many of the last passwords, including the current one, the user may not choose again.
    pub(crate) unlike_last: Option<AtMost<{ PASSWORDS_KEPT_MAX as u64 }>>,
    /// Whether a password set by somebody else can only be used to change it.
    pub(crate) change_given: Option<bool>,
}

impl Passwords {
    /// The rules in the type that checks passwords.
    pub(crate) fn rules(&self) -> PasswordRules {
        let seconds = |time: &Option<Duration>| time.as_ref().map_or(0, |time| time.seconds);
        PasswordRules {
            characters_min: self.characters_min.map_or(0, AtMost::get),
            kinds_min: self.kinds_min.map_or(0, AtMost::get),
            seconds_max: seconds(&self.expire_after),
            seconds_min: seconds(&self.keep_for),
            unlike_last: self.unlike_last.map_or(0, AtMost::get),
            change_given: self.change_given.unwrap_or(false),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Operations {
    /// The address for metrics and health.
    pub(crate) listen: SocketAddr,
}

impl Default for Operations {
    fn default() -> Self {
        Operations { listen: SocketAddr::from(([127, 0, 0, 1], 9443)) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Facts {
    /// The directory of `datastore.cfg`, `user.cfg`, `acl.cfg` and `token.shadow`; the data directory unless set.
    pub(crate) files: Option<PathBuf>,
    /// The number of the group whose members share the data directory; only the owner unless set.
    pub(crate) group: Option<u32>,
    /// How long the last content of a file counts while the file cannot be read, in seconds; 60 unless set.
    pub(crate) stale_limit: Option<i64>,
    /// The largest size of the store of facts, in MiB; 65,536 unless set.
    pub(crate) map_mebibytes: Option<MapSize>,
}

impl Facts {
    /// How the store is opened.
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

/// When a changed key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obeyed {
    /// With the next SIGHUP.
    AtReload,
    /// After a restart: sockets are bound, directories opened and tables allocated once.
    AtRestart,
}

/// All keys.
fn keys() -> impl Iterator<Item = (String, Obeyed)> {
    let limits = LIMITS.iter().map(|row| (format!("limits.{}", row.key), Obeyed::AtRestart));
    KEYS.iter().map(|(key, obeyed)| ((*key).to_owned(), *obeyed)).chain(limits)
}

/// All keys except the limits, which have a table of their own.
const KEYS: [(&str, Obeyed); 33] = [
    ("tls.listen", Obeyed::AtRestart),
    ("tls.plain_listen", Obeyed::AtRestart),
    ("tls.http_listen", Obeyed::AtRestart),
    ("tls.acme_challenges", Obeyed::AtRestart),
    ("tls.proxy_from", Obeyed::AtRestart),
    ("tls.hsts", Obeyed::AtRestart),
    ("tls.certificates", Obeyed::AtReload),
    ("tls.crt_list", Obeyed::AtReload),
    ("tls.issuers", Obeyed::AtReload),
    ("tls.index", Obeyed::AtRestart),
    ("tls.check", Obeyed::AtRestart),
    ("tls.match", Obeyed::AtReload),
    ("tls.strict_sni", Obeyed::AtReload),
    ("identity.hash_slots", Obeyed::AtReload),
    ("identity.penalties", Obeyed::AtRestart),
    ("identity.fernet_keys", Obeyed::AtRestart),
    ("identity.max_active_keys", Obeyed::AtRestart),
    ("identity.rotate_every", Obeyed::AtRestart),
    ("identity.token_seconds", Obeyed::AtRestart),
    ("identity.expired_seconds", Obeyed::AtRestart),
    ("passwords.characters_min", Obeyed::AtRestart),
    ("passwords.kinds_min", Obeyed::AtRestart),
    ("passwords.expire_after", Obeyed::AtRestart),
    ("passwords.keep_for", Obeyed::AtRestart),
    ("passwords.unlike_last", Obeyed::AtRestart),
    ("passwords.change_given", Obeyed::AtRestart),
    ("access.watch", Obeyed::AtRestart),
    ("datastores.roots", Obeyed::AtRestart),
    ("operations.listen", Obeyed::AtRestart),
    ("facts.files", Obeyed::AtRestart),
    ("facts.group", Obeyed::AtRestart),
    ("facts.stale_limit", Obeyed::AtRestart),
    ("facts.map_mebibytes", Obeyed::AtRestart),
];

impl Config {
    /// The keys that differ from this configuration and take effect only after a restart.
    pub(crate) fn waits_for_restart(&self, changed: &Config) -> anyhow::Result<Vec<String>> {
        let (old, new) = (toml::Table::try_from(self)?, toml::Table::try_from(changed)?);
        let value = |table: &toml::Table, key: &str| {
            let (section, key) = key.split_once('.')?;
            table.get(section)?.get(key).cloned()
        };
        let waits = keys().filter(|(_, obeyed)| *obeyed == Obeyed::AtRestart);
        Ok(waits.map(|(key, _)| key).filter(|key| value(&old, key) != value(&new, key)).collect())
    }
}

const FILE: &str = "enfilade.toml";
const ENVIRONMENT_PREFIX: &str = "ENFILADE_";

/// The path of the configuration of a data directory, unless another file is given.
pub(crate) fn path(data: &Path, file: Option<&Path>) -> PathBuf {
    file.map_or_else(|| data.join(FILE), Path::to_path_buf)
}

/// Reads the configuration of a data directory. Errors name file, line and reason.
pub(crate) fn read(data: &Path, file: Option<&Path>) -> anyhow::Result<Config> {
    let path = path(data, file);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        // Only the default file may be missing.
        Err(why) if why.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
        Err(why) => {
            return Err(why).with_context(|| format!("configuration `{}` cannot be read", path.display()));
        }
    };
    parse_file(&text).with_context(|| format!("configuration `{}`", path.display()))?;
    let environment = std::env::vars().filter(|(name, _)| name.contains("__"));
    with_environment(&text, environment)
}

/// The file alone: only there have values lines.
fn parse_file(text: &str) -> anyhow::Result<Config> {
    let at = |offset: usize| {
        let before = text.as_bytes().get(..offset).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    };
    let on_one_line = |why: toml::de::Error| {
        let line = why.span().map_or(1, |span| at(span.start));
        anyhow::anyhow!("line {line}: {}", why.message().replace('\n', ", "))
    };
    let table = toml::de::DeTable::parse(text).map_err(on_one_line)?;
    for (section, value) in table.get_ref() {
        let name = section.get_ref();
        let line = |key: &toml::Spanned<_>| format!("line {}", at(key.span().start));
        let Some(keys) = value.get_ref().as_table() else { return Err(unknown(name).context(line(section))) };
        for key in keys.keys() {
            known(&format!("{name}.{}", key.get_ref())).with_context(|| line(key))?;
        }
    }
    toml::from_str(text).map_err(on_one_line)
}

fn with_environment(
    text: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<Config> {
    let mut table: toml::Table = text.parse()?;
    for (name, value) in environment {
        let Some(key) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        let key = key.to_ascii_lowercase().replacen("__", ".", 1);
        let Some((section, key_in_section)) = key.split_once('.') else { continue };
        known(&key).with_context(|| format!("environment variable `{name}`"))?;
        let section = table.entry(section).or_insert_with(|| toml::Table::new().into());
        let Some(section) = section.as_table_mut() else {
            bail!("environment variable `{name}` sets a key below a value that is not a table")
        };
        // Numbers and booleans keep their types; everything else is a string.
        let value = match (value.parse::<i64>(), value.parse::<bool>()) {
            (Ok(number), _) => toml::Value::from(number),
            (_, Ok(yes)) => toml::Value::from(yes),
            _ => toml::Value::from(value),
        };
        section.insert(key_in_section.to_owned(), value);
        // The file was valid before, so the error is in the variable.
        let so_far = toml::Value::Table(table.clone()).try_into::<Config>();
        so_far.map_err(|why| anyhow::anyhow!("environment variable `{name}`: {}", why.message()))?;
    }
    Ok(toml::Value::Table(table).try_into()?)
}

fn known(key: &str) -> anyhow::Result<()> {
    if keys().any(|(known, _)| known == key) { Ok(()) } else { Err(unknown(key)) }
}

fn unknown(key: &str) -> anyhow::Error {
    let nearest = keys().map(|(known, _)| known).min_by_key(|known| distance(key, known));
    let nearest = nearest.unwrap_or_default();
    anyhow::anyhow!("unknown key `{key}`; the nearest known one is `{nearest}`")
}

/// The edit distance of two words (Levenshtein).
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
        parse_file(text)?;
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        with_environment(text, environment)
    }

    #[test]
    fn the_environment_is_over_the_file() {
        let config = of("[tls]\nlisten = '[::1]:1'\n", &[("ENFILADE_TLS__LISTEN", "127.0.0.1:2")]).unwrap();
        assert_eq!(config.tls.listen.to_string(), "127.0.0.1:2");
        let config = of("", &[("ENFILADE_IDENTITY__HASH_SLOTS", "3")]).unwrap();
        assert_eq!((config.identity.hash_slots, config.tls.listen.port()), (Some(3), 8443));
    }

    #[test]
    fn errors_name_the_line_on_one_line_and_the_nearest_key() {
        for (text, environment, expected) in [
            (
                "[tls]\nplain_listne = 1",
                None,
                "line 2: unknown key `tls.plain_listne`; the nearest known one is `tls.plain_listen`",
            ),
            (
                "\n[tsl]\nlisten = '127.0.0.1:1'",
                None,
                "line 3: unknown key `tsl.listen`; the nearest known one is `tls.listen`",
            ),
            ("listen = 1", None, "line 1: unknown key `listen`; the nearest known one is `tls.listen`"),
            (
                "[identity]\nhashslots = 1",
                None,
                "line 2: unknown key `identity.hashslots`; the nearest known one is `identity.hash_slots`",
            ),
            ("# one\n[tls]\nlisten = 'nowhere'", None, "line 3: invalid socket address syntax"),
            (
                "[identity]\n\nhash_slots = 'many'",
                None,
                "line 3: invalid type: string \"many\", expected usize",
            ),
            ("[tls", None, "line 1: unclosed table, expected `]`"),
            ("[limits]\nxml_bytes = 0", None, "line 1: limit `xml_bytes` is 0; expected 1024 to 67108864"),
            (
                "[limits]\nxml_byte = 9",
                None,
                "line 2: unknown key `limits.xml_byte`; the nearest known one is `limits.xml_bytes`",
            ),
            (
                "",
                Some(("ENFILADE_TLS__LISTEN", "nowhere")),
                "environment variable `ENFILADE_TLS__LISTEN`: invalid socket address syntax",
            ),
            (
                "",
                Some(("ENFILADE_TLS__LISTNE", "1")),
                "environment variable `ENFILADE_TLS__LISTNE`: unknown key `tls.listne`; the nearest known one is `tls.listen`",
            ),
        ] {
            let why = of(text, environment.as_slice()).unwrap_err();
            assert_eq!(format!("{why:#}"), expected);
        }
    }

    #[test]
    fn the_keys_of_tokens_can_be_set() {
        let text = "[identity]\nfernet_keys = \"/k\"\nmax_active_keys = 5\ntoken_seconds = 60\nexpired_seconds = 0\nrotate_every = \"7d\"\n";
        let identity = of(text, &[]).unwrap().identity;
        assert_eq!(identity.rotate_every.map(|every| every.seconds), Some(604_800));
        let wrong = format!("{:#}", of("[identity]\nrotate_every = \"often\"\n", &[]).unwrap_err());
        assert!(wrong.contains("line 2") && wrong.contains("`often`"), "{wrong}");
        let wrong = format!("{:#}", of("[identity]\ntoken_seconds = 2678401\n", &[]).unwrap_err());
        assert!(wrong.contains("line 2") && wrong.contains("expected 0 to 2678400"), "{wrong}");
        assert_eq!(
            (
                identity.fernet_keys,
                identity.max_active_keys,
                identity.token_seconds.map(AtMost::seconds),
                identity.expired_seconds
            ),
            (Some("/k".into()), Some(5), Some(60), Some(0))
        );
    }

    #[test]
    fn rules_for_passwords_can_be_set() {
        let text = "[passwords]\ncharacters_min = 12\nkinds_min = 3\nexpire_after = \"90d\"\nkeep_for = \"1d\"\nunlike_last = 24\nchange_given = true\n";
        let expected = PasswordRules {
            characters_min: 12,
            kinds_min: 3,
            seconds_max: 90 * 86_400,
            seconds_min: 86_400,
            unlike_last: 24,
            change_given: true,
        };
        assert_eq!(of(text, &[]).unwrap().passwords.rules(), expected);
        assert_eq!(of("", &[]).unwrap().passwords.rules(), *PasswordRules::NONE);
        for (text, expected) in
            [("unlike_last = 25", "25 is too much; expected 0 to 24"), ("kinds_min = 5", "expected 0 to 4")]
        {
            let why = format!("{:#}", of(&format!("[passwords]\n{text}"), &[]).unwrap_err());
            assert!(why.contains("line 2") && why.contains(expected), "{why}");
        }
    }

    #[test]
    fn what_waits_for_a_restart_is_named() {
        let before = of("", &[]).unwrap();
        for (text, expected) in [
            ("", &[][..]),
            ("[tls]\nstrict_sni = true\n[identity]\nhash_slots = 9", &[]),
            (
                "[tls]\nlisten = '127.0.0.1:1'\nplain_listen = '127.0.0.1:2'",
                &["tls.listen", "tls.plain_listen"],
            ),
            (
                "[facts]\ngroup = 7\nfiles = '/y'\n[identity]\npenalties = false",
                &["identity.penalties", "facts.files", "facts.group"],
            ),
        ] {
            assert_eq!(before.waits_for_restart(&of(text, &[]).unwrap()).unwrap(), expected, "{text}");
        }
    }

    /// A key that is missing from the list could neither be set nor be waited for.
    #[test]
    fn every_key_that_can_be_set_is_in_the_list() {
        let config = of("[tls]\nplain_listen='127.0.0.1:1'\nhttp_listen='127.0.0.1:1'\nacme_challenges='/a'\ncertificates='/x'\ncrt_list='/l'\nissuers='/i'\nhsts='max-age=1'\n[datastores]\nroots='/r'\n[identity]\nhash_slots=1\npenalties=true\nfernet_keys='/k'\nmax_active_keys=3\nrotate_every='7d'\ntoken_seconds=1\nexpired_seconds=1\n[passwords]\ncharacters_min=1\nkinds_min=1\nexpire_after='1d'\nkeep_for='1d'\nunlike_last=1\nchange_given=true\n[access]\nwatch=false\n[facts]\nfiles='/y'\ngroup=1\nstale_limit=9\nmap_mebibytes=16", &[]).unwrap();
        let table = toml::Table::try_from(config).unwrap();
        let keys = table.iter().flat_map(|(section, value)| {
            value.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
        });
        let mut keys: Vec<String> = keys.collect();
        let mut known: Vec<String> = super::keys().map(|(key, _)| key).collect();
        keys.sort_unstable();
        known.sort_unstable();
        assert_eq!(keys, known);
    }
}
