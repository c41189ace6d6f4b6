//! The directory of the store. Only its owner or the members of one group may open it, and it must be on a local file system.

use super::OpenError;
use crate::files::directory::{self, share};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// LMDB's own lock file, which every process maps into memory for writing.
pub(super) const LOCK_FILE: &str = "lock.mdb";
/// The file of the high-water mark.
pub(super) const HIGH_WATER: &str = "high-water";
/// The lock file of the process that writes.
pub(super) const WRITER_LOCK: &str = "writer.lock";
/// The lock file on which every process that has the store open holds a shared lock.
const LIVE_LOCK: &str = "live.lock";
/// The lock file of the process that copies the change log to the audit log.
pub(super) const SHIPPING_LOCK: &str = "shipping.lock";
/// The file that identifies the mirror leader. An older version of this program already used this name, and servers of both versions must share the
/// file.
pub(super) const MIRROR_LEADER: &str = "lookout";
/// The directory in which a compaction writes the new store, while no other process has the store open.
pub(super) const COMPACTING: &str = "compacting";
/// All files of the store: the files of LMDB, and the files of this program.
const FILES: [&str; 7] =
    ["data.mdb", LOCK_FILE, HIGH_WATER, MIRROR_LEADER, WRITER_LOCK, LIVE_LOCK, SHIPPING_LOCK];
/// The magic numbers of NFS, SMB, CIFS, SMB2, 9P, Ceph and AFS (linux/magic.h).
const NETWORK: [u64; 7] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f];
const FUSE: u64 = 0x6573_5546;
/// All file systems in user space (FUSE) have the same magic number. The FUSE types in this list are network file systems.
const NETWORK_FUSE: [&str; 4] = ["fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs"];

/// The modes of the directory and of the files in it.
fn modes(group: Option<u32>) -> (u32, u32) {
    if group.is_some() { (0o770, 0o660) } else { (0o700, 0o600) }
}

/// The path at which a restore makes a new store, before it replaces a store that cannot be opened.
pub(super) fn next_to(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.new"))
}

/// Makes the directory if it does not exist, and checks the modes of the directory and of its files. Returns an error if the directory is on a
/// network file system, or if it is missing and an interrupted restore has left a new store next to it.
pub(super) fn prepare(path: &Path, group: Option<u32>) -> Result<(), OpenError> {
    let failed = |why| OpenError::io(path, &why);
    let (of_directory, of_file) = modes(group);
    if !path.exists() && next_to(path).exists() {
        return Err(OpenError::Unmoved { path: path.to_owned(), new: next_to(path) });
    }
    directory::make_for(path, group).map_err(failed)?;
    let meta = std::fs::metadata(path).map_err(failed)?;
    check_mode(path, &meta, group, of_directory)?;
    let kind = rustix::fs::statfs(path).map_err(|why| failed(why.into()))?.f_type as u64;
    let mounts = || std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    if is_network(kind, meta.dev(), mounts) {
        return Err(OpenError::Network(path.to_owned()));
    }
    for name in FILES {
        let file = path.join(name);
        if let Ok(meta) = std::fs::metadata(&file) {
            check_mode(&file, &meta, group, of_file)?;
        }
    }
    Ok(())
}

/// Checks that only the owner can open a file or directory. If the group of the file or directory is the configured group, the members of this group
/// may open the file or directory, too.
fn check_mode(path: &Path, meta: &Metadata, group: Option<u32>, most: u32) -> Result<(), OpenError> {
    let allowed = if group == Some(meta.gid()) { most } else { most & 0o700 };
    if meta.mode() & 0o077 & !allowed == 0 {
        return Ok(());
    }
    Err(OpenError::TooWide { path: path.to_owned(), mode: meta.mode() & 0o777, allowed })
}

/// Sets the modes of the files. This is needed because the mode of a new file depends on the umask.
pub(super) fn set_modes(path: &Path, group: Option<u32>) -> io::Result<()> {
    for name in FILES.into_iter().filter(|name| path.join(name).exists()) {
        share(&path.join(name), group, modes(group).1)?;
    }
    Ok(())
}

/// Takes the shared lock that this process holds while it has the store open.
pub(super) fn live(path: &Path) -> Result<File, OpenError> {
    let failed = |why: io::Error| OpenError::io(path, &why);
    let file = lock_file(path, LIVE_LOCK).map_err(failed)?;
    if !try_lock(&file, FlockOperation::NonBlockingLockShared).map_err(failed)? {
        return Err(OpenError::Taken(path.to_owned()));
    }
    // A compaction holds the exclusive lock. This process has the shared lock, so no compaction is running. If the directory exists, a killed
    // compaction left it behind.
    match std::fs::remove_dir_all(path.join(COMPACTING)) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(failed(why)),
        _ => Ok(file),
    }
}

/// Takes the exclusive lock. While it is held, no other process has the store open or can open it.
pub(super) fn alone(path: &Path) -> Result<File, OpenError> {
    let file = lock_file(path, LIVE_LOCK).map_err(|why| OpenError::io(path, &why))?;
    keep_others_out(path, &file)?;
    Ok(file)
}

/// Turns the shared lock of [`live`] into the exclusive lock of [`alone`]. If that fails, no lock is held any more (flock(2)).
pub(super) fn keep_others_out(path: &Path, live: &File) -> Result<(), OpenError> {
    match try_lock(live, FlockOperation::NonBlockingLockExclusive) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::InUse(path.to_owned())),
        Err(why) => Err(OpenError::io(path, &why)),
    }
}

/// Tries to take a lock. Returns whether it was free.
fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// Takes the lock of the process that copies the change log to the audit log; `None` if another process holds it.
pub(super) fn shipping(path: &Path) -> io::Result<Option<File>> {
    let file = lock_file(path, SHIPPING_LOCK)?;
    Ok(try_lock(&file, FlockOperation::NonBlockingLockExclusive)?.then_some(file))
}

fn lock_file(path: &Path, name: &str) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).mode(0o600).open(path.join(name))
}

/// Whether a file system is a network file system, by its magic number from `statfs`. The number has 32 bits. In a larger signed field, the upper
/// bits repeat the sign, and are ignored.
fn is_network(magic: u64, device: u64, mountinfo: impl FnOnce() -> Vec<u8>) -> bool {
    let magic = magic & 0xffff_ffff;
    NETWORK.contains(&magic) || (magic == FUSE && is_network_fuse(&mountinfo(), device))
}

/// Whether the file system of a device is a network file system of FUSE, according to `/proc/self/mountinfo` (proc(5)). The third field of a line is
/// the device, and the type follows after ` - `.
fn is_network_fuse(mountinfo: &[u8], device: u64) -> bool {
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    String::from_utf8_lossy(mountinfo).lines().any(|line| {
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        line.split(' ').nth(2) == Some(device.as_str())
            && kind.is_some_and(|kind| NETWORK_FUSE.contains(&kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_others_can_open_is_refused_with_the_way_to_mend_it() {
        let scratch = Scratch::new();
        let refused = |file: &Path, mode: u32, mended: u32| {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
            let why = prepare(scratch.path(), None).unwrap_err().to_string();
            assert!(why.contains(&format!("mode {mode:o}")), "{why}");
            assert!(why.contains(&format!("run `chmod {mended:o} '{}'`", file.display())), "{why}");
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mended)).unwrap();
            prepare(scratch.path(), None).unwrap();
        };
        refused(scratch.path(), 0o750, 0o700);
        let file = scratch.path().join("data.mdb");
        std::fs::write(&file, "").unwrap();
        refused(&file, 0o640, 0o600);
    }

    #[test]
    fn a_group_that_was_named_may_open_it_and_no_other() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let group = rustix::process::getgid().as_raw();
        drop(
            crate::lmdb::Lmdb::open_for(&path, crate::lmdb::Terms { group: Some(group), map_bytes: None })
                .unwrap(),
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&path), 0o770);
        let made = FILES.iter().map(|name| path.join(name)).filter(|file| file.exists());
        assert!(made.clone().count() >= 5 && made.clone().all(|file| mode(&file) == 0o660));
        prepare(&path, Some(group)).unwrap();
        let why = prepare(&path, Some(group + 1)).unwrap_err().to_string();
        assert!(why.contains("run `chmod 700"), "{why}");
        assert!(prepare(&path, None).is_err());
    }

    #[test]
    fn a_fuse_mount_is_judged_by_its_type() {
        let line = |kind: &str| format!("36 35 0:61 / /mnt/far rw,nosuid - {kind} host:/dir rw,user_id=0\n");
        assert!(is_network_fuse(line("fuse.sshfs").as_bytes(), 61));
        assert!(!is_network_fuse(line("fuse.bindfs").as_bytes(), 61));
        assert!(!is_network_fuse(line("fuse.sshfs").as_bytes(), 62));
        const EXT4: u64 = 0xef53;
        const SMB: i32 = 0xff53_4d42_u32 as i32;
        for (magic, mounted, expected) in [
            (NETWORK[0], "fuse.bindfs", true),
            (SMB as u64, "fuse.bindfs", true),
            (FUSE, "fuse.sshfs", true),
            (FUSE, "fuse.bindfs", false),
            (EXT4, "fuse.sshfs", false),
        ] {
            let seen = is_network(magic, 61, || line(mounted).into_bytes());
            assert_eq!(seen, expected, "{magic:x} {mounted}");
        }
    }

    #[test]
    fn a_store_is_not_opened_while_the_rest_of_a_compaction_cannot_be_removed() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        drop(crate::lmdb::Lmdb::open(&path).unwrap());
        std::fs::write(path.join(COMPACTING), "not a directory").unwrap();
        assert!(crate::lmdb::Lmdb::open(&path).is_err());
        std::fs::remove_file(path.join(COMPACTING)).unwrap();
        crate::lmdb::Lmdb::open(&path).unwrap();
    }
}
