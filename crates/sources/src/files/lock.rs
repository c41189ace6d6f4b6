//! Proxmox's lock files: an exclusive `flock` that is taken before a file is edited.

use crate::pause::pause;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

const STEP: Duration = Duration::from_millis(20);

impl FileLock {
    /// Takes the lock. If another process holds the lock, waits until the lock is free, but not much longer than the time `at_most`.
    ///
    /// # Errors
    /// When the lock file cannot be created, or another process holds the lock for longer than `at_most`.
    pub fn take(path: &Path, at_most: Duration) -> io::Result<Self> {
        let failed = |why: io::Error| {
            io::Error::new(why.kind(), format!("the lock `{}` cannot be taken: {why}", path.display()))
        };
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o660).open(path).map_err(failed)?;
        let mut waited = Duration::ZERO;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(FileLock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if waited < at_most => {
                    pause(STEP);
                    waited += STEP;
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let text = format!(
                        "another process has held the lock `{}` for more than {waited:?}; try again, or find the process with `lslocks`",
                        path.display()
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(failed(why.into())),
            }
        }
    }
}

/// Takes these locks. If another process holds a lock, waits until the lock is free, and then takes it. All waits together are not much longer than
/// the time `at_most`. The result also contains the lock files that this process opened, but could not lock. A lock file that does not exist is not
/// created.
pub(crate) fn wait_for(paths: &[PathBuf], at_most: Duration) -> Vec<FileLock> {
    let mut waited = Duration::ZERO;
    let mut held = Vec::new();
    for path in paths {
        let Ok(file) = OpenOptions::new().write(true).open(path) else { continue };
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() && waited < at_most {
            pause(STEP);
            waited += STEP;
        }
        held.push(FileLock { _file: file });
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn one_at_a_time() {
        let scratch = Scratch::new();
        let path = scratch.path().join(".lck");
        let held = FileLock::take(&path, Duration::ZERO).unwrap();
        let why = FileLock::take(&path, Duration::from_millis(40)).unwrap_err().to_string();
        assert!(why.contains(".lck"), "{why}");
        drop(held);
        FileLock::take(&path, Duration::ZERO).unwrap();
        let nowhere = FileLock::take(&scratch.path().join("no/.lck"), Duration::ZERO).unwrap_err();
        assert!(nowhere.to_string().contains("no/.lck"), "{nowhere}");
    }

    #[test]
    fn waiting_for_who_holds_it_ends_when_it_is_free_or_late() {
        let scratch = Scratch::new();
        let paths = [scratch.path().join("a"), scratch.path().join("none")];
        let held = FileLock::take(&paths[0], Duration::ZERO).unwrap();
        assert_eq!(wait_for(&paths, Duration::from_millis(40)).len(), 1);
        assert!(!paths[1].exists());
        drop(held);
        let waited = wait_for(&paths, Duration::from_secs(60));
        assert!(FileLock::take(&paths[0], Duration::ZERO).is_err());
        drop(waited);
        FileLock::take(&paths[0], Duration::ZERO).unwrap();
    }

    #[test]
    fn whoever_waits_gets_it_when_it_is_free() {
        let scratch = Scratch::new();
        let path = scratch.path().join(".lck");
        let held = FileLock::take(&path, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| FileLock::take(&path, Duration::from_secs(60)).is_ok());
            pause(Duration::from_millis(50));
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
