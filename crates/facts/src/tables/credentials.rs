//! API tokens.

use super::{Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{CredentialId, TokenName, UserId};
use std::fmt;

/// What a secret is checked against.
#[derive(Clone, PartialEq, Eq)]
pub enum Verifier {
    /// A keyed hash: for secrets we generated, which cannot be guessed and need no slow hash.
    Keyed([u8; 32]),
    /// A crypt(3) or argon2 string.
    Crypt(String),
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verifier::Keyed(_) => "Keyed",
            Verifier::Crypt(_) => "Crypt",
        })
    }
}

/// An API token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Whose it is.
    pub owner: UserId,
    /// Its name, unique to the owner.
    pub name: TokenName,
    /// What its secret is checked against.
    pub verifier: Verifier,
    /// Whether it may be used.
    pub enabled: bool,
    /// Until when, seconds since the epoch; 0 is for ever.
    pub expires: i64,
    /// When it was made, seconds since the epoch.
    pub created: i64,
    /// What it is for.
    pub comment: Option<String>,
}

impl Row for Credential {
    const TABLE: Table = Table::Credentials;
    type Key = CredentialId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.owner.bytes()).text(self.name.as_str());
        match &self.verifier {
            Verifier::Keyed(digest) => to.u8(1).fixed(digest),
            Verifier::Crypt(hash) => to.u8(2).text(hash),
        };
        to.flag(self.enabled).i64(self.expires).i64(self.created);
        to.option(self.comment.as_deref(), |to, text| {
            to.text(text);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Credential {
            owner: UserId::from_bytes(from.fixed()?),
            name: from.text()?.parse().ok()?,
            verifier: match from.u8()? {
                1 => Verifier::Keyed(from.fixed()?),
                2 => Verifier::Crypt(from.text()?),
                _ => return None,
            },
            enabled: from.flag()?,
            expires: from.i64()?,
            created: from.i64()?,
            comment: from.option(Reader::text)?,
        })
    }
}
