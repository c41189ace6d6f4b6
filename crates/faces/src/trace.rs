//! The audit event of a request. The event is recorded exactly once: when the [`Trace`] is dropped, after the last byte of the response.

use crate::clock;
use crate::metrics::{Metrics, TimedDoor};
use crate::parent_span::ParentSpan;
use crate::request_error::{Failure, RequestError};
use crate::spans::{Decided, RunningSpans};
use enfilade_facts::vocabulary::RequestId;
use enfilade_facts::{Door, Refuse};
use enfilade_passage::{Event, House, Refusal, Visit};
use std::sync::Arc;
use std::time::Instant;

/// The audit event of a running request.
pub struct Trace {
    /// The data about the request that are known so far.
    pub event: Event,
    house: Arc<House>,
    metrics: Arc<Metrics>,
    began: u64,
    /// The time at which door 2 accepted the credential.
    admitted: Option<Instant>,
    /// A text that [`Trace::failed`] adds to the reason of a [`RequestError`], such as the error of a connection to another member; empty if there is
    /// none.
    pub(crate) cause: String,
    /// The spans of the request, if its trace is exported.
    spans: Option<Box<RunningSpans>>,
    /// The span that this server names in requests to another member; `None` if the server exports no traces.
    pub(crate) onward: Option<ParentSpan>,
}

impl Trace {
    pub(crate) fn new(
        house: &Arc<House>,
        metrics: &Arc<Metrics>,
        (id, peer): (RequestId, String),
        verb: &str,
        traced: Option<Decided>,
    ) -> Self {
        let (spans, onward) = match traced {
            Some(Decided { spans, onward }) => (spans, Some(onward)),
            None => (None, None),
        };
        let event = Event { id, peer, verb: verb.into(), verdict: "permit", ..Event::default() };
        Trace {
            event,
            house: Arc::clone(house),
            metrics: Arc::clone(metrics),
            began: house.now().tick_millis,
            admitted: None,
            cause: String::new(),
            spans,
            onward,
        }
    }

    /// If the trace of the request is exported, this call starts to measure how long the doors take for the visitor.
    pub fn time(&self, visit: &mut Visit) {
        if let Some(spans) = &self.spans {
            visit.time(spans.timer());
        }
    }

    /// Waits for `judging`, in which door 2 checks a credential, and measures the time. Returns the result of `judging`.
    ///
    /// # Errors
    /// The errors of `judging`.
    pub async fn admitted<T, E>(&mut self, judging: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let began = clock::monotonic();
        let judged = judging.await;
        self.judged(began, judged.is_ok());
        judged
    }

    /// Records the time since `began` as the time of door 2. If door 2 granted the request, the time of doors 3 to 5 starts now.
    pub(crate) fn judged(&mut self, began: Instant, is_granted: bool) {
        let now = clock::monotonic();
        self.metrics.door_took(TimedDoor::Identity, now.saturating_duration_since(began));
        if let Some(spans) = &self.spans {
            spans.asked(Door::Identity, began, now);
        }
        self.admitted = is_granted.then_some(now);
    }

    /// Records the reason why the request failed.
    pub fn failed(&mut self, failure: &Failure) {
        match failure {
            Failure::Refused(refusal) => self.refused(refusal),
            Failure::Request(error) => {
                self.event.verdict = "refuse";
                self.event.door = "face";
                self.event.code = error.code();
                self.event.fault = error.fault().name();
                self.event.reason = error.to_string();
                if !self.cause.is_empty() {
                    self.event.reason = format!("{}: {}", self.event.reason, self.cause);
                }
            }
        }
    }

    /// Records an invalid request, with the error text of its protocol.
    pub fn invalid(&mut self, why: &str) {
        self.failed(&RequestError::Parameter("").into());
        why.clone_into(&mut self.event.reason);
    }

    /// Records that a door refused the request.
    pub fn refused(&mut self, refusal: &Refusal) {
        self.event.refused(refusal);
        debug_assert_eq!(self.event.code, refusal.code());
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trace")
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.event.millis = self.house.now().tick_millis.saturating_sub(self.began);
        // The server sent no answer, because the client closed the connection first.
        if self.event.status == 0 && self.event.code.is_empty() {
            self.event.verdict = "aborted";
        }
        // Only existing datastores get their own series in the metrics. Otherwise clients could create any number of series.
        let is_of_store = !self.event.code.is_empty()
            && self.event.datastore.parse().is_ok_and(|name| self.house.has_datastore(&name));
        self.metrics.count(&self.event, is_of_store);
        if !self.event.code.is_empty() {
            self.metrics.keep(&self.event, self.house.now().unix_seconds);
        }
        if let Some(admitted) = self.admitted {
            self.metrics.door_took(TimedDoor::Content, admitted.elapsed());
        }
        if let Some(spans) = self.spans.take() {
            spans.end(&self.event);
        }
        self.house.audit().record(std::mem::take(&mut self.event));
    }
}
