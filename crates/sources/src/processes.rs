//! Words that each process of the machine writes and all others read, as long as it lives.
//!
//! Each has a file of its own in one directory, mapped by itself alone and locked with `flock`, which the kernel takes back when the
//! process ends in any way: a file without a lock counts for nothing. Process ids are not used, so an id that the kernel gives
//! out again does no harm. Others read with `read`, so that a file that is replaced meanwhile is no fault.

use crate::files::directory::{self, open_for};
use crate::mapping::Mapping;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

/// How many processes there may be at once.
pub const PROCESSES_MAX: usize = 64;

/// The words of this process.
pub struct OwnWords {
    mapping: Mapping,
    /// Its lock is what says that the process lives.
    _locked: File,
}

/// The words of a process that lives.
#[derive(Debug)]
pub struct TheirWords {
    file: File,
    count: usize,
}

impl OwnWords {
    /// So many words, all zero, in a file of the directory that nobody else has. All of it has its place on the disk. The directory is for its
    /// owner alone, or also for the members of a group.
    ///
    /// # Errors
    /// When there is none, it cannot be made, or the disk has no room for it.
    pub fn take(directory: &Path, count: usize, group: Option<u32>) -> io::Result<Self> {
        directory::make_for(directory, group)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // One takes a place at a time; the lock ends with the file.
        let turn = open_for(&directory.join("turn"), group, |path| options.open(path))?;
        turn.lock()?;
        for number in 0..PROCESSES_MAX {
            let path = place(directory, number);
            if find(&path)?.is_some() {
                continue;
            }
            // A new file, locked before it has its name: no reader finds the words of the process before under this lock.
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
                    // What there was room for is given back.
                    let _ = std::fs::remove_file(&next);
                    return Err(why);
                }
            };
            std::fs::rename(&next, &path)?;
            return Ok(OwnWords { mapping, _locked: file });
        }
        let text = format!(
            "{PROCESSES_MAX} servers run on `{}` already; stop one, or give this one a data directory of its own",
            directory.display()
        );
        Err(io::Error::other(text))
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }
}

/// The words of every process that lives, this one's among them.
///
/// # Errors
/// When the directory cannot be read; where there is none, no process runs.
pub fn living(directory: &Path) -> io::Result<Vec<TheirWords>> {
    let found = (0..PROCESSES_MAX).map(|number| find(&place(directory, number)));
    found.filter_map(Result::transpose).collect()
}

/// The words in a file, if the process that wrote them lives.
fn find(path: &Path) -> io::Result<Option<TheirWords>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    match file.try_lock_shared() {
        // No process has it. The lock ends with the file.
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let count = usize::try_from(file.metadata()?.len() / 8).unwrap_or(0);
            Ok(Some(TheirWords { file, count }))
        }
        Err(TryLockError::Error(why)) => Err(why),
    }
}

impl TheirWords {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One of them; 0 where there is none.
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
        // The next process finds nothing of the one before.
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
