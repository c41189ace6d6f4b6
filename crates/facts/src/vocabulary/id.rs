//! Ids, by which records refer to each other. If a resource is deleted and a new one is created with the same name, the new resource has a different
//! id.

use super::{Malformed, as_text, from_lower_hex};
use crate::codec::Reader;
use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// An id of a record.
pub trait Id: Sized {
    /// The id with this stored form; `None` if the bytes are not the stored form of an id of this type.
    fn from_stored(bytes: &[u8]) -> Option<Self>;
    /// The stored form of the id.
    fn stored(&self) -> IdBytes;
}

/// The first bytes of the stored form of a long id. No id of 16 bytes has this value: [`FromStr`] and the upgrade to format 9 refuse it.
pub(crate) const LONG: [u8; 16] = [0xff; 16];

/// The stored form of an id: 16 bytes, or [`LONG`] and 32 bytes. No stored form is the beginning of another stored form. So the prefix of a key can
/// end with an id, and then matches only keys with this id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdBytes {
    /// The unused bytes are zero, so that the derived order is the order of the keys in a store.
    bytes: [u8; 48],
    length: u8,
}

impl IdBytes {
    /// The stored form of an id of 16 bytes.
    pub const fn new(id: [u8; 16]) -> Self {
        let mut bytes = [0; 48];
        let (head, _) = bytes.split_at_mut(16);
        head.copy_from_slice(&id);
        IdBytes { bytes, length: 16 }
    }

    /// The stored form of an id of 32 bytes.
    pub const fn long(id: [u8; 32]) -> Self {
        let mut bytes = [0xff; 48];
        let (_, tail) = bytes.split_at_mut(16);
        tail.copy_from_slice(&id);
        IdBytes { bytes, length: 48 }
    }

    /// Reads a stored form at the start of `bytes`. Also returns the bytes after it.
    pub fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        match bytes.split_first_chunk::<16>()? {
            (&LONG, rest) => rest.split_first_chunk().map(|(id, rest)| (Self::long(*id), rest)),
            (id, rest) => Some((Self::new(*id), rest)),
        }
    }

    /// Reads a stored form.
    pub fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.fixed()? {
            LONG => from.fixed().map(Self::long),
            id => Some(Self::new(id)),
        }
    }

    /// The stored form. The stored form of a short id is padded with zeros.
    pub const fn padded(&self) -> [u8; 48] {
        self.bytes
    }

    /// The stored form as bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }

    /// The id itself: 16 or 32 bytes. For a long id, this is the stored form without [`LONG`].
    pub fn id(&self) -> &[u8] {
        self.as_slice().strip_prefix(&LONG).unwrap_or(self.as_slice())
    }

    /// The first 16 bytes of the stored form: the id itself, if it has 16 bytes. Only users and groups have long ids. For a long id, the result is
    /// [`LONG`], and no record has [`LONG`] as its id.
    pub fn head(&self) -> [u8; 16] {
        self.bytes.first_chunk().copied().unwrap_or(LONG)
    }

    /// Reads 32 or 64 lower-case hexadecimal digits; `None` for 32 digits `f`, which would be the start of a long id.
    fn from_digits(text: &str) -> Option<Self> {
        let short = || from_lower_hex(text).filter(|id| *id != LONG).map(Self::new);
        short().or_else(|| from_lower_hex(text).map(Self::long))
    }
}

/// The hash of an id is the hash of its slice, so that a map with these keys can be searched by a slice.
impl Hash for IdBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl Borrow<[u8]> for IdBytes {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<[u8; 16]> for IdBytes {
    fn from(id: [u8; 16]) -> Self {
        Self::new(id)
    }
}

/// Writes the id as hexadecimal digits. The function allocates no memory, because an answer contains many ids.
impl fmt::Display for IdBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = [0; 64];
        let digits = room.get_mut(..2 * self.id().len()).unwrap_or_default();
        data_encoding::HEXLOWER.encode_mut(self.id(), digits);
        f.write_str(std::str::from_utf8(digits).unwrap_or_default())
    }
}

impl FromStr for IdBytes {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        Self::from_digits(text)
            .ok_or_else(|| Malformed::new("id", text, "expected 32 or 64 lower-case hexadecimal digits"))
    }
}

impl fmt::Debug for IdBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

as_text!(IdBytes);

macro_rules! shown {
    ($name:ident) => {
        as_text!($name);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.stored(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The id with these 16 bytes. The bytes are random for a new resource.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                $name(bytes)
            }
            /// The 16 bytes.
            pub const fn bytes(&self) -> &[u8; 16] {
                &self.0
            }
            /// The stored form of the id.
            pub const fn stored(&self) -> IdBytes {
                IdBytes::new(self.0)
            }
        }

        impl Id for $name {
            fn from_stored(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map($name)
            }
            fn stored(&self) -> IdBytes {
                self.stored()
            }
        }

        shown!($name);

        impl FromStr for $name {
            type Err = Malformed;
            fn from_str(text: &str) -> Result<Self, Malformed> {
                from_lower_hex(text)
                    .filter(|id| *id != LONG)
                    .map($name)
                    .ok_or_else(|| Malformed::new($what, text, "expected 32 lower-case hexadecimal digits"))
            }
        }
    )*};
}

ids! {
    /// A domain; its name is a realm.
    DomainId = "domain id",
    /// An API token.
    CredentialId = "credential id",
    /// A project.
    ProjectId = "project id",
    /// One of Keystone's roles.
    RoleId = "role id",
    /// A service of the catalog.
    ServiceId = "service id",
    /// An endpoint of the catalog.
    EndpointId = "endpoint id",
    /// A trust.
    TrustId = "trust id",
    /// A registered limit.
    RegisteredLimitId = "registered limit id",
    /// A limit of a project or domain.
    LimitId = "limit id",
    /// A policy of a service.
    PolicyId = "policy id",
    /// A group of endpoints.
    EndpointGroupId = "endpoint group id",
    /// An OAuth 1.0a consumer.
    ConsumerId = "consumer id",
    /// An OAuth 1.0a request token.
    RequestTokenId = "request token id",
    /// An OAuth 1.0a access token.
    AccessTokenId = "access token id",
    /// An access rule of a user.
    AccessRuleId = "access rule id",
}

macro_rules! long_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal),* $(,)?) => {$(
        $(#[$doc])*
        ///
        /// An id has 16 bytes, or the 32 bytes that Keystone gives the users and groups of an LDAP directory.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(IdBytes);

        impl $name {
            /// The id with these 16 bytes. The bytes are random for a new resource.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                $name(IdBytes::new(bytes))
            }
            /// The id with these 32 bytes.
            pub const fn from_long(bytes: [u8; 32]) -> Self {
                $name(IdBytes::long(bytes))
            }
            /// Whether the id has 32 bytes.
            pub const fn is_long(&self) -> bool {
                self.0.length > 16
            }
            /// The stored form of the id, as bytes.
            pub fn bytes(&self) -> &[u8] {
                self.0.as_slice()
            }
            /// The stored form of the id.
            pub const fn stored(&self) -> IdBytes {
                self.0
            }
            /// Reads a stored form.
            pub fn read(from: &mut Reader<'_>) -> Option<Self> {
                IdBytes::read(from).map($name)
            }
        }

        impl From<IdBytes> for $name {
            fn from(stored: IdBytes) -> Self {
                $name(stored)
            }
        }

        impl Id for $name {
            fn from_stored(bytes: &[u8]) -> Option<Self> {
                IdBytes::split(bytes).filter(|(_, rest)| rest.is_empty()).map(|(id, _)| $name(id))
            }
            fn stored(&self) -> IdBytes {
                self.0
            }
        }

        shown!($name);

        impl FromStr for $name {
            type Err = Malformed;
            fn from_str(text: &str) -> Result<Self, Malformed> {
                IdBytes::from_digits(text)
                    .map($name)
                    .ok_or_else(|| Malformed::new($what, text, "expected 32 or 64 lower-case hexadecimal digits"))
            }
        }
    )*};
}

long_ids! {
    /// A user.
    UserId = "user id",
    /// A group.
    GroupId = "group id",
}

impl DomainId {
    /// The domain with the id `default` in Keystone's API.
    pub const DEFAULT: DomainId = DomainId(*b"default\0\0\0\0\0\0\0\0\0");

    /// The id as Keystone's clients write it.
    pub fn to_keystone(&self) -> String {
        if *self == Self::DEFAULT { "default".to_owned() } else { self.to_string() }
    }

    /// Reads an id as Keystone's clients write it.
    ///
    /// # Errors
    /// When the text is neither `default` nor 32 lower-case hexadecimal digits, or if all digits are `f`.
    pub fn from_keystone(text: &str) -> Result<Self, Malformed> {
        if text == "default" { Ok(Self::DEFAULT) } else { text.parse() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ids() -> impl Strategy<Value = UserId> {
        let short = any::<[u8; 16]>().prop_filter("reserved", |id| *id != LONG).prop_map(UserId::from_bytes);
        prop_oneof![short, any::<[u8; 32]>().prop_map(UserId::from_long)]
    }

    proptest! {
        #[test]
        fn ids_are_read_back_and_no_stored_form_begins_another(one in ids(), other in ids(), rest: Vec<u8>) {
            prop_assert_eq!(one.to_string().parse::<UserId>().unwrap(), one);
            prop_assert_eq!(UserId::from_stored(one.bytes()), Some(one));
            let stored = [one.bytes(), &rest].concat();
            let mut from = Reader::new(&stored);
            prop_assert_eq!(UserId::read(&mut from), Some(one));
            prop_assert_eq!(from.rest(), rest.as_slice());
            prop_assert_eq!(one.bytes().starts_with(other.bytes()), one == other);
            prop_assert_eq!(one.cmp(&other), one.bytes().cmp(other.bytes()));
        }
    }

    #[test]
    fn texts_of_other_lengths_are_no_ids() {
        for digits in [0, 15, 17, 31, 33] {
            assert!("ab".repeat(digits).parse::<GroupId>().is_err(), "{digits}");
        }
        for wrong in ["ff".repeat(16), "AB".repeat(32), "ab".repeat(32) + " "] {
            assert!(wrong.parse::<UserId>().is_err(), "{wrong}");
        }
        assert!("ff".repeat(16).parse::<DomainId>().is_err());
        assert!("ff".repeat(32).parse::<UserId>().is_ok());
        assert!("ab".repeat(32).parse::<ProjectId>().is_err());
        assert_eq!(UserId::from_stored(&LONG), None);
    }
}
