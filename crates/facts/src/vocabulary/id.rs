//! Ids, by which records refer to each other. If a resource is deleted and a new one is created with the same name, the new resource has a different
//! id.

use super::{Malformed, as_text, from_lower_hex};
use std::fmt;
use std::str::FromStr;

/// An id of 16 bytes.
pub trait Id: Sized {
    /// The id of these bytes.
    fn from_array(bytes: [u8; 16]) -> Self;
    /// The bytes of the id.
    fn as_bytes(&self) -> &[u8; 16];
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// From 16 bytes, which are random for a new resource.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                $name(bytes)
            }
            /// The 16 bytes.
            pub const fn bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl Id for $name {
            fn from_array(bytes: [u8; 16]) -> Self {
                $name(bytes)
            }
            fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        as_text!($name);

        impl $name {
            /// The id as hexadecimal digits, without an allocation, because an answer contains many ids.
            pub fn to_digits(&self) -> [u8; 32] {
                let mut digits = [0; 32];
                data_encoding::HEXLOWER.encode_mut(&self.0, &mut digits);
                digits
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(std::str::from_utf8(&self.to_digits()).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Malformed;
            fn from_str(text: &str) -> Result<Self, Malformed> {
                from_lower_hex(text)
                    .map($name)
                    .ok_or_else(|| Malformed::new($what, text, "expected 32 lower-case hexadecimal digits"))
            }
        }
    )*};
}

ids! {
    /// A domain; its name is a realm.
    DomainId = "domain id",
    /// A user.
    UserId = "user id",
    /// A group.
    GroupId = "group id",
    /// A credential.
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

impl DomainId {
    /// The one domain whose id Keystone and its clients call `default`.
    pub const DEFAULT: DomainId = DomainId(*b"default\0\0\0\0\0\0\0\0\0");

    /// The id as Keystone's clients write it.
    pub fn to_keystone(&self) -> String {
        if *self == Self::DEFAULT { "default".to_owned() } else { self.to_string() }
    }

    /// Reads an id as Keystone's clients write it.
    ///
    /// # Errors
    /// When the text is neither `default` nor 32 hexadecimal digits.
    pub fn from_keystone(text: &str) -> Result<Self, Malformed> {
        if text == "default" { Ok(Self::DEFAULT) } else { text.parse() }
    }
}
