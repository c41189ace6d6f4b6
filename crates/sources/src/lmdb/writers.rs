//! One writer at a time, in this process and on the machine; whoever waits meanwhile is written with the next one, so
//! that many changes share one fsync.
//!
//! LMDB's own lock waits for ever and does not say for whom. A lock on a file of ours stands in front of it: it is waited
//! for so long, and then the process that holds it is named.

use crate::pause::pause;
use enfilade_facts::{At, Change, CommitError, SourceError};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a change waits for another process that writes.
const WAIT: Duration = Duration::from_secs(10);
/// Between two tries: short at first, because a commit takes a fraction of a millisecond.
const STEPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(5)];

/// Everybody who has something to write.
pub(super) struct Writers {
    queue: Mutex<Queue>,
    /// Told when a group was written.
    written: Condvar,
    lock: Mutex<File>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Waiting>>,
    /// Whether a thread is writing a group.
    is_led: bool,
}

struct Waiting {
    change: Change,
    answer: Mutex<Option<Answer>>,
}

type Answer = Result<At, CommitError>;

impl Writers {
    /// With the lock in this file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Writers { queue: Mutex::default(), written: Condvar::new(), lock: Mutex::new(file) })
    }

    /// Has a change written, alone or with others, by this thread or another one. `write` answers each change.
    pub(super) fn commit(&self, change: &Change, write: impl Fn(&[&Change]) -> Vec<Answer>) -> Answer {
        let mut queue = locked(&self.queue);
        if queue.is_led {
            let mine = Arc::new(Waiting { change: change.clone(), answer: Mutex::default() });
            queue.waiting.push(Arc::clone(&mine));
            // Whoever has been answered goes at once; of the others one leads the next group.
            while queue.is_led {
                queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = locked(&mine.answer).take() {
                    return answer;
                }
            }
            let place = queue.waiting.iter().position(|waiting| Arc::ptr_eq(waiting, &mine));
            let gone = || SourceError::Unavailable("the thread that wrote this change has ended".into());
            queue.waiting.remove(place.ok_or_else(gone)?);
        }
        queue.is_led = true;
        let _lead = Lead(self);
        drop(queue);
        let file = locked(&self.lock);
        let held = Held::take(&file, WAIT);
        // Whoever came while the lock was waited for is in the group, too.
        let group = std::mem::take(&mut locked(&self.queue).waiting);
        let changes: Vec<&Change> =
            std::iter::once(change).chain(group.iter().map(|waiting| &waiting.change)).collect();
        let answers = match held {
            Ok(_held) => write(&changes),
            Err(why) => changes.iter().map(|_| Err(why.clone())).collect(),
        };
        let mut answers = answers.into_iter();
        let mine = answers.next();
        for (waiting, answer) in group.iter().zip(answers) {
            *locked(&waiting.answer) = Some(answer);
        }
        mine.unwrap_or_else(|| Err(SourceError::Unavailable("nothing was written".into()).into()))
    }

    /// Runs something while nobody else writes, here or in another process.
    pub(super) fn alone<R>(&self, run: impl FnOnce() -> R) -> Result<R, CommitError> {
        let file = locked(&self.lock);
        let _held = Held::take(&file, WAIT)?;
        Ok(run())
    }
}

/// Leading a group; also when it ends in a panic, another one leads the next.
struct Lead<'w>(&'w Writers);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        locked(&self.0.queue).is_led = false;
        self.0.written.notify_all();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine-wide lock, until this is dropped; the kernel frees it when the process ends.
struct Held<'f>(&'f File);

impl<'f> Held<'f> {
    fn take(file: &'f File, at_most: Duration) -> Result<Self, CommitError> {
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
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(CommitError::Busy(holder(file, at_most))),
                Err(why) => {
                    return Err(SourceError::Unavailable(format!("the writers' lock: {why}")).into());
                }
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

/// Who has held the lock for so long, and what to do.
fn holder(file: &File, waited: Duration) -> String {
    let inode = file.metadata().map_or(0, |meta| meta.ino());
    // The kernel shows its list in pieces: locks that are given back between two of them hide others, so one look is not enough.
    let look = |_| flock_holder(&std::fs::read_to_string("/proc/locks").unwrap_or_default(), inode);
    let Some(pid) = (0..LOOKS).find_map(look) else {
        return format!("another process has been writing facts for {waited:?}; try again");
    };
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let command = read("cmdline").split('\0').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    // proc(5): the state is the first word after the command, which is in parentheses and may hold anything.
    let stat = read("stat");
    let is_stopped = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
    let hint = match is_stopped {
        true => format!("it is stopped: continue it with `kill -CONT {pid}`, or end it"),
        false => "try again, or see what it waits for".to_owned(),
    };
    format!("process {pid} (`{command}`) has been writing facts for more than {waited:?}; {hint}")
}

/// proc(5), `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`; waiting ones have `->` after the number.
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
    fn whoever_holds_the_lock_for_long_is_named() {
        let scratch = Scratch::new();
        let path = scratch.path().join("writer.lock");
        let writers = Writers::open(&path).unwrap();
        let other = File::open(&path).unwrap();
        let held = Held::take(&other, Duration::ZERO).unwrap();
        let file = locked(&writers.lock);
        let Err(CommitError::Busy(why)) = Held::take(&file, Duration::from_millis(20)).map(|_| ()) else {
            panic!("two at once")
        };
        assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
        drop(held);
        assert!(Held::take(&file, Duration::ZERO).is_ok());
    }

    #[test]
    fn the_holder_is_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 fd:01:78 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 fd:01:77 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 14 fd:01:77 0 EOF\n";
        assert_eq!(flock_holder(locks, 77), Some(13));
        assert_eq!(flock_holder(locks, 7), None);
    }
}
