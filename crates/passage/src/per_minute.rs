//! Limits how often certain requests may happen in a minute. Each one-time code of a signed-in browser, and each use of a link with a limited number
//! of uses, changes the facts. Without a limit, one client could fill the store, and the doors would have to judge all requests again after
//! each change. Each wrong password of a link costs a slow hash. Also, without a limit, a person who has the link could find the password by
//! guessing.

use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{CredentialId, UserId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The window in which requests are counted, in milliseconds.
const WINDOW: u64 = 60_000;

/// The requests that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    /// The requests of a user for a one-time code, to sign in, and to change the second factor or passkeys.
    Codes(UserId),
    /// The uses of a link.
    Uses(CredentialId),
    /// The wrong passwords of a link, and the passwords of the link that the server is checking at present.
    Guesses(CredentialId),
}

impl Counted {
    /// The maximum number of requests of this kind in a window.
    fn most(self) -> u32 {
        match self {
            Counted::Codes(_) => 60,
            Counted::Uses(_) => 300,
            Counted::Guesses(_) => 20,
        }
    }
}

/// The number of the current window, and the counts of the requests in this window.
#[derive(Default)]
pub(crate) struct PerMinute(Mutex<(u64, HashMap<Counted, u32>)>);

impl PerMinute {
    /// Counts a request. If the window already has the maximum number of these requests, returns the seconds until the window ends.
    pub(crate) fn count(&self, what: Counted, now: Clocks) -> Result<(), u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = now.tick_millis / WINDOW;
        if counted.0 != window {
            *counted = (window, HashMap::new());
        }
        let count = counted.1.entry(what).or_default();
        *count = count.saturating_add(1);
        match *count > what.most() {
            true => Err((WINDOW - now.tick_millis % WINDOW).div_ceil(1_000)),
            false => Ok(()),
        }
    }

    /// Takes back a request that was counted at the time `then`: subtracts 1 from its count. If the window of that time has ended, does nothing.
    pub(crate) fn take_back(&self, what: Counted, then: Clocks) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_present = counted.0 == then.tick_millis / WINDOW;
        if let Some(count) = counted.1.get_mut(&what).filter(|_| is_present) {
            *count = count.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    fn at(tick_millis: u64) -> Clocks {
        Clocks { unix_seconds: 0, tick_millis, mirror: MirrorHealth::Current }
    }

    #[test]
    fn each_user_and_each_link_has_its_own_number_of_requests_in_a_minute() {
        let link = CredentialId::from_bytes([1; 16]);
        let user = UserId::from_bytes([1; 16]);
        for (what, most) in
            [(Counted::Codes(user), 60), (Counted::Uses(link), 300), (Counted::Guesses(link), 20)]
        {
            let counts = PerMinute::default();
            for _ in 0..most {
                assert_eq!(counts.count(what, at(61_000)), Ok(()));
            }
            assert_eq!(counts.count(what, at(62_000)), Err(58), "{what:?}");
            let others = [
                Counted::Codes(UserId::from_bytes([2; 16])),
                Counted::Uses(CredentialId::from_bytes([2; 16])),
                Counted::Guesses(CredentialId::from_bytes([2; 16])),
            ];
            for other in others {
                assert_eq!(counts.count(other, at(62_000)), Ok(()));
            }
            assert_eq!(counts.count(what, at(120_000)), Ok(()));
        }
    }

    #[test]
    fn a_right_password_is_no_guess() {
        let (counts, what) = (PerMinute::default(), Counted::Guesses(CredentialId::from_bytes([1; 16])));
        for _ in 0..100 {
            assert_eq!(counts.count(what, at(0)), Ok(()));
            counts.take_back(what, at(0));
        }
        // If a request of an earlier window is to be subtracted, the count of the present window stays the same.
        for _ in 0..20 {
            assert_eq!(counts.count(what, at(60_000)), Ok(()));
            counts.take_back(what, at(0));
        }
        assert!(counts.count(what, at(60_000)).is_err());
    }
}
