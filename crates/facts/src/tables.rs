//! The tables, with the keys and the records of each table.
//!
//! Records refer to each other by id. The names of domains, users, groups, tokens, projects and Keystone's roles are separate records ([`Name`]). So
//! if a name is deleted and created again, the new name refers to a new resource. The new resource inherits nothing from the old resource.

mod access_rules;
mod activities;
mod applications;
mod assignments;
mod blobs;
mod browser_sessions;
mod catalog;
mod credentials;
mod datastores;
mod domain_configs;
mod endings;
mod endpoint_filter_key;
mod endpoint_filters;
mod extras;
mod federation;
mod files;
mod grant_key;
mod grants;
mod identities;
mod leaving;
mod links;
mod log;
mod memberships;
mod names;
mod oauth;
mod parties;
mod passcodes;
mod policies;
mod projects;
mod reverse;
mod revocations;
mod second_factors;
mod sids;
mod taking;
mod trusts;
mod unified_limits;

pub use access_rules::{AccessRule, AccessRuleKey};
pub use activities::Activity;
pub use applications::{Application, ApplicationHost, CountsIfBoth, CredentialKind};
pub use assignments::{Assignment, AssignmentKey};
pub use blobs::{Blob, BlobId, Ec2Key};
pub use browser_sessions::{Audience, BrowserProof, BrowserSession, BrowserSessionId, CONSOLE, SecretDigest};
pub use catalog::{Endpoint, Interface, Region, RegionId, Service};
pub use credentials::{Credential, Previous, Verifier};
pub use datastores::{AccessRules, Datastore, DatastoreProfile, HomeMembers};
pub use domain_configs::{ConfigOption, DomainConfig};
pub use endings::{ENDINGS, Ends};
pub use endpoint_filter_key::{EndpointFilterKey, Selected};
pub use endpoint_filters::{EndpointFilter, EndpointGroup, GroupFilters, GroupRegion};
pub use extras::{Extra, ExtraKey, ResourceKind};
pub use federation::{
    IdentityProvider, IdentityProviderId, Mapping, MappingId, Protocol, ProtocolKey, RemoteId, RemoteIdOwner,
    ServiceProvider, ServiceProviderId,
};
pub use files::{FileFault, FileName, FileVersion, Mirrored, MirroredFile};
pub use grant_key::{GrantKey, GrantScope, Grantee};
pub use grants::{Grant, NamedRole};
pub use identities::{Domain, Group, Password, User};
pub use leaving::{Leaving, LeavingKey};
pub use links::{Link, LinkPlace, LinkRights};
pub use log::{Keys, LogEntry, LogPiece, PieceKey, Written};
pub use memberships::{Membership, MembershipKey};
pub use names::{Name, NameKey, NameKind, called};
pub use oauth::{AccessToken, Approval, Consumer, RequestToken, SharedSecret};
pub use parties::{Member, Who};
pub use passcodes::UsedPasscode;
pub use policies::{Policy, PolicyAssociation, PolicyTarget};
pub use projects::{Binding, Delegation, Profile, Project};
pub use reverse::{Reverse, ReverseKey};
pub use revocations::{Revocation, Revoked};
pub use second_factors::{AnsweredChallenge, Octets, Passkey, SealedSecret, SecondFactor};
pub use sids::{KnownKey, SidSpace, SidSpaceKey};
pub use taking::{keeps_out, only_takes};
pub use trusts::Trust;
pub use unified_limits::{Limit, LimitOwner, RegisteredLimit};

pub use crate::table::Table;

use crate::codec::{Reader, Writer};
use crate::vocabulary::Id;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Table {
    /// The key prefix of the group in which the record with this key is counted. A group contains the records that one lookup reads together. If a
    /// record is only looked up by its whole key, its group contains no other record.
    pub fn group(self, key: &[u8]) -> &[u8] {
        let end = match self {
            Table::Memberships => MembershipKey::group_bytes(key),
            Table::Assignments => AssignmentKey::group_bytes(key),
            Table::Grants => GrantKey::group_bytes(key),
            Table::Reverse => ReverseKey::group_bytes(key),
            _ => key.len(),
        };
        key.get(..end).unwrap_or(key)
    }
}

/// The length of the prefix of `key` that `read` reads; the length of the whole key if the prefix does not have the expected form.
fn prefix_bytes<T>(key: &[u8], read: impl FnOnce(&mut Reader<'_>) -> Option<T>) -> usize {
    let mut from = Reader::new(key);
    read(&mut from).map_or(key.len(), |_| key.len() - from.rest().len())
}

/// A record of a table.
pub trait Row: Sized {
    /// The table of the records.
    const TABLE: Table;
    /// The type of the keys.
    type Key: Key;
    /// Writes the value.
    fn encode(&self, to: &mut Writer);
    /// Reads the value back; `None` if the bytes do not have the form of this record.
    fn decode(from: &mut Reader<'_>) -> Option<Self>;
    /// Replaces every secret and every hash of a secret with [`REDACTED`]; returns whether the record has a secret.
    fn redact(&mut self) -> bool {
        false
    }

    /// Returns the key under which [`Table::Reverse`] lists this record for lookups by the second part of the record's key, for example the group of
    /// a membership. `None` if no lookup uses the second part.
    fn reverse(_: &Self::Key) -> Option<ReverseKey> {
        None
    }

    /// Completes the key of a record from a dump. If a key contains a digest, a dump does not contain the digest, because it can be computed from the
    /// record.
    fn complete(&self, key: Self::Key) -> Self::Key {
        key
    }

    /// Called for a record from a dump. Clears the fields that describe the state of a file, because the file may have changed since the dump.
    fn arrive(&mut self) {}
}

/// The word that replaces a secret or a hash in a dump. It is not a valid hash, so no secret matches it when the dump is loaded.
pub const REDACTED: &str = "redacted";

/// The type of the records of a table that holds facts. These records can be written to a dump and read from a dump.
pub trait Fact: Row + Serialize + DeserializeOwned {}

/// A function that is generic over the row type of a table.
pub trait RowVisitor {
    /// The result of the function.
    type Output;
    /// Calls the function with a row type.
    fn with<R: Fact>(self) -> Self::Output
    where
        R::Key: Serialize + DeserializeOwned;
}

macro_rules! facts {
    ($($row:ident),*) => {
        $(impl Fact for $row {})*

        impl Table {
            /// Calls the visitor with the row type of this table; `None` for a table that holds no facts.
            pub fn visit<V: RowVisitor>(self, visitor: V) -> Option<V::Output> {
                $(if self == $row::TABLE {
                    return Some(visitor.with::<$row>());
                })*
                None
            }
        }
    };
}
facts!(
    SidSpace,
    Name,
    Domain,
    User,
    Group,
    Membership,
    Assignment,
    Credential,
    Datastore,
    MirroredFile,
    Project,
    Binding,
    Delegation,
    Profile,
    NamedRole,
    Grant,
    Revocation,
    Service,
    Endpoint,
    Region,
    Trust,
    DatastoreProfile,
    Reverse,
    Extra,
    Leaving,
    Blob,
    RegisteredLimit,
    Limit,
    Policy,
    PolicyAssociation,
    EndpointGroup,
    EndpointFilter,
    DomainConfig,
    Consumer,
    RequestToken,
    AccessToken,
    IdentityProvider,
    RemoteIdOwner,
    Protocol,
    Mapping,
    ServiceProvider,
    Activity,
    UsedPasscode,
    AccessRule,
    Application,
    ApplicationHost,
    BrowserSession,
    SecondFactor
);

/// The key of a record.
pub trait Key: Sized {
    /// The key as stored.
    fn bytes(&self) -> Vec<u8>;
    /// Reads a stored key; `None` if the bytes do not have the form of this key.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl<I: Id> Key for I {
    fn bytes(&self) -> Vec<u8> {
        self.stored().as_slice().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_stored(bytes)
    }
}
