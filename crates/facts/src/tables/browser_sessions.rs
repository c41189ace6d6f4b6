//! Sessions of browsers. A browser presents the secret of a session in a cookie. Each session has one audience: the page for signing in, one
//! application, or the console. The secret is a credential for its audience only.

use super::{REDACTED, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{ApplicationName, HostName, Malformed, UserId, from_lower_hex, to_hex};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The id of a session of a browser. Records are sorted by the end of their sessions. So the records of ended sessions come first, and the server
/// finds them at the start of the table to delete them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BrowserSessionId {
    /// The first second in which the session, or the one-time code, is not valid any more, in seconds since the epoch.
    pub expires_at: u64,
    /// A random number.
    pub random: [u8; 16],
}

impl BrowserSessionId {
    /// The number of bytes of a stored id.
    pub const BYTES: usize = 24;

    /// The id as stored.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (end, random) = bytes.split_at_mut(8);
        end.copy_from_slice(&self.expires_at.to_be_bytes());
        random.copy_from_slice(&self.random);
        bytes
    }

    /// The id with these stored bytes.
    pub fn of_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let expires_at = u64::from_be_bytes(std::array::from_fn(byte));
        BrowserSessionId { expires_at, random: std::array::from_fn(|at| byte(at + 8)) }
    }
}

impl fmt::Display for BrowserSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.to_bytes()))
    }
}

impl fmt::Debug for BrowserSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BrowserSessionId {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed =
            || Malformed::new("id of a browser's session", text, "expected 48 lower-case hexadecimal digits");
        from_lower_hex(text).map(Self::of_bytes).ok_or_else(malformed)
    }
}

impl From<BrowserSessionId> for String {
    fn from(id: BrowserSessionId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for BrowserSessionId {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        text.parse()
    }
}

impl super::Key for BrowserSessionId {
    fn bytes(&self) -> Vec<u8> {
        self.to_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::of_bytes)
    }
}

/// A record of a session at the console contains this name in place of the name of an application. No application can get this name. An older
/// program, which does not know the console, reads such a record as a session of an application that does not exist.
pub const CONSOLE: &str = "enfilade-console";

/// The requests for which a browser can use a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audience {
    /// The page for signing in, where the browser gets sessions for applications.
    SignIn,
    /// Requests to one application.
    Application(ApplicationName),
    /// The console of this server.
    Console,
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Audience::SignIn => f.write_str("the page for signing in"),
            Audience::Application(name) => write!(f, "the application `{name}`"),
            Audience::Console => f.write_str("the console"),
        }
    }
}

/// The SHA-256 digest of a secret with 256 random bits. Such a secret cannot be guessed, so the hash has no key.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SecretDigest(pub [u8; 32]);

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

impl SecretDigest {
    /// A digest that does not match any secret. In a dump without secrets, it replaces the digest of a secret.
    pub(crate) const NONE: SecretDigest = SecretDigest([0; 32]);
}

impl From<SecretDigest> for String {
    fn from(digest: SecretDigest) -> Self {
        if digest == SecretDigest::NONE { REDACTED.to_owned() } else { to_hex(&digest.0) }
    }
}

impl TryFrom<String> for SecretDigest {
    type Error = Malformed;
    fn try_from(text: String) -> Result<Self, Malformed> {
        if text == REDACTED {
            return Ok(SecretDigest::NONE);
        }
        let malformed = || {
            Malformed::new(
                "digest of a secret",
                REDACTED,
                "expected 64 lower-case hexadecimal digits; the refused text is not shown",
            )
        };
        from_lower_hex(&text).map(SecretDigest).ok_or_else(malformed)
    }
}

/// The proof that the browser has to present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrowserProof {
    /// The secret in the cookie of the session.
    Cookie(SecretDigest),
    /// The one-time code that the browser exchanges for the cookie. Before the exchange, the session is not valid.
    Code {
        /// The digest of the code.
        code: SecretDigest,
        /// The digest of the secret of the browser for which the code was issued. Another browser cannot exchange the code.
        browser: SecretDigest,
        /// The host that the browser visits. The code cannot be exchanged at another host.
        host: HostName,
        /// The first second in which the session of the cookie will not be valid any more, in seconds since the epoch. The `expires_at` in
        /// the id of this record is the time at which the code ends.
        session_until: u64,
    },
}

/// A session of a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrowserSession {
    /// The user who signed in.
    pub user: UserId,
    /// How the user authenticated: one bit for each method, as in the tokens of Identity v3.
    pub methods: u64,
    /// When the user signed in, in seconds since the epoch.
    pub issued_at: i64,
    /// The audit id of the sign-in. All sessions of one sign-in have the same audit id, so a revocation of the sign-in ends all these sessions.
    pub audit: [u8; 16],
    /// The requests for which the browser can use the session.
    pub audience: Audience,
    /// The proof that the browser has to present.
    pub proof: BrowserProof,
}

impl Row for BrowserSession {
    const TABLE: Table = Table::BrowserSessions;
    type Key = BrowserSessionId;

    fn redact(&mut self) -> bool {
        match &mut self.proof {
            BrowserProof::Cookie(digest) => *digest = SecretDigest::NONE,
            BrowserProof::Code { code, browser, .. } => {
                (*code, *browser) = (SecretDigest::NONE, SecretDigest::NONE)
            }
        }
        true
    }

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.user.bytes()).u64(self.methods).i64(self.issued_at).fixed(&self.audit);
        let application = match &self.audience {
            Audience::SignIn => None,
            Audience::Application(name) => Some(name.as_str()),
            Audience::Console => Some(CONSOLE),
        };
        to.optional_text(application);
        match &self.proof {
            BrowserProof::Cookie(digest) => to.u8(1).fixed(&digest.0),
            BrowserProof::Code { code, browser, host, session_until } => {
                to.u8(2).fixed(&code.0).fixed(&browser.0).text(host.as_str()).u64(*session_until)
            }
        };
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(BrowserSession {
            user: UserId::read(from)?,
            methods: from.u64()?,
            issued_at: from.i64()?,
            audit: from.fixed()?,
            audience: match from.option(Reader::text)? {
                None => Audience::SignIn,
                Some(name) if name == CONSOLE => Audience::Console,
                Some(name) => Audience::Application(name.parse().ok()?),
            },
            proof: match from.u8()? {
                1 => BrowserProof::Cookie(SecretDigest(from.fixed()?)),
                2 => BrowserProof::Code {
                    code: SecretDigest(from.fixed()?),
                    browser: SecretDigest(from.fixed()?),
                    host: from.text()?.parse().ok()?,
                    session_until: from.u64()?,
                },
                _ => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Key as _;

    #[test]
    fn records_are_read_back_and_dumps_have_no_digests() {
        let (code, browser) = (SecretDigest([1; 32]), SecretDigest([1; 32]));
        let host = "wiki.example.com".parse().unwrap();
        for (audience, proof) in [
            (Audience::Console, BrowserProof::Cookie(code)),
            (Audience::SignIn, BrowserProof::Cookie(code)),
            (
                Audience::Application("wiki".parse().unwrap()),
                BrowserProof::Code { code, browser, host, session_until: 7 },
            ),
        ] {
            let user = UserId::from_long([4; 32]);
            let row = BrowserSession { user, methods: 2, issued_at: 5, audit: [6; 16], audience, proof };
            let written = |row: &BrowserSession| {
                let mut to = Writer::default();
                row.encode(&mut to);
                to.into_bytes()
            };
            let bytes = written(&row);
            let mut from = Reader::new(&bytes);
            assert_eq!((BrowserSession::decode(&mut from).as_ref(), from.is_empty()), (Some(&row), true));
            let mut redacted = row.clone();
            assert!(redacted.redact());
            let has_digest = |bytes: &[u8]| bytes.windows(16).any(|some| some == [1; 16]);
            assert_eq!((has_digest(&bytes), has_digest(&written(&redacted))), (true, false));
            assert!(!format!("{row:?}").contains("[1"), "{row:?}");
        }
    }

    #[test]
    fn a_redacted_digest_is_a_word_in_a_dump() {
        for (digest, text) in
            [(SecretDigest::NONE, REDACTED.to_owned()), (SecretDigest([1; 32]), "01".repeat(32))]
        {
            assert_eq!(String::from(digest), text);
            assert_eq!(SecretDigest::try_from(text).ok(), Some(digest));
        }
        assert!(SecretDigest::try_from("01".to_owned()).is_err());
    }

    #[test]
    fn ids_are_sorted_by_the_end_of_the_session() {
        let id = |expires_at, byte| BrowserSessionId { expires_at, random: [byte; 16] };
        let (early, late) = (id(1_000, 9), id(1_001, 0));
        assert!(early.bytes() < late.bytes());
        assert_eq!(BrowserSessionId::from_bytes(&late.bytes()), Some(late));
        assert_eq!(late.to_string().parse(), Ok(late));
        assert!("00".parse::<BrowserSessionId>().is_err());
    }
}
