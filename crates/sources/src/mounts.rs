//! What the kernel says is mounted.

use enfilade_facts::Mounts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::Duration;

/// Watches `/proc/self/mountinfo`.
pub struct MountWatch {
    file: File,
}

impl MountWatch {
    /// Opens it.
    ///
    /// # Errors
    /// When there is no `/proc`.
    pub fn open() -> io::Result<Self> {
        Ok(MountWatch { file: File::open("/proc/self/mountinfo")? })
    }

    /// What is mounted now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self) -> io::Result<Mounts> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(Mounts::new(text.lines().filter_map(mount_point)))
    }

    /// Waits until something is mounted or unmounted, at most so long; says whether something was.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<bool> {
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let mut watched = [PollFd::new(&self.file, PollFlags::PRI | PollFlags::ERR)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
}

/// The fifth field of a line (proc(5)), with its octal escapes read.
fn mount_point(line: &str) -> Option<String> {
    let field = line.split(' ').nth(4)?;
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo() {
        let line = r"36 35 98:0 /mnt1 /mnt/a\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount_point(line).as_deref(), Some("/mnt/a b"));
        assert_eq!(mount_point("short line"), None);
        let mut watch = MountWatch::open().unwrap();
        assert!(watch.read().unwrap().is_mount_point("/proc"));
        assert!(!watch.read().unwrap().is_mount_point("/proc/self"));
    }
}
