//! The nonces of OAuth 1.0a requests. Each signed request is accepted only once (RFC 5849 §3.3), so that an attacker cannot record a request and send
//! it again.
//!
//! The nonces are in the memory of a process. A request is accepted only if its time is near the time of this server, so a nonce is kept only as long
//! as its request would be accepted.

use enfilade_facts::vocabulary::ConsumerId;
use enfilade_facts::{Clocks, MemoKey};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// The largest difference between the time of a request and the time of this server, in seconds.
const REQUEST_SECONDS_MAX: i64 = 300;
/// The maximum number of nonces that are kept for one consumer, so that one consumer cannot use up the space for all consumers.
const OF_A_CONSUMER_MAX: usize = 16_384;
/// The maximum number of nonces that are kept for all consumers (about 20 MB). Only requests with a correct signature add nonces.
const NONCES_MAX: usize = 262_144;

/// The nonces of the requests that were accepted.
#[derive(Default)]
pub(crate) struct Nonces(Mutex<Accepted>);

#[derive(Default)]
struct Accepted {
    by_second: BTreeMap<i64, HashSet<(ConsumerId, MemoKey)>>,
    /// The number of nonces of each consumer. `count` is the number of nonces of all consumers.
    of: HashMap<ConsumerId, usize>,
    count: usize,
    /// All nonces of requests with this time or a later time are kept. Requests with an earlier time are refused, even if the clock is set back.
    known_from: i64,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The time of the request is not near the time of this server.
    Time,
    /// The request was accepted before.
    Again,
    /// No further nonce can be kept.
    Full,
}

impl Nonces {
    /// Accepts a request with the time `second`, if it was not accepted before. `nonce` is a digest of consumer, token and nonce, because a consumer
    /// may use the same nonce with another token.
    pub(crate) fn accept(
        &self,
        now: Clocks,
        second: i64,
        consumer: ConsumerId,
        nonce: MemoKey,
    ) -> Result<(), Unfit> {
        let now = now.unix_seconds;
        if now.abs_diff(second) > REQUEST_SECONDS_MAX.unsigned_abs() {
            return Err(Unfit::Time);
        }
        let mut accepted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.forget_before(now.saturating_sub(REQUEST_SECONDS_MAX));
        if second < accepted.known_from {
            return Err(Unfit::Time);
        }
        if accepted.by_second.get(&second).is_some_and(|nonces| nonces.contains(&(consumer, nonce))) {
            return Err(Unfit::Again);
        }
        let of = accepted.of.get(&consumer).copied().unwrap_or(0);
        if of >= OF_A_CONSUMER_MAX || accepted.count >= NONCES_MAX {
            return Err(Unfit::Full);
        }
        accepted.by_second.entry(second).or_default().insert((consumer, nonce));
        accepted.of.insert(consumer, of + 1);
        accepted.count += 1;
        Ok(())
    }
}

impl Accepted {
    fn forget_before(&mut self, second: i64) {
        while let Some(first) = self.by_second.first_entry().filter(|first| *first.key() < second) {
            self.known_from = self.known_from.max(first.key().saturating_add(1));
            for (consumer, _) in first.remove() {
                self.count -= 1;
                if let Entry::Occupied(mut of) = self.of.entry(consumer) {
                    *of.get_mut() -= 1;
                    if *of.get() == 0 {
                        of.remove();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::memo::KeyMaker;
    use enfilade_facts::{MemoSeed, MirrorHealth};

    fn at(unix_seconds: i64) -> Clocks {
        Clocks { unix_seconds, tick_millis: 0, mirror: MirrorHealth::Current }
    }

    fn consumer(n: u8) -> ConsumerId {
        ConsumerId::from_bytes([n; 16])
    }

    fn nonce(n: u64) -> MemoKey {
        KeyMaker::new(&MemoSeed([7; 16]), "a test").number(n).key()
    }

    #[test]
    fn a_request_is_accepted_once_and_near_its_time() {
        let nonces = Nonces::default();
        for (now, second, n, expected) in [
            (1_000, 1_000, 1, Ok(())),
            (1_000, 1_000, 1, Err(Unfit::Again)),
            (1_000, 1_000, 2, Ok(())),
            (1_000, 1_001, 1, Ok(())),
            (1_300, 1_000, 1, Err(Unfit::Again)),
            (1_301, 1_000, 1, Err(Unfit::Time)),
            (1_000, 1_300, 3, Ok(())),
            (1_000, 1_301, 3, Err(Unfit::Time)),
            (1_600, 1_300, 3, Err(Unfit::Again)),
            // The clock is set back to a time for which the nonces are no longer kept.
            (1_000, 1_000, 1, Err(Unfit::Time)),
            (1_000, 1_002, 1, Ok(())),
            (i64::MIN, i64::MAX, 3, Err(Unfit::Time)),
        ] {
            assert_eq!(nonces.accept(at(now), second, consumer(1), nonce(n)), expected, "{now} {second} {n}");
        }
        // Only the nonces of seconds 1,002 and 1,300 are kept.
        assert_eq!(nonces.0.lock().unwrap().count, 2);
    }

    #[test]
    fn no_consumer_uses_up_the_room_of_the_others() {
        let nonces = Nonces::default();
        let accept = |second, of, n| nonces.accept(at(second), second, consumer(of), nonce(n));
        for n in 0..OF_A_CONSUMER_MAX as u64 {
            assert_eq!(accept(0, 1, n), Ok(()));
        }
        assert_eq!(accept(0, 1, u64::MAX), Err(Unfit::Full));
        assert_eq!(accept(0, 1, 0), Err(Unfit::Again));
        assert_eq!(accept(0, 2, 0), Ok(()));
        // Five minutes later, old nonces are not kept any more, so a new nonce is accepted.
        assert_eq!(accept(301, 1, u64::MAX), Ok(()));
        assert_eq!(nonces.0.lock().unwrap().of.len(), 1);
    }
}
