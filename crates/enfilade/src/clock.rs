//! The only module of the binary that may read the clocks of the system. Timeouts and intervals use the timers of tokio.

use enfilade_facts::{Clocks, MirrorHealth};
use enfilade_passage::{Clock, ClockSets};
use enfilade_sources::lmdb::Lmdb;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "only this module may read clocks")]
fn wall_millis() -> i64 {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => millis(since),
        Err(before) => -millis(before.duration()),
    }
}

fn millis(id: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
    tv_sec.saturating_mul(1_000).saturating_add(tv_nsec / 1_000_000)
}

fn reading(unix_millis: i64, tick_millis: i64) -> Clocks {
    // If the clock shows a time before 1970, the time counts as 0. So nothing counts as expired.
    Clocks {
        unix_seconds: unix_millis.div_euclid(1_000).max(0),
        tick_millis: u64::try_from(tick_millis).unwrap_or(0),
        mirror: MirrorHealth::Current,
    }
}

/// The present time of the wall clock, and the present tick.
pub(crate) fn now() -> Clocks {
    // The tick counts milliseconds since the boot of the machine, including sleep. All processes read the same value.
    reading(wall_millis(), millis(ClockId::Boottime))
}

/// Nanoseconds since the epoch, which are compared with the times of files.
pub(crate) fn nanos() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    (tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(tv_nsec as u64)
}

/// How far the wall clock and the boot-time clock are ahead of the coarse monotonic clock. The coarse monotonic clock takes the least time to read,
/// and is late by at most one timer tick of the kernel (1 to 10 ms). The offsets change only when a clock is set or the machine sleeps. So it is
/// enough to measure the offsets ten times a second.
struct Ahead {
    looked: AtomicI64,
    unix: AtomicI64,
    tick: AtomicI64,
}

/// How often the offsets are measured, in milliseconds.
const LOOK_AGAIN: i64 = 100;

impl Ahead {
    fn new() -> Self {
        let ahead = Ahead { looked: AtomicI64::new(0), unix: AtomicI64::new(0), tick: AtomicI64::new(0) };
        ahead.look(millis(ClockId::MonotonicCoarse));
        ahead
    }

    fn look(&self, cheap: i64) {
        self.unix.store(wall_millis() - cheap, Ordering::Relaxed);
        self.tick.store(millis(ClockId::Boottime) - cheap, Ordering::Relaxed);
        self.looked.store(cheap, Ordering::Release);
    }

    fn now(&self) -> Clocks {
        let cheap = millis(ClockId::MonotonicCoarse);
        if LOOK_AGAIN <= cheap - self.looked.load(Ordering::Acquire) {
            self.look(cheap);
        }
        let [unix, tick] = [&self.unix, &self.tick].map(|ahead| cheap + ahead.load(Ordering::Relaxed));
        reading(unix, tick)
    }
}

/// Returns a function that reads the clocks of a server, and checks whether the server's mirrored records are current. A reading takes about 20 ns.
pub(crate) fn of_server(source: Arc<Lmdb>, stale_limit: i64) -> Clock {
    let limit = u64::try_from(stale_limit).unwrap_or(0).saturating_mul(1_000);
    reading_mirror(move |now| {
        source.mirror_leader().age_millis(now.tick_millis).is_some_and(|age| age <= limit)
    })
}

/// Like [`of_server`], but `is_current` decides whether the mirrored records are current.
pub(crate) fn reading_mirror(is_current: impl Fn(&Clocks) -> bool + Send + Sync + 'static) -> Clock {
    let ahead = Ahead::new();
    Arc::new(move || {
        let now = ahead.now();
        let mirror = if is_current(&now) { MirrorHealth::Current } else { MirrorHealth::Stale };
        Clocks { mirror, ..now }
    })
}

/// The time at which the timer ends, in seconds since the epoch: in the year 4147. The timer never ends in practice. The timer is needed only because
/// the kernel cancels it when the clock is set.
const FAR_SECONDS: i64 = 1 << 36;

/// Returns a function that counts how often the wall clock was set since the call of `sets`. When the clock is set, the kernel cancels each timer
/// that waits for a time of day. The next read of such a timer returns an error. If no timer can be created, every call counts as a change.
pub(crate) fn sets() -> ClockSets {
    let timer = timer().ok();
    // The timer is read and the change is counted under one lock. Otherwise a caller could get the old count after another caller got the new count.
    let count = Mutex::new(0_u64);
    Arc::new(move || {
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let said = timer.as_ref().map(|timer| rustix::io::read(timer, &mut [0; 8]));
        *count += u64::from(said != Some(Err(Errno::AGAIN)));
        *count
    })
}

fn timer() -> rustix::io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let once = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: FAR_SECONDS, tv_nsec: 0 },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &once)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheap_clock_is_at_most_some_ticks_late_and_follows_when_the_clock_is_set() {
        let ahead = Ahead::new();
        let late = || {
            let (before, now) = (super::now(), ahead.now());
            (before.tick_millis as i64 - now.tick_millis as i64, before.unix_seconds - now.unix_seconds)
        };
        for _ in 0..1_000 {
            let (ticks, seconds) = late();
            assert!(ticks <= 50 && (0..=1).contains(&seconds.abs()), "{ticks} {seconds}");
        }
        // The offsets are now as if the wall clock had been set one hour ahead, and the machine had slept for one hour.
        ahead.unix.fetch_sub(3_600_000, Ordering::Relaxed);
        ahead.tick.fetch_sub(3_600_000, Ordering::Relaxed);
        // On a busy machine, this thread can pause for longer than [`LOOK_AGAIN`]. So the test postpones the next measurement by one hour.
        ahead.looked.fetch_add(3_600_000, Ordering::Relaxed);
        assert!(late().0 > 3_000_000);
        ahead.looked.fetch_sub(3_600_000 + LOOK_AGAIN, Ordering::Relaxed);
        let (ticks, seconds) = late();
        assert!(ticks <= 50 && seconds.abs() <= 1, "{ticks} {seconds}");
    }

    #[test]
    fn setting_the_clock_is_counted_and_looking_at_it_is_not() {
        let sets = sets();
        assert_eq!([sets(), sets(), sets()], [0, 0, 0]);
        // Only root may set the clock. The test sets it to the present time.
        let now = clock_gettime(ClockId::Realtime);
        if rustix::time::clock_settime(ClockId::Realtime, now).is_ok() {
            assert_eq!([sets(), sets()], [1, 1]);
        }
    }
}
