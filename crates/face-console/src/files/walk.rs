//! Visits the entries of a folder and of all folders below it, as far as the user may list them. The nearest folders come first. Only one folder is
//! open at a time, and no file is opened.

use enfilade_facts::vocabulary::StorePath;
use enfilade_passage::{Entry, Listing, NodeKind, Refusal};
use std::collections::VecDeque;

const BATCH_ENTRIES: usize = 512;
/// The maximum memory for the paths of folders that wait to be read, in bytes.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// A running visit of everything below a folder.
pub(super) struct Walk {
    listing: Listing,
    at: StorePath,
    /// Whether the listing of a folder has begun and has not ended.
    is_open: bool,
    folders: VecDeque<StorePath>,
    waiting_bytes: usize,
    /// Whether folders were left out, because too many folders waited to be read.
    pub(super) is_cut: bool,
}

impl Walk {
    /// Begins a visit at the folder of this listing.
    pub(super) fn begin(listing: Listing, at: StorePath) -> Self {
        Walk { listing, at, is_open: true, folders: VecDeque::new(), waiting_bytes: 0, is_cut: false }
    }

    /// The next entries with their paths; `None` at the end. The result can be empty even before the end. So the caller can stop at a limit even if
    /// no entry is visible to the user.
    ///
    /// # Errors
    /// When the user may no longer list the datastore.
    pub(super) fn next(&mut self) -> Result<Option<Vec<(StorePath, Entry)>>, Refusal> {
        if self.is_open {
            if let Some(batch) = self.listing.next_batch(BATCH_ENTRIES)? {
                // An entry with a path that is too long is left out, because it cannot be opened.
                let with_path = |entry: Entry| Some((self.at.join(&entry.name).ok()?, entry));
                let members: Vec<_> = batch.into_iter().filter_map(with_path).collect();
                for (path, _) in members.iter().filter(|(_, entry)| entry.meta.kind == NodeKind::Directory) {
                    self.wait(path);
                }
                return Ok(Some(members));
            }
            self.is_open = false;
        }
        let Some(next) = self.folders.pop_front() else { return Ok(None) };
        self.waiting_bytes -= next.as_str().len();
        self.is_open = self.listing.go_on_in(next.clone())?;
        if self.is_open {
            self.at = next;
        }
        Ok(Some(Vec::new()))
    }

    /// Records a folder that is read later.
    fn wait(&mut self, folder: &StorePath) {
        let bytes = self.waiting_bytes + folder.as_str().len();
        if bytes > WAITING_BYTES_MAX {
            self.is_cut = true;
            return;
        }
        self.waiting_bytes = bytes;
        self.folders.push_back(folder.clone());
    }

    /// The present time of the monotonic clock, in milliseconds.
    pub(super) fn tick_millis(&self) -> u64 {
        self.listing.now().tick_millis
    }
}
