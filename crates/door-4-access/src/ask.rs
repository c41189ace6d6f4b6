//! The question to door 4: what the visitor wants to do, and what the server read from the opened target.

use crate::nfs4::Owner;
use crate::ntacl::BadAcl;
use crate::security_descriptor::SecurityDescriptor;
use enfilade_facts::MemoKey;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Sid, StorePath};

/// The identity of an object in a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// The kind of a target. Objects of other kinds are not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The ACL that is stored on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredAcl {
    /// There is no ACL: the mode bits decide.
    Absent,
    /// A `security.NTACL` blob.
    Ntacl(Vec<u8>),
    /// A `security.nfs4acl_xdr` blob. The meaning of the blob depends on the file's uid and gid.
    Nfs4(Vec<u8>),
    /// There is an ACL that cannot be read. The text is the reason.
    Unreadable(String),
    /// The ACL was not read. In a listing, the ACL may be in the memo, with the object's [`Version`] as the key. In any other place, an ACL that was
    /// not read is treated as unreadable.
    Unread,
}

/// One state of an object. After every change of its ACL, the object has another state. An object has a state only if the file system or the kernel
/// guarantees that every change of the ACL changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The state is the time stamp that the file system gave the object at the last change.
    Stamped {
        /// The dialect of the ACL that decides. An object may have ACLs of both dialects at the same time.
        acls: AclDialect,
        /// The id of the file system.
        file_system: u64,
        /// How many times the wall clock had been set when this state was read. File systems stamp changes with the time of this clock. After the
        /// clock was set back, two states of an object could have the same time stamp.
        clock: u64,
        /// When any property of the object was changed last, in seconds and nanoseconds.
        changed: (i64, u32),
    },
    /// The state is the last change that the kernel reported. The object's owner, group and mode were not read.
    Watched {
        /// The dialect of the ACL that decides. An object may have ACLs of both dialects at the same time.
        acls: AclDialect,
        /// The file system, by the id of its mount.
        file_system: u64,
        /// The sequence number of the last event of the kernel that may have reported a change of the object.
        changes: u64,
    },
}

/// What was read from the descriptor of an opened file or directory.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The id of the object.
    pub object: ObjectId,
    /// The kind of the object.
    pub kind: NodeKind,
    /// The uid of the owner.
    pub uid: u32,
    /// The gid of the group.
    pub gid: u32,
    /// The mode bits.
    pub mode: u32,
    /// The state of the object. `None` if the state could stay the same when the ACL changes.
    pub version: Option<Version>,
    /// The ACL of the object.
    pub acl: StoredAcl,
}

impl StoredAcl {
    /// The ACL with these bytes in this dialect.
    pub fn of(dialect: AclDialect, blob: Vec<u8>) -> Self {
        match dialect {
            AclDialect::Ntacl => StoredAcl::Ntacl(blob),
            AclDialect::Nfs4 => StoredAcl::Nfs4(blob),
        }
    }
}

/// The state of an object, as two arrays of 64-bit words. Most objects of a directory have the same `shared` words. The `own` words differ from
/// object to object.
struct State {
    shared: [u64; 4],
    own: [u64; 2],
}

/// A number that is added to the first word of a [`Version::Watched`]. With this number, the words of a [`Version::Watched`] always differ from the
/// words of a [`Version::Stamped`]. The numbers of all dialects of ACLs are smaller than this constant.
const WATCHED: u64 = 1 << 32;

/// Computes memo keys from the states of objects.
pub(crate) struct States {
    key: KeyMaker,
    /// The `shared` words of the last object, and a key that already includes these words.
    shared: Option<([u64; 4], KeyMaker)>,
}

impl States {
    pub(crate) fn new(key: KeyMaker) -> Self {
        States { key, shared: None }
    }

    /// The key of one object's state.
    pub(crate) fn each(&mut self, subject: &Subject) -> Option<MemoKey> {
        let State { shared, own } = subject.state_words()?;
        let begun = match self.shared {
            Some((last, begun)) if last == shared => begun,
            _ => self.key.numbers(&shared),
        };
        self.shared = Some((shared, begun));
        Some(begun.numbers(&own).key())
    }

    /// Returns one key for the states of all objects in the order of `subjects`. `None` if an object has no state.
    pub(crate) fn all<'s>(mut self, subjects: impl Iterator<Item = &'s Subject>) -> Option<MemoKey> {
        let (mut last, mut run) = (None, Vec::new());
        for subject in subjects {
            let State { shared, own } = subject.state_words()?;
            if last != Some(shared) {
                self.key = self.key.numbers(&run).numbers(&shared);
                run.clear();
                last = Some(shared);
            }
            run.extend(own);
        }
        Some(self.key.numbers(&run).key())
    }
}

impl Subject {
    /// The uid and gid of the object.
    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, gid: self.gid }
    }

    /// The key of the object's state, for a memo of the object's ACL or other extended attributes. After every change of the ACL or of another
    /// extended attribute, the object has another key. After a write to the content of a file, the key can be the same. Returns `None` if no state is
    /// known.
    pub fn state(&self, key: KeyMaker) -> Option<MemoKey> {
        States::new(key).each(self)
    }

    fn state_words(&self) -> Option<State> {
        let ObjectId { device, inode } = self.object;
        let kind = u64::from(self.kind == NodeKind::Directory);
        Some(match self.version? {
            Version::Stamped { acls, file_system, clock, changed: (seconds, nanos) } => State {
                // The high bits of the change time are in `shared`. The low bits are in one word with the nanoseconds, which are less than 2^30.
                shared: [acls as u64 | seconds.cast_unsigned() >> 33 << 33, device, file_system, clock],
                own: [inode, seconds.cast_unsigned() << 31 | u64::from(nanos) << 1 | kind],
            },
            Version::Watched { acls, file_system, changes } => State {
                shared: [WATCHED | acls as u64, device, file_system, 0],
                own: [inode, changes << 1 | kind],
            },
        })
    }

    /// The ACL of the object; `None` if the object has no ACL, and the mode bits decide.
    ///
    /// # Errors
    /// When the ACL cannot be read or is malformed.
    pub fn descriptor(&self) -> Result<Option<SecurityDescriptor>, BadAcl> {
        match &self.acl {
            StoredAcl::Absent => Ok(None),
            StoredAcl::Ntacl(blob) => SecurityDescriptor::from_ntacl(blob).map(Some),
            StoredAcl::Nfs4(blob) => SecurityDescriptor::from_nfs4(blob, self.owner()).map(Some),
            StoredAcl::Unreadable(why) => Err(BadAcl::new(why)),
            StoredAcl::Unread => Err(BadAcl::new("the ACL was not read")),
        }
    }
}

impl Subject {
    /// The present ACL of the object. When entries of the parent directory are propagated to the object, the caller computes the new ACL from this
    /// ACL. An nfs4 ACL refers to the owner and group of its file. So in the nfs4 dialect, an object without an ACL gets a descriptor with the
    /// object's owner and group, and without entries.
    ///
    /// # Errors
    /// As [`Subject::descriptor`].
    pub fn descriptor_to_inherit(&self, dialect: AclDialect) -> Result<Option<SecurityDescriptor>, BadAcl> {
        let Owner { uid, gid } = self.owner();
        Ok(match (self.descriptor()?, dialect) {
            (None, AclDialect::Nfs4) => Some(SecurityDescriptor {
                owner: Some(Sid::of_unix_user(uid)),
                group: Some(Sid::of_unix_group(gid)),
                ..SecurityDescriptor::default()
            }),
            (found, _) => found,
        })
    }
}

impl SecurityDescriptor {
    /// The bytes of the ACL in this dialect, for a file with this owner and group.
    ///
    /// # Errors
    /// When the bytes are too many, or the descriptor contains something that the dialect cannot express.
    pub fn written(&self, dialect: AclDialect, of: Owner) -> Result<Vec<u8>, BadAcl> {
        match dialect {
            AclDialect::Ntacl => self.to_ntacl(),
            AclDialect::Nfs4 => self.to_nfs4(of),
        }
    }
}

/// The operation that the visitor requests on a target.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// The visitor wants the rights of this mask on the target. If the mask is empty, the visitor wants only to see the target. A target that the
    /// visitor may not see looks absent.
    On(AccessMask),
    /// The visitor wants to traverse the target, which is a directory. The visitor need not be allowed to see the directory.
    Passing,
    /// The visitor wants to delete the target. This needs DELETE on the target, or DELETE_CHILD on the directory of the target (RFC 8881 §6.2.1.3.2).
    Delete {
        /// The directory that the target is in.
        parent: &'a Subject,
    },
    /// The visitor wants to create a new entry of this kind in the target. The target is a directory.
    Create(NodeKind),
    /// The visitor wants to overwrite the target. If the target is hidden, the client gets the same answer as if it tried to create a file and had no
    /// right to create files.
    Overwrite,
}

/// A target, and what the visitor wants to do with it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The path of the target in the datastore.
    pub path: &'a StorePath,
    /// The object that was opened at this path.
    pub target: &'a Subject,
    /// The wanted rights or action.
    pub wanted: Wanted<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{everything, subject};
    use AclDialect::{Nfs4, Ntacl};
    use enfilade_facts::MemoSeed;

    #[test]
    fn the_key_of_a_state_does_not_depend_on_the_objects_before() {
        let key = KeyMaker::new(&MemoSeed([7; 16]), "states");
        let object = |device, inode, version| {
            let object = ObjectId { device, inode };
            Subject { object, version: Some(version), ..subject(NodeKind::File, everything()) }
        };
        let stamped = |seconds| Version::Stamped {
            acls: AclDialect::Ntacl,
            file_system: 1,
            clock: 1,
            changed: (seconds, 5),
        };
        let watched = |changes| Version::Watched { acls: AclDialect::Ntacl, file_system: 1, changes };
        let objects = [
            object(1, 1, stamped(7)),
            object(1, 2, stamped(7)),
            object(2, 2, stamped(7)),
            object(2, 2, stamped(7 << 40)),
            object(2, 2, watched(7)),
            object(2, 2, watched(8)),
            object(1, 1, stamped(7)),
        ];
        let mut states = States::new(key);
        let keys = objects.each_ref().map(|subject| states.each(subject).unwrap());
        for (at, subject) in objects.iter().enumerate() {
            assert_eq!(subject.state(key), Some(keys[at]), "{at}");
            let first = if at == 6 { 0 } else { at };
            assert_eq!(keys.iter().position(|key| *key == keys[at]), Some(first), "{at}");
        }
    }

    /// In the nfs4 dialect, an object without an ACL has a descriptor with the object's owner and group.
    #[test]
    fn what_has_no_acl_inherits_into_one_with_its_owner_where_the_dialect_has_one() {
        let of = |acl| Subject { uid: 7, gid: 8, ..subject(NodeKind::File, acl) };
        let (owner, group) = (Some(Sid::of_unix_user(7)), Some(Sid::of_unix_group(8)));
        let empty = SecurityDescriptor { owner, group, ..SecurityDescriptor::default() };
        let list = SecurityDescriptor { dacl: Some(Vec::new()), ..SecurityDescriptor::default() };
        let stored = StoredAcl::Ntacl(list.to_ntacl().unwrap());
        for (acl, dialect, expected) in [
            (StoredAcl::Absent, Nfs4, Ok(Some(empty))),
            (StoredAcl::Absent, Ntacl, Ok(None)),
            (stored.clone(), Nfs4, Ok(Some(list.clone()))),
            (stored, Ntacl, Ok(Some(list))),
            (StoredAcl::Unread, Nfs4, Err(BadAcl::new("the ACL was not read"))),
        ] {
            assert_eq!(of(acl.clone()).descriptor_to_inherit(dialect), expected, "{acl:?} {dialect:?}");
        }
    }
}
