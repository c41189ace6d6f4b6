//! API tokens.

use super::{Link, Mirrored, REDACTED, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, Malformed, TokenName, UserId, from_hex, to_hex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The value against which a secret is checked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Verifier {
    /// A keyed hash, for a secret that the server generated. Such a secret cannot be guessed, so it needs no slow hash.
    Keyed([u8; 32]),
    /// The string of a slow hash: crypt(3) or argon2.
    Crypt(String),
    /// A crypt(3) string. At the next use of the secret, the server replaces this string with a keyed hash, but only if the secret has the form of a
    /// secret that the server generated, and the string proves the whole secret (a bcrypt hash ignores the end of a long secret).
    Upgrading(String),
    /// The owner authenticates with a client certificate in the TLS handshake. The certificate has this SHA-256 fingerprint. The token has no secret,
    /// and the public fingerprint is not accepted as a secret.
    Certificate([u8; 32]),
    /// The token has no verifier: the verifier of this token must come from `token.shadow`, and this file has no entry for the token. No secret
    /// matches.
    Missing,
}

impl Verifier {
    /// The slow hash; `None` for the other verifiers.
    pub fn crypt(&self) -> Option<&str> {
        match self {
            Verifier::Crypt(hash) | Verifier::Upgrading(hash) => Some(hash),
            Verifier::Keyed(_) | Verifier::Certificate(_) | Verifier::Missing => None,
        }
    }

    fn encode(&self, to: &mut Writer) {
        match self {
            Verifier::Keyed(digest) => to.u8(1).fixed(digest),
            Verifier::Crypt(hash) => to.u8(2).text(hash),
            Verifier::Missing => to.u8(3),
            Verifier::Upgrading(hash) => to.u8(4).text(hash),
            Verifier::Certificate(fingerprint) => to.u8(5).fixed(fingerprint),
        };
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        match from.u8()? {
            1 => from.fixed().map(Verifier::Keyed),
            2 => from.text().map(Verifier::Crypt),
            3 => Some(Verifier::Missing),
            4 => from.text().map(Verifier::Upgrading),
            5 => from.fixed().map(Verifier::Certificate),
            _ => None,
        }
    }
}

impl From<Verifier> for String {
    fn from(verifier: Verifier) -> Self {
        match verifier {
            Verifier::Keyed(digest) => format!("keyed:{}", to_hex(&digest)),
            Verifier::Certificate(fingerprint) => format!("certificate:{}", to_hex(&fingerprint)),
            Verifier::Crypt(hash) => format!("crypt:{hash}"),
            Verifier::Upgrading(hash) => format!("upgrading:{hash}"),
            Verifier::Missing => "missing".to_owned(),
        }
    }
}

impl TryFrom<String> for Verifier {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        let expected = "expected `keyed:` or `certificate:` and 64 hexadecimal digits, `crypt:` or `upgrading:` and a hash, or `missing`; the refused text is not shown";
        let malformed = || Malformed::new("verifier", "", expected);
        let digest = |digits| from_hex(digits)?.try_into().ok();
        if text == "missing" {
            return Ok(Verifier::Missing);
        }
        if let Some(hash) = text.strip_prefix("crypt:") {
            return Ok(Verifier::Crypt(hash.to_owned()));
        }
        if let Some(hash) = text.strip_prefix("upgrading:") {
            return Ok(Verifier::Upgrading(hash.to_owned()));
        }
        let verifier = match text.split_once(':') {
            Some(("keyed", digits)) => digest(digits).map(Verifier::Keyed),
            Some(("certificate", digits)) => digest(digits).map(Verifier::Certificate),
            _ => None,
        };
        verifier.ok_or_else(malformed)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verifier::Keyed(_) => "Keyed",
            Verifier::Crypt(_) => "Crypt",
            Verifier::Upgrading(_) => "Upgrading",
            Verifier::Certificate(_) => "Certificate",
            Verifier::Missing => "Missing",
        })
    }
}

/// A secret that was replaced and still works for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// The verifier of the old secret.
    pub verifier: Verifier,
    /// When the old secret stops working, in seconds since the epoch.
    pub until: i64,
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The user that the token belongs to.
    pub owner: UserId,
    /// The name of the token, unique among the tokens of the owner.
    pub name: TokenName,
    /// The verifier of the token's secret.
    pub verifier: Verifier,
    /// The previous secret, while it still works.
    pub previous: Option<Previous>,
    /// Whether the token may be used.
    pub enabled: bool,
    /// When the token expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// When the token was made, in seconds since the epoch.
    pub created: i64,
    /// A description of the token.
    pub comment: Option<String>,
    /// If true, the token has a right only if the roles of the token and the roles of its owner both grant the right. If false, the token has all
    /// roles of its owner.
    #[serde(default)]
    pub own_roles: bool,
    /// The field is `Some` if files define the token. `user.cfg` defines its existence, `enabled`, expiry and comment; `token.shadow` defines its
    /// verifier. All other fields are stored only here, and no file defines them.
    #[serde(rename = "kept", default)]
    pub mirrored: Option<Mirrored>,
    /// The field is `Some` if the token is a link, with which people share a file or folder. A link has no verifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Box<Link>>,
}

impl Row for Credential {
    const TABLE: Table = Table::Credentials;
    type Key = CredentialId;

    fn redact(&mut self) -> bool {
        let verifiers = self.previous.as_mut().map(|previous| &mut previous.verifier);
        verifiers.into_iter().chain([&mut self.verifier]).for_each(|verifier| {
            if *verifier != Verifier::Missing {
                *verifier = Verifier::Crypt(REDACTED.to_owned());
            }
        });
        if let Some(link) = &mut self.link {
            link.redact();
        }
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.owner.bytes()).text(self.name.as_str());
        self.verifier.encode(to);
        to.option(self.previous.as_ref(), |to, previous| {
            previous.verifier.encode(to);
            to.i64(previous.until);
        });
        to.flag(self.enabled).i64(self.expires).i64(self.created);
        to.optional_text(self.comment.as_deref());
        to.flag(self.own_roles).option(self.mirrored.as_ref(), Mirrored::encode);
        to.tail(self.link.as_deref(), |to, link| link.encode(to));
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Credential {
            owner: UserId::read(from)?,
            name: from.text()?.parse().ok()?,
            verifier: Verifier::decode(from)?,
            previous: from
                .option(|from| Some(Previous { verifier: Verifier::decode(from)?, until: from.i64()? }))?,
            enabled: from.flag()?,
            expires: from.i64()?,
            created: from.i64()?,
            comment: from.option(Reader::text)?,
            own_roles: from.flag()?,
            mirrored: from.option(Mirrored::decode)?,
            link: from.tail(|from| Link::decode(from).map(Box::new))?,
        })
    }
}
