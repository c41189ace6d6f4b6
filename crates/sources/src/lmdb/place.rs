//! The directory the store lies in: for its owner alone, and on a file system of this machine.

use super::OpenError;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// LMDB's own files.
const FILES: [&str; 2] = ["data.mdb", "lock.mdb"];
/// NFS, SMB, CIFS, SMB2, 9P, Ceph, AFS (linux/magic.h).
const NETWORK: [u64; 7] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f];
const FUSE: u64 = 0x6573_5546;
/// File systems in user space all have one magic; these reach over the network.
const NETWORK_FUSE: [&str; 4] = ["fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs"];

/// Makes the directory where there is none, and checks it and the files in it.
pub(super) fn prepare(path: &Path) -> Result<(), OpenError> {
    let failed = |why| OpenError::io(path, &why);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let meta = std::fs::metadata(path).map_err(failed)?;
    if meta.mode() & 0o077 != 0 {
        return Err(OpenError::TooWide { path: path.to_owned(), mode: meta.mode() & 0o777, is_dir: true });
    }
    let kind = rustix::fs::statfs(path).map_err(|why| failed(why.into()))?.f_type as u64 & 0xffff_ffff;
    let mounts = || std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    if NETWORK.contains(&kind) || (kind == FUSE && is_network_fuse(&mounts(), meta.dev())) {
        return Err(OpenError::Network(path.to_owned()));
    }
    for name in FILES {
        let file = path.join(name);
        if let Ok(meta) = std::fs::metadata(&file)
            && meta.mode() & 0o077 != 0
        {
            return Err(OpenError::TooWide { path: file, mode: meta.mode() & 0o777, is_dir: false });
        }
    }
    Ok(())
}

/// LMDB makes its files with mode 0600 where the umask takes nothing away; this says what it has to be.
pub(super) fn close_to_others(path: &Path) -> std::io::Result<()> {
    for name in FILES {
        let file = path.join(name);
        if std::fs::metadata(&file)?.mode() & 0o777 != 0o600 {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

/// Looks the device up in `/proc/self/mountinfo` (proc(5)): the third field is the device, the type follows ` - `.
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

    #[test]
    fn what_others_can_open_is_refused_with_the_way_to_mend_it() {
        let scratch = Scratch::new();
        let refused = |file: &Path, mode: u32, mended: u32| {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
            let why = prepare(scratch.path()).unwrap_err().to_string();
            assert!(why.contains(&format!("mode {mode:o}")), "{why}");
            assert!(why.contains(&format!("run `chmod {mended:o} '{}'`", file.display())), "{why}");
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mended)).unwrap();
            prepare(scratch.path()).unwrap();
        };
        refused(scratch.path(), 0o750, 0o700);
        let file = scratch.path().join("data.mdb");
        std::fs::write(&file, "").unwrap();
        refused(&file, 0o640, 0o600);
    }

    #[test]
    fn a_fuse_mount_is_judged_by_its_type() {
        let line = |kind: &str| format!("36 35 0:61 / /mnt/far rw,nosuid - {kind} host:/dir rw,user_id=0\n");
        assert!(is_network_fuse(line("fuse.sshfs").as_bytes(), 61));
        assert!(!is_network_fuse(line("fuse.bindfs").as_bytes(), 61));
        assert!(!is_network_fuse(line("fuse.sshfs").as_bytes(), 62));
    }
}
