//! The types of the values in facts. Each value is checked when it is made, so other code need not check it again.

mod acl_dialect;
mod acl_path;
mod authid;
mod csv_field;
mod date;
mod escapes;
mod host_name;
mod id;
mod maintenance;
mod mask;
mod privilege;
mod request_id;
mod role;
mod safe_name;
mod secret;
mod shell_word;
mod sid;
mod store_path;
mod unseen;

pub use acl_dialect::AclDialect;
pub use acl_path::RolePath;
pub use authid::{Authid, GroupName, NameInDomain, Realm, TokenName, Ugid, Userid, word_of_id};
pub use csv_field::csv_field;
pub use date::{
    LAST_SECOND, MICROS_PER_SECOND, date_of, days_of, from_rfc3339, micros_from_rfc3339, to_rfc3339,
};
pub use escapes::{from_hex, from_lower_hex, percent_decoded, percent_decoded_leniently, to_hex};
pub use host_name::HostName;
pub(crate) use id::LONG;
pub use id::{
    AccessRuleId, AccessTokenId, ConsumerId, CredentialId, DomainId, EndpointGroupId, EndpointId, GroupId,
    Id, IdBytes, LimitId, PolicyId, ProjectId, RegisteredLimitId, RequestTokenId, RoleId, ServiceId, TrustId,
    UserId,
};
pub use maintenance::{Maintenance, MaintenanceMode, OperationKind};
pub use mask::AccessMask;
pub use privilege::Privileges;
pub use request_id::RequestId;
pub use role::Role;
pub use safe_name::{ApplicationName, DatastoreName};
pub use secret::Secret;
pub use shell_word::shell_word;
pub use sid::Sid;
pub use store_path::{PathRefused, StorePath, check_entry_name};
pub use unseen::{excerpt, is_unseen, shortened, visible, visible_lines};

/// A text. A text of up to 23 bytes needs no allocation.
pub type Word = smol_str::SmolStr;

/// A text that does not have the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{text}`: {expected}")]
pub struct Malformed {
    /// The kind of text that was expected, such as "user id".
    pub what: &'static str,
    /// The beginning of the text, printable ([`excerpt`]).
    pub text: String,
    /// The expected form.
    pub expected: &'static str,
}

impl Malformed {
    /// An error about `text`.
    pub fn new(what: &'static str, text: &str, expected: &'static str) -> Self {
        Malformed { what, text: excerpt(text), expected }
    }
}

/// In a dump, values of these types have the same text form as on the command line.
macro_rules! as_text {
    ($($word:ident),*) => {$(
        impl serde::Serialize for $word {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $word {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
use as_text;
as_text!(
    Realm,
    TokenName,
    Ugid,
    RolePath,
    Role,
    Sid,
    DatastoreName,
    ApplicationName,
    HostName,
    StorePath,
    AclDialect
);

/// Proxmox's `SAFE_ID`: letters, digits, underscores, dots and dashes. The first character is not a dot or a dash.
fn is_safe_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    starts && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
