//! Limits how often a signed-in browser gets a one-time code. Each code is a change of the facts. Without a limit, one user could fill the store.
//! Also, the doors would have to judge all requests again after each code.

use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::UserId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The window in which codes are counted, in milliseconds.
const WINDOW: u64 = 60_000;
/// The maximum number of codes of a user in a window.
const CODES_MAX: u32 = 60;

/// The codes of all users in the current window.
#[derive(Default)]
pub(crate) struct SignIns(Mutex<(u64, HashMap<UserId, u32>)>);

impl SignIns {
    /// Counts a code for a user. If the user got too many codes, returns the seconds until the window ends.
    pub(crate) fn count(&self, user: &UserId, now: Clocks) -> Result<(), u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = now.tick_millis / WINDOW;
        if counted.0 != window {
            *counted = (window, HashMap::new());
        }
        let count = counted.1.entry(*user).or_default();
        *count += 1;
        match *count > CODES_MAX {
            true => Err((WINDOW - now.tick_millis % WINDOW).div_ceil(1_000)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    #[test]
    fn a_user_gets_so_many_codes_in_a_minute_and_others_get_theirs() {
        let (sign_ins, user) = (SignIns::default(), UserId::from_bytes([1; 16]));
        let at = |tick_millis| Clocks { unix_seconds: 0, tick_millis, mirror: MirrorHealth::Current };
        for _ in 0..CODES_MAX {
            assert_eq!(sign_ins.count(&user, at(61_000)), Ok(()));
        }
        assert_eq!(sign_ins.count(&user, at(62_000)), Err(58));
        assert_eq!(sign_ins.count(&UserId::from_bytes([2; 16]), at(62_000)), Ok(()));
        assert_eq!(sign_ins.count(&user, at(120_000)), Ok(()));
    }
}
