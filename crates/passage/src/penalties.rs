//! Penalties for failed logins: a delay for the name, and a block for the address.
//!
//! No account is blocked, and only the answers to failed logins are delayed. So a client cannot use the penalties to lock out other users, except
//! users at the same address or in the same network. The table has a fixed size. Failures are counted under the name or id that the client sent, and
//! not under the user with this name or id. So the delay is the same whether or not a user with that name or id exists. All spellings of a name give
//! the same word ([`Authid::to_word`]). So a client gets no further guesses by writing a name in another way.

use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::{Authid, Word, shortened};
use enfilade_facts::{Clocks, MemoKey, MemoSeed};
use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The window in which failures are counted, in milliseconds.
const WINDOW: u64 = 60_000;
/// The number of failures in a window after which an address is blocked. For IPv6, a /64 counts as one address.
const ADDRESS_FAILURES_MAX: u32 = 20;
/// The number of failures in a window after which a network is blocked. A network is a /24, or a /48 for IPv6.
const NETWORK_FAILURES_MAX: u32 = 200;
/// The length of the first block of an address, in milliseconds. Each further block is twice as long as the block before.
const BAR: u64 = 60_000;
/// The maximum length of a block, in milliseconds. If an address has no failures for twice as long as `BAR_MAX`, its next block is as short as its
/// first block.
const BAR_MAX: u64 = 15 * 60_000;
/// The delays for the failures of a name in a window, in seconds: for the first, the second, the third, and every later failure.
const DELAYS: [u64; 4] = [1, 3, 5, 10];
/// The maximum number of addresses, networks and names in the table.
const ENTRIES: usize = 65_536;
const WAYS: usize = 8;
/// The longest part of a name that a list shows, in bytes.
const NAME_BYTES_MAX: usize = 128;

#[derive(Clone, Default)]
struct Entry {
    key: Option<MemoKey>,
    /// The address, network or name, for [`Penalties::list`].
    subject: Option<Subject>,
    /// The tick at which the window began. `failures` is the number of failures since this tick.
    window: u64,
    failures: u32,
    /// The number of blocks so far. It is reset after a long time without failures (see `BAR_MAX`). `until` is the tick at which the present block
    /// ends.
    strikes: u32,
    until: u64,
    /// The tick of the last failure.
    last: u64,
}

/// The address, network or name that is penalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An IPv4 address or a network: its first address, and the number of leading bits that all its addresses share.
    Network(IpAddr, u8),
    /// A name or id that clients sent, as one word ([`Authid::to_word`]). A word of more than 128 bytes is cut and ends with `…`, which no word
    /// contains.
    Name(Box<str>),
}

/// A subject that is delayed or refused at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// The address, network or name.
    pub subject: Subject,
    /// Whether logins of the subject are refused. If logins are not refused, the answer to the next failed login of the subject is delayed.
    pub is_refused: bool,
    /// The failures in the present window.
    pub failures: u32,
    /// The time until the penalty ends.
    pub left: Duration,
}

impl Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Network(address @ IpAddr::V4(_), 32) => write!(f, "{address}"),
            Subject::Network(address, bits) => write!(f, "{address}/{bits}"),
            Subject::Name(name) => f.write_str(name),
        }
    }
}

/// The entries that have keys with the same low bits.
type Set = Option<Box<[Entry; WAYS]>>;

/// Addresses, networks and names with recent failures.
pub struct Penalties {
    seed: MemoSeed,
    /// The table; empty if failures are not counted. A set gets memory when it is used for the first time.
    sets: Box<[Mutex<Set>]>,
    failed: AtomicU64,
    barred: AtomicU64,
    /// The tick of the last failure that was counted for any name. If this failure is older than a window, a successful login needs no lookup.
    last: AtomicU64,
}

/// Counters since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PenaltyCounts {
    /// Failed logins.
    pub failed: u64,
    /// Logins that were refused because their address was blocked.
    pub barred: u64,
}

impl Penalties {
    /// Creates a table without failures.
    pub fn new(seed: MemoSeed) -> Self {
        let sets = (0..ENTRIES / WAYS).map(|_| Mutex::default()).collect();
        Penalties { sets, ..Self::none(seed) }
    }

    /// Creates a table that counts no failure and delays no client.
    pub fn none(seed: MemoSeed) -> Self {
        let zero = || AtomicU64::new(0);
        Penalties { seed, sets: Box::default(), failed: zero(), barred: zero(), last: zero() }
    }

    /// The counters.
    pub fn counts(&self) -> PenaltyCounts {
        PenaltyCounts {
            failed: self.failed.load(Ordering::Relaxed),
            barred: self.barred.load(Ordering::Relaxed),
        }
    }

    /// The time until the block of this address or of its network ends; `None` if neither is blocked.
    pub fn bar(&self, from: IpAddr, now: Clocks) -> Option<Duration> {
        if self.sets.is_empty() {
            return None;
        }
        let until =
            self.places(from).into_iter().map(|place| self.with(place.key, |entry| entry.until)).max();
        let left = until.unwrap_or(0).saturating_sub(now.tick_millis);
        if left == 0 {
            return None;
        }
        self.barred.fetch_add(1, Ordering::Relaxed);
        Some(Duration::from_millis(left))
    }

    /// The number of recent failures of this address.
    pub fn failures(&self, from: IpAddr, now: Clocks) -> u32 {
        if self.sets.is_empty() {
            return 0;
        }
        let [place, _] = self.places(from);
        self.with(place.key, |entry| if entry.window + WINDOW < now.tick_millis { 0 } else { entry.failures })
    }

    /// Counts a failure, and returns the delay of the answer.
    pub fn failed(&self, from: IpAddr, said: &str, now: Clocks) -> Duration {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let now = now.tick_millis;
        self.last.store(now, Ordering::Relaxed);
        if self.sets.is_empty() {
            return Duration::ZERO;
        }
        for Place { key, subject, most } in self.places(from) {
            self.with(key, |entry| {
                entry.subject = Some(subject);
                entry.count(now);
                if most <= entry.failures {
                    let bar = BAR.checked_shl(entry.strikes).unwrap_or(BAR_MAX).min(BAR_MAX);
                    entry.strikes = entry.strikes.saturating_add(1);
                    entry.until = now + bar;
                    entry.failures = 0;
                }
            });
        }
        let failures = self.with(self.key_of(said), |entry| {
            entry.subject = Some(Subject::Name(shortened(said, NAME_BYTES_MAX).into()));
            entry.count(now);
            entry.failures
        });
        let step = (failures as usize).saturating_sub(1).min(DELAYS.len() - 1);
        Duration::from_secs(DELAYS.get(step).copied().unwrap_or(0))
    }

    /// Ends the delays of a name after a successful login. The failures of the address still count. Otherwise a client that guesses secrets of other
    /// users could log in to its own account between the guesses, and would never be blocked.
    pub fn succeeded(&self, said: impl FnOnce() -> Word, now: Clocks) {
        if self.last.load(Ordering::Relaxed) + WINDOW < now.tick_millis || self.sets.is_empty() {
            return;
        }
        self.with(self.key_of(&said()), Entry::forget);
    }

    /// Every subject that is delayed or refused, in no particular order. Each entry contains the time until the delay or refusal ends.
    pub fn list(&self, now: Clocks) -> Vec<Penalty> {
        let mut found = Vec::new();
        self.each(|entry| found.extend(entry.penalty(now.tick_millis)));
        found
    }

    /// Forgets failures: the failures of an address and its network, of a network, or of a name. With `None`, forgets all failures. A network is
    /// given in the form in which [`Penalties::list`] shows it. A name can be given in this form or in any spelling. Returns the penalties that
    /// ended.
    pub fn clear(&self, subject: Option<&str>, now: Clocks) -> Vec<Penalty> {
        let mut cleared = Vec::new();
        let mut forget = |entry: &mut Entry| {
            cleared.extend(entry.penalty(now.tick_millis));
            entry.forget();
        };
        match (subject, subject.map(str::parse::<IpAddr>)) {
            (None, _) => self.each(forget),
            (Some(_), Some(Ok(address))) => {
                self.places(address).into_iter().for_each(|place| self.with(place.key, &mut forget));
            }
            (Some(name), _) => {
                let key = self.key_of(&Authid::word_of(name));
                let is_shown =
                    |entry: &Entry| entry.subject.as_ref().is_some_and(|shown| shown.to_string() == name);
                self.each(|entry| {
                    if entry.key == Some(key) || is_shown(entry) {
                        forget(entry);
                    }
                });
            }
        }
        cleared
    }

    fn each(&self, mut visit: impl FnMut(&mut Entry)) {
        for set in &self.sets {
            let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
            set.iter_mut().flat_map(|entries| entries.iter_mut()).for_each(&mut visit);
        }
    }

    fn key_of(&self, said: &str) -> MemoKey {
        KeyMaker::new(&self.seed, "authid").bytes(said.as_bytes()).key()
    }

    /// The address and its network, each with its limit of failures.
    fn places(&self, from: IpAddr) -> [Place; 2] {
        let prefix = |bytes: &[u8], what| KeyMaker::new(&self.seed, what).bytes(bytes).key();
        match from.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                let place = |key, bits, last, most| {
                    let subject = Subject::Network([a, b, c, last].into(), bits);
                    Place { key, subject, most }
                };
                [
                    place(prefix(&[a, b, c, d], "address"), 32, d, ADDRESS_FAILURES_MAX),
                    place(prefix(&[a, b, c], "network"), 24, 0, NETWORK_FAILURES_MAX),
                ]
            }
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments().map(u16::to_be_bytes);
                let place = |key, bits: u8, most| {
                    let first = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits)));
                    Place { key, subject: Subject::Network(IpAddr::V6(first), bits), most }
                };
                [
                    place(prefix(&[a, b, c, d].concat(), "address 6"), 64, ADDRESS_FAILURES_MAX),
                    place(prefix(&[a, b, c].concat(), "network 6"), 48, NETWORK_FAILURES_MAX),
                ]
            }
        }
    }

    /// Calls `change` with the entry of a key. A new key replaces another entry in the set of the key: the entry with the smallest value of
    /// `max(until, last)`.
    fn with<R>(&self, key: MemoKey, change: impl FnOnce(&mut Entry) -> R) -> R {
        let set = self.sets.get(key.low_bits() & self.sets.len().wrapping_sub(1));
        let mut lone = Entry::default();
        let mut set = set.map(|set| set.lock().unwrap_or_else(PoisonError::into_inner));
        let entries = match set.as_mut() {
            Some(set) => set.get_or_insert_default().as_mut_slice(),
            None => std::slice::from_mut(&mut lone),
        };
        let found = entries.iter().position(|entry| entry.key == Some(key));
        let oldest = || {
            (0..entries.len())
                .min_by_key(|at| entries.get(*at).map_or(0, |entry| entry.until.max(entry.last)))
        };
        let at = found.or_else(oldest).unwrap_or(0);
        match entries.get_mut(at) {
            Some(entry) => {
                if found.is_none() {
                    *entry = Entry { key: Some(key), ..Entry::default() };
                }
                change(entry)
            }
            None => change(&mut Entry::default()),
        }
    }
}

/// An address or network in the table.
struct Place {
    key: MemoKey,
    subject: Subject,
    /// The number of failures after which the subject is blocked.
    most: u32,
}

impl Entry {
    fn forget(&mut self) {
        *self = Entry { key: self.key, ..Entry::default() };
    }

    /// The present penalty of the entry's subject, if the subject has a penalty.
    fn penalty(&self, now: u64) -> Option<Penalty> {
        let subject = self.subject.clone()?;
        let is_refused = now < self.until;
        let is_delayed = matches!(subject, Subject::Name(_)) && self.failures > 0;
        let end = if is_refused { self.until } else { self.window + WINDOW };
        let left = end.checked_sub(now).filter(|left| *left > 0 && (is_refused || is_delayed))?;
        Some(Penalty { subject, is_refused, failures: self.failures, left: Duration::from_millis(left) })
    }

    fn count(&mut self, now: u64) {
        if self.last + 2 * BAR_MAX < now {
            self.strikes = 0;
        }
        if self.window + WINDOW < now {
            (self.window, self.failures) = (now, 0);
        }
        self.failures = self.failures.saturating_add(1);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    const HERE: &str = "192.0.2.7";

    fn now(seconds: u64) -> Clocks {
        Clocks { unix_seconds: 0, tick_millis: 1_000_000 + seconds * 1000, mirror: MirrorHealth::Current }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn authid(text: &str) -> Word {
        text.parse::<Authid>().unwrap().to_word()
    }

    fn penalties() -> Penalties {
        Penalties::new(MemoSeed([3; 16]))
    }

    #[test]
    fn an_authid_is_delayed_more_each_time_until_a_login_succeeds() {
        let penalties = penalties();
        let alice = authid("alice@local");
        let fail = |n: u64| penalties.failed(ip(&format!("198.51.100.{n}")), &alice, now(n)).as_secs();
        assert_eq!([fail(0), fail(1), fail(2), fail(3), fail(4)], [1, 3, 5, 10, 10]);
        assert_eq!(penalties.failed(ip(HERE), &authid("bob@local"), now(5)).as_secs(), 1);
        penalties.succeeded(|| alice.clone(), now(5));
        assert_eq!(fail(6), 1);
        assert_eq!(fail(100), 1, "a minute later");
    }

    #[test]
    fn an_address_is_blocked_for_longer_each_time_and_no_other_is() {
        let penalties = penalties();
        let fail = |from: &str, at: u64, count: u32| {
            for n in 0..count {
                penalties.failed(ip(from), &authid(&format!("u{n}@local")), now(at));
            }
        };
        let barred = |from: &str, at: u64| penalties.bar(ip(from), now(at)).map_or(0, |left| left.as_secs());
        fail(HERE, 0, ADDRESS_FAILURES_MAX - 1);
        assert_eq!(barred(HERE, 0), 0);
        fail(HERE, 0, 1);
        assert_eq!((barred(HERE, 0), barred("192.0.2.8", 0)), (60, 0));
        assert_eq!((barred(HERE, 59), barred(HERE, 60)), (1, 0));
        fail(HERE, 61, ADDRESS_FAILURES_MAX);
        assert_eq!(barred(HERE, 61), 120);
        for round in 1..10 {
            fail(HERE, 61 + round * 1000, ADDRESS_FAILURES_MAX);
        }
        assert_eq!(barred(HERE, 61 + 9000), 900);
        fail(HERE, 20_000, ADDRESS_FAILURES_MAX);
        assert_eq!(barred(HERE, 20_000), 60, "after half an hour without a failure");
    }

    #[test]
    fn a_network_is_blocked_when_its_addresses_take_turns() {
        let penalties = penalties();
        for n in 0..NETWORK_FAILURES_MAX {
            penalties.failed(ip(&format!("192.0.2.{}", n % 250)), &authid(&format!("u{n}@local")), now(0));
        }
        assert!(penalties.bar(ip("192.0.2.251"), now(0)).is_some());
        assert!(penalties.bar(ip("192.0.3.1"), now(0)).is_none());
        for n in 0..ADDRESS_FAILURES_MAX {
            penalties.failed(ip(&format!("2001:db8::{n:x}")), &authid("x@local"), now(0));
        }
        assert!(penalties.bar(ip("2001:db8::ffff"), now(0)).is_some(), "one /64 is one address");
        assert!(penalties.bar(ip("2001:db8:0:1::1"), now(0)).is_none());
        assert!(penalties.bar(ip("::ffff:192.0.2.1"), now(0)).is_some(), "the same address, mapped");
    }

    #[test]
    fn what_is_penalised_is_listed_and_cleared() {
        let penalties = penalties();
        let listed = |at: u64| {
            let mut all: Vec<_> = penalties
                .list(now(at))
                .into_iter()
                .map(|one| (one.subject.to_string(), one.is_refused, one.failures, one.left.as_secs()))
                .collect();
            all.sort();
            all
        };
        let fail = |from: &str, name: &str| penalties.failed(ip(from), name, now(0));
        fail("198.51.100.1", "alice@local");
        fail("198.51.100.1", "alice@local");
        assert_eq!(listed(1), [("alice@local".to_owned(), false, 2, 59)]);
        assert_eq!(listed(60), []);
        for n in 0..ADDRESS_FAILURES_MAX {
            fail(HERE, "x");
            fail(&format!("2001:db8::{n:x}"), "x");
        }
        let refused = |subject: &str| (subject.to_owned(), true, 0, 59);
        let name = |name: &str, failures| (name.to_owned(), false, failures, 59);
        let all = [refused(HERE), refused("2001:db8::/64"), name("alice@local", 2), name("x", 40)];
        assert_eq!(listed(1), all);
        assert_eq!(penalties.clear(Some("192.0.2.8"), now(1)), []);
        assert_eq!(penalties.clear(Some("2001:db9::/64"), now(1)), []);
        assert_eq!(penalties.clear(Some("2001:db8::5"), now(1)).len(), 1);
        assert_eq!(penalties.clear(Some("x"), now(1)).len(), 1);
        assert_eq!(listed(1), [refused(HERE), name("alice@local", 2)]);
        assert_eq!((penalties.clear(None, now(1)).len(), listed(1).len()), (2, 0));
        assert!(penalties.bar(ip(HERE), now(1)).is_none());
        // Clearing one address also ends the block of its whole network.
        for subject in ["192.0.2.251", "192.0.2.0/24"] {
            for n in 0..NETWORK_FAILURES_MAX {
                fail(&format!("192.0.2.{}", n % 250), "x");
            }
            assert!(listed(1).contains(&refused("192.0.2.0/24")));
            assert_eq!(penalties.clear(Some(subject), now(1)).len(), 1);
            assert!(penalties.bar(ip("192.0.2.251"), now(1)).is_none());
        }
        // The list shows only the beginning of a long name. The text in the list is enough to clear the penalty of the name.
        fail(HERE, &"é".repeat(1_000));
        let long = format!("{}…", "é".repeat(NAME_BYTES_MAX / 2));
        assert!(listed(1).iter().any(|(subject, ..)| *subject == long));
        assert_eq!(penalties.clear(Some(&long), now(1)).len(), 1);
        assert!(!listed(1).iter().any(|(subject, ..)| *subject == long));
    }

    #[test]
    fn each_spelling_of_a_name_has_the_same_penalty() {
        let penalties = penalties();
        let fail = |name: &str| penalties.failed(ip(HERE), &authid(name), now(0)).as_secs();
        assert_eq!([fail("ä@pam"), fail("%C3%A4@%pam"), fail("ä@pam")], [1, 3, 5]);
        for spelling in ["ä@pam", "%C3%A4@%pam"] {
            fail("ä@pam");
            assert_eq!(penalties.clear(Some(spelling), now(1)).len(), 1, "{spelling}");
        }
        // An id that does not have the form of an authid is cleared by the text that the list shows.
        penalties.failed(ip(HERE), "a%20b", now(0));
        assert_eq!(penalties.clear(Some("a%20b"), now(1)).len(), 1);
    }

    #[test]
    fn the_table_keeps_its_size_and_its_blocked_addresses() {
        let penalties = penalties();
        for n in 0..ADDRESS_FAILURES_MAX {
            penalties.failed(ip(HERE), &authid(&format!("u{n}@local")), now(10));
        }
        for n in 0..20_000u32 {
            penalties.failed(IpAddr::from((0x0a00_0000 + n * 256).to_be_bytes()), &authid("x@local"), now(0));
        }
        assert!(penalties.bar(ip(HERE), now(11)).is_some());
        assert_eq!(penalties.counts().failed, 20_000 + u64::from(ADDRESS_FAILURES_MAX));
    }
}
