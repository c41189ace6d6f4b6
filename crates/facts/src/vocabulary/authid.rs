//! The names that authenticate, and how they are written in one line: `user@realm`, or for a token `user@realm!name`.
//!
//! A name is any text. Names that fit Proxmox's grammar are written as they are. If a name, its realm or its token does not fit, all parts are
//! percent-encoded, and a `%` stands before the realm: `J%C3%BCrgen%20Gro%C3%9F@%local`. No realm of Proxmox's grammar begins with `%`, so no text has
//! two meanings. A user name that begins with `@` is also encoded, because `@` begins the spelling of a group (`@group@realm`), and so is a name with
//! invisible characters, because a person cannot copy these. Only the files of Proxmox contain such names as they are ([`Authid::to_proxmox`]).

use super::{Malformed, Word, is_safe_id, is_unseen, percent_decoded};
use crate::limits;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_encode};
use std::fmt;
use std::str::FromStr;

/// The realm: the name of the domain of a user or group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Realm(Text);

/// The name of an API token or application credential, unique to its owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenName(Text);

/// A name with the note whether it fits the grammar of its kind. The note is a function of the text; requests are logged without computing it again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Text {
    text: Word,
    is_plain: bool,
}

/// Checks a name: 1 to `max` characters, no control character, and at least one character that is no blank.
fn check_text(what: &'static str, text: &str, max: usize, expected: &'static str) -> Result<(), Malformed> {
    let is_long = text.chars().nth(max).is_some();
    if is_long || text.trim().is_empty() || text.chars().any(char::is_control) {
        return Err(Malformed::new(what, text, expected));
    }
    Ok(())
}

/// Like [`check_text`]; also refuses blanks at the ends, which Keystone removes.
fn check_trimmed(
    what: &'static str,
    text: &str,
    max: usize,
    expected: &'static str,
) -> Result<(), Malformed> {
    match text.trim() == text {
        true => check_text(what, text, max, expected),
        false => Err(Malformed::new(what, text, expected)),
    }
}

macro_rules! text_type {
    ($($name:ident),*) => {$(
        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0.text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0.text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0.text, f)
            }
        }
    )*};
}
text_type!(Realm, TokenName);

impl Realm {
    /// The realm that every server has.
    pub fn local() -> Self {
        Realm(Text { text: "local".into(), is_plain: true })
    }

    /// Whether the realm fits Proxmox's grammar.
    fn is_plain(text: &str) -> bool {
        (limits::REALM_BYTES_MIN..=limits::REALM_BYTES_MAX).contains(&text.len()) && is_safe_id(text)
    }
}

impl FromStr for Realm {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let expected =
            "expected 1 to 64 characters, without control characters and without blanks at the ends";
        check_trimmed("realm", text, limits::DOMAIN_NAME_CHARS_MAX, expected)?;
        Ok(Realm(Text { text: text.into(), is_plain: Self::is_plain(text) }))
    }
}

impl FromStr for TokenName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let expected = "expected 1 to 255 characters, not only blanks, without control characters";
        check_text("token name", text, limits::NAME_CHARS_MAX, expected)?;
        let is_plain = text.len() <= limits::TOKEN_NAME_BYTES_MAX && is_safe_id(text);
        Ok(TokenName(Text { text: text.into(), is_plain }))
    }
}

/// The characters that an encoded name contains as they are.
const UNENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

fn encoded(text: &str) -> PercentEncode<'_> {
    percent_encode(text.as_bytes(), UNENCODED)
}

/// Like [`encoded`], for a text of any length that a client sent: `~`, which is otherwise encoded, stands for all characters after the longest name.
fn encoded_start(text: &str) -> impl Iterator<Item = &str> {
    let end = text.char_indices().nth(limits::NAME_CHARS_MAX).map(|(end, _)| end);
    let start = end.and_then(|end| text.get(..end)).unwrap_or(text);
    encoded(start).chain(end.map(|_| "~"))
}

/// The parts of a name, percent-encoded, as one ASCII word.
fn encoded_parts(name: &str, realm: &str, token: Option<&str>) -> Word {
    let token = token.into_iter().flat_map(|token| ["!"].into_iter().chain(encoded_start(token)));
    encoded_start(name).chain(["@%"]).chain(encoded_start(realm)).chain(token).collect()
}

/// Decodes a part of an encoded spelling; `None` if it contains a character that had to be encoded.
fn decoded(part: &str) -> Option<String> {
    let is_encoded = |byte: u8| byte == b'%' || byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let bytes = part.bytes().all(is_encoded).then(|| percent_decoded(part.as_bytes()))??;
    String::from_utf8(bytes).ok()
}

/// Why an encoded spelling is refused.
const ENCODED: &str =
    "expected letters, digits, `-`, `_`, `.` and percent-encoded bytes, because `@%` is before the realm";

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

    /// The administrator of Proxmox Backup Server. This user always exists and may do everything.
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

/// Proxmox's `[^\s:/[:cntrl:]]+`. A `!` is allowed: only a `!` after the last `@` begins the name of a token.
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
            return Err(wrong("expected a user, `user@realm`; `!` begins the name of an API token"));
        }
        if name.is_empty() {
            return Err(wrong("expected a user, `user@realm`; `@` begins the name of a group"));
        }
        if let Some(realm) = realm.strip_prefix('%') {
            let (name, realm) = decoded(name).zip(decoded(realm)).ok_or_else(|| wrong(ENCODED))?;
            return Userid::new(&name, realm.parse()?);
        }
        if !(limits::USERID_BYTES_MIN..=limits::USERID_BYTES_MAX).contains(&text.len()) {
            return Err(wrong(
                "expected `user@realm` of 3 to 64 bytes, such as `alice@local`; write a longer name percent-encoded, with `@%` before the realm",
            ));
        }
        if !fits_proxmox(name) {
            return Err(wrong(
                "expected a user name without blanks, `:`, `/` or control characters; write such a name percent-encoded, with `@%` before the realm",
            ));
        }
        if !Realm::is_plain(realm) {
            let expected = "expected 2 to 32 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`; write another realm percent-encoded, after `@%`";
            return Err(Malformed::new("realm", realm, expected));
        }
        Userid::new(name, realm.parse()?)
    }
}

/// The name that authenticates: of a user, or of one of the user's API tokens.
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
        // The last `@` begins the realm. A `!` before that `@` belongs to the user name. The last `!` after it begins the token name.
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
                let expected = "expected 1 to 64 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`; write another name percent-encoded, with `@%` before the realm";
                Malformed::new("token name", token, expected)
            })?,
        };
        Ok(Authid { user, token: Some(token) })
    }
}

/// Why a name is refused in a file of Proxmox.
const NOT_PROXMOX: &str = "expected a name of Proxmox's grammar: the file cannot contain other names";

impl Realm {
    /// A realm in a file of Proxmox.
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
    /// A user or token in a file of Proxmox.
    ///
    /// # Errors
    /// If the text does not fit Proxmox's grammar.
    pub fn from_proxmox(text: &str) -> Result<Self, Malformed> {
        // Names that fit are written as they are: a name that could have two spellings in a file could be defined twice.
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
    /// For a text that cannot be the name of an account: the name of an account that never exists, because no realm has an empty name. Door 2 refuses it
    /// like every unknown name.
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

    /// The authid in a file of Proxmox, as [`Authid::from_proxmox`] reads it. If Proxmox's grammar cannot express the authid, this is the usual spelling,
    /// which `from_proxmox` refuses.
    pub fn to_proxmox(&self) -> String {
        match (self.is_plain(), &self.token) {
            (true, Some(token)) => format!("{}@{}!{token}", self.user.name(), self.user.realm()),
            (true, None) => format!("{}@{}", self.user.name(), self.user.realm()),
            (false, _) => self.to_string(),
        }
    }

    /// The authid as one ASCII word, for headers and the log. It is built without format arguments, because every request's log line contains it.
    pub fn to_word(&self) -> Word {
        let (name, realm) = (self.user.name(), self.user.realm().as_str());
        let token = self.token.as_ref().map(TokenName::as_str);
        if self.user.is_spelled_plain() && self.is_token_plain() && name.is_ascii() {
            let token = token.iter().flat_map(|token| ["!", token]);
            return [name, "@", realm].into_iter().chain(token).collect();
        }
        encoded_parts(name, realm, token)
    }

    /// The ASCII word for a text that a client sent as an authid: [`Authid::to_word`] if the text is an authid, otherwise the percent-encoded text. Each
    /// spelling of an authid has the same word, and no other text has this word.
    pub fn word_of(text: &str) -> Word {
        text.parse::<Authid>().map_or_else(|_| word_of_id(text), |authid| authid.to_word())
    }

    /// The ASCII word for the name, the realm and the token name that a client sent: [`Authid::to_word`] if these are valid names, otherwise each part
    /// percent-encoded.
    pub fn word_of_parts(name: &str, realm: &str, token: Option<&str>) -> Word {
        let user = realm.parse().and_then(|realm| Userid::new(name, realm));
        match (user, token.map(str::parse).transpose()) {
            (Ok(user), Ok(token)) => Authid { user, token }.to_word(),
            _ => encoded_parts(name, realm, token),
        }
    }
}

/// The ASCII word for a text that a client sent as an id. It never contains `@` or `!`, so it is not the word of an authid.
pub fn word_of_id(text: &str) -> Word {
    encoded_start(text).collect()
}

/// Writes the parts as they are, or percent-encoded if they do not fit Proxmox's grammar.
fn spell(
    f: &mut fmt::Formatter<'_>,
    is_plain: bool,
    name: &str,
    realm: &Realm,
    token: Option<&TokenName>,
) -> fmt::Result {
    match is_plain {
        true => [name, "@", realm.as_str()].into_iter().try_for_each(|part| f.write_str(part))?,
        false => write!(f, "{}@%{}", encoded(name), encoded(realm.as_str()))?,
    }
    match token {
        None => Ok(()),
        Some(token) if is_plain => write!(f, "!{token}"),
        Some(token) => write!(f, "!{}", encoded(token.as_str())),
    }
}

impl fmt::Display for Userid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spell(f, self.is_spelled_plain(), self.name(), &self.realm, None)
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
        spell(f, is_plain, self.user.name(), self.user.realm(), self.token.as_ref())
    }
}

impl fmt::Debug for Authid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A group: `name@realm`, where `name` alone means the realm `local`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName {
    name: Text,
    realm: Realm,
}

impl GroupName {
    /// The group with this name in this realm.
    ///
    /// # Errors
    /// If the name is empty, too long, has blanks at its ends, or contains control characters.
    pub fn new(name: &str, realm: Realm) -> Result<Self, Malformed> {
        let expected =
            "expected 1 to 255 characters, without control characters and without blanks at the ends";
        check_trimmed("group name", name, limits::NAME_CHARS_MAX, expected)?;
        // A group of the realm `local` is also written without its realm, so only the name counts.
        let bytes = if realm == Realm::local() { name.len() } else { name.len() + 1 + realm.as_str().len() };
        let is_plain = bytes <= limits::USERID_BYTES_MAX && realm.0.is_plain && is_safe_id(name);
        Ok(GroupName { name: Text { text: name.into(), is_plain }, realm })
    }

    /// The name without the realm.
    pub fn name(&self) -> &str {
        &self.name.text
    }

    /// The realm.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }

    /// Whether Proxmox's grammar can express the name. Other groups cannot be in Proxmox's files.
    pub fn is_plain(&self) -> bool {
        self.name.is_plain
    }
}

impl FromStr for GroupName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let wrong = |expected| Malformed::new("group", text, expected);
        let (name, realm) = match text.rsplit_once('@') {
            Some((name, realm)) => match realm.strip_prefix('%') {
                Some(realm) => {
                    let (name, realm) = decoded(name).zip(decoded(realm)).ok_or_else(|| wrong(ENCODED))?;
                    return GroupName::new(&name, realm.parse()?);
                }
                None => (name, realm.parse()?),
            },
            None => (text, Realm::local()),
        };
        let group = GroupName::new(name, realm)?;
        match group.is_plain() {
            true => Ok(group),
            false => Err(wrong(
                "expected `name` or `name@realm` of letters, digits, `_`, `.` and `-`; write another name percent-encoded, with `@%` before the realm",
            )),
        }
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spell(f, self.name.is_plain, self.name(), &self.realm, None)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A project or a role of a domain, as commands write it: `name@domain`. The name is any text. If the domain does not fit the grammar of a realm, or if
/// the name has invisible characters, both are percent-encoded, as in a [`Userid`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameInDomain {
    /// The name.
    pub name: String,
    /// The domain.
    pub domain: Realm,
}

impl FromStr for NameInDomain {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let wrong = |expected| Malformed::new("name", text, expected);
        let (name, domain) = text.rsplit_once('@').ok_or_else(|| wrong("expected `name@domain`"))?;
        match domain.strip_prefix('%') {
            None if Realm::is_plain(domain) => {
                Ok(NameInDomain { name: name.to_owned(), domain: domain.parse()? })
            }
            None => Err(wrong("expected `name@domain`; write other domains percent-encoded, after `@%`")),
            Some(domain) => {
                let (name, domain) = decoded(name).zip(decoded(domain)).ok_or_else(|| wrong(ENCODED))?;
                Ok(NameInDomain { name, domain: domain.parse()? })
            }
        }
    }
}

impl fmt::Display for NameInDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = self.domain.0.is_plain && !self.name.chars().any(is_unseen);
        spell(f, is_plain, &self.name, &self.domain, None)
    }
}

/// The grantee of a line of `acl.cfg`: a user, a token, or with `@` in front all members of a group of the realm `local`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ugid {
    /// A user or token.
    Authid(Authid),
    /// A group.
    Group(GroupName),
}

impl FromStr for Ugid {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let Some(group) = text.strip_prefix('@') else {
            return Ok(Ugid::Authid(Authid::from_proxmox(text)?));
        };
        if group.contains('@') {
            let expected = "expected a group of the realm `local`, without `@local`: acl.cfg has groups of no other realm";
            return Err(Malformed::new("group", text, expected));
        }
        Ok(Ugid::Group(group.parse()?))
    }
}

impl fmt::Display for Ugid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // As in the file: keys of facts contain this text, and it must be read as the same grantee.
            Ugid::Authid(authid) => f.write_str(&authid.to_proxmox()),
            Ugid::Group(group) => write!(f, "@{}", group.name()),
        }
    }
}

impl fmt::Debug for Ugid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_group_is_no_user() {
        let why = "@family".parse::<Authid>().unwrap_err().to_string();
        assert!(why.contains("`@` begins the name of a group"), "{why}");
    }

    #[test]
    fn authids_as_proxmox_reads_them() {
        for (text, user, realm, token) in [
            ("alice@local", "alice", "local", None),
            ("alice@local!backup", "alice", "local", Some("backup")),
            ("a@b@local", "a@b", "local", None),
            ("bang!user@pbs!t.1", "bang!user", "pbs", Some("t.1")),
            ("ä@pam", "ä", "pam", None),
        ] {
            let authid: Authid = text.parse().unwrap();
            assert_eq!((authid.user.name(), authid.user.realm().as_str()), (user, realm), "{text}");
            assert_eq!(authid.token.as_ref().map(TokenName::as_str), token, "{text}");
            assert_eq!(authid.to_string(), text);
        }
        for text in [
            "",
            "alice",
            "@local",
            "alice@",
            "alice@l",
            "alice@local!",
            "alice@local!-x",
            "al ice@local",
            "a:b@local",
            "a/b@local",
            "alice@lo cal",
            "alice@local!a!b",
            "alice@local!!a",
            "\u{0}@local",
        ] {
            assert!(text.parse::<Authid>().is_err(), "{text:?}");
        }
        assert!(format!("{}@local", "x".repeat(60)).parse::<Userid>().is_err());
    }

    fn user(name: &str, realm: &str) -> Userid {
        Userid::new(name, realm.parse().unwrap()).unwrap()
    }

    #[test]
    fn names_that_do_not_fit_are_encoded() {
        for (name, realm, token, text) in [
            ("Jürgen Groß", "local", None, "J%C3%BCrgen%20Gro%C3%9F@%local"),
            ("alice", "Default Domain", Some("t"), "alice@%Default%20Domain!t"),
            ("alice", "local", Some("a b"), "alice@%local!a%20b"),
            ("CORP\\svc:x/y", "local", None, "CORP%5Csvc%3Ax%2Fy@%local"),
            ("a@b", "x", None, "a%40b@%x"),
            ("100%", "l!@%", Some("!@%"), "100%25@%l%21%40%25!%21%40%25"),
            ("a\u{202e} b", "local", None, "a%E2%80%AE%20b@%local"),
            ("a\u{200b}b", "local", None, "a%E2%80%8Bb@%local"),
            ("@staff", "local", None, "%40staff@%local"),
            ("@staff", "local", Some("t"), "%40staff@%local!t"),
        ] {
            let token = token.map(|token| token.parse().unwrap());
            let authid = Authid { user: user(name, realm), token };
            assert_eq!((authid.to_string().as_str(), authid.to_word().as_str()), (text, text));
            assert_eq!(text.parse::<Authid>(), Ok(authid), "{text}");
        }
        let umlaut = Authid::from(user("ä", "pam"));
        assert_eq!((umlaut.to_string().as_str(), umlaut.to_word().as_str()), ("ä@pam", "%C3%A4@%pam"));
        assert_eq!("%C3%A4@%pam".parse(), Ok(umlaut));
        for text in [
            "a b@%local",
            "a@b@%local",
            "a!b@%local",
            "a%4@%local",
            "%FF@%local",
            "a@%",
            "@%local",
            "a@%local!",
            "ü@%local",
        ] {
            assert!(text.parse::<Authid>().is_err(), "{text:?}");
        }
        for (name, is_name) in [
            ("", false),
            (" ", false),
            (" a", false),
            ("a\n", false),
            ("a\tb", false),
            ("a b", true),
            ("\u{3000}", false),
            (&"\u{10348}".repeat(255), true),
            (&"a".repeat(256), false),
        ] {
            assert_eq!(Userid::new(name, Realm::local()).is_ok(), is_name, "{name:?}");
        }
        assert!(" a ".parse::<TokenName>().is_ok() && "  ".parse::<TokenName>().is_err());
        assert!("名".repeat(64).parse::<Realm>().is_ok() && "a".repeat(65).parse::<Realm>().is_err());
    }

    /// A user `@staff` of the realm `local` must not be written like the group `staff`.
    #[test]
    fn no_user_is_written_like_a_group() {
        let staff = Authid::from(user("@staff", "local"));
        assert_eq!((staff.to_proxmox().as_str(), staff.is_plain()), ("@staff@local", true));
        // The spelling that was valid before is still read.
        assert_eq!("@staff@local".parse(), Ok(staff.clone()));
        assert_eq!(Authid::from_proxmox("@staff@local"), Ok(staff.clone()));
        assert!(
            Ugid::Authid(staff.clone()).to_string().parse::<Ugid>().is_err(),
            "acl.cfg cannot contain it"
        );
        let token = Authid { token: Some("t".parse().unwrap()), ..staff };
        assert_eq!(Authid::from_proxmox(&token.to_proxmox()), Ok(token));
        // A name of a file can have characters that are not visible, and is then the same grantee in a key of facts.
        let unseen: Ugid = "a\u{200b}b@pbs!t".parse().unwrap();
        assert_eq!(
            (unseen.to_string().as_str(), unseen.to_string().parse()),
            ("a\u{200b}b@pbs!t", Ok(unseen))
        );
        let odd = Authid::from(user("a b", "local"));
        assert!(Authid::from_proxmox(&odd.to_proxmox()).is_err());
    }

    #[test]
    fn each_text_of_a_client_has_one_word() {
        for (text, word) in [
            ("alice@local", "alice@local"),
            ("alice@%local", "alice@local"),
            ("ä@pam", "%C3%A4@%pam"),
            ("@staff@local!t", "%40staff@%local!t"),
            ("alice", "alice"),
            ("a\nb", "a%0Ab"),
            ("alice@lo cal", "alice%40lo%20cal"),
        ] {
            assert_eq!(Authid::word_of(text), word);
        }
        for (name, realm, token, word) in [
            ("alice", "local", None, "alice@local"),
            ("Jürgen Groß", "local", Some("my laptop"), "J%C3%BCrgen%20Gro%C3%9F@%local!my%20laptop"),
            ("a\nb", "local", None, "a%0Ab@%local"),
            ("", "", Some(""), "@%!"),
        ] {
            assert_eq!(Authid::word_of_parts(name, realm, token), word);
        }
        assert_eq!(word_of_id("alice@local"), "alice%40local");
        // A client can send any length.
        assert_eq!(word_of_id(&" ".repeat(9_000)), format!("{}~", "%20".repeat(255)));
        let long = Authid::word_of_parts(&"名".repeat(9_000), &"a".repeat(9_000), Some(&"b".repeat(9_000)));
        assert!(long.len() < 3_000 && long.parse::<Authid>().is_err(), "{long}");
    }

    #[test]
    fn groups_are_written_like_users() {
        let longest = "g".repeat(64);
        for (name, realm, text) in [
            ("staff", "local", "staff@local"),
            (longest.as_str(), "local", format!("{longest}@local").as_str()),
            ("Große Gruppe", "local", "Gro%C3%9Fe%20Gruppe@%local"),
            ("staff", "a b", "staff@%a%20b"),
        ] {
            let group = GroupName::new(name, realm.parse().unwrap()).unwrap();
            assert_eq!(group.to_string(), text);
            assert_eq!(text.parse(), Ok(group));
        }
        for name in ["staff", &longest] {
            let group = Ugid::Group(GroupName::new(name, Realm::local()).unwrap());
            assert_eq!((format!("@{name}").parse(), group.to_string()), (Ok(group), format!("@{name}")));
        }
        for text in
            ["@staff@local", "@staff@%local", "@a%20b@%tenant", "@a b", "a%20b@%local", "alice@%local"]
        {
            assert!(text.parse::<Ugid>().is_err(), "{text}");
        }
    }

    /// Texts of the characters that spellings use.
    fn odd_text() -> impl Strategy<Value = String> {
        let letters = vec![
            'a',
            'B',
            '1',
            '@',
            '!',
            ':',
            '/',
            ',',
            '%',
            '#',
            ' ',
            '-',
            '.',
            '_',
            'ü',
            '\u{200b}',
            '\u{1f980}',
        ];
        proptest::collection::vec(proptest::sample::select(letters), 1..6).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn a_spelling_means_one_name(name in odd_text(), realm in odd_text(), token in proptest::option::of(odd_text())) {
            let token = match token.map(|token| token.parse()) {
                None => None,
                Some(Ok(token)) => Some(token),
                Some(Err(_)) => return Ok(()),
            };
            let Ok(user) = realm.parse().and_then(|realm| Userid::new(&name, realm)) else { return Ok(()) };
            let group = GroupName::new(&name, user.realm().clone()).unwrap();
            let authid = Authid { user: user.clone(), token };
            prop_assert_eq!(authid.to_string().parse::<Authid>().unwrap(), authid.clone());
            prop_assert_eq!(authid.to_word().parse::<Authid>().unwrap(), authid.clone());
            prop_assert_eq!(Authid::word_of(&authid.to_string()), authid.to_word());
            // `@` at the beginning says that a group follows.
            prop_assert!(!authid.to_string().starts_with('@'));
            prop_assert!(!authid.to_string().chars().any(is_unseen));
            match authid.is_plain() {
                true => {
                    prop_assert_eq!(Authid::from_proxmox(&authid.to_proxmox()).unwrap(), authid.clone());
                    let grantee = Ugid::Authid(authid.clone());
                    if !name.starts_with('@') {
                        prop_assert_eq!(grantee.to_string().parse::<Ugid>().unwrap(), grantee);
                    }
                }
                false => prop_assert!(Authid::from_proxmox(&authid.to_proxmox()).is_err()),
            }
            let project = NameInDomain { name: name.clone(), domain: user.realm().clone() };
            prop_assert_eq!(project.to_string().parse::<NameInDomain>().unwrap(), project);
            prop_assert!(authid.to_word().bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(user.to_string().parse::<Userid>().unwrap(), user);
            prop_assert_eq!(group.to_string().parse::<GroupName>().unwrap(), group);
        }

        #[test]
        fn a_text_is_read_as_one_name_or_refused(text in odd_text(), rest in odd_text()) {
            // The parts of a text that is accepted spell an authid that is read in the same way.
            for text in [format!("{text}@{rest}"), format!("{text}@%{rest}")] {
                if let Ok(authid) = text.parse::<Authid>() {
                    prop_assert_eq!(authid.to_string().parse::<Authid>().unwrap(), authid);
                }
            }
        }
    }
}
