//! Ensures that only one thread of all processes of the machine writes at a time. Changes that arrive during a commit are written together in the
//! next commit, so that many changes share one fsync.
//!
//! The wait for LMDB's own lock has no time limit, and LMDB does not report which process holds the lock. So a writer first takes a lock on a
//! separate file. The wait for this lock has a time limit, and the error identifies the process that holds the lock.

use crate::turn::{Held, NoTurn, WAIT, locked};
use enfilade_facts::{At, Change, CommitError, SourceError};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The work of the process that holds the lock, for the error message.
const DOING: &str = "writing facts";

/// The queue of changes that wait, and the lock file of the process that writes.
pub(super) struct Writers {
    queue: Mutex<Queue>,
    /// Notified when a thread has ended its work on a group of changes, also after a failure.
    written: Condvar,
    lock: Mutex<File>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Waiting>>,
    /// Whether a thread of this process is writing a group of changes.
    is_led: bool,
}

struct Waiting {
    change: Change,
    answer: Mutex<Option<Answer>>,
}

type Answer = Result<At, CommitError>;

impl Writers {
    /// Opens the lock file, or makes it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Writers { queue: Mutex::default(), written: Condvar::new(), lock: Mutex::new(file) })
    }

    /// Commits a change, alone or in a group with other changes. This thread or another thread writes the group. `write` returns a result for each
    /// change of the group.
    pub(super) fn commit(&self, change: &Change, write: impl Fn(&[&Change]) -> Vec<Answer>) -> Answer {
        let mut queue = locked(&self.queue);
        if queue.is_led {
            let mine = Arc::new(Waiting { change: change.clone(), answer: Mutex::default() });
            queue.waiting.push(Arc::clone(&mine));
            // If another thread has written the change, this thread returns the result. Otherwise one of the waiting threads writes the next group.
            while queue.is_led {
                queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
                if let Some(answer) = locked(&mine.answer).take() {
                    return answer;
                }
            }
            let place = queue.waiting.iter().position(|waiting| Arc::ptr_eq(waiting, &mine));
            let gone = || {
                SourceError::Unavailable("the thread that wrote this change failed, so it is unknown whether the change was made. Check whether it was made, and repeat it only if it was not".into())
            };
            queue.waiting.remove(place.ok_or_else(gone)?);
        }
        self.lead(queue, std::slice::from_ref(change), write).into_iter().next().unwrap_or_else(no_result)
    }

    /// Commits changes in this order, in a group. Returns a result for each change.
    pub(super) fn commit_each(
        &self,
        changes: &[Change],
        write: impl Fn(&[&Change]) -> Vec<Answer>,
    ) -> Vec<Answer> {
        let mut queue = locked(&self.queue);
        while queue.is_led {
            queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let mut answers = self.lead(queue, changes, write);
        answers.resize_with(changes.len(), no_result);
        answers
    }

    /// Writes the changes `own` and the changes that wait in the queue, as one group. Returns the results of `own`.
    fn lead(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        own: &[Change],
        write: impl Fn(&[&Change]) -> Vec<Answer>,
    ) -> Vec<Answer> {
        queue.is_led = true;
        let _lead = Lead(self);
        drop(queue);
        let file = locked(&self.lock);
        let held = Held::take(&file, WAIT, DOING).map_err(CommitError::from);
        // The group also contains changes that were queued during the wait for the lock.
        let group = std::mem::take(&mut locked(&self.queue).waiting);
        let changes: Vec<&Change> = own.iter().chain(group.iter().map(|waiting| &waiting.change)).collect();
        let answers = match held {
            Ok(_held) => write(&changes),
            Err(why) => changes.iter().map(|_| Err(why.clone())).collect(),
        };
        let mut answers = answers.into_iter();
        let mine = answers.by_ref().take(own.len()).collect();
        for (waiting, answer) in group.iter().zip(answers) {
            *locked(&waiting.answer) = Some(answer);
        }
        mine
    }

    /// Calls `run` while no other thread or process writes.
    pub(super) fn alone<R>(&self, run: impl FnOnce() -> R) -> Result<R, CommitError> {
        let file = locked(&self.lock);
        let _held = Held::take(&file, WAIT, DOING)?;
        Ok(run())
    }
}

fn no_result() -> Answer {
    let why = "internal error: the writer returned no result for this change";
    Err(SourceError::Unavailable(why.into()).into())
}

/// Marks this thread as the thread that writes a group. When this value is dropped, even after a panic, another thread can write the next group.
struct Lead<'w>(&'w Writers);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        locked(&self.0.queue).is_led = false;
        self.0.written.notify_all();
    }
}

impl From<NoTurn> for CommitError {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::Busy(said) => CommitError::Busy(said),
            NoTurn::Failed(why) => SourceError::Unavailable(format!(
                "the lock for writing (`writer.lock`) cannot be taken: {why}"
            ))
            .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::time::Duration;

    #[test]
    fn a_change_waits_for_another_process_and_then_names_it() {
        let scratch = Scratch::new();
        let path = scratch.path().join("writer.lock");
        let writers = Writers::open(&path).unwrap();
        let other = File::open(&path).unwrap();
        let held = Held::take(&other, Duration::ZERO, DOING).unwrap();
        let why = CommitError::from(Held::take(&locked(&writers.lock), Duration::ZERO, DOING).err().unwrap());
        assert!(matches!(&why, CommitError::Busy(said) if said.contains("writing facts")), "{why}");
        drop(held);
        writers.alone(|| ()).unwrap();
    }
}
