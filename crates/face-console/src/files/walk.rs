//! Goes through everything below a folder that the user may list, the nearest folders first. One folder is open at a time, and no entry is opened.

use enfilade_facts::vocabulary::StorePath;
use enfilade_passage::{Entry, Listing, NodeKind, Refusal};
use std::collections::VecDeque;

const BATCH_ENTRIES: usize = 512;
/// The most folders that wait to be read.
const FOLDERS_MAX: usize = 20_000;

/// A walk below a folder.
pub(super) struct Walk {
    listing: Listing,
    at: StorePath,
    folders: VecDeque<StorePath>,
    /// Whether folders were left out, because too many waited to be read.
    pub(super) is_cut: bool,
}

impl Walk {
    /// Begins with the folder of a listing.
    pub(super) fn begin(listing: Listing, at: StorePath) -> Self {
        Walk { listing, at, folders: VecDeque::new(), is_cut: false }
    }

    /// The next entries with their paths; `None` at the end.
    ///
    /// # Errors
    /// When the user may no longer list the datastore.
    pub(super) fn next(&mut self) -> Result<Option<Vec<(StorePath, Entry)>>, Refusal> {
        loop {
            while let Some(batch) = self.listing.next_batch(BATCH_ENTRIES)? {
                if batch.is_empty() {
                    continue;
                }
                // A path that is too long cannot be opened.
                let with_path = |entry: Entry| Some((self.at.join(&entry.name).ok()?, entry));
                let members: Vec<_> = batch.into_iter().filter_map(with_path).collect();
                for (path, entry) in &members {
                    if entry.meta.kind == NodeKind::Directory {
                        self.is_cut |= self.folders.len() >= FOLDERS_MAX;
                        if self.folders.len() < FOLDERS_MAX {
                            self.folders.push_back(path.clone());
                        }
                    }
                }
                return Ok(Some(members));
            }
            loop {
                let Some(next) = self.folders.pop_front() else { return Ok(None) };
                if self.listing.go_on_in(next.clone())? {
                    self.at = next;
                    break;
                }
            }
        }
    }

    /// The time, in milliseconds.
    pub(super) fn tick_millis(&self) -> u64 {
        self.listing.now().tick_millis
    }
}
