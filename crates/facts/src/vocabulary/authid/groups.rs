//! The names of groups, projects and roles of a domain, and the grantees of `acl.cfg`.

use super::super::{Malformed, is_safe_id, is_unseen};
use super::Authid;
use super::parts::{Realm, Text, check_trimmed};
use super::spelling::{ENCODED, decoded, spell};
use crate::limits;
use std::fmt;
use std::str::FromStr;

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
        // A group of the realm `local` is also written without its realm, so only the length of the name counts.
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
                "expected `name` or `name@realm` of at most 64 bytes: letters, digits, `_`, `.` and `-`, where name and realm do not begin with `.` or `-`, and the realm has 2 to 32 characters; for any other group, percent-encode name and realm, and write `@%` between them, such as `my%20group@%local`",
            )),
        }
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        spell(f, self.name.is_plain, self.name(), self.realm.as_str(), None)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A project or a role of a domain, as commands write it: `name@domain`. The name is any text. If the domain does not fit the grammar of a realm, or
/// if the name has invisible characters, both are percent-encoded, as in a [`Userid`](super::Userid).
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
            None => Err(wrong(
                "expected `name@domain`, where the domain has 2 to 32 letters, digits, `_`, `.` or `-`, and does not begin with `.` or `-`; for any other domain, percent-encode name and domain, and write `@%` between them, such as `name@%my%20domain`",
            )),
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
        spell(f, is_plain, &self.name, self.domain.as_str(), None)
    }
}

/// The grantee of a line of `acl.cfg`: a user, a token, or all members of a group of the realm `local`. A group is written with `@` in front.
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
            let expected = "expected a group of the realm `local`, written without `@local`, because acl.cfg can contain only groups of this realm";
            return Err(Malformed::new("group", text, expected));
        }
        Ok(Ugid::Group(group.parse()?))
    }
}

impl fmt::Display for Ugid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text is the same as in the file. The keys of some assignments contain this text, and reading it must give the same grantee.
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
