//! Privileges: the administrative rights that roles grant. The names and the order of the privileges are the same as in Proxmox (pbs-api-types,
//! `acl.rs`).

use super::Role;
use std::ops::{BitAnd, BitOr};

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Privileges(u32);

/// Every privilege, in the order of the bits, beginning with the lowest bit.
const NAMES: [&str; 23] = [
    "Sys.Audit",
    "Sys.Modify",
    "Sys.PowerManagement",
    "Datastore.Audit",
    "Datastore.Allocate",
    "Datastore.Modify",
    "Datastore.Read",
    "Datastore.Verify",
    "Datastore.Backup",
    "Datastore.Prune",
    "Permissions.Modify",
    "Remote.Audit",
    "Remote.Modify",
    "Remote.Read",
    "Remote.DatastoreBackup",
    "Remote.DatastoreModify",
    "Remote.DatastorePrune",
    "Sys.Console",
    "Tape.Audit",
    "Tape.Modify",
    "Tape.Write",
    "Tape.Read",
    "Realm.Allocate",
];

impl Privileges {
    /// No privilege.
    pub const NONE: Self = Self(0);
    /// See the state and the settings of the server.
    pub const SYS_AUDIT: Self = Self(1);
    /// Change the settings of the server.
    pub const SYS_MODIFY: Self = Self(1 << 1);
    /// See that a datastore exists, and see its state.
    pub const DATASTORE_AUDIT: Self = Self(1 << 3);
    /// Make and remove datastores.
    pub const DATASTORE_ALLOCATE: Self = Self(1 << 4);
    /// Change a datastore's properties.
    pub const DATASTORE_MODIFY: Self = Self(1 << 5);
    /// Store new content in a datastore.
    pub const DATASTORE_BACKUP: Self = Self(1 << 8);
    /// Change users, tokens and roles.
    pub const PERMISSIONS_MODIFY: Self = Self(1 << 10);
    /// Every privilege.
    pub const ALL: Self = Self((1 << 23) - 1);

    /// Whether this set contains all of `others`.
    pub fn covers(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// The names of the privileges.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 & 1 << bit != 0).map(|(_, name)| name)
    }
}

impl BitOr for Privileges {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Privileges(self.0 | other.0)
    }
}

impl BitAnd for Privileges {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Privileges(self.0 & other.0)
    }
}

impl Role {
    /// The privileges that the role gives on its path.
    pub fn privileges(self) -> Privileges {
        let bits = |bits: &[u32]| Privileges(bits.iter().fold(0, |set, bit| set | 1 << bit));
        match self {
            Role::Admin => Privileges::ALL,
            Role::NoAccess => Privileges::NONE,
            Role::Audit => bits(&[0, 3]),
            Role::DatastoreAdmin => bits(&[3, 5, 6, 7, 8, 9]),
            Role::DatastoreReader => bits(&[3, 6, 7]),
            Role::DatastoreBackup => bits(&[8]),
            Role::DatastorePowerUser => bits(&[8, 9]),
            Role::DatastoreAudit => bits(&[3]),
            Role::RemoteAudit => bits(&[11]),
            Role::RemoteAdmin => bits(&[11, 12, 13]),
            Role::RemoteSyncOperator => bits(&[11, 13]),
            Role::RemoteSyncPushOperator => bits(&[11, 14]),
            Role::RemoteDatastorePowerUser => bits(&[11, 14, 16]),
            Role::RemoteDatastoreAdmin => bits(&[11, 14, 15, 16]),
            Role::TapeAudit => bits(&[18]),
            Role::TapeAdmin => bits(&[18, 19, 20, 21]),
            Role::TapeOperator => bits(&[18, 20, 21]),
            Role::TapeReader => bits(&[18, 21]),
            // All privileges come from Proxmox, which has no applications. So these roles grant no privileges.
            Role::ApplicationReader | Role::ApplicationUser | Role::ApplicationAdmin => Privileges::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_of_roles_as_the_original_has_them() {
        let names = |role: Role| role.privileges().names().collect::<Vec<_>>().join(" ");
        assert_eq!(names(Role::Audit), "Sys.Audit Datastore.Audit");
        assert_eq!(names(Role::DatastoreReader), "Datastore.Audit Datastore.Read Datastore.Verify");
        assert_eq!(names(Role::DatastorePowerUser), "Datastore.Backup Datastore.Prune");
        assert_eq!(names(Role::TapeReader), "Tape.Audit Tape.Read");
        assert_eq!(names(Role::NoAccess), "");
        assert_eq!(Role::Admin.privileges().names().count(), 23);
        assert!(Privileges::ALL.covers(Privileges::PERMISSIONS_MODIFY | Privileges::SYS_AUDIT));
        assert_eq!(Privileges::PERMISSIONS_MODIFY.names().collect::<Vec<_>>(), ["Permissions.Modify"]);
    }
}
