//! The traces of requests for OpenTelemetry (`[traces]`). The trace of a request has a span for the request, and a span for each door that was asked. The
//! binary takes finished requests from the queue and sends their spans (`enfilade/src/traces.rs`).

use crate::clock;
use crate::connection::Handshake;
use crate::parent_span::ParentSpan;
use enfilade_facts::Door;
use enfilade_facts::vocabulary::RequestId;
use enfilade_passage::{DoorTime, DoorTimer, DoorTimes, Event};
use hyper::header::HeaderValue;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The maximum number of finished requests that wait to be sent. Further requests have no trace.
pub const TRACES_WAITING_MAX: usize = 4_096;

/// The longest text of a trace, in bytes. A longer path or reason is cut, so that waiting traces take at most some megabytes of memory.
const TEXT_BYTES_MAX: usize = 1_024;

/// The span of a door, with times in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub struct DoorSpan {
    /// The door.
    pub door: Door,
    /// The id of the span.
    pub span_id: u64,
    /// The time at which the door was asked first.
    pub began_nanos: u64,
    /// The time of the door's last answer. For door 5, the end of the request.
    pub ended_nanos: u64,
    /// The sum of the times between question and answer.
    pub busy: Duration,
    /// How often the door was asked.
    pub asked: u32,
}

/// A request that has ended, and its spans.
pub struct RequestSpans {
    /// The id of the trace.
    pub trace_id: u128,
    /// The id of the span of the request.
    pub span_id: u64,
    /// The span of the proxy or of the other member that sent the request.
    pub parent: Option<u64>,
    /// The begin of the request, in nanoseconds since the epoch.
    pub began_nanos: u64,
    /// The end of the request, in nanoseconds since the epoch.
    pub ended_nanos: u64,
    /// The doors that were asked.
    pub doors: Vec<DoorSpan>,
    /// The outcome of the request.
    pub event: Event,
}

/// The finished requests that wait to be sent.
pub struct TraceQueue {
    /// On average, one of this many requests has a trace.
    one_in: u64,
    waiting: Mutex<VecDeque<RequestSpans>>,
    lost: AtomicU64,
    sent: AtomicU64,
    /// Notified when a finished request comes into the empty queue.
    begun: Notify,
}

impl TraceQueue {
    /// On average, one of `one_in` requests has a trace.
    pub fn new(one_in: u64) -> Arc<Self> {
        Arc::new(TraceQueue {
            one_in: one_in.max(1),
            waiting: Mutex::default(),
            lost: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            begun: Notify::new(),
        })
    }

    /// Begins the trace of a request; `None` if the request has none. If a trusted proxy or another member sent the request, the sender decides.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: RequestId,
        parent: Option<ParentSpan>,
        handshake: Option<&Handshake>,
    ) -> Option<Box<RunningSpans>> {
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => (id.0 as u64).is_multiple_of(self.one_in),
        };
        if !is_sampled {
            return None;
        }
        let times = Arc::new(DoorTimes::new(clock::monotonic));
        if let Some((began, ended)) = handshake.and_then(Handshake::take) {
            times.add(Door::Tls, began, ended);
        }
        Some(Box::new(RunningSpans {
            queue: Arc::clone(self),
            id,
            parent,
            began: clock::monotonic(),
            began_wall: clock::since_epoch(),
            times,
        }))
    }

    fn put(&self, ended: RequestSpans) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= TRACES_WAITING_MAX {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(ended);
        if waiting.len() == 1 {
            self.begun.notify_one();
        }
    }

    /// Waits until the queue is not empty.
    pub async fn begun(&self) {
        while self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.begun.notified().await;
        }
    }

    /// Takes the oldest finished requests, at most `most`.
    pub fn take(&self, most: usize) -> Vec<RequestSpans> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.min(waiting.len());
        waiting.drain(..most).collect()
    }

    /// Counts requests with traces that the collector accepted.
    pub fn count_sent(&self, requests: usize) {
        self.sent.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Counts requests with traces that were dropped.
    pub fn count_lost(&self, requests: usize) {
        self.lost.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// How many requests have had their traces sent, and how many have lost their traces.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }
}

/// The trace of a running request.
pub(crate) struct RunningSpans {
    queue: Arc<TraceQueue>,
    id: RequestId,
    parent: Option<ParentSpan>,
    began: Instant,
    /// The time since the epoch at `began`.
    began_wall: Duration,
    times: Arc<DoorTimes>,
}

impl RunningSpans {
    pub(crate) fn timer(&self) -> DoorTimer {
        DoorTimer::of(&self.times)
    }

    pub(crate) fn asked(&self, door: Door, began: Instant, ended: Instant) {
        self.times.add(door, began, ended);
    }

    /// The value of `traceparent` with which another member continues the trace.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        ParentSpan { trace_id: self.trace_id(), span_id: self.span_id(), is_sampled: true }.header()
    }

    fn trace_id(&self) -> u128 {
        self.parent.map_or_else(|| self.id.uuid(), |parent| parent.trace_id)
    }

    /// The ids of requests are random. So no two spans of a trace get the same id.
    fn span_id(&self) -> u64 {
        (self.id.0 as u64).max(1)
    }

    fn door_span(&self, time: DoorTime, ended: Instant) -> DoorSpan {
        let DoorTime { door, began, busy, asked, .. } = time;
        let span_id = ((self.id.0 >> 64) as u64).wrapping_add(door as u64).max(1);
        let (began_nanos, ended_nanos) = (self.nanos(began), self.nanos(ended));
        DoorSpan { door, span_id, began_nanos, ended_nanos, busy, asked }
    }

    /// The nanoseconds since the epoch at a time.
    fn nanos(&self, at: Instant) -> u64 {
        let wall = match at.checked_duration_since(self.began) {
            Some(after) => self.began_wall + after,
            None => self.began_wall.saturating_sub(self.began.duration_since(at)),
        };
        u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Puts the trace into the queue.
    pub(crate) fn end(self, event: &Event) {
        let now = clock::monotonic();
        let of_door = |time: DoorTime| match time.door {
            // After door 5 opened the datastore, its work lasts until the end of the request.
            Door::Content => self.door_span(time, now),
            Door::Tls | Door::Identity | Door::Datastore | Door::Access => self.door_span(time, time.ended),
        };
        let mut event = event.clone();
        cut(&mut event.path);
        cut(&mut event.reason);
        self.queue.put(RequestSpans {
            trace_id: self.trace_id(),
            span_id: self.span_id(),
            parent: self.parent.map(|parent| parent.span_id),
            began_nanos: self.nanos(self.began),
            ended_nanos: self.nanos(now),
            doors: self.times.all().into_iter().map(of_door).collect(),
            event,
        });
    }
}

fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(queue: &Arc<TraceQueue>, id: u128, parent: Option<bool>) -> Option<Box<RunningSpans>> {
        let parent = parent.map(|is_sampled| ParentSpan { trace_id: 9, span_id: 8, is_sampled });
        queue.begin(RequestId(id), parent, None)
    }

    #[test]
    fn the_sender_decides_about_the_trace_of_its_request() {
        let queue = TraceQueue::new(4);
        let with_trace = (0..8).filter(|id| begin(&queue, *id, None).is_some()).count();
        assert_eq!(with_trace, 2);
        assert!((0..8).all(|id| begin(&queue, id, Some(true)).is_some()));
        assert!((0..8).all(|id| begin(&queue, id, Some(false)).is_none()));
    }

    #[test]
    fn a_full_queue_drops_further_traces_and_counts_them() {
        let queue = TraceQueue::new(1);
        let long = Event { path: "é".repeat(TEXT_BYTES_MAX), ..Event::default() };
        (0..TRACES_WAITING_MAX as u128 + 3).for_each(|id| begin(&queue, id, None).unwrap().end(&long));
        assert_eq!(queue.counts(), (0, 3));
        let taken = queue.take(usize::MAX);
        assert_eq!(taken.len(), TRACES_WAITING_MAX);
        assert!(taken.iter().all(|ended| ended.event.path.len() == TEXT_BYTES_MAX));
        assert!(queue.take(1).is_empty());
    }

    #[test]
    fn a_request_has_a_span_for_each_door_that_was_asked() {
        let queue = TraceQueue::new(1);
        let running = begin(&queue, 7 << 64 | 5, Some(true)).unwrap();
        let (first, micros) = (running.began, Duration::from_micros);
        running.asked(Door::Identity, first, first + micros(3));
        running.asked(Door::Access, first + micros(4), first + micros(5));
        running.asked(Door::Access, first + micros(7), first + micros(9));
        running.end(&Event::default());
        let ended = queue.take(1).pop().unwrap();
        assert_eq!((ended.trace_id, ended.span_id, ended.parent), (9, 5, Some(8)));
        let nanos = |at: u64| at - ended.began_nanos;
        let doors: Vec<_> = ended
            .doors
            .iter()
            .map(|span| {
                (span.door.name(), nanos(span.began_nanos), nanos(span.ended_nanos), span.busy, span.asked)
            })
            .collect();
        assert_eq!(doors, [("identity", 0, 3_000, micros(3), 1), ("access", 4_000, 9_000, micros(3), 2)]);
    }
}
