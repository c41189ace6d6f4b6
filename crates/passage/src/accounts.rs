//! Locks users after too many failed logins, and reports successful logins to the code that makes users inactive. A user who does not log in for too
//! long becomes inactive. Locking and inactivity are off unless they are configured.
//!
//! Failures are counted in memory, under the id of the user. So failures in all protocols and with all spellings of the name count for the same user.
//! Only failures of existing users are counted. The lock itself is a fact. So every server obeys the lock from the next request on, and a restart
//! does not end the lock.

use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::UserId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// Locks a user, unless an option of the user forbids the lock. Returns false if the lock could not be stored. In that case the server tries again
/// after the next failed login of the user. Only the crate `admin` changes facts, so the creator of a [`House`](crate::House) passes this function.
pub type LockUser = Arc<dyn Fn(Clocks, &UserId) -> bool + Send + Sync>;

/// Counts the failed logins of each user since the user's last successful login or last lock.
pub struct Accounts {
    failures_max: u32,
    lock: LockUser,
    /// The queue of users who logged in; `None` if users never become inactive.
    logins: Option<SyncSender<UserId>>,
    failures: Mutex<HashMap<UserId, u32>>,
    /// The size of `failures`. While it is 0, a login does not take the mutex of `failures`.
    failing: AtomicUsize,
}

impl Accounts {
    /// Creates `Accounts` that lock no user and report no login.
    pub fn free() -> Self {
        Self::new(0, Arc::new(|_, _| true), None)
    }

    /// Creates `Accounts` that lock a user with `lock` after `failures_max` failed logins (0: never), and send each user who logs in to `logins`.
    pub fn new(failures_max: u32, lock: LockUser, logins: Option<SyncSender<UserId>>) -> Self {
        let (failures, failing) = (Mutex::default(), AtomicUsize::new(0));
        Accounts { failures_max, lock, logins, failures, failing }
    }

    /// Whether the server locks users after too many failed logins.
    pub(crate) fn counts(&self) -> bool {
        self.failures_max != 0
    }

    /// Counts a failed login; returns whether the user must be locked now.
    pub(crate) fn failed(&self, user: &UserId) -> bool {
        self.with(|failures| {
            let count = failures.entry(*user).or_insert(0);
            *count = count.saturating_add(1);
            *count >= self.failures_max
        })
    }

    /// Locks the user. Waits for the disk. If the lock cannot be stored, the next failed login of the user tries again.
    pub(crate) fn lock(&self, user: &UserId, now: Clocks) {
        if (self.lock)(now, user) {
            self.with(|failures| failures.remove(user));
        }
    }

    /// Forgets the failures of a user who logged in.
    pub(crate) fn succeeded(&self, user: &UserId) {
        if self.failing.load(Ordering::Relaxed) != 0 {
            self.with(|failures| failures.remove(user));
        }
    }

    /// Reports a login. If the queue is full, this login is not reported, but a later login of the user will be reported.
    pub(crate) fn logged_in(&self, user: &UserId) {
        let _ = self.logins.as_ref().map(|logins| logins.try_send(*user));
    }

    fn with<R>(&self, change: impl FnOnce(&mut HashMap<UserId, u32>) -> R) -> R {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut failures);
        self.failing.store(failures.len(), Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_user_is_locked_after_the_last_failure_and_then_counted_anew() {
        let now = Clocks { unix_seconds: 0, tick_millis: 0, mirror: MirrorHealth::Current };
        let works = Arc::new(AtomicBool::new(false));
        let lock = Arc::clone(&works);
        let accounts = Accounts::new(3, Arc::new(move |_, _| lock.load(Ordering::Relaxed)), None);
        let [alice, bob] = [1, 2].map(|n| UserId::from_bytes([n; 16]));
        let fail = |user| accounts.failed(user);
        assert_eq!([fail(&alice), fail(&bob), fail(&alice)], [false; 3]);
        accounts.succeeded(&alice);
        assert_eq!([fail(&alice), fail(&alice), fail(&alice)], [false, false, true]);
        accounts.lock(&alice, now);
        assert!(fail(&alice), "the lock could not be stored");
        works.store(true, Ordering::Relaxed);
        accounts.lock(&alice, now);
        assert_eq!([fail(&alice), fail(&bob), fail(&bob)], [false, false, true]);
    }
}
