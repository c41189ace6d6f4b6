//! Roles: named sets of rights, assigned on paths. Door 4 (the access decision) decides which rights a role grants.

use super::Malformed;
use std::fmt;
use std::str::FromStr;

/// A role, by its name in `acl.cfg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// Every right. The ACLs of files do not limit it.
    Admin = 1,
    /// No rights. This role overrides every other role on the same path.
    NoAccess = 2,
    /// Every right in a datastore. The ACLs of files do not limit it.
    DatastoreAdmin = 3,
    /// Read.
    DatastoreReader = 4,
    /// Read and create.
    DatastoreBackup = 5,
    /// Read, create, write and delete.
    DatastorePowerUser = 6,
    /// See that the datastore exists, and see its state, but not its content.
    DatastoreAudit = 7,
    /// See the state of everything.
    Audit = 8,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    RemoteAudit = 9,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    RemoteAdmin = 10,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    RemoteSyncOperator = 11,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    RemoteSyncPushOperator = 12,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    RemoteDatastorePowerUser = 13,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    RemoteDatastoreAdmin = 14,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    TapeAudit = 15,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    TapeAdmin = 16,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    TapeOperator = 17,
    /// A role of Proxmox Backup Server. This server stores the role, but no request needs its privileges.
    TapeReader = 18,
    /// Requests of the method class `read` to an application.
    ApplicationReader = 19,
    /// Requests of the method classes `read` and `write` to an application.
    ApplicationUser = 20,
    /// Every request to an application, also to its paths for administrators.
    ApplicationAdmin = 21,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 21] = [
        Role::Admin,
        Role::NoAccess,
        Role::DatastoreAdmin,
        Role::DatastoreReader,
        Role::DatastoreBackup,
        Role::DatastorePowerUser,
        Role::DatastoreAudit,
        Role::Audit,
        Role::RemoteAudit,
        Role::RemoteAdmin,
        Role::RemoteSyncOperator,
        Role::RemoteSyncPushOperator,
        Role::RemoteDatastorePowerUser,
        Role::RemoteDatastoreAdmin,
        Role::TapeAudit,
        Role::TapeAdmin,
        Role::TapeOperator,
        Role::TapeReader,
        Role::ApplicationReader,
        Role::ApplicationUser,
        Role::ApplicationAdmin,
    ];

    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Admin => "Admin",
            Role::NoAccess => "NoAccess",
            Role::DatastoreAdmin => "DatastoreAdmin",
            Role::DatastoreReader => "DatastoreReader",
            Role::DatastoreBackup => "DatastoreBackup",
            Role::DatastorePowerUser => "DatastorePowerUser",
            Role::DatastoreAudit => "DatastoreAudit",
            Role::Audit => "Audit",
            Role::RemoteAudit => "RemoteAudit",
            Role::RemoteAdmin => "RemoteAdmin",
            Role::RemoteSyncOperator => "RemoteSyncOperator",
            Role::RemoteSyncPushOperator => "RemoteSyncPushOperator",
            Role::RemoteDatastorePowerUser => "RemoteDatastorePowerUser",
            Role::RemoteDatastoreAdmin => "RemoteDatastoreAdmin",
            Role::TapeAudit => "TapeAudit",
            Role::TapeAdmin => "TapeAdmin",
            Role::TapeOperator => "TapeOperator",
            Role::TapeReader => "TapeReader",
            Role::ApplicationReader => "ApplicationReader",
            Role::ApplicationUser => "ApplicationUser",
            Role::ApplicationAdmin => "ApplicationAdmin",
        }
    }

    /// Whether the role has an effect on access to datastores. The roles for applications have no such effect. The roles for remotes and tapes have
    /// none either, because this server only stores them.
    pub fn speaks_of_datastores(self) -> bool {
        self as u8 <= Role::Audit as u8
    }

    /// Whether the role counts only for applications.
    pub fn is_for_applications(self) -> bool {
        matches!(self, Role::ApplicationReader | Role::ApplicationUser | Role::ApplicationAdmin)
    }

    /// The role with this number in a record.
    pub fn from_number(number: u8) -> Option<Self> {
        Role::ALL.into_iter().find(|role| *role as u8 == number)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Role {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        Role::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| {
            Malformed::new(
                "role",
                text,
                "expected Admin, Audit, NoAccess, DatastoreAdmin, DatastoreReader, DatastoreBackup, DatastorePowerUser, DatastoreAudit, ApplicationReader, ApplicationUser, ApplicationAdmin, or one of Proxmox Backup Server's roles for remotes and tapes",
            )
        })
    }
}
