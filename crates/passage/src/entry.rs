//! One visible entry of a directory.

use crate::walk::Found;
use enfilade_access::{NodeKind, ObjectId, Subject};
use enfilade_content::{Meta, Rank};
use enfilade_facts::MemoKey;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::Word;

/// One visible entry.
pub struct Entry {
    /// The name of the entry.
    pub name: Word,
    /// The kind, size, times and validator of the entry.
    pub meta: Meta,
    /// The object that door 4 judged; `None` for a directory that is shown only because it leads to shared objects (`ways.rs`).
    pub(crate) subject: Option<Subject>,
}

impl Entry {
    pub(crate) fn of(name: &str, Found { node, subject, .. }: Found) -> Self {
        Entry { name: Word::new(name), meta: node.meta().clone(), subject: Some(subject) }
    }

    pub(crate) fn leading_on(name: &str) -> Self {
        Entry { name: Word::new(name), meta: COLLECTION, subject: None }
    }

    /// The place of the entry in the order in which a page shows entries.
    pub fn rank(&self) -> Rank {
        Rank::of(self.meta.kind, &self.name)
    }

    /// The memo key for the state of the object; `None` if the state is not known.
    pub(crate) fn state(&self, key: KeyMaker) -> Option<MemoKey> {
        self.subject.as_ref()?.state(key)
    }
}

/// The metadata of a collection that is shown without reading a directory.
pub const COLLECTION: Meta = Meta {
    bytes: 0,
    modified: (0, 0),
    changed: (0, 0),
    born: None,
    object: ObjectId { device: 0, inode: 0 },
    kind: NodeKind::Directory,
    uid: 0,
    gid: 0,
    mode: 0,
    links: 1,
};
