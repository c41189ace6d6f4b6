//! Open-loop arrival: each request has a planned time, and its latency counts from this time. In a closed loop, a stall of the server delays the next
//! requests, so the stall is seen in only one sample. With planned times, each request that was planned during the stall is late.

use crate::samples::Samples;
use crate::stopwatch::now;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Planned times of requests, at equal intervals.
pub(crate) struct Schedule {
    began: Instant,
    every: Duration,
    count: u64,
    next: AtomicU64,
}

impl Schedule {
    /// A schedule whose first request is due now.
    pub(crate) fn new(every: Duration, count: u64) -> Self {
        Schedule { began: now(), every, count, next: AtomicU64::new(0) }
    }

    /// Waits for the planned time of the next request. Returns the number and the planned time of the request, or `None` at the end. Returns at once
    /// if the planned time has passed already.
    pub(crate) fn next(&self) -> Option<(u64, Instant)> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        if n >= self.count {
            return None;
        }
        let due = self.began + Duration::from_nanos((self.every.as_nanos() as u64).saturating_mul(n));
        loop {
            let left = due.saturating_duration_since(now());
            if left.is_zero() {
                return Some((n, due));
            }
            std::thread::park_timeout(left);
        }
    }
}

/// Sends `count` requests at planned times from these clients. Returns the milliseconds from the planned time of each request to its response.
pub(crate) fn latencies<C: Send>(
    every: Duration,
    count: u64,
    clients: Vec<C>,
    send: impl Fn(&mut C, u64) -> Result<(), String> + Sync,
) -> Result<Samples, String> {
    let (schedule, all) = (Schedule::new(every, count), Mutex::new(Samples::default()));
    std::thread::scope(|scope| {
        let (schedule, all, send) = (&schedule, &all, &send);
        let run = |mut client: C| {
            move || -> Result<(), String> {
                let mut own = Samples::default();
                while let Some((n, due)) = schedule.next() {
                    send(&mut client, n)?;
                    own.push(now().duration_since(due).as_secs_f64() * 1e3);
                }
                all.lock().map_err(|_| "a client ended")?.extend(&own);
                Ok(())
            }
        };
        let running: Vec<_> = clients.into_iter().map(|client| scope.spawn(run(client))).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| "a client ended".to_owned())?)
    })?;
    all.into_inner().map_err(|_| "a client ended".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Percentile;
    use crate::stopwatch::pause;

    #[test]
    fn a_stall_is_in_each_request_that_was_planned_in_it() {
        // 1,200 requests are planned, one every 0.2 ms. Request 100 stalls for 100 ms, in which 500 requests are planned.
        let stall = |_: &mut (), n: u64| {
            if n == 100 {
                pause(Duration::from_millis(100));
            }
            Ok(())
        };
        let samples = latencies(Duration::from_micros(200), 1_200, vec![()], stall).unwrap();
        assert_eq!(samples.len(), 1_200);
        assert!(samples.most() >= 100.0);
        // In a closed loop, only 1 of 1,200 samples would be late, so p99 would not show the stall.
        assert!(samples.percentile(Percentile::P99).unwrap().value > 90.0);
    }

    #[test]
    fn a_request_is_not_sent_before_its_time() {
        let began = now();
        let samples = latencies(Duration::from_millis(5), 5, vec![(), ()], |(), _| Ok(())).unwrap();
        assert_eq!(samples.len(), 5);
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(samples.least() >= 0.0);
    }

    #[test]
    fn a_failure_ends_the_run() {
        let fails = |(): &mut (), n: u64| if n == 3 { Err("no".to_owned()) } else { Ok(()) };
        assert_eq!(latencies(Duration::ZERO, 10, vec![()], fails).map(|all| all.len()), Err("no".to_owned()));
    }
}
