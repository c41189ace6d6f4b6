//! Domains, users and groups.

use super::{Mirrored, REDACTED, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{DomainId, GroupId, Realm, Sid, UserId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A domain. The name of the domain is the realm of its users and groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// The realm.
    pub name: Realm,
    /// Whether the users of the domain may authenticate.
    pub enabled: bool,
    /// A description of the domain.
    #[serde(default)]
    pub description: Option<String>,
}

impl Domain {
    /// A new domain.
    pub fn new(name: Realm) -> Self {
        Domain { name, enabled: true, description: None }
    }
}

impl Row for Domain {
    const TABLE: Table = Table::Domains;
    type Key = DomainId;

    fn encode(&self, to: &mut Writer) {
        to.text(self.name.as_str()).flag(self.enabled);
        to.optional_text(self.description.as_deref());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let (name, enabled) = (from.text()?.parse().ok()?, from.flag()?);
        Some(Domain { name, enabled, description: from.option(Reader::text)? })
    }
}

/// A user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The domain.
    pub domain: DomainId,
    /// The name of the user in the domain.
    pub name: String,
    /// The SID of this user in ACLs.
    pub sid: Sid,
    /// Other SIDs of this user, in ACLs that another server wrote.
    #[serde(default)]
    pub also: Vec<Sid>,
    /// The uid that owns this user's files. For a file without an ACL, this uid is compared with the owner of the file.
    pub uid: Option<u32>,
    /// The gid of this user's primary group. For a file without an ACL, this gid is compared with the group of the file.
    pub gid: Option<u32>,
    /// Whether the user, and every token of the user, may be used.
    pub enabled: bool,
    /// When the user expires, in seconds since the epoch; 0 means never.
    pub expires: i64,
    /// The password, if the user has one.
    pub password: Option<Password>,
    /// A description of the user.
    pub comment: Option<String>,
    /// The field is `Some` if `user.cfg` defines the user. The file then defines the user's existence, `enabled`, expiry and comment. All other
    /// fields are stored only here, and no file defines them.
    #[serde(rename = "kept", default)]
    pub mirrored: Option<Mirrored>,
}

/// A password: its hash, and how long it is valid.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password {
    /// The argon2 or crypt(3) string.
    pub hash: String,
    /// When the password was set, in seconds since the epoch; 0 if unknown.
    pub set_at: i64,
    /// When the password expires, in seconds since the epoch; 0 means never. The user can use an expired password only to choose another password.
    pub until: i64,
    /// Whether another person chose the password for the user.
    pub is_given: bool,
    /// The hashes of former passwords that the user must not choose again, newest first.
    pub before: Vec<String>,
}

impl Password {
    /// A password of which only the hash is known.
    pub fn of(hash: String) -> Self {
        Password { hash, set_at: 0, until: 0, is_given: false, before: Vec::new() }
    }

    fn encode(to: &mut Writer, password: &Password) {
        to.text(&password.hash).i64(password.set_at).i64(password.until).flag(password.is_given);
        to.list(&password.before, |to, hash| {
            to.text(hash);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let (hash, set_at, until, is_given) = (from.text()?, from.i64()?, from.i64()?, from.flag()?);
        Some(Password { hash, set_at, until, is_given, before: from.list(Reader::text)? })
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("domain", &self.domain)
            .field("name", &self.name)
            .field("sid", &self.sid)
            .field("enabled", &self.enabled)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Row for User {
    const TABLE: Table = Table::Users;
    type Key = UserId;

    fn redact(&mut self) -> bool {
        let Some(password) = &mut self.password else { return false };
        REDACTED.clone_into(&mut password.hash);
        password.before.clear();
        true
    }

    fn encode(&self, to: &mut Writer) {
        let number = |to: &mut Writer, n: u32| {
            to.u32(n);
        };
        to.fixed(self.domain.bytes()).text(&self.name).bytes(&self.sid.to_bytes());
        to.list(&self.also, |to, sid| {
            to.bytes(&sid.to_bytes());
        });
        to.option(self.uid, number).option(self.gid, number);
        to.flag(self.enabled).i64(self.expires);
        to.option(self.password.as_ref(), Password::encode).optional_text(self.comment.as_deref());
        to.option(self.mirrored.as_ref(), Mirrored::encode);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(User {
            domain: DomainId::from_bytes(from.fixed()?),
            name: from.text()?,
            sid: sid(from)?,
            also: from.list(sid)?,
            uid: from.option(Reader::u32)?,
            gid: from.option(Reader::u32)?,
            enabled: from.flag()?,
            expires: from.i64()?,
            password: from.option(Password::decode)?,
            comment: from.option(Reader::text)?,
            mirrored: from.option(Mirrored::decode)?,
        })
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The domain.
    pub domain: DomainId,
    /// The name of the group in the domain.
    pub name: String,
    /// The SID of this group in ACLs.
    pub sid: Sid,
    /// Other SIDs of this group, in ACLs that another server wrote.
    #[serde(default)]
    pub also: Vec<Sid>,
    /// The gid of this group. For a file without an ACL, this gid is compared with the group of the file.
    pub gid: Option<u32>,
    /// A description of the group.
    pub comment: Option<String>,
}

impl Row for Group {
    const TABLE: Table = Table::Groups;
    type Key = GroupId;

    fn encode(&self, to: &mut Writer) {
        to.fixed(self.domain.bytes()).text(&self.name).bytes(&self.sid.to_bytes());
        to.list(&self.also, |to, sid| {
            to.bytes(&sid.to_bytes());
        });
        to.option(self.gid, |to, gid| {
            to.u32(gid);
        });
        to.optional_text(self.comment.as_deref());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Group {
            domain: DomainId::from_bytes(from.fixed()?),
            name: from.text()?,
            sid: sid(from)?,
            also: from.list(sid)?,
            gid: from.option(Reader::u32)?,
            comment: from.option(Reader::text)?,
        })
    }
}

fn sid(from: &mut Reader<'_>) -> Option<Sid> {
    let bytes = from.bytes()?;
    Sid::from_bytes(bytes).filter(|(_, taken)| *taken == bytes.len()).map(|(sid, _)| sid)
}
