//! The traces of requests for OpenTelemetry (`[traces]`). The trace of a request has a span for the request, and a span for each door that was asked.
//! The binary takes finished requests from the queue and sends their spans (`enfilade/src/traces.rs`).

use crate::clock;
use crate::connection::Handshake;
use crate::parent_span::ParentSpan;
use enfilade_facts::Door;
use enfilade_facts::vocabulary::RequestId;
use enfilade_passage::{DoorTime, DoorTimer, DoorTimes, Event};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// The maximum number of finished requests that wait to be sent. The traces of further requests are lost.
const WAITING_MAX: usize = 4_096;

/// The longest text of a trace, in bytes. A longer text is cut, so that waiting traces take at most a few megabytes of memory.
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
    /// The sum of the times from each question to the door until its answer.
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
    /// The id of the span of the proxy or of the other member that sent the request.
    pub parent: Option<u64>,
    /// The start of the request, in nanoseconds since the epoch.
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
    /// On average, one request out of this number of requests has a trace.
    one_in: u64,
    /// Whether the traces of trusted proxies are continued.
    continues_proxies: bool,
    waiting: Mutex<VecDeque<RequestSpans>>,
    lost: AtomicU64,
    sent: AtomicU64,
    /// Notified when a finished request comes into the empty queue.
    begun: Notify,
    /// Whether the server is stopping.
    is_ending: watch::Sender<bool>,
}

/// The decision about the trace of a request.
pub(crate) struct Decided {
    /// The spans of the request; `None` if the request has no trace.
    pub(crate) spans: Option<Box<RunningSpans>>,
    /// The span that this server names in requests to another member, so that the other member makes the same decision.
    pub(crate) onward: ParentSpan,
}

impl TraceQueue {
    /// On average, one request out of `one_in` requests has a trace. If `continues_proxies` is true, trusted proxies decide about the traces of their
    /// requests.
    pub fn new(one_in: u64, continues_proxies: bool) -> Arc<Self> {
        Arc::new(TraceQueue {
            one_in: one_in.max(1),
            continues_proxies,
            waiting: Mutex::default(),
            lost: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            begun: Notify::new(),
            is_ending: watch::Sender::new(false),
        })
    }

    /// Whether the traces of trusted proxies are continued.
    pub(crate) fn continues_proxies(&self) -> bool {
        self.continues_proxies
    }

    /// Decides about the trace of a request. If the sender of the request (a proxy or another member) named its span, the sender has already decided.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: RequestId,
        parent: Option<ParentSpan>,
        handshake: Option<&Handshake>,
    ) -> Decided {
        // Only the trace of the first request of a connection contains the time of the handshake. If this request has no trace, no trace contains the
        // time.
        let shaken = handshake.and_then(Handshake::take);
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => (id.0 as u64).is_multiple_of(self.one_in),
        };
        let trace_id = parent.map_or_else(|| id.uuid(), |parent| parent.trace_id);
        // The ids of requests are random. So it is practically impossible that two spans have the same id.
        let onward = ParentSpan { trace_id, span_id: (id.0 as u64).max(1), is_sampled };
        let spans = is_sampled.then(|| {
            let times = Arc::new(DoorTimes::new(clock::monotonic));
            if let Some((began, ended)) = shaken {
                times.add(Door::Tls, began, ended);
            }
            Box::new(RunningSpans {
                queue: Arc::clone(self),
                id,
                of_request: onward,
                parent: parent.map(|parent| parent.span_id),
                began: clock::monotonic(),
                began_wall: clock::since_epoch(),
                times,
            })
        });
        Decided { spans, onward }
    }

    fn put(&self, ended: RequestSpans) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING_MAX {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(ended);
        if waiting.len() == 1 {
            self.begun.notify_one();
        }
    }

    /// The number of finished requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The value in the receiver becomes true when the server stops. The task that sends traces holds a receiver until the task ends.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.is_ending.subscribe()
    }

    /// Makes the task send the remaining traces, and waits until it has ended.
    pub async fn end(&self) {
        self.is_ending.send_replace(true);
        self.is_ending.closed().await;
    }

    /// Waits until the queue is not empty.
    pub async fn begun(&self) {
        while self.waiting() == 0 {
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

    /// The number of requests with a trace that was sent, and the number of requests with a trace that was lost.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }
}

/// The trace of a running request.
pub(crate) struct RunningSpans {
    queue: Arc<TraceQueue>,
    id: RequestId,
    of_request: ParentSpan,
    parent: Option<u64>,
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

    fn door_span(&self, time: DoorTime, ended: Instant) -> DoorSpan {
        let DoorTime { door, began, busy, asked, .. } = time;
        let span_id = ((self.id.0 >> 64) as u64).wrapping_add(door as u64).max(1);
        let (began_nanos, ended_nanos) = (self.nanos(began), self.nanos(ended));
        DoorSpan { door, span_id, began_nanos, ended_nanos, busy, asked }
    }

    /// Converts a time of the monotonic clock to nanoseconds since the epoch.
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
            // After door 5 has opened the datastore, the work of door 5 continues until the end of the request.
            Door::Content => self.door_span(time, now),
            Door::Tls | Door::Identity | Door::Datastore | Door::Access => self.door_span(time, time.ended),
        };
        self.queue.put(RequestSpans {
            trace_id: self.of_request.trace_id,
            span_id: self.of_request.span_id,
            parent: self.parent,
            began_nanos: self.nanos(self.began),
            ended_nanos: self.nanos(now),
            doors: self.times.all().into_iter().map(of_door).collect(),
            event: shortened(event),
        });
    }
}

/// The event, with texts of limited length.
fn shortened(event: &Event) -> Event {
    Event {
        verb: cut(&event.verb).into(),
        authid: cut(&event.authid).into(),
        peer: cut(&event.peer).to_owned(),
        datastore: cut(&event.datastore).to_owned(),
        path: cut(&event.path).to_owned(),
        reason: cut(&event.reason).to_owned(),
        proxy_id: event.proxy_id.clone(),
        ..*event
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(queue: &Arc<TraceQueue>, id: u128, parent: Option<bool>) -> Option<Box<RunningSpans>> {
        let parent = parent.map(|is_sampled| ParentSpan { trace_id: 9, span_id: 8, is_sampled });
        let Decided { spans, onward } = queue.begin(RequestId(id), parent, None);
        assert_eq!(onward.is_sampled, spans.is_some());
        spans
    }

    #[test]
    fn the_sender_decides_about_the_trace_of_its_request() {
        let queue = TraceQueue::new(4, true);
        let with_trace = (0..8).filter(|id| begin(&queue, *id, None).is_some()).count();
        assert_eq!(with_trace, 2);
        assert!((0..8).all(|id| begin(&queue, id, Some(true)).is_some()));
        assert!((0..8).all(|id| begin(&queue, id, Some(false)).is_none()));
    }

    #[test]
    fn a_full_queue_drops_further_traces_and_counts_them() {
        let queue = TraceQueue::new(1, true);
        let text = "é".repeat(TEXT_BYTES_MAX);
        let long = Event { verb: text.as_str().into(), path: text, ..Event::default() };
        (0..WAITING_MAX as u128 + 3).for_each(|id| begin(&queue, id, None).unwrap().end(&long));
        assert_eq!(queue.counts(), (0, 3));
        let taken = queue.take(usize::MAX);
        assert_eq!(taken.len(), WAITING_MAX);
        let is_short = |ended: &RequestSpans| {
            (ended.event.verb.len(), ended.event.path.len()) == (TEXT_BYTES_MAX, TEXT_BYTES_MAX)
        };
        assert!(taken.iter().all(is_short));
        assert!(queue.take(1).is_empty());
    }

    #[test]
    fn a_request_has_a_span_for_each_door_that_was_asked() {
        let queue = TraceQueue::new(1, true);
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

    #[test]
    fn the_handshake_belongs_to_the_first_request_even_without_a_trace() {
        let queue = TraceQueue::new(2, true);
        let now = clock::monotonic();
        let handshake = Handshake::new(now, now);
        for (id, has_trace) in [(1, false), (2, true)] {
            let spans = queue.begin(RequestId(id), None, Some(&handshake)).spans;
            assert_eq!(spans.is_some(), has_trace);
            spans.into_iter().for_each(|spans| spans.end(&Event::default()));
        }
        assert!(queue.take(1).pop().unwrap().doors.is_empty());
    }
}
