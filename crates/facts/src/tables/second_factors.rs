//! Second factors of users: the secret of an authenticator app, recovery codes, and passkeys.

use super::{REDACTED, Row, SecretDigest, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{Malformed, UserId, from_hex, to_hex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A secret that door 2 encrypted. Only a server with the key of API tokens can decrypt it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SealedSecret(pub Vec<u8>);

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedSecret")
    }
}

/// Writes the secret as hexadecimal digits. An empty secret stands for a secret that is left out of a dump, and is written as the word [`REDACTED`].
impl From<SealedSecret> for String {
    fn from(sealed: SealedSecret) -> Self {
        if sealed.0.is_empty() { REDACTED.to_owned() } else { to_hex(&sealed.0) }
    }
}

impl TryFrom<String> for SealedSecret {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        if text == REDACTED {
            return Ok(SealedSecret(Vec::new()));
        }
        let malformed = || {
            Malformed::new(
                "sealed secret",
                REDACTED,
                "expected hexadecimal digits; the refused text is not shown",
            )
        };
        from_hex(&text).map(SealedSecret).ok_or_else(malformed)
    }
}

/// Bytes that a dump shows as hexadecimal digits.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Octets(pub Vec<u8>);

impl fmt::Debug for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl From<Octets> for String {
    fn from(octets: Octets) -> Self {
        to_hex(&octets.0)
    }
}

impl TryFrom<String> for Octets {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        let malformed = || Malformed::new("bytes", &text, "expected hexadecimal digits");
        from_hex(&text).map(Octets).ok_or_else(malformed)
    }
}

/// A passkey: a key pair in an authenticator of the user (Web Authentication, level 2). The server stores the public key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passkey {
    /// The id that the authenticator gave the passkey.
    pub id: Octets,
    /// The public key, as SubjectPublicKeyInfo in DER.
    pub key: Octets,
    /// The host for which the passkey was made. Browsers offer the passkey only to pages of this host.
    pub host: String,
    /// The name that the user chose.
    pub name: String,
    /// When the passkey was made, in seconds since the epoch.
    pub made_at: i64,
    /// When the passkey was last used, in seconds since the epoch; 0 if never.
    pub used_at: i64,
    /// The last signature counter of the authenticator; 0 if the authenticator has no counter.
    pub counter: u32,
    /// The challenges that were answered with this passkey. A second answer to one of these challenges is refused, so each answer counts once.
    pub answered: Vec<AnsweredChallenge>,
}

/// A challenge that a passkey has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredChallenge {
    /// The challenge.
    pub challenge: SecretDigest,
    /// The expiry of the receipt from which the challenge was computed, in seconds since the epoch. The server remembers the challenge for two
    /// minutes longer, because clocks differ.
    pub until: i64,
}

impl Passkey {
    fn encode(&self, to: &mut Writer) {
        to.bytes(&self.id.0).bytes(&self.key.0).text(&self.host).text(&self.name);
        to.i64(self.made_at).i64(self.used_at).u32(self.counter).list(&self.answered, |to, answered| {
            to.fixed(&answered.challenge.0).i64(answered.until);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Passkey {
            id: Octets(from.bytes()?.to_vec()),
            key: Octets(from.bytes()?.to_vec()),
            host: from.text()?,
            name: from.text()?,
            made_at: from.i64()?,
            used_at: from.i64()?,
            counter: from.u32()?,
            answered: from.list(|from| {
                let challenge = from.fixed().map(SecretDigest)?;
                Some(AnsweredChallenge { challenge, until: from.i64()? })
            })?,
        })
    }
}

/// The second factor of a user. The server asks for the second factor only after the user has confirmed it with a code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondFactor {
    /// The secret from which the authenticator app computes codes.
    pub secret: SealedSecret,
    /// When the user began to set up the second factor, in seconds since the epoch.
    pub begun_at: i64,
    /// When the user confirmed the second factor with a code, in seconds since the epoch; `None` if it is not confirmed yet.
    pub confirmed_at: Option<i64>,
    /// The time step of the last code that was used. Codes of this step and of earlier steps are refused.
    pub used_step: u64,
    /// The digests of the recovery codes that were not used yet.
    pub recovery: Vec<SecretDigest>,
    /// The passkeys, which the user can use in place of a code. Since format 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passkeys: Vec<Passkey>,
}

impl SecondFactor {
    /// Whether the user has confirmed the second factor. After the confirmation, the password alone is not enough any more.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed_at.is_some()
    }
}

impl Row for SecondFactor {
    const TABLE: Table = Table::SecondFactors;
    type Key = UserId;

    fn redact(&mut self) -> bool {
        self.secret = SealedSecret(Vec::new());
        self.recovery.iter_mut().for_each(|digest| *digest = SecretDigest::NONE);
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.bytes(&self.secret.0).i64(self.begun_at).option(self.confirmed_at, |to, at| {
            to.i64(at);
        });
        to.u64(self.used_step).list(&self.recovery, |to, digest| {
            to.fixed(&digest.0);
        });
        to.tail((!self.passkeys.is_empty()).then_some(&self.passkeys), |to, passkeys| {
            to.list(passkeys, |to, passkey| passkey.encode(to));
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(SecondFactor {
            secret: SealedSecret(from.bytes()?.to_vec()),
            begun_at: from.i64()?,
            confirmed_at: from.option(Reader::i64)?,
            used_step: from.u64()?,
            recovery: from.list(|from| from.fixed().map(SecretDigest))?,
            passkeys: from.tail(|from| from.list(Passkey::decode))?.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_a_dump_without_secrets_shows_a_secret() {
        let mut row = SecondFactor {
            secret: SealedSecret(vec![0xab; 48]),
            begun_at: 1,
            confirmed_at: Some(2),
            used_step: 3,
            recovery: vec![SecretDigest([0xcd; 32])],
            passkeys: vec![Passkey {
                id: Octets(vec![1, 2]),
                key: Octets(vec![3]),
                host: "localhost".to_owned(),
                name: "phone".to_owned(),
                made_at: 4,
                used_at: 5,
                counter: 6,
                answered: vec![AnsweredChallenge { challenge: SecretDigest([7; 32]), until: 8 }],
            }],
        };
        let mut to = Writer::default();
        row.encode(&mut to);
        assert_eq!(SecondFactor::decode(&mut Reader::new(&to.into_bytes())).as_ref(), Some(&row));
        let text = |row: &SecondFactor| {
            let digests = row.recovery.iter().map(|digest| String::from(*digest));
            [String::from(row.secret.clone())].into_iter().chain(digests).collect::<String>()
        };
        let whole = text(&row);
        assert!(whole.contains("abab") && whole.contains("cdcd"), "{whole}");
        assert_eq!(SealedSecret::try_from(String::from(row.secret.clone())).unwrap(), row.secret);
        assert!(SealedSecret::try_from("no digits".to_owned()).is_err());
        assert!(!format!("{row:?}").contains("171") && row.redact());
        assert_eq!(text(&row), "redactedredacted");
        assert_eq!(SealedSecret::try_from(REDACTED.to_owned()).unwrap(), row.secret);
    }
}
