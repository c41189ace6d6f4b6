//! Types of configuration values.

use super::collector::CollectorUrl;
use super::url_origin::UrlOrigin;
use crate::listen::{Addresses, Networks, Trusted};
use enfilade_admin::PasswordRegex;
use enfilade_facts::limits::{MAP_BYTES_MAX, MAP_BYTES_MIN};
use enfilade_sources::backup::age::Recipient;
use hyper::header::HeaderValue;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A type of configuration values, with its description in the reference.
pub(super) trait Value {
    /// A description of the values that this type accepts.
    fn expected() -> String;
    /// An example of a value in the file, for a key without a default. It is empty for a type if every key of that type has a default.
    fn sample() -> &'static str {
        ""
    }
}

impl<V: Value> Value for Option<V> {
    fn expected() -> String {
        V::expected()
    }

    fn sample() -> &'static str {
        V::sample()
    }
}

impl<const MOST: u64> Value for AtMost<MOST> {
    fn expected() -> String {
        format!("0 to {MOST}")
    }
}

impl Value for MapSize {
    fn expected() -> String {
        let (least, most) = MapSize::RANGE;
        format!("{least} to {most}")
    }

    fn sample() -> &'static str {
        "65536"
    }
}

macro_rules! expected {
    ($($type:ty: $expected:literal $(= $sample:literal)?,)+) => {$(
        impl Value for $type {
            fn expected() -> String {
                $expected.to_owned()
            }
            $(fn sample() -> &'static str {
                $sample
            })?
        }
    )+};
}

expected! {
    bool: "`true` or `false`",
    usize: "number" = "2",
    i64: "number",
    u32: "number" = "1000",
    PathBuf: "path" = r#""/path""#,
    String: "text" = r#""At least one letter and one digit.""#,
    Expression: "regular expression" = r"'^(?=.*[0-9])(?=.*[a-zA-Z]).+$'",
    AbsolutePath: "absolute path" = r#""/path""#,
    Positive: "number from 1 on",
    Duration: "number with `s`, `m`, `h`, `d` or `w`, such as `7d`" = r#""7d""#,
    TransportSecurity: "`max-age=SECONDS`, optionally followed by `; includeSubDomains` and `; preload`" = r#""max-age=31536000""#,
    Networks: "addresses and networks, such as `[\"10.0.0.0/8\", \"::1\"]`" = r#"["127.0.0.1", "::1"]"#,
    Trusted: "addresses, networks, and `unix` for the Unix socket of `plain_listen`, such as `[\"10.0.0.0/8\", \"unix\"]`" = r#"["127.0.0.1", "::1"]"#,
    Roots: "list of absolute paths" = r#"["/path"]"#,
    // The sample is not a valid recipient. If the sample were valid, and a person only removed the `#` before it, the backups would be encrypted for
    // a stranger.
    Recipients: "list of age recipients, such as `[\"age1…\"]`" = r#""age1…""#,
    PublicNames: "list of host names, such as `[\"files.example.com\"]`" = r#"["files.example.com"]"#,
    Users: "list of user names and numbers (UID), such as `[\"www-data\"]`" = r#"["www-data"]"#,
    AcmeDirectory: "`letsencrypt`, `letsencrypt-staging` or a URL with `https`",
    UrlOrigin: "`https://`, a host name, and an optional port" = r#""https://files.example.com""#,
    CollectorUrl: "`http://`, a host, and an optional port and path" = r#""http://127.0.0.1:4318""#,
    MailAddress: "e-mail address" = r#""admin@example.com""#,
    Names: "list of host names and IP addresses, such as `[\"nas.lan\", \"192.168.1.2\"]`" = r#"["nas.lan", "192.168.1.2"]"#,
}

impl<const UNIX: bool> Value for Addresses<UNIX> {
    fn expected() -> String {
        Self::EXPECTED.to_owned()
    }

    fn sample() -> &'static str {
        r#"":8080""#
    }
}

/// Defines enums. Their values are words in the configuration file.
macro_rules! choices {
    ($($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $what:literal])+ $(#[$mark:ident])? $choice:ident = $word:literal,)+
    })+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
        pub(crate) enum $name {
            $($(#[doc = $what])+ $(#[$mark])? #[serde(rename = $word)] $choice,)+
        }

        impl Value for $name {
            fn expected() -> String {
                let choices = [$(concat!("`", $word, "`:", $($what),+)),+];
                choices.map(|choice| choice.trim_end_matches('.')).join("; ")
            }
        }
    )+};
}

choices! {
    /// When the server verifies the keys of the certificates.
    Check {
        /// before the server listens; an unusable certificate stops the start.
        Eager = "eager",
        /// while the server runs; the server stops serving an unusable certificate, and logs a warning.
        #[default]
        Background = "background",
        /// at the first handshake that needs the key.
        Lazy = "lazy",
    }
    /// How far the server trusts the index of certificates.
    UseOfIndex {
        /// the server reads every file at every start.
        Off = "off",
        /// the server checks every file for changes, and serves its certificate after this check.
        #[default]
        Checked = "checked",
        /// the server begins to serve, and then checks the files for changes.
        Trusted = "trusted",
    }
    /// Whether the limit of a domain or project restricts the limits of the projects below it.
    UseOfLimits {
        /// limits do not depend on each other.
        #[default]
        Flat = "flat",
        /// the limit of a project is at most the limit of its parent, and projects are at most two levels deep.
        StrictTwoLevel = "strict_two_level",
    }
    /// Which certificate is served if several certificates match a server name.
    Matching {
        /// a certificate with the exact name is preferred to a certificate with a wildcard.
        #[default]
        ExactFirst = "exact-first",
        /// as in HAProxy, a certificate with an ECDSA key is preferred, even if it matches the name only by a wildcard.
        Haproxy = "haproxy",
    }
}

/// A number with an upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct AtMost<const MOST: u64>(u64);

impl<const MOST: u64> AtMost<MOST> {
    /// Makes a default value for the table of keys: `number`, or the upper bound if `number` is larger.
    pub(super) fn of(number: i64) -> Self {
        AtMost(number.unsigned_abs().min(MOST))
    }

    pub(super) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl<const MOST: u64> TryFrom<u64> for AtMost<MOST> {
    type Error = String;
    fn try_from(number: u64) -> Result<Self, String> {
        if number <= MOST {
            Ok(AtMost(number))
        } else {
            Err(format!("{number} is too large; expected 0 to {MOST}"))
        }
    }
}

impl<const MOST: u64> From<AtMost<MOST>> for u64 {
    fn from(number: AtMost<MOST>) -> u64 {
        number.0
    }
}

/// A number that is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "usize", into = "usize")]
pub(crate) struct Positive(pub(crate) usize);

impl TryFrom<usize> for Positive {
    type Error = String;
    fn try_from(number: usize) -> Result<Self, String> {
        match number {
            0 => Err("0 is too small; expected a number from 1 on".to_owned()),
            number => Ok(Positive(number)),
        }
    }
}

impl From<Positive> for usize {
    fn from(Positive(number): Positive) -> usize {
        number
    }
}

/// A path that does not depend on the working directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub(crate) struct AbsolutePath(pub(crate) PathBuf);

impl TryFrom<PathBuf> for AbsolutePath {
    type Error = String;
    fn try_from(path: PathBuf) -> Result<Self, String> {
        match path.is_absolute() {
            true => Ok(AbsolutePath(path)),
            false => Err(format!(
                "the path `{}` is not absolute; expected a path that begins with `/`",
                path.display()
            )),
        }
    }
}

impl From<AbsolutePath> for PathBuf {
    fn from(AbsolutePath(path): AbsolutePath) -> PathBuf {
        path
    }
}

/// The largest size of the store of facts, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct MapSize(u64);

impl MapSize {
    /// The least and the greatest size, in MiB.
    const RANGE: (u64, u64) = (MAP_BYTES_MIN >> 20, MAP_BYTES_MAX >> 20);

    pub(crate) fn bytes(self) -> u64 {
        self.0 << 20
    }
}

impl TryFrom<u64> for MapSize {
    type Error = String;
    fn try_from(mebibytes: u64) -> Result<Self, String> {
        let (least, most) = MapSize::RANGE;
        match (least..=most).contains(&mebibytes) {
            true => Ok(MapSize(mebibytes)),
            false => {
                Err(format!("{mebibytes} MiB is not a valid size; give a number from {least} to {most}"))
            }
        }
    }
}

impl From<MapSize> for u64 {
    fn from(size: MapSize) -> u64 {
        size.0
    }
}

/// A duration: `90s`, `15m`, `24h`, `7d`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Duration {
    text: String,
    pub(crate) seconds: i64,
}

impl TryFrom<String> for Duration {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let seconds = crate::cli::seconds(&text).map_err(|why| format!("`{text}`: {why}"))?;
        match seconds {
            0 => Err("a duration of 0 is not valid; remove the key to use its default".into()),
            seconds => Ok(Duration { text, seconds }),
        }
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.text
    }
}

/// A regular expression for passwords.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Expression(pub(crate) PasswordRegex);

impl TryFrom<String> for Expression {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        PasswordRegex::new(&text).map(Expression)
    }
}

impl From<Expression> for String {
    fn from(Expression(regex): Expression) -> Self {
        regex.as_str().to_owned()
    }
}

/// The public keys for which backups are encrypted, as a list, or in one string, separated by commas or spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<String>", into = "String")]
pub(crate) struct Recipients(pub(crate) Vec<Recipient>);

impl TryFrom<Spelled<String>> for Recipients {
    type Error = String;
    fn try_from(spelled: Spelled<String>) -> Result<Self, String> {
        // A value of `recipients` that contains no recipient is a mistake, because the backups would not be encrypted.
        let none = "no recipient: expected at least one, such as [\"age1…\"]; for backups that are not encrypted, remove the key";
        let text = match spelled {
            Spelled::Text(text) => text,
            Spelled::List(texts) if texts.iter().any(|text| text.trim().is_empty()) => {
                return Err(none.to_owned());
            }
            Spelled::List(texts) => texts.join(","),
            Spelled::Other(value) => {
                return Err(no_list(&value, "a list of recipients, such as [\"age1…\"]"));
            }
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let keys = parts.map(|part| part.parse().map_err(|why| format!("`{part}`: {why}")));
        let keys = keys.collect::<Result<Vec<_>, String>>()?;
        if keys.is_empty() { Err(none.to_owned()) } else { Ok(Recipients(keys)) }
    }
}

impl From<Recipients> for String {
    fn from(Recipients(keys): Recipients) -> Self {
        keys.iter().map(Recipient::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// A value of the header `Strict-Transport-Security`: `max-age=SECONDS`, and further directives after a `;` (RFC 6797 §6.1).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TransportSecurity(String);

impl TransportSecurity {
    /// The value of the header.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

impl TryFrom<String> for TransportSecurity {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let expected =
            "expected `max-age=SECONDS`, optionally followed by `; includeSubDomains` and `; preload`";
        let mut directives = text.split(';').map(str::trim);
        let age = directives.next().and_then(|first| first.strip_prefix("max-age="));
        let is_number =
            |digits: &str| digits.parse::<u64>().is_ok() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let are_known = directives.all(|one| matches!(one, "includeSubDomains" | "preload"));
        match age.is_some_and(is_number) && are_known {
            true => Ok(TransportSecurity(text)),
            false => Err(format!("`{text}`: {expected}")),
        }
    }
}

impl From<TransportSecurity> for String {
    fn from(policy: TransportSecurity) -> Self {
        policy.0
    }
}

/// Directories, as a list, or in one string with `:` between them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<PathBuf>", into = "Vec<PathBuf>")]
pub(crate) struct Roots(pub(crate) Vec<PathBuf>);

/// Host names and IP addresses, as a list, or in one string, separated by commas or spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<String>", into = "Vec<String>")]
pub(crate) struct Names(pub(crate) Vec<String>);

impl TryFrom<Spelled<String>> for Names {
    type Error = String;
    fn try_from(spelled: Spelled<String>) -> Result<Self, String> {
        let names = match spelled {
            Spelled::Text(text) => {
                text.split([',', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Spelled::List(names) => names,
            Spelled::Other(value) => return Err(no_list(&value, "a list of names, such as [\"nas.lan\"]")),
        };
        names.iter().map(|name| crate::self_made::name(name)).collect::<Result<_, _>>().map(Names)
    }
}

impl From<Names> for Vec<String> {
    fn from(Names(names): Names) -> Self {
        names
    }
}

/// Users of this machine, by name or number, as a list, or in one string, separated by commas or spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<String>", into = "Vec<String>")]
pub(crate) struct Users(pub(crate) Vec<String>);

impl TryFrom<Spelled<String>> for Users {
    type Error = String;
    fn try_from(spelled: Spelled<String>) -> Result<Self, String> {
        let users: Vec<String> = match spelled {
            Spelled::Text(text) => {
                text.split([',', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Spelled::List(users) => users,
            Spelled::Other(value) => {
                return Err(no_list(&value, "a list of users, such as [\"www-data\"]"));
            }
        };
        match users.iter().find(|user| user.is_empty() || user.contains([':', '\n'])) {
            Some(user) => {
                Err(format!("`{user}` is not a user; expected a name or a number, such as www-data or 33"))
            }
            None => Ok(Users(users)),
        }
    }
}

impl From<Users> for Vec<String> {
    fn from(Users(users): Users) -> Self {
        users
    }
}

/// Host names that a public authority can validate, as a list, or in one string, separated by commas or spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<String>", into = "Vec<String>")]
pub(crate) struct PublicNames(pub(crate) Vec<String>);

impl TryFrom<Spelled<String>> for PublicNames {
    type Error = String;
    fn try_from(spelled: Spelled<String>) -> Result<Self, String> {
        let Names(names) = spelled.try_into()?;
        for name in &names {
            if name.contains('*') {
                return Err(format!(
                    "`{name}` is a wildcard, which needs a challenge in DNS: list only host names, or obtain the certificate with certbot or \
                     lego, and install it with `enfilade certs add`"
                ));
            }
            if name.parse::<std::net::IpAddr>().is_ok() {
                return Err(format!(
                    "`{name}` is an IP address: list only host names, and install a certificate for the address with `enfilade certs add`"
                ));
            }
            if !name.contains('.') {
                return Err(format!(
                    "`{name}` is not a public host name, so no authority can validate it: expected one with a dot, such as files.example.com; for names of \
                     your own network use `[tls] names`"
                ));
            }
        }
        Ok(PublicNames(names))
    }
}

impl From<PublicNames> for Vec<String> {
    fn from(PublicNames(names): PublicNames) -> Self {
        names
    }
}

/// The directory of an ACME authority (RFC 8555 §7.1.1), by name or URL.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct AcmeDirectory(String);

/// The names that can be written instead of the URL of an authority's directory.
const AUTHORITIES: [(&str, &str); 2] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];

impl AcmeDirectory {
    /// The URL of the directory.
    pub(crate) fn url(&self) -> &str {
        AUTHORITIES.iter().find(|(name, _)| *name == self.0).map_or(&self.0, |(_, url)| url)
    }
}

impl Default for AcmeDirectory {
    fn default() -> Self {
        AcmeDirectory("letsencrypt".to_owned())
    }
}

impl TryFrom<String> for AcmeDirectory {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let is_url = text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
        match is_url || AUTHORITIES.iter().any(|(name, _)| *name == text) {
            true => Ok(AcmeDirectory(text)),
            false => {
                Err(format!("`{text}`: expected `letsencrypt`, `letsencrypt-staging` or a URL with https"))
            }
        }
    }
}

impl From<AcmeDirectory> for String {
    fn from(directory: AcmeDirectory) -> Self {
        directory.0
    }
}

/// An e-mail address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct MailAddress(String);

impl MailAddress {
    /// The address as a `mailto:` URL.
    pub(crate) fn url(&self) -> String {
        format!("mailto:{}", self.0)
    }
}

impl TryFrom<String> for MailAddress {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic() && !b",?".contains(&byte));
        match text.split_once('@') {
            Some((user, host)) if is_visible && !user.is_empty() && !host.is_empty() => Ok(MailAddress(text)),
            _ => Err(format!("`{text}` is not an e-mail address; expected for example admin@example.com")),
        }
    }
}

impl From<MailAddress> for String {
    fn from(address: MailAddress) -> Self {
        address.0
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Spelled<T> {
    Text(String),
    List(Vec<T>),
    Other(toml::Value),
}

/// The error for a value that is neither a string nor a list of strings.
pub(super) fn no_list(value: &toml::Value, expected: &str) -> String {
    format!("`{value}`: expected {expected}")
}

impl TryFrom<Spelled<PathBuf>> for Roots {
    type Error = String;
    fn try_from(spelled: Spelled<PathBuf>) -> Result<Self, String> {
        let roots = match spelled {
            Spelled::Text(text) => {
                text.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect()
            }
            Spelled::List(roots) => roots,
            Spelled::Other(value) => {
                return Err(no_list(&value, "a list of directories, such as [\"/srv\"]"));
            }
        };
        match roots.iter().find(|root| !root.is_absolute()) {
            Some(root) => Err(format!(
                "the directory `{}` is not an absolute path; expected a path that begins with `/`",
                root.display()
            )),
            None => Ok(Roots(roots)),
        }
    }
}

impl From<Roots> for Vec<PathBuf> {
    fn from(Roots(roots): Roots) -> Self {
        roots
    }
}
