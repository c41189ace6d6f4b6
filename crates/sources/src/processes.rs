//! Numbers that each server process of the machine publishes. The other processes can read the numbers as long as the process runs.
//!
//! Each process has its own file in a common directory, and maps this file. The process locks its file with `flock`. The kernel releases the lock at
//! the end of the process, even if it was killed. A file without a lock is ignored. Files are not identified by process ids, because the kernel can
//! give the id of an ended process to a new process. Other processes use `read` and do not map the file, so that they can still read a file that is
//! being replaced.

use crate::files::directory::{self, open_for};
use crate::mapping::Mapping;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

/// The greatest number of processes that can run at the same time.
pub const PROCESSES_MAX: usize = 64;

/// The numbers that this process publishes, each in a word of 8 bytes.
pub struct OwnWords {
    mapping: Mapping,
    /// The lock on this file shows that the process is running.
    _locked: File,
}

/// The numbers that a running process publishes, each in a word of 8 bytes.
#[derive(Debug)]
pub struct TheirWords {
    file: File,
    count: usize,
}

impl OwnWords {
    /// Makes `count` words, all zero, in a new file in `directory`, and allocates the file's disk space. Only the owner can open the directory; if a
    /// group is given, the members of the group can open the directory, too.
    ///
    /// # Errors
    /// When [`PROCESSES_MAX`] processes are running, the file cannot be made, or the disk is full.
    pub fn take(directory: &Path, count: usize, group: Option<u32>) -> io::Result<Self> {
        directory::make_for(directory, group)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // Only one process at a time chooses the number of its file. The lock is released when the file `turn` is closed.
        let turn = open_for(&directory.join("turn"), group, |path| options.open(path))?;
        turn.lock()?;
        for number in 0..PROCESSES_MAX {
            let path = place(directory, number);
            if find(&path)?.is_some() {
                continue;
            }
            // The new file is locked before it gets its final name. So no reader can find a locked file with the words of an earlier process.
            let next = directory.join("next");
            match std::fs::remove_file(&next) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                Ok(()) | Err(_) => {}
            }
            let file = open_for(&next, group, |path| options.open(path))?;
            file.lock()?;
            let mapping = match Mapping::new(&file, count) {
                Ok(mapping) => mapping,
                Err(why) => {
                    // The removal of the file frees the disk space that was allocated.
                    let _ = std::fs::remove_file(&next);
                    return Err(why);
                }
            };
            std::fs::rename(&next, &path)?;
            return Ok(OwnWords { mapping, _locked: file });
        }
        let text = format!(
            "{PROCESSES_MAX} servers run on `{}` already; stop one of them, or start this server with another data directory",
            directory.display()
        );
        Err(io::Error::other(text))
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }
}

/// The words of every running process, including this one.
///
/// # Errors
/// When a file of the directory cannot be opened or its lock cannot be checked. If the directory does not exist, there are no processes.
pub fn living(directory: &Path) -> io::Result<Vec<TheirWords>> {
    let found = (0..PROCESSES_MAX).map(|number| find(&place(directory, number)));
    found.filter_map(Result::transpose).collect()
}

/// The words in a file, if the process that wrote them is running.
fn find(path: &Path) -> io::Result<Option<TheirWords>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    match file.try_lock_shared() {
        // No process holds the lock. The shared lock that was taken here is released when the file is closed.
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let count = usize::try_from(file.metadata()?.len() / 8).unwrap_or(0);
            Ok(Some(TheirWords { file, count }))
        }
        Err(TryLockError::Error(why)) => Err(why),
    }
}

impl TheirWords {
    /// The number of words.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The word with the index `at`; 0 if there is none.
    pub fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        match self.file.read_exact_at(&mut bytes, at as u64 * 8) {
            Ok(()) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }
}

fn place(directory: &Path, number: usize) -> PathBuf {
    directory.join(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_written_is_read_by_others_while_the_writer_lives() {
        let scratch = Scratch::new();
        let directory = scratch.path().join("processes");
        assert_eq!(living(&directory).unwrap().len(), 0);
        let (one, other) =
            (OwnWords::take(&directory, 1_000, None).unwrap(), OwnWords::take(&directory, 8, None).unwrap());
        one.words()[999].store(5, Ordering::SeqCst);
        other.words()[7].store(6, Ordering::SeqCst);
        let found = living(&directory).unwrap();
        let seen: Vec<_> =
            found.iter().map(|words| (words.count(), words.word(999), words.word(7))).collect();
        assert_eq!(seen, [(1_000, 5, 0), (8, 0, 6)]);
        drop(one);
        assert_eq!(living(&directory).unwrap().len(), 1);
        // The words of a new process are zero, although the file of an ended process had the same number.
        let again = OwnWords::take(&directory, 1_000, None).unwrap();
        assert!(again.words().iter().all(|word| word.load(Ordering::SeqCst) == 0));
        assert_eq!(living(&directory).unwrap().len(), 2);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let scratch = Scratch::new();
        let mut held: Vec<_> =
            (0..PROCESSES_MAX).map(|_| OwnWords::take(scratch.path(), 8, None).unwrap()).collect();
        let why = OwnWords::take(scratch.path(), 8, None).err().unwrap().to_string();
        assert!(why.contains("64 servers run on"), "{why}");
        held.pop();
        assert!(OwnWords::take(scratch.path(), 8, None).is_ok());
    }
}
