//! Reads and remembers the names in a directory, with the inode number of each.
//!
//! On some file systems every change of a directory (an entry is added, removed or renamed) sets the directory's time stamp. On these file systems
//! the server remembers the names in a directory together with the directory's time stamp. The names are stored in the same portions in which the
//! kernel returned them. While the time stamp stays the same, the server makes one call of `statx` instead of reading some 2,000 names.

use crate::beneath::{NODE_FLAGS, open_beneath};
use crate::node::{Node, entry_name};
use crate::refuse::Refusal;
use crate::temporary::{RESERVED, TRASH, UPLOADS};
use crate::watch::Watch;
use enfilade_facts::{Held, Memo, MemoKey, MemoSeed, Weigh};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, StatxAttributes, StatxFlags, seek, statx,
};
use rustix::io::{self, Errno};
use std::ffi::CStr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of bytes that one `getdents64` may return. This is space for some 1,000 to 2,700 names.
const BUFFER_BYTES: usize = 64 * 1024;

/// The number of bytes that the kernel uses for each entry, without the name (linux/dirent.h).
const ENTRY_BYTES: usize = 20;

/// For this many seconds after a change, another change can get the same time stamp, because the kernel's clock for time stamps advances in ticks.
const SETTLED_SECONDS: i64 = 2;

/// The clock, the receiver of change reports from the kernel (`Watch`), and the memo of names. Door 5 uses them to examine entries. With the default
/// value, no names are remembered.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookedAt<'w> {
    /// How many times the wall clock was set so far. A time stamp from before the clock was set cannot be compared with a later time stamp.
    pub clock: u64,
    /// The wall clock, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The watch that receives reports of changes from the kernel, if there is one.
    pub watch: Option<&'w Watch>,
    /// The remembered names of directories.
    pub names: Option<&'w NamesMemo>,
}

impl LookedAt<'_> {
    /// Whether every change from now on gets a time stamp other than `changed` (seconds and nanoseconds).
    pub(crate) fn can_tell_from_later(self, changed: (i64, u32)) -> bool {
        changed.0.saturating_add(SETTLED_SECONDS) <= self.unix_seconds
    }
}

/// The names from one read of a directory.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// All names, concatenated without separators.
    text: String,
    each: Vec<NameEnd>,
    /// The position of the next names in the directory; `None` at the end of the directory.
    next: Option<u64>,
    /// How many names were left out because no URL can contain them.
    not_shown: u64,
}

#[derive(Debug)]
struct NameEnd {
    inode: u64,
    /// The position in `Names::text` at which the name ends.
    end: u32,
    kind: FileType,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'n> {
    pub(crate) name: &'n str,
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.each.len()
    }

    /// How many names were left out because no URL can contain them.
    pub(crate) fn not_shown(&self) -> u64 {
        self.not_shown
    }

    /// The entries with the indices in `places`.
    pub(crate) fn some(&self, places: std::ops::Range<usize>) -> impl Iterator<Item = Named<'_>> {
        let first = places.start.checked_sub(1).and_then(|before| self.each.get(before));
        let mut begin = first.map_or(0, |name| name.end as usize);
        let each = self.each.get(places).unwrap_or_default().iter();
        each.filter_map(move |NameEnd { inode, end, kind }| {
            let name = self.text.get(std::mem::replace(&mut begin, *end as usize)..begin)?;
            Some(Named { name, inode: *inode, kind: *kind })
        })
    }

    pub(crate) fn push(&mut self, name: &str, inode: u64, kind: FileType) {
        self.text.push_str(name);
        // One buffer contains less than 4 GiB of names.
        self.each.push(NameEnd { inode, end: self.text.len() as u32, kind });
    }
}

impl Weigh for Names {
    fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.each.capacity() * size_of::<NameEnd>()
    }
}

/// The remembered names in directories. The key under which the names are stored contains the directory's time stamp. So after a change of the
/// directory, its old names are not found.
pub struct NamesMemo {
    memo: Memo<Names>,
    not_shown: AtomicU64,
}

impl NamesMemo {
    /// A memo of at most `bytes` bytes.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        NamesMemo { memo: Memo::new(seed, bytes), not_shown: AtomicU64::new(0) }
    }

    /// The number of names that were read and cannot be shown to clients, because no URL can contain them. A name counts again each time that it is
    /// read.
    pub fn not_shown(&self) -> u64 {
        self.not_shown.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for NamesMemo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NamesMemo")
    }
}

/// A directory being read.
#[derive(Debug)]
pub(crate) struct Reading {
    /// A second descriptor of the directory. Only this `Reading` uses the second descriptor, so no other code changes its position in the directory.
    /// `None` until names are read.
    cursor: Option<OwnedFd>,
    /// The present position of the descriptor.
    position: u64,
    /// The position of the next names; `None` if there are no more names.
    next: Option<u64>,
    buffer: Vec<u8>,
}

impl Reading {
    /// Creates a `Reading` that begins at the start of a directory.
    pub(crate) fn begin() -> Self {
        Reading { cursor: None, position: 0, next: Some(0), buffer: Vec::new() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Whether nothing was read so far.
    #[cfg(test)]
    pub(crate) fn is_at_its_beginning(&self) -> bool {
        self.position == 0
    }

    /// All names of the directory, if the memo contains them, and if there are at most `at_most` names.
    pub(crate) fn all_known(&self, node: &Node, at_most: usize, at: LookedAt<'_>) -> Option<Held<Names>> {
        let (memo, key) = state(node, self.next.filter(|next| *next == 0)?, at)?;
        memo.get(key).filter(|names| names.next.is_none() && names.len() <= at_most)
    }

    /// The next names. The result can be empty before the end of the directory, because entries that are never served are left out.
    pub(crate) fn go_on(&mut self, node: &Node, at: LookedAt<'_>) -> Result<Held<Names>, Refusal> {
        let Some(next) = self.next else { return Ok(Held::new(Names::default())) };
        let state = state(node, next, at);
        if let Some(known) = state.and_then(|(memo, key)| memo.get(key)) {
            self.next = known.next;
            return Ok(known);
        }
        let mut names = self.read(node, next)?;
        self.next = names.next;
        if let Some(memo) = at.names.filter(|_| names.not_shown > 0) {
            memo.not_shown.fetch_add(names.not_shown, Ordering::Relaxed);
        }
        // The directory may have changed after its state was read. Then the names are stored under the old state. The directory never has the old
        // state again, so nothing looks up these names.
        Ok(match state {
            None => Held::new(names),
            Some((memo, key)) => {
                names.text.shrink_to_fit();
                names.each.shrink_to_fit();
                memo.put(key, names)
            }
        })
    }

    /// Reads one buffer of names from the kernel.
    fn read(&mut self, node: &Node, from: u64) -> Result<Names, Refusal> {
        let failed = |errno| Refusal::io(errno, "listing", &node.label());
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            none => none.insert(reopened(node)?),
        };
        if self.position != from {
            self.position = seek(&*cursor, SeekFrom::Start(from)).map_err(failed)?;
        }
        self.buffer.reserve(BUFFER_BYTES);
        let (mut names, mut bytes) = (Names::default(), 0);
        let mut entries = RawDir::new(cursor, self.buffer.spare_capacity_mut());
        loop {
            match entries.next() {
                None | Some(Err(Errno::NOENT)) => return Ok(names),
                Some(Err(Errno::INTR)) => continue,
                Some(Err(errno)) => return Err(failed(errno)),
                Some(Ok(entry)) => {
                    let (kind, inode) = (entry.file_type(), entry.ino());
                    match servable(entry.file_name().to_bytes(), kind) {
                        Some(name) => names.push(name, inode, kind),
                        None => names.not_shown += u64::from(!can_be_shown(entry.file_name().to_bytes())),
                    }
                    self.position = entry.next_entry_cookie();
                    bytes += ENTRY_BYTES + entry.file_name().to_bytes().len();
                }
            }
            // If the kernel filled more than half of the buffer, more names may follow. So this read ends here, and the next read begins at `next`.
            // Otherwise the kernel has returned all names: the next round of the loop finds no name, and returns.
            if entries.is_buffer_empty() && bytes > BUFFER_BYTES / 2 {
                names.next = Some(self.position);
                return Ok(names);
            }
        }
    }
}

/// The memo, and the key for the names of a directory in its present state, starting at a position. `None` if a change of the directory might not be
/// visible in its state.
fn state<'m>(node: &Node, from: u64, at: LookedAt<'m>) -> Option<(&'m Memo<Names>, MemoKey)> {
    let (NamesMemo { memo, .. }, stamping) = (at.names?, node.stamping()?);
    let found = statx(node.fd(), "", AtFlags::EMPTY_PATH, StatxFlags::CTIME).ok()?;
    let changed = (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec);
    // In an encrypted directory, the names change when a key is added or removed. But the time stamp of the directory stays the same.
    if found.stx_attributes.contains(StatxAttributes::ENCRYPTED) || !at.can_tell_from_later(changed) {
        return None;
    }
    let object = node.object();
    let key = memo.key("names in").numbers(&[stamping, object.device, object.inode]);
    let key = key.numbers(&[at.clock, changed.0.cast_unsigned(), changed.1.into(), from]);
    Some((memo, key.key()))
}

/// Whether a URL can contain a name on a disk. The name must be UTF-8 without backslashes and control characters, and must not be too long or begin
/// with `.enfilade-`. Exception: the function returns true for `.`, `..` and the names that the server itself makes, because listings leave out these
/// names for other reasons.
pub fn can_be_shown(name: &[u8]) -> bool {
    let is_own =
        |name: &str| matches!(name, "." | "..") || reserved(name) || [TRASH, UPLOADS].contains(&name);
    let is_fine = |name: &str| is_own(name) || entry_name(name).is_ok();
    std::str::from_utf8(name).is_ok_and(is_fine)
}

/// Returns the name if a request can contain it and its entry can be a file or a directory.
pub(crate) fn servable(name: &[u8], kind: FileType) -> Option<&str> {
    // Some file systems do not report the kind in a listing. On these file systems the kind is checked when the entry is opened.
    let kind_fits = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Unknown);
    std::str::from_utf8(name).ok().filter(|name| kind_fits && entry_name(name).is_ok())
}

/// Whether a name is reserved for objects that are being made or removed.
pub(crate) fn reserved(name: &str) -> bool {
    name.strip_prefix(RESERVED)
        .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Calls `see` for each entry of a directory, from the descriptor's position on, until `see` returns `Break`. The entries include reserved names,
/// links, and names that no path can contain.
pub(crate) fn each_entry(
    directory: BorrowedFd<'_>,
    mut see: impl FnMut(&CStr, FileType) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    loop {
        match entries.next() {
            // The kernel returns NOENT for a directory that was removed after it was opened.
            None | Some(Err(Errno::NOENT)) => return Ok(()),
            Some(Err(Errno::INTR)) => {}
            Some(Err(errno)) => return Err(errno),
            Some(Ok(entry)) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
            Some(Ok(entry)) if see(entry.file_name(), entry.file_type()).is_break() => return Ok(()),
            Some(Ok(_)) => {}
        }
    }
}

pub(crate) fn reopened(node: &Node) -> Result<OwnedFd, Refusal> {
    open_beneath(node.fd(), ".", NODE_FLAGS | OFlags::DIRECTORY, Mode::empty())
        .map_err(|errno| Refusal::io(errno, "listing", &node.label()))
}
