//! Ensures that only one thread of all processes of the machine writes at a time. The wait for the right to write has a time limit.
//!
//! The wait for LMDB's own lock has no time limit, and LMDB does not report which process holds the lock. So a lock on a separate file is taken
//! first. If another process holds the lock on this file for too long, the error identifies that process if possible.

use crate::pause::pause;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time for which a writer waits for another writer.
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// The pauses between two attempts. They are short at first, because a commit often takes less than a millisecond.
const STEPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// The reason why a [`Turn`] was not taken.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoTurn {
    /// Another writer has had the right to write for too long. The text identifies that writer if possible, and says what to do.
    #[error("{0}")]
    Busy(String),
    /// The lock cannot be taken.
    #[error("{0}")]
    Failed(String),
}

/// A lock for which the threads of this process and other processes wait.
pub(crate) struct Turns {
    file: File,
    is_taken: Mutex<bool>,
    freed: Condvar,
    doing: &'static str,
}

/// The right of this thread to write. It ends when this value is dropped.
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    held: Option<Held<'t>>,
}

impl Turns {
    /// Opens the lock file. `doing` describes the work of the other process in an error message.
    ///
    /// # Errors
    /// When the file cannot be opened or made.
    pub(crate) fn open(path: &Path, doing: &'static str) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Turns { file, is_taken: Mutex::new(false), freed: Condvar::new(), doing })
    }

    /// Takes the right to write. Waits at most the time `at_most` for other threads of this process, and then at most the same time for other
    /// processes.
    ///
    /// # Errors
    /// [`NoTurn`] when the wait was too long, or the lock cannot be taken.
    pub(crate) fn take(&self, at_most: Duration) -> Result<Turn<'_>, NoTurn> {
        let waited = self.freed.wait_timeout_while(locked(&self.is_taken), at_most, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *is_taken {
            return Err(NoTurn::Busy(format!(
                "for more than {at_most:?}, another thread of this server has been {}, or has waited for a process that does this. Try again. If the error persists, look in the log for a line that names this process",
                self.doing
            )));
        }
        *is_taken = true;
        drop(is_taken);
        // When `turn` is dropped, the right to write ends. If the next step fails, `turn` is dropped, too.
        let mut turn = Turn { turns: self, held: None };
        turn.held = Some(Held::take(&self.file, at_most, self.doing)?);
        Ok(turn)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The lock on the file is released before the next thread is notified, so that the notified thread can take the lock.
        self.held = None;
        *locked(&self.turns.is_taken) = false;
        self.turns.freed.notify_one();
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock on the file, which all processes of the machine use. It is released when this value is dropped, or by the kernel at the end of the
/// process.
pub(crate) struct Held<'f>(&'f File);

impl<'f> Held<'f> {
    /// Waits for the lock. No other thread of this process may hold the lock through the same `File`.
    ///
    /// # Errors
    /// [`NoTurn`] when the wait was too long, or the lock cannot be taken.
    pub(crate) fn take(file: &'f File, at_most: Duration, doing: &str) -> Result<Self, NoTurn> {
        let mut waited = Duration::ZERO;
        loop {
            match flock(file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Held(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if waited < at_most => {
                    let step = if waited < STEPS[1] { STEPS[0] } else { STEPS[1] };
                    pause(step);
                    waited += step;
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(NoTurn::Busy(holder(file, at_most, doing)));
                }
                Err(why) => return Err(NoTurn::Failed(why.to_string())),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

const LOOKS: usize = 10;

/// The text of the error. It says which process holds the lock (if that process can be identified), for how long, and what to do.
fn holder(file: &File, waited: Duration, doing: &str) -> String {
    let inode = file.metadata().map_or(0, |meta| meta.ino());
    // The kernel returns the list in several reads. If a lock is released between two reads, other locks may be missing. So the list is read several
    // times.
    let look = |_| flock_holder(&std::fs::read_to_string("/proc/locks").unwrap_or_default(), inode);
    let Some(pid) = (0..LOOKS).find_map(look) else {
        return format!(
            "another process, which could not be identified, has been {doing} for {waited:?}; try again, or find the process with `lslocks`"
        );
    };
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let command = read("cmdline").split('\0').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    // The state is the first word after the name of the command (proc(5)). The name is in parentheses, and may contain any characters.
    let stat = read("stat");
    let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
    let hint = match is_stopped {
        true => format!("it is stopped: continue it with `kill -CONT {pid}`, or end it"),
        false => format!("try again; if this error persists, end process {pid}"),
    };
    format!("process {pid} (`{command}`) has been {doing} for more than {waited:?}; {hint}")
}

/// The id of the process that holds the lock on this inode, from `/proc/locks` (proc(5)). A line has the form `1: FLOCK ADVISORY WRITE 1234
/// fd:01:5678 0 EOF`. In the line of a waiting process, `->` follows the number, so this line does not match.
fn flock_holder(locks: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, "WRITE", pid, place, ..] if place.rsplit(':').next() == Some(&inode) => {
                pid.parse().ok()
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_turn_is_waited_for_so_long_and_its_holder_is_named() {
        let scratch = Scratch::new();
        let path = scratch.path().join("writer.lock");
        let (here, there) = (Turns::open(&path, "testing").unwrap(), Turns::open(&path, "testing").unwrap());
        let held = there.take(Duration::ZERO).unwrap();
        let own = format!("process {}", std::process::id());
        let said = |turns: &Turns| turns.take(Duration::from_millis(20)).err().map(|why| why.to_string());
        assert!(said(&here).is_some_and(|why| why.contains(&own) && why.contains("testing")));
        assert!(said(&there).is_some_and(|why| why.contains("this server has been testing")));
        drop(held);
        // Both `here` and `there` can take the lock again, although one of the two had timed out before.
        assert_eq!((said(&here), said(&there)), (None, None));
    }

    #[test]
    fn threads_take_turns_and_each_gets_one() {
        let scratch = Scratch::new();
        let turns = Turns::open(&scratch.path().join("writer.lock"), "testing").unwrap();
        let (inside, most) = (Mutex::new(0), Mutex::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _turn = turns.take(WAIT * 5).unwrap();
                        *locked(&inside) += 1;
                        let now = *locked(&inside);
                        let mut most = locked(&most);
                        *most = now.max(*most);
                        *locked(&inside) -= 1;
                    }
                });
            }
        });
        assert_eq!((*locked(&most), *locked(&inside)), (1, 0));
    }

    #[test]
    fn the_holder_is_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 fd:01:78 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 fd:01:77 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 14 fd:01:77 0 EOF\n";
        assert_eq!(flock_holder(locks, 77), Some(13));
        assert_eq!(flock_holder(locks, 7), None);
    }
}
