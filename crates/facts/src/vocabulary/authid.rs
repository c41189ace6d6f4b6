//! The names with which clients authenticate, and the spelling of these names in one line: `user@realm`, or for a token `user@realm!name`.
//!
//! A name is any text. Names that fit Proxmox's grammar are written as they are. If a name, its realm or its token does not fit, all parts are
//! percent-encoded, and a `%` is written before the realm: `J%C3%BCrgen%20Gro%C3%9F@%local`. No realm of Proxmox's grammar begins with `%`, so no
//! text has two meanings. A user name that begins with `@` is also encoded, because `@` begins the spelling of a group (`@group@realm`). A name with
//! invisible characters is also encoded, because a person cannot copy these characters. Exception: in the files of Proxmox, names of these two kinds
//! are not encoded ([`Authid::to_proxmox`]).

mod groups;
mod parts;
mod spelling;
#[cfg(test)]
mod tests;

pub use groups::{GroupName, NameInDomain, Ugid};
pub use parts::{Realm, TokenName};
pub use spelling::word_of_id;

use super::{Malformed, Word, is_unseen};
use crate::limits;
use parts::{Text, check_trimmed};
use spelling::{ENCODED, decoded, encoded_parts, spell};
use std::fmt;
use std::str::FromStr;

/// A user: a name in a realm.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Userid {
    name: Text,
    realm: Realm,
}

impl Userid {
    /// The user with this name in this realm.
    ///
    /// # Errors
    /// If the name is empty, too long, has blanks at its ends, or contains control characters.
    pub fn new(name: &str, realm: Realm) -> Result<Self, Malformed> {
        let expected =
            "expected 1 to 255 characters, without control characters and without blanks at the ends";
        check_trimmed("user name", name, limits::NAME_CHARS_MAX, expected)?;
        let bytes = limits::USERID_BYTES_MIN..=limits::USERID_BYTES_MAX;
        let is_plain = realm.0.is_plain
            && bytes.contains(&(name.len() + 1 + realm.as_str().len()))
            && fits_proxmox(name);
        Ok(Userid { name: Text { text: name.into(), is_plain }, realm })
    }

    /// The administrator of Proxmox Backup Server. If this server follows `user.cfg`, the user always exists, even if the file does not list it. If
    /// this server follows `acl.cfg`, the user has the role Admin on `/`.
    pub fn root_pam() -> Self {
        let plain = |text: &str| Text { text: text.into(), is_plain: true };
        Userid { name: plain("root"), realm: Realm(plain("pam")) }
    }

    /// The name without the realm.
    pub fn name(&self) -> &str {
        &self.name.text
    }

    /// The realm.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }

    /// Whether Proxmox's grammar can express the name. Other users cannot be in Proxmox's files.
    pub fn is_plain(&self) -> bool {
        self.name.is_plain
    }

    /// Whether the spelling contains the name as it is.
    fn is_spelled_plain(&self) -> bool {
        self.is_plain() && !self.name().starts_with('@') && !self.name().chars().any(is_unseen)
    }
}

/// Whether a user name fits Proxmox's grammar, `[^\s:/[:cntrl:]]+`. A `!` is allowed, because only a `!` after the last `@` begins the name of a
/// token.
fn fits_proxmox(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == ':' || c == '/')
}

impl FromStr for Userid {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let wrong = |expected| Malformed::new("user id", text, expected);
        let (name, realm) =
            text.rsplit_once('@').ok_or_else(|| wrong("expected `user@realm`, such as `alice@local`"))?;
        if realm.contains('!') {
            return Err(wrong("expected a user, `user@realm`, but `!` begins the name of an API token"));
        }
        if name.is_empty() {
            return Err(wrong("expected a user, `user@realm`, but `@` begins the name of a group"));
        }
        if let Some(realm) = realm.strip_prefix('%') {
            let (name, realm) = decoded(name).zip(decoded(realm)).ok_or_else(|| wrong(ENCODED))?;
            return Userid::new(&name, realm.parse()?);
        }
        if !(limits::USERID_BYTES_MIN..=limits::USERID_BYTES_MAX).contains(&text.len()) {
            return Err(wrong(
                "expected `user@realm` of 3 to 64 bytes, such as `alice@local`; percent-encode a longer name, and write `%` before the realm, such as `name@%local`",
            ));
        }
        if !fits_proxmox(name) {
            return Err(wrong(
                "expected a user name without blanks, `:`, `/` or control characters; percent-encode a name with such characters, and write `%` before the realm, such as `my%20name@%local`",
            ));
        }
        if !Realm::is_plain(realm) {
            let expected = "expected 2 to 32 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`; percent-encode other realms, and write `%` before the realm, such as `name@%my%20realm`";
            return Err(Malformed::new("realm", realm, expected));
        }
        Userid::new(name, realm.parse()?)
    }
}

/// The name with which a client authenticates: the name of a user, or of one of the user's API tokens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Authid {
    /// The user, or the token's owner.
    pub user: Userid,
    /// The token's name; `None` for a user.
    pub token: Option<TokenName>,
}

impl FromStr for Authid {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        // The last `@` begins the realm. A `!` before that `@` belongs to the user name. The last `!` after that `@` begins the token name.
        let at = text.rfind('@').ok_or_else(|| {
            Malformed::new(
                "auth id",
                text,
                "expected `user@realm` or `user@realm!token`, such as `alice@local`",
            )
        })?;
        let is_encoded = text.get(at..).is_some_and(|realm| realm.starts_with("@%"));
        let bang = text.get(at..).and_then(|realm| realm.rfind('!')).map(|bang| text.split_at(at + bang));
        let Some((user, token)) = bang else { return Ok(Authid { user: text.parse()?, token: None }) };
        let (user, token): (Userid, &str) = (user.parse()?, token.get(1..).unwrap_or_default());
        let token = match is_encoded {
            true => decoded(token).ok_or_else(|| Malformed::new("auth id", text, ENCODED))?.parse()?,
            false => token.parse::<TokenName>().ok().filter(|token| token.0.is_plain).ok_or_else(|| {
                let expected = "expected 1 to 64 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`; percent-encode other names, and write `%` before the realm, such as `alice@%local!my%20laptop`";
                Malformed::new("token name", token, expected)
            })?,
        };
        Ok(Authid { user, token: Some(token) })
    }
}

/// The reason why a name is refused in a file of Proxmox.
const NOT_PROXMOX: &str =
    "expected a name that Proxmox Backup Server allows, because its files cannot contain other names";

impl Realm {
    /// Reads a realm in a file of Proxmox.
    ///
    /// # Errors
    /// If the text does not fit Proxmox's grammar.
    pub fn from_proxmox(text: &str) -> Result<Self, Malformed> {
        match Realm::is_plain(text) {
            true => text.parse(),
            false => Err(Malformed::new("realm", text, NOT_PROXMOX)),
        }
    }
}

impl Authid {
    /// Reads the name of a user or token in a file of Proxmox.
    ///
    /// # Errors
    /// If the text does not fit Proxmox's grammar.
    pub fn from_proxmox(text: &str) -> Result<Self, Malformed> {
        // A file contains names only as they are, not percent-encoded. If a name had two spellings in a file, the file could define the name twice.
        match text.rsplit_once('@').is_some_and(|(_, realm)| realm.starts_with('%')) {
            true => Err(Malformed::new("auth id", text, NOT_PROXMOX)),
            false => text.parse(),
        }
    }
}

impl From<Userid> for Authid {
    fn from(user: Userid) -> Self {
        Authid { user, token: None }
    }
}

impl Authid {
    /// An authid that stands for a text that is not a valid authid. The authid has a realm with an empty name. No account has such a realm, so door 2
    /// refuses the authid like every unknown authid.
    pub fn of_nobody(text: &str) -> Authid {
        let odd = |text: &str| Text { text: text.into(), is_plain: false };
        let shown = text.get(..text.floor_char_boundary(limits::USERID_BYTES_MAX)).unwrap_or_default();
        Authid { user: Userid { name: odd(shown), realm: Realm(odd("")) }, token: None }
    }

    /// Whether Proxmox's grammar can express the authid. Other authids cannot be in Proxmox's files.
    pub fn is_plain(&self) -> bool {
        self.user.is_plain() && self.is_token_plain()
    }

    fn is_token_plain(&self) -> bool {
        self.token.as_ref().is_none_or(|token| token.0.is_plain)
    }

    /// The authid in a file of Proxmox, as [`Authid::from_proxmox`] reads it. If Proxmox's grammar cannot express the authid, this is the usual
    /// spelling, which `from_proxmox` refuses.
    pub fn to_proxmox(&self) -> String {
        match (self.is_plain(), &self.token) {
            (true, Some(token)) => format!("{}@{}!{token}", self.user.name(), self.user.realm()),
            (true, None) => format!("{}@{}", self.user.name(), self.user.realm()),
            (false, _) => self.to_string(),
        }
    }

    /// The authid as one ASCII word, for headers and the log. The word is built without format arguments, which would be slower: the log line of
    /// every request contains this word.
    pub fn to_word(&self) -> Word {
        let (name, realm) = (self.user.name(), self.user.realm().as_str());
        let token = self.token.as_ref().map(TokenName::as_str);
        if self.user.is_spelled_plain() && self.is_token_plain() && name.is_ascii() {
            let token = token.iter().flat_map(|token| ["!", token]);
            return [name, "@", realm].into_iter().chain(token).collect();
        }
        encoded_parts(name, realm, token)
    }

    /// The ASCII word for a text that a client sent as an authid: [`Authid::to_word`] if the text is an authid, otherwise the percent-encoded text.
    /// All spellings of one authid give the same word. No other text gives this word.
    pub fn word_of(text: &str) -> Word {
        text.parse::<Authid>().map_or_else(|_| word_of_id(text), |authid| authid.to_word())
    }

    /// The ASCII word for the name, the realm and the token name that a client sent: [`Authid::to_word`] if these are valid names, otherwise each
    /// part percent-encoded.
    pub fn word_of_parts(name: &str, realm: &str, token: Option<&str>) -> Word {
        let user = realm.parse().and_then(|realm| Userid::new(name, realm));
        match (user, token.map(str::parse).transpose()) {
            (Ok(user), Ok(token)) => Authid { user, token }.to_word(),
            _ => encoded_parts(name, realm, token),
        }
    }
}

impl fmt::Display for Userid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spell(f, self.is_spelled_plain(), self.name(), self.realm.as_str(), None)
    }
}

impl fmt::Debug for Userid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Authid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = self.user.is_spelled_plain() && self.is_token_plain();
        let token = self.token.as_ref().map(TokenName::as_str);
        spell(f, is_plain, self.user.name(), self.user.realm().as_str(), token)
    }
}

impl fmt::Debug for Authid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
