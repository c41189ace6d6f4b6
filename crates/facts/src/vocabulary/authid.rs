//! The names that authenticate: `user@realm`, or for a token `user@realm!name` (Proxmox's grammar).

use super::{Malformed, Word, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(super::Word);

        impl $name {
            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(super) use text_type;

text_type! {
    /// A realm: the name of the domain of a user.
    Realm
}

impl Userid {
    /// The administrator of Proxmox Backup Server. It always exists and may do everything.
    pub fn root_pam() -> Self {
        Userid { name: "root".into(), realm: Realm("pam".into()) }
    }
}

impl Realm {
    /// The realm that every server has.
    pub fn local() -> Self {
        Realm("local".into())
    }
}

impl FromStr for Realm {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let fits = (limits::REALM_BYTES_MIN..=limits::REALM_BYTES_MAX).contains(&text.len());
        if fits && is_safe_id(text) {
            return Ok(Realm(text.into()));
        }
        Err(Malformed::new(
            "realm",
            text,
            "expected 2 to 32 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`",
        ))
    }
}

text_type! {
    /// The name of an API token, unique to its owner.
    TokenName
}

impl FromStr for TokenName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        if text.len() <= limits::TOKEN_NAME_BYTES_MAX && is_safe_id(text) {
            return Ok(TokenName(text.into()));
        }
        Err(Malformed::new(
            "token name",
            text,
            "expected 1 to 64 letters, digits, `_`, `.` or `-`, not starting with `.` or `-`",
        ))
    }
}

/// `user@realm`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Userid {
    name: Word,
    realm: Realm,
}

impl Userid {
    /// The name before the last `@`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The realm.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }
}

impl FromStr for Userid {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let wrong = |expected| Malformed::new("user id", text, expected);
        if !(limits::USERID_BYTES_MIN..=limits::USERID_BYTES_MAX).contains(&text.len()) {
            return Err(wrong("expected `user@realm` of 3 to 64 bytes, such as `alice@local`"));
        }
        let (name, realm) =
            text.rsplit_once('@').ok_or_else(|| wrong("expected `user@realm`, such as `alice@local`"))?;
        if realm.contains('!') {
            return Err(wrong("expected a user, `user@realm`; `!` begins the name of an API token"));
        }
        if name.is_empty() {
            return Err(wrong("expected a user, `user@realm`; `@` begins the name of a group"));
        }
        // Proxmox's `[^\s:/[:cntrl:]]+`. A `!` is allowed: only a `!` after the last `@` begins the name of a token.
        let allowed = |c: char| !c.is_whitespace() && !c.is_control() && c != ':' && c != '/';
        if !name.chars().all(allowed) {
            return Err(wrong("expected a user name without spaces, `:`, `/` or control characters"));
        }
        Ok(Userid { name: name.into(), realm: realm.parse()? })
    }
}

impl fmt::Display for Userid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without format arguments, because this runs for every request.
        [self.name.as_str(), "@", self.realm.as_str()].into_iter().try_for_each(|part| f.write_str(part))
    }
}

impl fmt::Debug for Userid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
        match text.get(at..).and_then(|realm| realm.rfind('!')).map(|bang| text.split_at(at + bang)) {
            Some((user, token)) => {
                Ok(Authid { user: user.parse()?, token: Some(token.get(1..).unwrap_or_default().parse()?) })
            }
            None => Ok(Authid { user: text.parse()?, token: None }),
        }
    }
}

impl From<Userid> for Authid {
    fn from(user: Userid) -> Self {
        Authid { user, token: None }
    }
}

impl Authid {
    /// For a text that cannot be the name of an account: the name of an account that never exists, because no realm has this name. Door 2 refuses it
    /// like every unknown name.
    pub fn of_nobody(text: &str) -> Authid {
        const BYTES_MAX: usize = limits::USERID_BYTES_MAX;
        let shown = text.get(..text.floor_char_boundary(BYTES_MAX)).unwrap_or_default();
        let name: String = shown.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Authid {
            user: Userid { name: name.as_str().into(), realm: Realm("(not allowed)".into()) },
            token: None,
        }
    }

    /// The authid as text. It is built without format arguments, because every request's log line contains it.
    pub fn to_word(&self) -> Word {
        let Userid { name, realm } = &self.user;
        let token = self.token.iter().flat_map(|token| ["!", token.as_str()]);
        [name.as_str(), "@", realm.as_str()].into_iter().chain(token).collect()
    }
}

impl fmt::Display for Authid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.user, f)?;
        self.token.iter().try_for_each(|token| f.write_str("!").and_then(|()| f.write_str(token.as_str())))
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
    name: Word,
    realm: Realm,
}

impl GroupName {
    /// The name without the realm.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The realm.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }
}

impl FromStr for GroupName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (name, realm) = match text.rsplit_once('@') {
            Some((name, realm)) => (name, realm.parse()?),
            None => (text, Realm::local()),
        };
        if is_safe_id(name) && text.len() <= limits::USERID_BYTES_MAX {
            return Ok(GroupName { name: name.into(), realm });
        }
        Err(Malformed::new(
            "group",
            text,
            "expected `name` or `name@realm` of letters, digits, `_`, `.` and `-`",
        ))
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.realm)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
        let Some(group) = text.strip_prefix('@') else { return Ok(Ugid::Authid(text.parse()?)) };
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
            Ugid::Authid(authid) => write!(f, "{authid}"),
            Ugid::Group(group) => write!(f, "@{}", group.name),
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
            assert_eq!((authid.to_string().as_str(), authid.to_word().as_str()), (text, text));
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
}
