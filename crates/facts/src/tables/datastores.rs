//! Datastores, mirrored from `datastore.cfg`. A datastore is identified by its name, because the file has no ids.

use super::{FileFault, Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::{AccessMask, AclDialect, DatastoreName, Maintenance, MaintenanceMode};
use serde::{Deserialize, Serialize};

impl Key for DatastoreName {
    fn bytes(&self) -> Vec<u8> {
        self.as_str().as_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }
}

/// A datastore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datastore {
    /// The directory of the content. If the datastore is removable, the path is relative to the mount point.
    pub path: String,
    /// A description of the datastore.
    pub comment: Option<String>,
    /// The maintenance mode, if there is one.
    pub maintenance: Option<Maintenance>,
    /// The removable file system that the datastore is on, if any. The datastore is available only while this file system is mounted.
    pub backing_device: Option<String>,
    /// The other properties in the datastore's section of `datastore.cfg`. The server only stores and shows them.
    pub other: Vec<(String, String)>,
    /// The error in the section of `datastore.cfg`; `None` if the section can be read.
    pub fault: Option<FileFault>,
}

impl Datastore {
    /// The directory of the mount points of removable datastores. Each mount point has the name of its datastore (Proxmox's layout).
    pub const MOUNT_DIR: &'static str = "/mnt/datastore";

    /// The absolute path of the content on this machine. The `path` of a removable datastore is relative to the mount point.
    pub fn root(&self, name: &DatastoreName) -> String {
        match self.mount_point(name) {
            Some(mount) => format!("{mount}/{}", self.path.trim_start_matches('/')),
            None => self.path.clone(),
        }
    }

    /// The mount point of a removable datastore; `None` if the datastore is not removable.
    pub fn mount_point(&self, name: &DatastoreName) -> Option<String> {
        self.backing_device.as_ref().map(|_| format!("{}/{name}", Self::MOUNT_DIR))
    }
}

impl Row for Datastore {
    const TABLE: Table = Table::Datastores;
    type Key = DatastoreName;

    fn encode(&self, to: &mut Writer) {
        to.text(&self.path);
        to.optional_text(self.comment.as_deref());
        to.option(self.maintenance.as_ref(), |to, maintenance| {
            to.text(maintenance.mode.name()).optional_text(maintenance.message.as_deref());
        });
        to.optional_text(self.backing_device.as_deref());
        to.list(&self.other, |to, (key, value)| {
            to.text(key).text(value);
        });
        to.option(self.fault.as_ref(), FileFault::encode);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Datastore {
            path: from.text()?,
            comment: from.option(Reader::text)?,
            maintenance: from.option(|from| {
                Some(Maintenance {
                    mode: MaintenanceMode::from_name(&from.text()?),
                    message: from.option(Reader::text)?,
                })
            })?,
            backing_device: from.option(Reader::text)?,
            other: from.list(|from| Some((from.text()?, from.text()?)))?,
            fault: from.option(FileFault::decode)?,
        })
    }
}

/// Settings of a datastore. `datastore.cfg` has no properties for these settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatastoreProfile {
    /// The quota, in bytes of content.
    pub quota: Option<u64>,
    /// The path at which something must be mounted, such as a network share. The datastore is open only while this path is a mount point, because an
    /// unmounted share leaves an empty directory behind. For removable datastores see [`Datastore::mount_point`].
    pub mounted_at: Option<String>,
    /// The rules for access to the datastore's files.
    #[serde(default)]
    pub access: AccessRules,
    /// The members of the fleet that may serve the datastore; `None` if the files member serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<HomeMembers>,
}

/// The members of a fleet that may serve a datastore: their names, separated by commas. The first member serves the datastore. The other members can
/// take the datastore over, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HomeMembers(String);

impl HomeMembers {
    /// The home with these members. The names must not contain commas.
    pub fn new(members: &[&str]) -> Self {
        HomeMembers(members.join(","))
    }

    /// The members. The first member serves the datastore.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.0.split(',')
    }

    /// The member that serves the datastore.
    pub fn serves(&self) -> &str {
        self.members().next().unwrap_or_default()
    }

    /// The members that come before the member `member`; `None` if `member` is not in the list.
    pub fn before(&self, member: &str) -> Option<Vec<&str>> {
        let place = self.members().position(|known| known == member)?;
        Some(self.members().take(place).collect())
    }

    /// The list of members after the member `member` took the datastore over: `member` is the first, and the other members keep their order.
    #[must_use]
    pub fn taken_over_by(&self, member: &str) -> Self {
        let others = self.members().filter(|other| *other != member);
        HomeMembers::new(&std::iter::once(member).chain(others).collect::<Vec<_>>())
    }
}

impl std::fmt::Display for HomeMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rules for access to the files of a datastore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRules {
    /// The form in which ACLs are stored on the files.
    pub acls: AclDialect,
    /// The rights that make an entry visible.
    #[serde(with = "mask")]
    pub visible: AccessMask,
    /// Whether access to an entry needs the traverse right on each directory of its path, as on UNIX. Otherwise that right is not
    /// checked, as on Windows.
    pub checks_traverse: bool,
    /// Whether a moved file or directory inherits the ACL entries of its new directory. Otherwise the moved file or directory keeps its ACLs, as on
    /// Windows.
    #[serde(default)]
    pub moved_inherits: bool,
    /// Whether a copy gets the ACLs of its source. Otherwise the copy inherits the ACL entries of its directory, as on Windows.
    #[serde(default)]
    pub copy_keeps: bool,
}

impl Default for AccessRules {
    fn default() -> Self {
        AccessRules {
            acls: AclDialect::Ntacl,
            visible: AccessMask::VISIBLE,
            checks_traverse: false,
            moved_inherits: false,
            copy_keeps: false,
        }
    }
}

/// In a dump, an access mask (a set of rights) has the same text form as on the command line.
mod mask {
    use crate::vocabulary::AccessMask;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mask: &AccessMask, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(mask)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<AccessMask, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Row for DatastoreProfile {
    const TABLE: Table = Table::DatastoreProfiles;
    type Key = DatastoreName;

    fn encode(&self, to: &mut Writer) {
        to.option(self.quota, |to, bytes| {
            to.u64(bytes);
        });
        to.option(self.mounted_at.as_deref(), |to, path| {
            to.text(path);
        });
        let AccessRules { acls, visible, checks_traverse, moved_inherits, copy_keeps } = self.access;
        to.text(acls.name()).u32(visible.0).flag(checks_traverse).flag(moved_inherits).flag(copy_keeps);
        to.tail(self.home.as_ref(), |to, home| {
            to.text(&home.0);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(DatastoreProfile {
            quota: from.option(Reader::u64)?,
            mounted_at: from.option(Reader::text)?,
            access: AccessRules {
                acls: from.text()?.parse().ok()?,
                visible: AccessMask(from.u32()?),
                checks_traverse: from.flag()?,
                moved_inherits: from.flag()?,
                copy_keeps: from.flag()?,
            },
            home: from.tail(|from| from.text().map(HomeMembers))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::HomeMembers;

    #[test]
    fn the_members_of_a_home_have_an_order() {
        let home = HomeMembers::new(&["b", "c", "a"]);
        assert_eq!((home.serves(), home.to_string().as_str()), ("b", "b,c,a"));
        assert_eq!(home.before("b"), Some(vec![]));
        assert_eq!(home.before("a"), Some(vec!["b", "c"]));
        assert_eq!(home.before("d"), None);
        assert_eq!(home.taken_over_by("a"), HomeMembers::new(&["a", "b", "c"]));
        assert_eq!(home.taken_over_by("b"), home);
    }
}
