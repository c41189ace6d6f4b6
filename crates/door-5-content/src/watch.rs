//! Hearing of every change of an ACL on whole file systems (fanotify, from Linux 5.1 on, with CAP_SYS_ADMIN). Where that is to be had, an
//! entry of a directory that may not be seen need not even be asked for its state: nothing was heard of it, so it is as it was.
//!
//! The kernel tells of a change before whoever makes it goes on, so everything that was done before [`Watch::heed`] is heard of after it.
//! What was heard is kept as counts, one for all inodes with the same low bits: an object's [`Version`] is its file system and that count,
//! and a count that went on makes another version of it. A number of an inode that is used again was heard of in between.

use enfilade_access::Version;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, StatxFlags, fstatfs, statx};
use rustix::io::{Errno, read};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many counts: a power of two.
const COUNTS: usize = 1 << 16;
const BUFFER_BYTES: usize = 64 * 1024;
/// Events tell of an object by its handle (linux/fanotify.h).
const REPORT_FID: u32 = 0x200;
const OVERFLOW: u64 = 0x4000;
const IS_FID: u8 = 1;
/// Another one for each mount there ever was (linux/stat.h, from Linux 6.8 on).
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// ext2 to ext4, and XFS: there a handle begins with the inode's number, and a directory tells the same number.
const TELLING: [u32; 2] = [0xef53, 0x5846_5342];

/// Hears of changes.
pub struct Watch {
    group: Fanotify,
    /// Held while what was heard is counted.
    followed: Mutex<Followed>,
    counts: Box<[AtomicU32]>,
    /// How often something was heard that does not say which object it is about.
    lost: AtomicU32,
}

struct Followed {
    /// Mounts, and whether changes there are heard of.
    mounts: HashMap<u64, bool>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Where the kernel lets this process.
    ///
    /// # Errors
    /// Why it does not, in words.
    pub fn new() -> Result<Self, String> {
        let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let group = Fanotify::init(flags | InitFlags::from_bits_retain(REPORT_FID), EventFFlags::empty())
            .map_err(|why| format!("changes of files are not to be heard of: {why}"))?;
        let followed = Followed { mounts: HashMap::new(), buffer: vec![0; BUFFER_BYTES] };
        let counts = (0..COUNTS).map(|_| AtomicU32::new(0)).collect();
        Ok(Watch { group, followed: Mutex::new(followed), counts, lost: AtomicU32::new(0) })
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the file system a directory is on, from now on followed; `None` where changes there are not to be heard of.
    pub(crate) fn follow(&self, directory: BorrowedFd<'_>) -> Option<u64> {
        let found = statx(directory, "", AtFlags::EMPTY_PATH, MOUNT_ID_UNIQUE).ok()?;
        if found.stx_mask & MOUNT_ID_UNIQUE.bits() == 0 {
            return None;
        }
        let mount = found.stx_mnt_id;
        let mut followed = self.followed();
        let is_heard = *followed.mounts.entry(mount).or_insert_with(|| {
            let kind = fstatfs(directory).map(|found| found.f_type as u32);
            let what = MaskFlags::FAN_ATTRIB | MaskFlags::FAN_DELETE_SELF | MaskFlags::FAN_ONDIR;
            let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
            kind.is_ok_and(|kind| TELLING.contains(&kind))
                && self.group.mark(flags, what, directory, None::<&Path>).is_ok()
        });
        is_heard.then_some(mount)
    }

    /// After this, everything that was changed before it is known of.
    pub fn heed(&self) {
        let mut followed = self.followed();
        let buffer = &mut followed.buffer;
        loop {
            match read(self.group.as_fd(), buffer.as_mut_slice()) {
                Ok(count) => buffer.get(..count).into_iter().for_each(|events| self.count(events)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.lose(),
            }
        }
    }

    /// What state an object of a followed file system is in.
    pub(crate) fn version(&self, file_system: u64, inode: u64) -> Version {
        let count = self.counts.get(inode as usize % COUNTS).map_or(0, |count| count.load(Ordering::Acquire));
        let lost = self.lost.load(Ordering::Acquire);
        Version::Watched { file_system, changes: u64::from(lost) << 32 | u64::from(count) }
    }

    /// From now on nothing that was known is.
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Release);
    }

    fn count(&self, mut events: &[u8]) {
        while !events.is_empty() {
            let length = word(events, 0).map_or(0, |length| length as usize);
            let Some((event, rest)) = events.split_at_checked(length).filter(|(event, _)| !event.is_empty())
            else {
                return self.lose();
            };
            match inode_of(event).and_then(|inode| self.counts.get(inode as usize % COUNTS)) {
                Some(count) => {
                    count.fetch_add(1, Ordering::Release);
                }
                None => self.lose(),
            }
            events = rest;
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// The inode an event is about, where it says so (fanotify(7)).
fn inode_of(event: &[u8]) -> Option<u64> {
    let mask = u64::from_ne_bytes(*event.get(8..)?.first_chunk()?);
    if mask & OVERFLOW != 0 {
        return None;
    }
    let head = usize::from(u16::from_ne_bytes(*event.get(6..)?.first_chunk()?));
    let info = event.get(head..)?;
    // Its kind, a byte of nothing, its length; the file system's number; the handle's length and kind.
    if info.first() != Some(&IS_FID) {
        return None;
    }
    let handle = info.get(20..)?;
    match word(info, 16)? {
        // With the parent's behind it where it has one.
        1 | 2 => word(handle, 0).map(u64::from),
        0x81 | 0x82 => handle.first_chunk().map(|inode| u64::from_ne_bytes(*inode)),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}
