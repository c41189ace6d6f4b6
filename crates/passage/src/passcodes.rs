//! Limits how often a client can guess passcodes. A passcode has only six digits, and a check takes microseconds. Without a limit for each user, a
//! client that has the password and many addresses could find a right passcode.
//!
//! The passcodes of a user are judged one at a time. A wrong passcode is counted before the next passcode is judged. After [`WRONG_MAX`] wrong
//! passcodes, no passcode of the user is judged until the window ends. Logins in which another method was proven are counted separately, because
//! otherwise a stranger could lock out a user by sending wrong passcodes.

use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::UserId;
use tokio::sync::{Mutex, MutexGuard};

/// The window in which wrong passcodes are counted, in milliseconds.
const WINDOW: u64 = 10 * 60_000;
/// The maximum number of wrong passcodes of a user in a window.
const WRONG_MAX: u32 = 5;
/// The number of slots. The passcodes of users in different slots can be judged at the same time. Users with the same last byte of the id have the
/// same slot, and wait for each other.
const SLOTS: usize = 256;

/// The wrong passcodes of a user in a window.
struct Wrong {
    user: UserId,
    /// Whether another method of the user was proven.
    is_proven: bool,
    /// The tick at which the window began.
    window: u64,
    count: u32,
}

/// The wrong passcodes of all users. Wrong passcodes are counted only for users that exist.
pub(crate) struct Passcodes(Box<[Mutex<Vec<Wrong>>]>);

impl Default for Passcodes {
    fn default() -> Self {
        Passcodes((0..SLOTS).map(|_| Mutex::default()).collect())
    }
}

/// The right to judge passcodes of a user. While a request has this right, no other request judges a passcode of the user.
pub(crate) struct Turn<'p> {
    wrong: MutexGuard<'p, Vec<Wrong>>,
    user: UserId,
    is_proven: bool,
}

impl Passcodes {
    /// Waits until no other request judges a passcode of the user. This function never returns `None`, because every user has a slot.
    pub(crate) async fn turn(&self, user: UserId, is_proven: bool) -> Option<Turn<'_>> {
        let last = user.bytes().last().copied().unwrap_or_default();
        let wrong = self.0.get(usize::from(last))?.lock().await;
        Some(Turn { wrong, user, is_proven })
    }
}

impl Turn<'_> {
    /// Whether a passcode may be judged now.
    pub(crate) fn may_judge(&mut self, now: Clocks) -> bool {
        self.wrong.retain(|wrong| now.tick_millis < wrong.window + WINDOW);
        self.found().is_none_or(|wrong| wrong.count < WRONG_MAX)
    }

    /// Counts a wrong passcode.
    pub(crate) fn count(&mut self, now: Clocks) {
        match self.found() {
            Some(wrong) => wrong.count = wrong.count.saturating_add(1),
            None => {
                let (user, is_proven) = (self.user, self.is_proven);
                self.wrong.push(Wrong { user, is_proven, window: now.tick_millis, count: 1 });
            }
        }
    }

    fn found(&mut self) -> Option<&mut Wrong> {
        let (user, is_proven) = (self.user, self.is_proven);
        self.wrong.iter_mut().find(|wrong| wrong.user == user && wrong.is_proven == is_proven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    fn at(tick_millis: u64) -> Clocks {
        Clocks { unix_seconds: 0, tick_millis, mirror: MirrorHealth::Current }
    }

    #[tokio::test]
    async fn wrong_passcodes_are_bounded_for_each_user_and_window() {
        let passcodes = Passcodes::default();
        // Both users have the same slot.
        let [ann, bob] = [1, 2].map(|n| UserId::from_bytes([n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]));
        for n in 0..WRONG_MAX {
            let mut turn = passcodes.turn(ann, true).await.unwrap();
            assert!(turn.may_judge(at(1_000)), "{n}");
            turn.count(at(1_000));
        }
        for (user, is_proven, now, expected) in [
            (ann, true, 1_000, false),
            (ann, true, 999 + WINDOW, false),
            (ann, false, 1_000, true),
            (bob, true, 1_000, true),
            (ann, true, 1_000 + WINDOW, true),
        ] {
            let mut turn = passcodes.turn(user, is_proven).await.unwrap();
            assert_eq!(turn.may_judge(at(now)), expected, "{is_proven} {now}");
        }
    }

    #[tokio::test]
    async fn passcodes_of_a_user_are_judged_one_after_the_other() {
        let passcodes = Passcodes::default();
        let [ann, bob] = [1, 2].map(|n| UserId::from_bytes([n; 16]));
        let _held = passcodes.turn(ann, true).await.unwrap();
        let mut waiting = Box::pin(passcodes.turn(ann, false));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert!(passcodes.turn(bob, true).await.is_some());
    }
}
