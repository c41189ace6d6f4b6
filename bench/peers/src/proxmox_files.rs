//! Locks and replaced files, with the same system calls as in Proxmox's library (`proxmox-sys/src/fs/file.rs`, `linux/timer.rs`).

use crate::Failure;
use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::{User, gettid};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{PermissionsExt as _, fchown};
use std::path::Path;
use std::time::Duration;

/// The time until the timer of a lock expires. In the original, this is the longest wait for a lock.
const WAIT: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(10);

/// The owner of the files: the user and the group `backup`.
#[derive(Clone, Copy)]
pub(super) struct Owner(u32, u32);

impl Owner {
    /// Asks the C library for the user `backup`. The original asks the C library for each lock, so `/etc/passwd` is read for each lock. If the user
    /// does not exist, the ids are those of the user in Debian.
    pub(super) fn backup() -> Result<Self, Failure> {
        let user = User::from_name("backup")?;
        Ok(user.map_or(Owner(34, 34), |user| Owner(user.uid.as_raw(), user.gid.as_raw())))
    }

    /// Gives the file to the owner. Only root may do this. For other users, the kernel refuses the call, and this function ignores the error.
    fn take(self, file: &File) -> Result<(), Failure> {
        match fchown(file, Some(self.0), Some(self.1)) {
            Err(why) if why.kind() != ErrorKind::PermissionDenied => Err(why.into()),
            _ => Ok(()),
        }
    }
}

/// A locked file, and the owner of the files that the lock protects.
pub(super) struct Locked {
    pub(super) owner: Owner,
    _file: File,
}

/// Takes a file lock. For each lock, the original sets a timer whose signal ends the wait for the lock after ten seconds. Here, the timer sends a
/// signal that the process ignores, because no lock is held for ten seconds.
pub(super) fn lock(path: &Path) -> Result<Locked, Failure> {
    let owner = Owner::backup()?;
    let file = open(path, owner)?;
    let mut signal = SigSet::empty();
    signal.add(Signal::SIGURG);
    signal.thread_unblock()?;
    let notify =
        SigevNotify::SigevThreadId { signal: Signal::SIGURG, thread_id: gettid().as_raw(), si_value: 0 };
    let mut timer = Timer::new(ClockId::CLOCK_REALTIME, SigEvent::new(notify))?;
    timer.set(Expiration::IntervalDelayed(WAIT.into(), AGAIN.into()), TimerSetTimeFlags::empty())?;
    flock(&file, FlockOperation::LockExclusive)?;
    drop(timer);
    signal.thread_block()?;
    Ok(Locked { owner, _file: file })
}

/// Opens the file of a lock. The mode and the owner of the file are set only when the file is created.
fn open(path: &Path, owner: Owner) -> Result<File, Failure> {
    let opens = |is_new: bool| OpenOptions::new().read(true).append(true).create_new(is_new).open(path);
    match opens(false) {
        Err(why) if why.kind() == ErrorKind::NotFound => {}
        opened => return Ok(opened?),
    }
    match opens(true) {
        // Another thread has created the file.
        Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(opens(false)?),
        created => {
            let file = created?;
            file.set_permissions(Permissions::from_mode(0o660))?;
            owner.take(&file)?;
            Ok(file)
        }
    }
}

/// Replaces a file: writes a new file, syncs it on request, and renames it.
pub(super) fn replace(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    owner: Owner,
    is_synced: bool,
) -> Result<(), Failure> {
    let next = path.with_extension("tmp");
    let mut file = File::create(&next)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    owner.take(&file)?;
    file.write_all(bytes)?;
    if is_synced {
        file.sync_all()?;
    }
    Ok(std::fs::rename(next, path)?)
}
