//! The tables: what each is keyed by and what its records hold.
//!
//! Things are referred to by id. The names of domains, users, groups and tokens are records of their own ([`Name`]),
//! so a name that is deleted and made again is another thing and inherits nothing.

mod assignments;
mod blobs;
mod catalog;
mod credentials;
mod datastores;
mod endings;
mod extras;
mod files;
mod grant_key;
mod grants;
mod identities;
mod leaving;
mod log;
mod memberships;
mod names;
mod parties;
mod projects;
mod reverse;
mod revocations;
mod sids;
mod taking;
mod trusts;

pub use assignments::{Assignment, AssignmentKey};
pub use blobs::{Blob, BlobId, Ec2Key};
pub use catalog::{Endpoint, Interface, Region, RegionId, Service};
pub use credentials::{Credential, Previous, Verifier};
pub use datastores::{AccessRules, Datastore, DatastoreProfile};
pub use endings::{ENDINGS, Ends};
pub use extras::{Extra, ExtraKey, ResourceKind};
pub use files::{FileFault, FileName, FileVersion, Mirrored, MirroredFile};
pub use grant_key::{GrantKey, GrantScope, Grantee};
pub use grants::{Grant, NamedRole};
pub use identities::{Domain, Group, Password, User};
pub use leaving::{Leaving, LeavingKey};
pub use log::{Keys, LogEntry, LogPiece, PieceKey, Written};
pub use memberships::{Membership, MembershipKey};
pub use names::{Name, NameKey, NameKind};
pub use parties::{Member, Who};
pub use projects::{AccessRule, Binding, Delegation, Profile, Project};
pub use reverse::{Reverse, ReverseKey};
pub use revocations::{Revocation, Revoked};
pub use sids::{SidSpace, SidSpaceKey};
pub use taking::{keeps_out, only_takes};
pub use trusts::Trust;

pub use crate::table::Table;

use crate::codec::{Reader, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Table {
    /// The group a record is counted in: the records one question reads together. A record that is only ever asked for
    /// by its whole key is a group of its own.
    pub fn group(self, key: &[u8]) -> &[u8] {
        let end = match self {
            Table::Memberships => MembershipKey::GROUP_BYTES,
            Table::Assignments => AssignmentKey::group_bytes(key),
            Table::Grants => GrantKey::GROUP_BYTES,
            Table::Reverse => ReverseKey::group_bytes(key),
            _ => key.len(),
        };
        key.get(..end).unwrap_or(key)
    }
}

/// A record of a table.
pub trait Row: Sized {
    /// Its table.
    const TABLE: Table;
    /// What it is found by.
    type Key: Key;
    /// Writes the value.
    fn encode(&self, to: &mut Writer);
    /// Reads the value back; `None` when it has not that form.
    fn decode(from: &mut Reader<'_>) -> Option<Self>;
    /// Puts a word that no secret matches in the place of every hash of a secret; says whether there was one.
    fn redact(&mut self) -> bool {
        false
    }

    /// What finds it by its other end, where its key holds both.
    fn reverse(_: &Self::Key) -> Option<ReverseKey> {
        None
    }

    /// The record comes from a dump; whether it agrees with anything outside of the facts is unknown.
    fn arrive(&mut self) {}
}

/// Replaces a hash in a dump. It is no hash, so no secret matches it when the dump is loaded.
pub const REDACTED: &str = "redacted";

/// A record that holds a fact, in a form that can be dumped.
pub trait Fact: Row + Serialize + DeserializeOwned {}

/// Something that is done with the row type of whichever table.
pub trait RowVisitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn with<R: Fact>(self) -> Self::Output
    where
        R::Key: Serialize + DeserializeOwned;
}

macro_rules! facts {
    ($($row:ident),*) => {
        $(impl Fact for $row {})*

        impl Table {
            /// Does something with the row type of this table; `None` for a table that holds no facts.
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
    Blob
);

/// What a record is found by.
pub trait Key: Sized {
    /// The key as stored.
    fn bytes(&self) -> Vec<u8>;
    /// Reads it back; `None` when it has not that form.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

macro_rules! id_key {
    ($($id:ident),*) => {$(
        impl Key for crate::vocabulary::$id {
            fn bytes(&self) -> Vec<u8> {
                self.bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_bytes)
            }
        }
    )*};
}
id_key!(DomainId, UserId, GroupId, CredentialId, ProjectId, RoleId, ServiceId, EndpointId, TrustId);
