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
mod grants;
mod identities;
mod leaving;
mod log;
mod memberships;
mod names;
mod projects;
mod reverse;
mod revocations;
mod sids;
mod taking;
mod trusts;

pub use assignments::{Assignment, AssignmentKey, Who};
pub use blobs::{Blob, BlobId, Ec2Key};
pub use catalog::{Endpoint, Interface, Region, RegionId, Service};
pub use credentials::{Credential, Previous, Verifier};
pub use datastores::{AccessRules, Datastore, DatastoreProfile};
pub use endings::{ENDINGS, Ends};
pub use extras::{Extra, ExtraKey, ThingKind};
pub use files::{FileFault, FileName, FileVersion, Kept, KeptFile};
pub use grants::{Grant, GrantKey, GrantScope, Grantee, NamedRole};
pub use identities::{Domain, Group, Password, User};
pub use leaving::{Leaving, LeavingKey};
pub use log::{Keys, LogEntry, LogPiece, PieceKey, Written};
pub use memberships::{Member, Membership, MembershipKey};
pub use names::{Name, NameKey, NameKind};
pub use projects::{AccessRule, Binding, Delegation, Profile, Project};
pub use reverse::{Reverse, ReverseKey};
pub use revocations::{Revocation, Revoked};
pub use sids::{SidSpace, SidSpaceKey};
pub use taking::{keeps_out, only_takes};
pub use trusts::Trust;

use crate::codec::{Reader, Writer};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A table of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// What belongs to the store as a whole.
    Meta = 0,
    /// Names to ids.
    Names = 1,
    /// Domains.
    Domains = 2,
    /// Users.
    Users = 3,
    /// Groups.
    Groups = 4,
    /// Who is in which group.
    Memberships = 5,
    /// Roles on paths.
    Assignments = 6,
    /// API tokens.
    Credentials = 7,
    /// Datastores, mirrored from `datastore.cfg`.
    Datastores = 8,
    /// What was changed, by whom: the change log.
    Log = 9,
    /// How many records there are, and a digest of them: of each group, and of each table.
    Tallies = 10,
    /// Which revision the store is at, in its own words.
    Head = 11,
    /// Files people edit, and how the facts stand to them.
    Files = 12,
    /// Projects.
    Projects = 13,
    /// Which project a datastore is bound to.
    Bindings = 14,
    /// What makes a token an application credential.
    Delegations = 15,
    /// What Keystone knows of a user and `user.cfg` does not.
    Profiles = 16,
    /// Roles of Keystone's kind.
    Roles = 17,
    /// Who has which of them on what.
    Grants = 18,
    /// What was revoked, and since when.
    Revocations = 19,
    /// Services of the catalog.
    Services = 20,
    /// Where they are.
    Endpoints = 21,
    /// Regions they are in.
    Regions = 22,
    /// What users let others do on their behalf.
    Trusts = 23,
    /// What is known of datastores and `datastore.cfg` does not say.
    DatastoreProfiles = 24,
    /// What is found by the one end, found by the other.
    Reverse = 25,
    /// What clients keep beside a thing.
    Extras = 26,
    /// What was removed and is not wholly gone yet.
    Leaving = 27,
    /// What services keep for users.
    Blobs = 28,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 29] = [
        Table::Meta,
        Table::Names,
        Table::Domains,
        Table::Users,
        Table::Groups,
        Table::Memberships,
        Table::Assignments,
        Table::Credentials,
        Table::Datastores,
        Table::Log,
        Table::Tallies,
        Table::Head,
        Table::Files,
        Table::Projects,
        Table::Bindings,
        Table::Delegations,
        Table::Profiles,
        Table::Roles,
        Table::Grants,
        Table::Revocations,
        Table::Services,
        Table::Endpoints,
        Table::Regions,
        Table::Trusts,
        Table::DatastoreProfiles,
        Table::Reverse,
        Table::Extras,
        Table::Leaving,
        Table::Blobs,
    ];

    /// The tables that hold facts; the others are kept by every commit beside them.
    pub fn of_facts() -> impl Iterator<Item = Table> {
        Self::ALL.into_iter().filter(|table| table.holds_facts())
    }

    /// Whether changes write to it, and its records are counted.
    pub fn holds_facts(self) -> bool {
        !matches!(self, Table::Log | Table::Tallies | Table::Head)
    }

    /// The table's name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Names => "names",
            Table::Domains => "domains",
            Table::Users => "users",
            Table::Groups => "groups",
            Table::Memberships => "memberships",
            Table::Assignments => "assignments",
            Table::Credentials => "credentials",
            Table::Datastores => "datastores",
            Table::Log => "log",
            Table::Tallies => "tallies",
            Table::Head => "head",
            Table::Files => "files",
            Table::Projects => "projects",
            Table::Bindings => "bindings",
            Table::Delegations => "delegations",
            Table::Profiles => "profiles",
            Table::Roles => "roles",
            Table::Grants => "grants",
            Table::Revocations => "revocations",
            Table::Services => "services",
            Table::Endpoints => "endpoints",
            Table::Regions => "regions",
            Table::Trusts => "trusts",
            Table::DatastoreProfiles => "datastore-profiles",
            Table::Reverse => "reverse",
            Table::Extras => "extras",
            Table::Leaving => "leaving",
            Table::Blobs => "blobs",
        }
    }

    /// The table of this name.
    pub fn named(name: &str) -> Option<Table> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

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

    /// It comes from a dump, and whether it goes together with anything outside of the facts nobody knows.
    fn arrive(&mut self) {}
}

/// What stands in a dump where a hash was: no hash of anything, so it lets nobody in when it is loaded.
pub const REDACTED: &str = "redacted";

/// A record that holds a fact, in a form that can be dumped.
pub trait Fact: Row + Serialize + DeserializeOwned {}

/// Something that is done with the row type of whichever table.
pub trait Visit {
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
            pub fn visit<V: Visit>(self, visitor: V) -> Option<V::Output> {
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
    KeptFile,
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
