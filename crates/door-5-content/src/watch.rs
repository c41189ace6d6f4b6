//! The kernel can report every change of an ACL on a whole file system (fanotify, from Linux 5.1 on, with CAP_SYS_ADMIN). If the kernel reports
//! changes, the server need not read an entry's metadata to know the entry's state: until a change is reported, the state stays the same.
//!
//! When a system call changes an object, the kernel reports the change before the system call returns. So [`Watch::drain`] receives the reports of
//! all changes that were made before it was called. Each event gets an event number. The low bits of an object's inode number select a slot, so
//! several objects can share a slot. The slot contains the event number of the last event about any of these objects. An object's [`Version`]
//! contains its file system and the event number in its slot. The kernel reports removals, too: if a new object gets the inode number of a removed
//! object, its version differs from the version of the removed object. The watch also notices mounts (`/proc/self/mountinfo`), because a mount hides
//! the object at the mount point. After a mount, every object has another version.

use crate::capable::no_help;
use enfilade_access::Version;
use enfilade_facts::vocabulary::AclDialect;
use enfilade_privileged::client::{self, Connection};
use enfilade_privileged::protocol::Request;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, StatxFlags, fstatfs, statx};
use rustix::io::{Errno, read};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of slots: a power of two.
const KEPT: usize = 1 << 16;
const BUFFER_BYTES: usize = 64 * 1024;
/// With this flag, each event identifies its object by a handle (linux/fanotify.h).
const REPORT_FID: u32 = 0x200;
const OVERFLOW: u64 = 0x4000;
const IS_FID: u8 = 1;
/// Requests the unique id of a mount, which is never used again (linux/stat.h, from Linux 6.8 on).
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// The file systems ext2 to ext4, and XFS. On these file systems a handle begins with the inode number, and the entries of a directory contain the
/// same inode number.
const TELLING: [u32; 2] = [0xef53, 0x5846_5342];

/// Receives the kernel's reports of changes.
pub struct Watch {
    reports: Reports,
    /// `/proc/self/mountinfo`, which reports when something is mounted or unmounted.
    mounts: Option<File>,
    /// The mounts for which reports were requested. The lock is also held while events are noted.
    followed: Mutex<Followed>,
    /// The number of the last event.
    last_event: AtomicU64,
    /// For each slot, the number of the last event about one of its inodes.
    last: Box<[AtomicU64]>,
    /// The number of the last event that does not contain an inode. Any object may have changed at that event.
    last_of_all: AtomicU64,
}

/// The queue of reports. Only a process with CAP_SYS_ADMIN may ask for reports of a whole file system.
enum Reports {
    Own(Fanotify),
    /// The helper process requests the reports, on this connection.
    OfHelper(OwnedFd, Connection),
}

impl Reports {
    fn new() -> Result<Self, String> {
        if client::helper().is_some() {
            let connection = Connection::open().map_err(|_| no_help())?;
            let queue = connection.ask(&Request::Watch, None).ok().flatten().ok_or_else(no_help)?;
            return Ok(Reports::OfHelper(queue, connection));
        }
        let flags = InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
        let made = Fanotify::init(flags | InitFlags::from_bits_retain(REPORT_FID), EventFFlags::empty());
        made.map(Reports::Own).map_err(|why| why.to_string())
    }

    /// Requests reports of all changes on the file system of a directory. Returns whether the kernel sends the reports.
    fn follow(&self, directory: BorrowedFd<'_>) -> bool {
        match self {
            Reports::Own(group) => {
                let what = MaskFlags::FAN_ATTRIB | MaskFlags::FAN_MOVE_SELF | MaskFlags::FAN_DELETE_SELF;
                let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
                group.mark(flags, what | MaskFlags::FAN_ONDIR, directory, None::<&Path>).is_ok()
            }
            Reports::OfHelper(_, connection) => [Request::Root, Request::Mark]
                .iter()
                .all(|request| connection.ask(request, Some(directory)).is_ok()),
        }
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Reports::Own(group) => group.as_fd(),
            Reports::OfHelper(queue, _) => queue.as_fd(),
        }
    }
}

struct Followed {
    /// For each mount, whether the kernel reports changes on its file system.
    mounts: HashMap<u64, bool>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Begins to receive reports, if the kernel lets this process do so.
    ///
    /// # Errors
    /// The reason why the kernel sends no reports, in words.
    pub fn new() -> Result<Self, String> {
        let reports =
            Reports::new().map_err(|why| format!("the kernel does not report changes of files: {why}"))?;
        let followed = Followed { mounts: HashMap::new(), buffer: vec![0; BUFFER_BYTES] };
        Ok(Watch {
            reports,
            mounts: File::open("/proc/self/mountinfo").ok(),
            followed: Mutex::new(followed),
            last_event: AtomicU64::new(0),
            last: (0..KEPT).map(|_| AtomicU64::new(0)).collect(),
            last_of_all: AtomicU64::new(0),
        })
    }

    fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the kernel, once for each mount, to report changes on the file system of a directory in this mount. Returns whether the kernel reports
    /// them.
    pub(crate) fn follow(&self, mount: u64, directory: BorrowedFd<'_>) -> bool {
        let mut followed = self.followed();
        *followed.mounts.entry(mount).or_insert_with(|| {
            let kind = fstatfs(directory).map(|found| found.f_type as u32);
            kind.is_ok_and(|kind| TELLING.contains(&kind)) && self.reports.follow(directory)
        })
    }

    /// Reads all events from the kernel. After this call, the version of each object includes every change that was made before this call.
    pub fn drain(&self) {
        let mut followed = self.followed();
        if self.mounts.as_ref().is_some_and(have_changed) {
            self.lose();
        }
        let buffer = &mut followed.buffer;
        loop {
            match read(self.reports.as_fd(), buffer.as_mut_slice()) {
                Ok(count) => buffer.get(..count).into_iter().for_each(|events| self.write_down(events)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.lose(),
            }
        }
    }

    /// The state of an object on a file system on which the kernel reports changes.
    pub(crate) fn version(&self, acls: AclDialect, file_system: u64, inode: u64) -> Version {
        Version::Watched { acls, file_system, changes: self.last_of(inode) }
    }

    /// The number of the last event.
    pub(crate) fn last_event(&self) -> u64 {
        self.last_event.load(Ordering::Acquire)
    }

    /// Whether no change of an object was reported after the event with the number `since`.
    pub(crate) fn is_quiet(&self, inode: u64, since: u64) -> bool {
        self.last_of(inode) <= since
    }

    /// Whether this watch notices mounts.
    pub(crate) fn reports_mounts(&self) -> bool {
        self.mounts.is_some()
    }

    fn last_of(&self, inode: u64) -> u64 {
        let last = self.last.get(inode as usize % KEPT).map_or(0, |last| last.load(Ordering::Acquire));
        last.max(self.last_of_all.load(Ordering::Acquire))
    }

    /// Gives every object another version, because any object may have changed.
    fn lose(&self) {
        self.note(Some(&self.last_of_all));
    }

    /// Notes an event, for one slot or for all objects. The caller must hold the lock of `followed`.
    fn note(&self, of: Option<&AtomicU64>) {
        let number = self.last_event.load(Ordering::Relaxed) + 1;
        // The slot gets the number before `last_event` does. So a thread that reads the number from `last_event` also finds it in the slot.
        of.unwrap_or(&self.last_of_all).store(number, Ordering::Release);
        self.last_event.store(number, Ordering::Release);
    }

    fn write_down(&self, mut events: &[u8]) {
        while !events.is_empty() {
            let length = word(events, 0).map_or(0, |length| length as usize);
            let Some((event, rest)) = events.split_at_checked(length).filter(|(event, _)| !event.is_empty())
            else {
                return self.lose();
            };
            self.note(inode_of(event).and_then(|inode| self.last.get(inode as usize % KEPT)));
            events = rest;
        }
    }
}

/// Whether anything was mounted or unmounted since the last call (proc_pid_mountinfo(5)). If the check fails, the function returns true.
fn have_changed(mounts: &File) -> bool {
    let mut asked = [PollFd::new(mounts, PollFlags::PRI)];
    poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
}

/// The id of the mount that contains a directory. No other mount ever has this id.
pub(crate) fn mount_of(directory: BorrowedFd<'_>) -> Option<u64> {
    let found = statx(directory, "", AtFlags::EMPTY_PATH, MOUNT_ID_UNIQUE).ok()?;
    (found.stx_mask & MOUNT_ID_UNIQUE.bits() != 0).then_some(found.stx_mnt_id)
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// The inode that an event is about, if the event contains it (fanotify(7)).
fn inode_of(event: &[u8]) -> Option<u64> {
    let mask = u64::from_ne_bytes(*event.get(8..)?.first_chunk()?);
    if mask & OVERFLOW != 0 {
        return None;
    }
    let head = usize::from(u16::from_ne_bytes(*event.get(6..)?.first_chunk()?));
    let info = event.get(head..)?;
    // The layout of this part of the event: kind, a byte of padding, length; the id of the file system; length and kind of the handle.
    if info.first() != Some(&IS_FID) {
        return None;
    }
    let handle = info.get(20..)?;
    match word(info, 16)? {
        // A handle begins with the inode's number; the number of its directory may follow.
        1 | 2 => word(handle, 0).map(u64::from),
        0x81 | 0x82 => handle.first_chunk().map(|inode| u64::from_ne_bytes(*inode)),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}
