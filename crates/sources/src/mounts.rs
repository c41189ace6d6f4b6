//! Reads the list of mounted file systems from the kernel.

use enfilade_facts::Mounts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::time::Duration;

/// If the list changes during every reading, it is read at most this number of times.
const TRIES: usize = 4;

/// Watches the list of mounts (`/proc/self/mountinfo`).
pub struct MountWatch {
    file: File,
    /// Whether the list changed even during the last reading. In this case a mount may be missing in the result of that reading.
    is_outdated: bool,
}

impl MountWatch {
    /// Opens the kernel's list of mounts.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn open() -> io::Result<Self> {
        Ok(MountWatch { file: File::open("/proc/self/mountinfo")?, is_outdated: false })
    }

    /// Reads the present mounts. If the list changed even during the last reading, a mount may be missing in the result. In this case the next call
    /// of [`MountWatch::wait`] returns at once.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn read(&mut self) -> io::Result<Mounts> {
        let mut text = Vec::new();
        for _ in 0..TRIES {
            text.clear();
            self.file.rewind()?;
            self.file.read_to_end(&mut text)?;
            // The kernel returns the list in several reads. A change between two of these reads may be missing in the result.
            self.is_outdated = self.changes_within(Duration::ZERO)?;
            if !self.is_outdated {
                break;
            }
        }
        Ok(Mounts::new(text.split(|byte| *byte == b'\n').filter_map(mount_point)))
    }

    /// Waits for a mount or unmount, at most for the time `at_most`. Returns whether the list must be read again.
    ///
    /// # Errors
    /// When the list cannot be watched.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<bool> {
        Ok(self.is_outdated || self.changes_within(at_most)?)
    }

    /// Whether a file system was mounted or unmounted since the last call, or is mounted or unmounted within this time.
    fn changes_within(&mut self, time: Duration) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let mut watched = [PollFd::new(&self.file, PollFlags::PRI | PollFlags::ERR)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
}

/// The mount point: the fifth field of a line (proc(5)), with its octal escapes decoded. `None` for a path that is not UTF-8, because no datastore
/// can have such a path.
fn mount_point(line: &[u8]) -> Option<String> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let escaped =
            (byte == b'\\').then(|| tail.split_first_chunk::<3>()).flatten().and_then(|(digits, tail)| {
                let octal = std::str::from_utf8(digits).ok()?;
                Some((u8::from_str_radix(octal, 8).ok()?, tail))
            });
        match escaped {
            Some((value, tail)) => {
                bytes.push(value);
                rest = tail;
            }
            None => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The present mounts.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn now() -> io::Result<Mounts> {
    MountWatch::open()?.read()
}

/// The types of network file systems.
const NETWORK: [&str; 13] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.glusterfs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
];

/// The mount point of the file system that contains `path`, if it is a network file system.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn network_mount_over(path: &str) -> io::Result<Option<String>> {
    Ok(network_mount_in(&std::fs::read("/proc/self/mountinfo")?, path))
}

fn network_mount_in(mountinfo: &[u8], path: &str) -> Option<String> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let over = lines.filter_map(|line| Some((mount_point(line)?, is_network(line))));
    let over = over.filter(|(point, _)| Path::new(path).starts_with(point));
    // If several file systems have the same mount point, the last one hides the others.
    over.max_by_key(|(point, _)| point.len()).and_then(|(point, is_network)| is_network.then_some(point))
}

/// Whether a line is for a network file system. The type of the file system is the field after `-`.
fn is_network(line: &[u8]) -> bool {
    let mut fields = line.split(|byte| *byte == b' ').skip_while(|field| *field != b"-");
    fields.nth(1).is_some_and(|kind| NETWORK.iter().any(|known| known.as_bytes() == kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo() {
        let line = br"36 35 98:0 /mnt1 /mnt/a\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount_point(line).as_deref(), Some("/mnt/a b"));
        assert_eq!(mount_point(b"short line"), None);
        assert_eq!(mount_point(b"36 35 98:0 / /mnt/\xff rw"), None);
        assert_eq!(mount_point(br"36 35 98:0 / /mnt/a\134b\011c\9 rw").as_deref(), Some("/mnt/a\\b\tc\\9"));
        let mut watch = MountWatch::open().unwrap();
        assert!(watch.read().unwrap().is_mount_point("/proc"));
        assert!(!watch.read().unwrap().is_mount_point("/proc/self"));
        assert!(!watch.wait(Duration::from_millis(1)).unwrap());
        watch.is_outdated = true;
        assert!(watch.wait(Duration::from_secs(3_600)).unwrap(), "returns at once");
        watch.read().unwrap();
        assert!(!watch.is_outdated);
    }

    #[test]
    fn what_is_on_another_machine() {
        let table =
            b"1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:40 / /mnt/a rw,relatime shared:5 - nfs4 nas:/a rw\n\
            3 2 8:2 / /mnt/a/b rw - ext4 /dev/sdb rw\n4 1 0:41 / /mnt/c rw - fuse.sshfs x: rw\n";
        for (path, expected) in [
            ("/tank", None),
            ("/mnt/a", Some("/mnt/a")),
            ("/mnt/a/x/y", Some("/mnt/a")),
            ("/mnt/a/b/x", None),
            ("/mnt/ab", None),
            ("/mnt/c/x", Some("/mnt/c")),
        ] {
            assert_eq!(network_mount_in(table, path).as_deref(), expected, "{path}");
        }
    }
}
