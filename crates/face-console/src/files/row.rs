//! One line of a list of files and folders.

use enfilade_facts::vocabulary::Word;
use enfilade_passage::{Entry, NodeKind};

/// A file or folder in a list.
pub(crate) struct Row {
    pub(crate) name: Word,
    pub(crate) is_folder: bool,
    pub(crate) bytes: u64,
    pub(crate) modified: i64,
}

impl Row {
    pub(crate) fn of(Entry { name, meta, .. }: &Entry) -> Self {
        let is_folder = meta.kind == NodeKind::Directory;
        Row { name: name.clone(), is_folder, bytes: meta.bytes, modified: meta.modified.0 }
    }
}
