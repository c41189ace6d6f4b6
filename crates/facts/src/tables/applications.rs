//! Applications: programs behind nginx, HAProxy or a similar proxy. The proxy asks this server whether a request is permitted.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{ApplicationName, DatastoreName, HostName, StorePath};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of credential that an application can accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum CredentialKind {
    /// A user's name and password.
    Password = 1,
    /// The secret of an API token.
    Token = 2,
    /// The token of a session.
    Session = 3,
}

impl CredentialKind {
    /// Every kind.
    pub const ALL: [CredentialKind; 3] =
        [CredentialKind::Password, CredentialKind::Token, CredentialKind::Session];

    /// The word for the kind.
    pub fn name(self) -> &'static str {
        match self {
            CredentialKind::Password => "password",
            CredentialKind::Token => "token",
            CredentialKind::Session => "session",
        }
    }
}

impl fmt::Display for CredentialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CredentialKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = CredentialKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("`{text}`: expected password, token or session"))
    }
}

/// Which credential counts if a request has the cookie of a sign-in and a header `Authorization` or `X-Auth-Token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum CountsIfBoth {
    /// The cookie counts. The header is for the application.
    Cookie = 1,
    /// The header counts.
    Header = 2,
}

impl CountsIfBoth {
    /// Every choice.
    pub const ALL: [CountsIfBoth; 2] = [CountsIfBoth::Cookie, CountsIfBoth::Header];

    /// The word for the choice.
    pub fn name(self) -> &'static str {
        match self {
            CountsIfBoth::Cookie => "cookie",
            CountsIfBoth::Header => "header",
        }
    }
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// The hosts of the application's URLs. For each host, there is also a separate record ([`ApplicationHost`]).
    pub hosts: Vec<HostName>,
    /// The kinds of credentials that the application accepts; empty if it accepts all.
    #[serde(default)]
    pub accepts: Vec<CredentialKind>,
    /// Paths that everybody may read, also without a credential. Each path includes everything below it.
    #[serde(default)]
    pub public: Vec<StorePath>,
    /// Paths to which everybody may send every request, also without a credential. Each path includes everything below it.
    #[serde(default)]
    pub open: Vec<StorePath>,
    /// Paths that need a role for administrators. Each path includes everything below it.
    #[serde(default)]
    pub administer: Vec<StorePath>,
    /// Whether the preflight requests of browsers are permitted without a credential (CORS; Fetch standard, "CORS-preflight fetch").
    #[serde(default)]
    pub passes_preflight: bool,
    /// Whether the application does not get the names of the visitor's groups.
    #[serde(default)]
    pub hides_groups: bool,
    /// A comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// Whether the application gets a signed token (JSON Web Token) with the visitor's name, groups and roles.
    #[serde(default)]
    pub sends_jwt: bool,
    /// The application serves the files of this datastore. The roles and ACLs of the datastore decide who may read which path. `None` if the roles on
    /// the application's own paths decide.
    #[serde(default)]
    pub datastore: Option<DatastoreName>,
    /// The port of the application's URLs; `None` for the usual port of https.
    #[serde(default)]
    pub port: Option<u16>,
    /// Which credential counts if a request has a cookie and a header; `None` if such a request is refused.
    #[serde(default)]
    pub counts_if_both: Option<CountsIfBoth>,
}

impl Application {
    /// The host and the port of the application's URLs, as in a URL (`host:port`). If the URLs contain no port, only the host.
    pub fn authority(&self, host: &HostName) -> String {
        self.port.map_or_else(|| host.to_string(), |port| format!("{host}:{port}"))
    }
}

impl Key for ApplicationName {
    fn bytes(&self) -> Vec<u8> {
        self.as_str().as_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }
}

impl Key for HostName {
    fn bytes(&self) -> Vec<u8> {
        self.as_str().as_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }
}

fn write_paths(to: &mut Writer, paths: &[StorePath]) {
    to.list(paths, |to, path| {
        to.text(path.as_str());
    });
}

fn read_paths(from: &mut Reader<'_>) -> Option<Vec<StorePath>> {
    from.list(|from| from.text()?.parse().ok())
}

impl Row for Application {
    const TABLE: Table = Table::Applications;
    type Key = ApplicationName;

    fn encode(&self, to: &mut Writer) {
        to.list(&self.hosts, |to, host| {
            to.text(host.as_str());
        });
        to.list(&self.accepts, |to, kind| {
            to.u8(*kind as u8);
        });
        [&self.public, &self.open, &self.administer].into_iter().for_each(|paths| write_paths(to, paths));
        to.flag(self.passes_preflight).flag(self.hides_groups);
        to.optional_text(self.comment.as_deref());
        to.flag(self.sends_jwt).optional_text(self.datastore.as_ref().map(DatastoreName::as_str));
        to.option(self.port, |to, port| {
            to.u32(port.into());
        });
        to.tail(self.counts_if_both, |to, counts| {
            to.u8(counts as u8);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Application {
            hosts: from.list(|from| from.text()?.parse().ok())?,
            accepts: from.list(|from| {
                let number = from.u8()?;
                CredentialKind::ALL.into_iter().find(|kind| *kind as u8 == number)
            })?,
            public: read_paths(from)?,
            open: read_paths(from)?,
            administer: read_paths(from)?,
            passes_preflight: from.flag()?,
            hides_groups: from.flag()?,
            comment: from.option(Reader::text)?,
            sends_jwt: from.flag()?,
            datastore: match from.option(Reader::text)? {
                Some(name) => Some(name.parse().ok()?),
                None => None,
            },
            port: from.option(|from| u16::try_from(from.u32()?).ok())?,
            counts_if_both: from.tail(|from| {
                let number = from.u8()?;
                CountsIfBoth::ALL.into_iter().find(|counts| *counts as u8 == number)
            })?,
        })
    }
}

/// The application of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationHost(pub ApplicationName);

impl Row for ApplicationHost {
    const TABLE: Table = Table::ApplicationHosts;
    type Key = HostName;

    fn encode(&self, to: &mut Writer) {
        to.text(self.0.as_str());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(ApplicationHost(from.text()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let of = |text: &str| text.parse::<StorePath>().unwrap();
        for row in [
            Application::default(),
            Application {
                hosts: vec!["wiki.example.com".parse().unwrap(), "[::1]".parse().unwrap()],
                accepts: vec![CredentialKind::Token, CredentialKind::Session],
                public: vec![of("/static"), of("/")],
                open: vec![of("/hooks/a b")],
                administer: vec![of("/admin")],
                passes_preflight: true,
                hides_groups: true,
                comment: Some("the wiki".into()),
                sends_jwt: true,
                datastore: Some("tank".parse().unwrap()),
                port: Some(8443),
                counts_if_both: Some(CountsIfBoth::Header),
            },
        ] {
            let mut to = Writer::default();
            row.encode(&mut to);
            let bytes = to.into_bytes();
            let mut from = Reader::new(&bytes);
            assert_eq!((Application::decode(&mut from).as_ref(), from.is_empty()), (Some(&row), true));
        }
    }
}
