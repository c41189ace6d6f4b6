//! Listing a directory in batches, in memory that does not grow with the directory.

use crate::node::{Node, entry_name};
use crate::refuse::{Refusal, is_absent, is_special};
use crate::root::{NODE_FLAGS, Root, open_beneath};
use enfilade_access::{AccessPermit, NodeKind, Subject};
use enfilade_facts::vocabulary::AccessMask;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, statat};
use rustix::io::Errno;
use std::collections::VecDeque;

/// What one `getdents64` may bring: some 1,000 to 2,700 names.
const BUFFER_BYTES: usize = 64 * 1024;

/// A directory being listed.
#[derive(Debug)]
pub struct Listing {
    directory: Node,
    /// A descriptor of our own, so that nobody shares our position in the directory.
    cursor: OwnedFd,
    buffer: Vec<u8>,
    names: VecDeque<String>,
    ended: bool,
    unreadable: u64,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// The open entry.
    pub node: Node,
    /// What door 4 judges before anybody hears of it.
    pub subject: Subject,
}

/// Begins to list a directory.
///
/// # Refuses
/// [`Refusal::WrongKind`] for a file.
pub fn list(permit: &AccessPermit, node: &Node) -> Result<Listing, Refusal> {
    node.covered(permit, AccessMask::LIST)?;
    listing(node)
}

/// Begins to list a directory for whoever runs this program on the machine itself, where the file system has already said that they may.
/// No visitor comes this way.
///
/// # Refuses
/// As [`list`].
pub fn list_as_operator(node: &Node) -> Result<Listing, Refusal> {
    listing(node)
}

/// The work of [`list`].
pub(crate) fn listing(node: &Node) -> Result<Listing, Refusal> {
    node.needs(NodeKind::Directory, "listing")?;
    Ok(Listing {
        directory: node.clone(),
        cursor: reopened(node)?,
        buffer: Vec::with_capacity(BUFFER_BYTES),
        names: VecDeque::new(),
        ended: false,
        unreadable: 0,
    })
}

impl Listing {
    /// The next entries, at least one and at most `at_most`; none at the end. Each holds a descriptor open.
    /// Links, special files, mounts and names nobody may ask for are left out, and so is what vanished meanwhile.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory cannot be read on, or the process has no descriptors left.
    pub fn next_batch(&mut self, at_most: usize) -> Result<Vec<Entry>, Refusal> {
        let at_most = at_most.max(1);
        let mut batch = Vec::new();
        while batch.len() < at_most {
            let Some(name) = self.names.pop_front() else {
                if self.ended {
                    break;
                }
                self.fill()?;
                continue;
            };
            if let Some(node) = self.open(&name)? {
                batch.push(Entry { subject: node.subject(), name, node });
            }
        }
        Ok(batch)
    }

    /// How many entries were left out because they could not be opened.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    fn open(&mut self, name: &str) -> Result<Option<Node>, Refusal> {
        let file = match open_beneath(self.directory.fd(), name, NODE_FLAGS, Mode::empty()) {
            Ok(file) => file,
            Err(errno) if is_absent(errno) || is_special(errno) => return Ok(None),
            // No fault of the entry, and the next ones would fare no better.
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                return Err(Refusal::io(errno, "opening", name));
            }
            Err(_) => {
                self.unreadable += 1;
                return Ok(None);
            }
        };
        match self.directory.describe_beneath(file, name) {
            Ok(node) => Ok(Some(node)),
            Err(Refusal::Special(_)) => Ok(None),
            Err(_) => {
                self.unreadable += 1;
                Ok(None)
            }
        }
    }

    /// Takes one buffer of names from the kernel.
    fn fill(&mut self) -> Result<(), Refusal> {
        let mut entries = RawDir::new(&self.cursor, self.buffer.spare_capacity_mut());
        loop {
            match entries.next() {
                None | Some(Err(Errno::NOENT)) => {
                    self.ended = true;
                    return Ok(());
                }
                Some(Err(Errno::INTR)) => continue,
                Some(Err(errno)) => return Err(Refusal::io(errno, "listing", &self.directory.label())),
                Some(Ok(entry)) => {
                    self.names.extend(servable(entry.file_name().to_bytes(), entry.file_type()))
                }
            }
            if entries.is_buffer_empty() {
                return Ok(());
            }
        }
    }
}

/// The name, if it is one that can be asked for and may be a file or a directory.
fn servable(name: &[u8], kind: FileType) -> Option<String> {
    // Not every file system says the kind here; then opening tells.
    let kind_fits = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Unknown);
    let name = std::str::from_utf8(name).ok().filter(|name| kind_fits && entry_name(name).is_ok())?;
    Some(name.to_owned())
}

/// How many names are held at the moment.
#[cfg(test)]
pub(crate) fn names_held(listing: &Listing) -> usize {
    listing.names.len()
}

/// Whether a directory holds anything at all, be it something that is never served.
pub(crate) fn anything_in(node: &Node) -> Result<bool, Refusal> {
    let cursor = reopened(node)?;
    let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(&cursor, buffer.spare_capacity_mut());
    loop {
        match entries.next() {
            None => return Ok(false),
            Some(Err(Errno::INTR)) => {}
            Some(Err(errno)) => return Err(Refusal::io(errno, "listing", &node.label())),
            Some(Ok(entry)) if matches!(entry.file_name().to_bytes(), b"." | b".." | b"lost+found") => {}
            Some(Ok(_)) => return Ok(true),
        }
    }
}

/// The bytes of all files that are served, one look at each.
pub(crate) fn files_beneath(root: &Root) -> Result<u64, Refusal> {
    let (mut bytes, mut paths) = (0_u64, vec![String::new()]);
    let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER_BYTES);
    while let Some(path) = paths.pop() {
        let relative = if path.is_empty() { "." } else { &path };
        let flags = NODE_FLAGS | OFlags::DIRECTORY;
        let directory = match open_beneath(root.fd(), relative, flags, Mode::empty()) {
            Ok(directory) => directory,
            // Gone meanwhile, or a mount.
            Err(errno) if is_absent(errno) => continue,
            Err(errno) => return Err(Refusal::io(errno, "counting", relative)),
        };
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(Refusal::io(errno, "counting", relative)),
            };
            let Some(name) = servable(entry.file_name().to_bytes(), entry.file_type()) else { continue };
            // Not every file system says the kind.
            let Ok(found) = statat(&directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {
                    bytes = bytes.saturating_add(u64::try_from(found.st_size).unwrap_or(0))
                }
                FileType::Directory => {
                    paths.push(if path.is_empty() { name } else { format!("{path}/{name}") });
                }
                _ => {}
            }
        }
    }
    Ok(bytes)
}

fn reopened(node: &Node) -> Result<OwnedFd, Refusal> {
    open_beneath(node.fd(), ".", NODE_FLAGS | OFlags::DIRECTORY, Mode::empty())
        .map_err(|errno| Refusal::io(errno, "listing", &node.label()))
}
