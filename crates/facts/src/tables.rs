//! The tables: what each is keyed by and what its records hold.
//!
//! Things are referred to by id. The names of domains, users, groups and tokens are records of their own ([`Name`]),
//! so a name that is deleted and made again is another thing and inherits nothing.

mod assignments;
mod credentials;
mod datastores;
mod identities;
mod memberships;
mod names;
mod sids;

pub use assignments::{Assignment, AssignmentKey, Who};
pub use credentials::{Credential, Verifier};
pub use datastores::{Datastore, SectionFault};
pub use identities::{Domain, Group, User};
pub use memberships::{Member, Membership, MembershipKey};
pub use names::{Name, NameKey, NameKind};
pub use sids::{SidSpace, SidSpaceKey};

use crate::codec::{Reader, Writer};

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
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 9] = [
        Table::Meta,
        Table::Names,
        Table::Domains,
        Table::Users,
        Table::Groups,
        Table::Memberships,
        Table::Assignments,
        Table::Credentials,
        Table::Datastores,
    ];

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
        }
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
}

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
id_key!(DomainId, UserId, GroupId, CredentialId);
