//! One line of a list of files and folders.

use enfilade_facts::vocabulary::Word;
use enfilade_passage::{Entry, NodeKind};

/// A file or folder in a list.
pub(super) struct Row {
    pub(super) name: Word,
    pub(super) is_folder: bool,
    pub(super) bytes: u64,
    pub(super) modified: i64,
}

impl Row {
    pub(super) fn of(Entry { name, meta, .. }: &Entry) -> Self {
        let is_folder = meta.kind == NodeKind::Directory;
        Row { name: name.clone(), is_folder, bytes: meta.bytes, modified: meta.modified.0 }
    }
}
