//! One thread sends requests at planned times on many connections, and reads the responses as they come.

use super::line::Line;
use crate::Failure;
use crate::samples::Samples;
use crate::stopwatch::now;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::fs::Timespec;
use rustix::io::retry_on_intr;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::time::{Duration, Instant};

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of the timer in events. The numbers of connections are smaller.
const TIMER: u64 = u64::MAX;
const EVENTS: usize = 1_024;

/// Sends `count` requests at equal intervals, on one connection after the other. Returns the milliseconds from the planned time of each request to
/// its response.
pub(super) fn latencies(lines: &mut [Line], every: Duration, count: u64) -> Result<Samples, Failure> {
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    for (n, line) in lines.iter().enumerate() {
        epoll::add(&poll, line, EventData::new_u64(n as u64), EventFlags::IN)?;
    }
    let mut plan = Plan { began: now(), every, count, next: 0 };
    let timer = timer(every)?;
    epoll::add(&poll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
    let (mut samples, mut events) = (Samples::default(), Vec::with_capacity(EVENTS));
    let mut buffer = vec![0; 64 * 1024];
    while (samples.len() as u64) < count {
        plan.send(lines)?;
        retry_on_intr(|| epoll::wait(&poll, spare_capacity(&mut events), None))?;
        for event in events.drain(..) {
            let data = event.data;
            match usize::try_from(data.u64()).ok().and_then(|n| lines.get_mut(n)) {
                Some(line) => line.receive(&mut buffer, &mut samples)?,
                None => drop(rustix::io::read(&timer, &mut [0_u8; 8])),
            }
        }
        if plan.is_over(PATIENCE) {
            return Err(format!("only {} of {count} requests got a response", samples.len()).into());
        }
    }
    Ok(samples)
}

/// Sends `count` requests in all. Each connection sends its requests one after the other.
pub(super) fn one_after_the_other(lines: &mut [Line], count: u64) -> Result<(), Failure> {
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    for (n, line) in lines.iter_mut().enumerate() {
        epoll::add(&poll, &*line, EventData::new_u64(n as u64), EventFlags::IN)?;
        line.plan(now())?;
    }
    let (mut begun, mut samples) = (lines.len() as u64, Samples::default());
    let (mut events, mut buffer) = (Vec::with_capacity(EVENTS), vec![0; 64 * 1024]);
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    while (samples.len() as u64) < count {
        retry_on_intr(|| epoll::wait(&poll, spare_capacity(&mut events), Some(&patience)))?;
        if events.is_empty() {
            return Err(format!("only {} of {count} requests got a response", samples.len()).into());
        }
        for event in events.drain(..) {
            let data = event.data;
            let Some(line) = usize::try_from(data.u64()).ok().and_then(|n| lines.get_mut(n)) else {
                continue;
            };
            let before = samples.len();
            line.receive(&mut buffer, &mut samples)?;
            if samples.len() > before && begun < count {
                line.plan(now())?;
                begun += 1;
            }
        }
    }
    Ok(())
}

/// Makes a timer that expires once for each request. The timeout of epoll cannot be used, because it is a whole number of milliseconds.
fn timer(every: Duration) -> Result<OwnedFd, Failure> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    let every = Timespec { tv_sec: every.as_secs() as i64, tv_nsec: i64::from(every.subsec_nanos()) };
    let times = Itimerspec { it_interval: every, it_value: every };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(timer)
}

/// The planned times.
struct Plan {
    began: Instant,
    every: Duration,
    count: u64,
    next: u64,
}

impl Plan {
    fn due(&self, n: u64) -> Instant {
        self.began + Duration::from_nanos((self.every.as_nanos() as u64).saturating_mul(n))
    }

    /// Sends the requests whose times have come.
    fn send(&mut self, lines: &mut [Line]) -> Result<(), Failure> {
        let all = lines.len() as u64;
        while self.next < self.count && self.due(self.next) <= now() {
            let line = usize::try_from(self.next % all.max(1)).ok().and_then(|n| lines.get_mut(n));
            line.ok_or("there is no connection")?.plan(self.due(self.next))?;
            self.next += 1;
        }
        Ok(())
    }

    /// Whether more than this time has passed since the planned time of the last request.
    fn is_over(&self, since: Duration) -> bool {
        self.due(self.count) + since < now()
    }
}
