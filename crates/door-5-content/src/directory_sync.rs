//! Syncs of directories. Threads that wait for a sync of the same directory share one `fsync`: one call makes all changes durable that were made before
//! it began.

use enfilade_access::ObjectId;
use rustix::io::{self, Errno};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The directories for which a thread waits.
#[derive(Debug, Default)]
pub(crate) struct DirectorySyncs(Mutex<HashMap<ObjectId, Arc<Syncs>>>);

/// The syncs of one directory.
#[derive(Debug, Default)]
struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

/// Syncs are numbered from 1.
#[derive(Debug, Default)]
struct State {
    /// How many syncs have begun.
    begun: u64,
    /// Whether the last sync that began has not ended yet.
    is_running: bool,
    /// How many threads wait for a sync to end.
    waiting: usize,
    /// The last sync that failed, with its number.
    failed: Option<(u64, Errno)>,
}

impl DirectorySyncs {
    /// Waits until all changes that this thread made in the directory are durable. Calls `fsync`, unless a sync by another thread began after the changes.
    ///
    /// # Errors
    /// The error of the sync. An error of a shared sync is returned to all threads that wait for it.
    pub(crate) fn sync(&self, directory: ObjectId, fsync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let syncs = Arc::clone(locked(&self.0).entry(directory).or_default());
        let result = syncs.sync(fsync);
        let mut all = locked(&self.0);
        // One reference is in the map, one is here. Others are taken only while the map is locked.
        if Arc::strong_count(&syncs) == 2 {
            all.remove(&directory);
        }
        result
    }
}

impl Syncs {
    fn sync(&self, fsync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = locked(&self.state);
        // A sync that has begun already may have missed the changes of this thread.
        let before = state.begun;
        while state.is_running {
            state.waiting += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if state.ended() > before {
                return state.result_since(before);
            }
        }
        state.begun += 1;
        state.is_running = true;
        let number = state.begun;
        drop(state);
        let result = fsync();
        let mut state = locked(&self.state);
        state.is_running = false;
        if let Err(errno) = result {
            state.failed = Some((number, errno));
        }
        // Waking threads is a system call, even if no thread waits.
        if state.waiting > 0 {
            self.ended.notify_all();
        }
        result
    }
}

impl State {
    /// The number of the last sync that has ended.
    fn ended(&self) -> u64 {
        self.begun - u64::from(self.is_running)
    }

    /// If any sync after this number failed, the changes before it may be lost, even if the next sync succeeded: the kernel reports an error of a write
    /// only once.
    fn result_since(&self, number: u64) -> io::Result<()> {
        match self.failed {
            Some((failed, errno)) if failed > number => Err(errno),
            _ => Ok(()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const DIRECTORY: ObjectId = ObjectId { device: 1, inode: 2 };

    /// Each thread makes numbered changes. A sync notes how many changes there were when it began.
    #[test]
    fn each_thread_waits_for_a_sync_that_began_after_its_change_and_most_threads_share_one() {
        const THREADS: u64 = 16;
        const CHANGES: u64 = 50;
        let (syncs, changes, covered) = (DirectorySyncs::default(), AtomicU64::new(0), AtomicU64::new(0));
        let calls = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..CHANGES {
                        let mine = changes.fetch_add(1, Ordering::SeqCst) + 1;
                        let fsync = || {
                            let seen = changes.load(Ordering::SeqCst);
                            calls.fetch_add(1, Ordering::SeqCst);
                            std::thread::park_timeout(Duration::from_micros(300));
                            covered.fetch_max(seen, Ordering::SeqCst);
                            Ok(())
                        };
                        syncs.sync(DIRECTORY, fsync).unwrap();
                        assert!(covered.load(Ordering::SeqCst) >= mine, "change {mine} is not synced");
                    }
                });
            }
        });
        let calls = calls.into_inner();
        assert!(calls < THREADS * CHANGES / 2, "{calls} syncs");
        assert!(locked(&syncs.0).is_empty());
    }

    /// A second thread waits while the first one syncs: its own sync comes after that. The third thread shares the sync of the second one, and its error.
    #[test]
    fn an_error_is_returned_to_each_thread_that_shares_the_sync() {
        let (syncs, began) = (DirectorySyncs::default(), Barrier::new(2));
        let results: Vec<io::Result<()>> = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                syncs.sync(DIRECTORY, || {
                    began.wait();
                    while locked(&syncs.0).get(&DIRECTORY).map_or(0, Arc::strong_count) < 4 {
                        std::thread::yield_now();
                    }
                    Ok(())
                })
            });
            began.wait();
            let fails = || syncs.sync(DIRECTORY, || Err(Errno::IO));
            let others = [scope.spawn(fails), scope.spawn(fails)];
            std::iter::once(first).chain(others).map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results, [Ok(()), Err(Errno::IO), Err(Errno::IO)]);
    }

    #[test]
    fn directories_are_synced_independently() {
        let syncs = DirectorySyncs::default();
        let other = ObjectId { inode: 3, ..DIRECTORY };
        let inner = || syncs.sync(other, || Ok(()));
        assert_eq!(syncs.sync(DIRECTORY, inner), Ok(()));
        assert_eq!(syncs.sync(other, || Err(Errno::IO)), Err(Errno::IO));
        assert_eq!(syncs.sync(other, || Ok(())), Ok(()));
    }
}
