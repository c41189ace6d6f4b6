//! The main figures of the last hours, for people who have no monitoring system. A monitoring system stores the metrics for longer.

use super::{CLASSES, Metrics};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// The number of minutes that are kept.
pub const HISTORY_MINUTES: usize = 180;
/// The class of the statuses from 500 to 599.
const FAILED: &str = "5xx";

/// The figures of about one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// The end of the minute, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The number of ended requests, including those that the client ended before the answer.
    pub requests: u64,
    /// The number of requests that a door or a face (the code of a protocol) refused.
    pub refused: u64,
    /// The number of answers with a status of 500 or more.
    pub failed: u64,
    /// The open connections at the end of the minute.
    pub connections: u64,
    /// The memory of the server in RAM at the end of the minute, in bytes.
    pub resident_bytes: u64,
    /// The processor time that the server used in the minute, in milliseconds.
    pub cpu_millis: u64,
}

/// The last minutes.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    minutes: VecDeque<Minute>,
    /// The values of the counters at the end of the last minute; `None` before the first call.
    last: Option<Minute>,
}

impl Metrics {
    /// Ends a minute. The first call only begins the first minute.
    pub fn end_minute(&self, unix_seconds: i64) {
        let now = self.counted(unix_seconds);
        let mut kept = self.history.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = kept.last.replace(now) else { return };
        if kept.minutes.len() == HISTORY_MINUTES {
            kept.minutes.pop_front();
        }
        kept.minutes.push_back(Minute {
            requests: now.requests.saturating_sub(last.requests),
            refused: now.refused.saturating_sub(last.refused),
            failed: now.failed.saturating_sub(last.failed),
            cpu_millis: now.cpu_millis.saturating_sub(last.cpu_millis),
            ..now
        });
    }

    /// The last minutes, the oldest first.
    pub fn history(&self) -> Vec<Minute> {
        let kept = self.history.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.minutes.iter().copied().collect()
    }

    /// The values of the counters since the start of the process, and the present values of the gauges.
    fn counted(&self, unix_seconds: i64) -> Minute {
        let (mut requests, mut failed) = (0, 0);
        for (class, count) in self.responses.iter().flat_map(|classes| CLASSES.iter().zip(classes)) {
            let count = count.load(Ordering::Relaxed);
            requests += count;
            failed += if *class == FAILED { count } else { 0 };
        }
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).values().sum();
        let process = *self.process.lock().unwrap_or_else(PoisonError::into_inner);
        Minute {
            unix_seconds,
            requests,
            refused,
            failed,
            connections: self.connections.load(Ordering::Relaxed),
            resident_bytes: process.resident_bytes,
            cpu_millis: process.cpu_millis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_passage::Event;

    fn answer(metrics: &Metrics, status: u16, code: &'static str) {
        metrics.count(&Event { verb: "GET".into(), status, code, ..Event::default() }, false);
    }

    #[test]
    fn a_minute_has_what_was_counted_since_the_minute_before() {
        let metrics = Metrics::default();
        answer(&metrics, 200, "");
        metrics.end_minute(60);
        assert_eq!(metrics.history(), []);
        answer(&metrics, 200, "");
        answer(&metrics, 403, "AC01");
        answer(&metrics, 503, "ID12");
        metrics.end_minute(120);
        metrics.end_minute(180);
        let minute = |unix_seconds, requests, refused, failed| Minute {
            unix_seconds,
            requests,
            refused,
            failed,
            ..Minute::default()
        };
        assert_eq!(metrics.history(), [minute(120, 3, 2, 1), minute(180, 0, 0, 0)]);
    }

    #[test]
    fn the_oldest_minute_is_forgotten() {
        let metrics = Metrics::default();
        for n in 0..HISTORY_MINUTES as i64 + 5 {
            metrics.end_minute(n * 60);
        }
        let history = metrics.history();
        assert_eq!(history.len(), HISTORY_MINUTES);
        assert_eq!(history.first().map(|minute| minute.unix_seconds), Some(5 * 60));
    }
}
