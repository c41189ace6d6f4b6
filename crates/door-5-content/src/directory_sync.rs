//! Syncs of directories. Threads that wait for a sync of the same directory share one `fsync`. One `fsync` makes all changes durable that were made
//! before the call began.

use enfilade_access::ObjectId;
use rustix::io;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The syncs of all directories of a tree.
#[derive(Debug, Default)]
pub(crate) struct DirectorySyncs {
    /// Each directory that a thread is syncing now or is waiting to sync, with the syncs of the directory.
    now: Mutex<HashMap<ObjectId, Arc<Syncs>>>,
    /// Whether a sync has failed. From then on, each thread calls `fsync` itself. The reason: the kernel reports an error of a write once to each
    /// open file description. So a thread gets the error only if it calls `fsync` on its own file description.
    has_failed: AtomicBool,
}

/// The syncs of one directory.
#[derive(Debug, Default)]
struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many syncs have begun.
    begun: u64,
    /// Whether the newest sync is still running.
    is_running: bool,
    /// How many threads wait for a sync to end.
    waiting: usize,
}

impl DirectorySyncs {
    /// Waits until all changes that this thread made in the directory are durable. Calls `fsync`, unless a sync by another thread began after the
    /// changes and succeeded.
    ///
    /// # Errors
    /// The error of `fsync`.
    pub(crate) fn sync(&self, directory: ObjectId, fsync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let syncs = Arc::clone(locked(&self.now).entry(directory).or_default());
        let result = self.share(&syncs, fsync);
        let mut all = locked(&self.now);
        // If there are only two references, one is in the map, and the other is in this function. So no other thread uses this value. No other thread
        // can take a reference now, because the map is locked.
        if Arc::strong_count(&syncs) == 2 {
            all.remove(&directory);
        }
        result
    }

    fn share(&self, syncs: &Syncs, fsync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = locked(&syncs.state);
        // A sync that has already begun may not include the changes of this thread.
        let before = state.begun;
        while state.is_running {
            state.waiting += 1;
            state = syncs.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            let ended = state.begun - u64::from(state.is_running);
            if ended > before && !self.has_failed.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
        state.begun += 1;
        state.is_running = true;
        drop(state);
        let result = fsync();
        let mut state = locked(&syncs.state);
        state.is_running = false;
        if result.is_err() {
            self.has_failed.store(true, Ordering::SeqCst);
        }
        // Waking threads is a system call. So the call is made only if a thread waits.
        if state.waiting > 0 {
            syncs.ended.notify_all();
        }
        result
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    const DIRECTORY: ObjectId = ObjectId { device: 1, inode: 2 };

    /// Each thread makes numbered changes. When a sync begins, it notes the number of the newest change.
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
        assert!(locked(&syncs.now).is_empty());
    }

    /// Two threads wait while a third thread syncs. Then one of the two threads calls `fsync`. If this call succeeded, it would be enough for both
    /// threads. But the call fails, so the other thread calls `fsync` itself.
    #[test]
    fn a_failed_sync_is_not_shared() {
        let (syncs, began, failed) = (DirectorySyncs::default(), Barrier::new(2), AtomicU64::new(0));
        let results: Vec<io::Result<()>> = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                syncs.sync(DIRECTORY, || {
                    began.wait();
                    while locked(&syncs.now).get(&DIRECTORY).map_or(0, Arc::strong_count) < 4 {
                        std::thread::yield_now();
                    }
                    Ok(())
                })
            });
            began.wait();
            let fails = || {
                syncs.sync(DIRECTORY, || {
                    failed.fetch_add(1, Ordering::SeqCst);
                    Err(Errno::IO)
                })
            };
            let others = [scope.spawn(fails), scope.spawn(fails)];
            std::iter::once(first).chain(others).map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results, [Ok(()), Err(Errno::IO), Err(Errno::IO)]);
        assert_eq!(failed.into_inner(), 2, "`fsync` is called on each descriptor");
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
