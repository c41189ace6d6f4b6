//! What the visitor wants, and what was read from the descriptor of what they want it on.

use crate::nfs4::Owner;
use crate::ntacl::BadAcl;
use crate::security_descriptor::SecurityDescriptor;
use enfilade_facts::MemoKey;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Sid, StorePath};

/// One object of one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// What a target is. Nothing else is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// The ACL that stands on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredAcl {
    /// None: the mode bits rule.
    Absent,
    /// A `security.NTACL` blob.
    Ntacl(Vec<u8>),
    /// A `security.nfs4acl_xdr` blob, in which the file's own uid and gid have a meaning.
    Nfs4(Vec<u8>),
    /// There is one and it cannot be read; why.
    Unreadable(String),
    /// It was not looked at. In a listing the object's [`Version`] may tell which it is; anywhere else it is as good as unreadable.
    Unread,
}

/// One state of an object: every change of the object's ACL makes another one. An object has a state only where that can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// As its file system tells, which stamps every change with the time.
    Stamped {
        /// Which ACL counts, of the two dialects an object may have at the same time.
        acls: AclDialect,
        /// Which file system.
        file_system: u64,
        /// How often somebody had set the wall clock, which file systems stamp changes with.
        clock: u64,
        /// When anything about the object was changed last, in seconds and nanoseconds.
        changed: (i64, u32),
    },
    /// As the kernel reported its last change. Its owner, group and mode were not asked for.
    Watched {
        /// Which ACL counts, of the two dialects an object may have at the same time.
        acls: AclDialect,
        /// Which file system, as long as it is mounted.
        file_system: u64,
        /// The number of the last reported change that may be the object's.
        changes: u64,
    },
}

/// What was read from the descriptor of an opened file or directory.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Which object it is.
    pub object: ObjectId,
    /// What it is.
    pub kind: NodeKind,
    /// Its owner's number.
    pub uid: u32,
    /// Its group's number.
    pub gid: u32,
    /// Its mode bits.
    pub mode: u32,
    /// What state it is in, where that says which ACL it has.
    pub version: Option<Version>,
    /// Its ACL.
    pub acl: StoredAcl,
}

impl StoredAcl {
    /// What was read in this dialect.
    pub fn of(dialect: AclDialect, blob: Vec<u8>) -> Self {
        match dialect {
            AclDialect::Ntacl => StoredAcl::Ntacl(blob),
            AclDialect::Nfs4 => StoredAcl::Nfs4(blob),
        }
    }
}

/// The state of an object: what it mostly shares with those in the same directory, and the rest.
struct State {
    shared: [u64; 4],
    own: [u64; 2],
}

/// No dialect of ACLs has this number.
const WATCHED: u64 = 1 << 32;

/// The states of objects side by side, for memos.
pub(crate) struct States {
    key: KeyMaker,
    /// What the last ones shared, and the key with that.
    shared: Option<([u64; 4], KeyMaker)>,
}

impl States {
    pub(crate) fn new(key: KeyMaker) -> Self {
        States { key, shared: None }
    }

    /// The state of one of them.
    pub(crate) fn each(&mut self, subject: &Subject) -> Option<MemoKey> {
        let State { shared, own } = subject.state_words()?;
        let begun = match self.shared {
            Some((last, begun)) if last == shared => begun,
            _ => self.key.numbers(&shared),
        };
        self.shared = Some((shared, begun));
        Some(begun.numbers(&own).key())
    }

    /// The states of all of them in this order; `None` where one has none.
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
    /// Its uid and gid.
    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, gid: self.gid }
    }

    /// Its state, for a memo of what is read from it: every change of that makes another. `None` where no state is known.
    pub fn state(&self, key: KeyMaker) -> Option<MemoKey> {
        States::new(key).each(self)
    }

    fn state_words(&self) -> Option<State> {
        let ObjectId { device, inode } = self.object;
        let kind = u64::from(self.kind == NodeKind::Directory);
        Some(match self.version? {
            Version::Stamped { acls, file_system, clock, changed: (seconds, nanos) } => State {
                // The high bits of the time are shared, too: the others take a word with the nanoseconds, which are less than 2^30.
                shared: [acls as u64 | seconds.cast_unsigned() >> 33 << 33, device, file_system, clock],
                own: [inode, seconds.cast_unsigned() << 31 | u64::from(nanos) << 1 | kind],
            },
            Version::Watched { acls, file_system, changes } => State {
                shared: [WATCHED | acls as u64, device, file_system, 0],
                own: [inode, changes << 1 | kind],
            },
        })
    }

    /// Its ACL; `None` where it has none and the mode bits rule.
    ///
    /// # Errors
    /// When it cannot be believed.
    pub fn descriptor(&self) -> Result<Option<SecurityDescriptor>, BadAcl> {
        match &self.acl {
            StoredAcl::Absent => Ok(None),
            StoredAcl::Ntacl(blob) => SecurityDescriptor::from_ntacl(blob).map(Some),
            StoredAcl::Nfs4(blob) => SecurityDescriptor::from_nfs4(blob, self.owner()).map(Some),
            StoredAcl::Unreadable(why) => Err(BadAcl::new(why)),
            StoredAcl::Unread => Err(BadAcl::new("it was not read")),
        }
    }
}

impl Subject {
    /// Its ACL, as what it inherits is put into it: in a dialect that counts the file's own owner and group, an object without an ACL has a list
    /// without entries, and these.
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
    /// As it is written down in this dialect, on a file of this owner and group.
    ///
    /// # Errors
    /// When it is too large, or says what the dialect has no words for.
    pub fn written(&self, dialect: AclDialect, of: Owner) -> Result<Vec<u8>, BadAcl> {
        match dialect {
            AclDialect::Ntacl => self.to_ntacl(),
            AclDialect::Nfs4 => self.to_nfs4(of),
        }
    }
}

/// What is wanted of a target.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// These rights on the target, or with none of them only to see it. What may not be seen looks absent.
    On(AccessMask),
    /// To pass through the target, a directory: it need not be seen.
    Passing,
    /// To delete it: DELETE on the target, or DELETE_CHILD on the directory it is in (RFC 8881 §6.2.1.3.2).
    Delete {
        /// That directory.
        parent: &'a Subject,
    },
    /// To make something of this kind in the target, a directory.
    Create(NodeKind),
    /// To write over the target. What may not be seen is refused like a create without the right.
    Overwrite,
}

/// A target and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Where it is in the datastore.
    pub path: &'a StorePath,
    /// What was opened there.
    pub target: &'a Subject,
    /// What is wanted.
    pub wanted: Wanted<'a>,
}
