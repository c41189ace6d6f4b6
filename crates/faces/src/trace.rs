//! The audit event of a request. It is recorded when its [`Trace`] is dropped, after the last byte of the response, and so exactly once.

use crate::metrics::{Metrics, TimedDoor};
use crate::request_error::{Failure, RequestError};
use enfilade_facts::Refuse;
use enfilade_facts::vocabulary::RequestId;
use enfilade_passage::{Event, House, Refusal};
use std::sync::Arc;
use std::time::Instant;

/// The audit event of a running request.
pub struct Trace {
    /// What is known of the request so far.
    pub event: Event,
    house: Arc<House>,
    metrics: Arc<Metrics>,
    began: u64,
    /// When door 2 granted.
    admitted: Option<Instant>,
}

impl Trace {
    pub(crate) fn new(
        house: &Arc<House>,
        metrics: &Arc<Metrics>,
        (id, peer): (RequestId, String),
        verb: &str,
    ) -> Self {
        let event = Event { id, peer, verb: verb.into(), verdict: "permit", ..Event::default() };
        Trace {
            event,
            house: Arc::clone(house),
            metrics: Arc::clone(metrics),
            began: house.now().tick_millis,
            admitted: None,
        }
    }

    /// Measures how long door 2 judges.
    ///
    /// # Errors
    /// Those of `judging`.
    pub async fn admitted<T, E>(&mut self, judging: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let began = clock();
        let judged = judging.await;
        self.judged(began, judged.is_ok());
        judged
    }

    /// Records that door 2 judged since `began`. If it granted, the time of the other doors begins.
    pub(crate) fn judged(&mut self, began: Instant, is_granted: bool) {
        let now = clock();
        self.metrics.door_took(TimedDoor::Identity, now.saturating_duration_since(began));
        self.admitted = is_granted.then_some(now);
    }

    /// Records why the request failed.
    pub fn failed(&mut self, failure: &Failure) {
        match failure {
            Failure::Refused(refusal) => self.refused(refusal),
            Failure::Request(error) => {
                self.event.verdict = "refuse";
                self.event.door = "face";
                self.event.code = error.code();
                self.event.fault = error.fault().name();
                self.event.reason = error.to_string();
            }
        }
    }

    /// Records an invalid request, with the error text of its protocol.
    pub fn invalid(&mut self, why: &str) {
        self.failed(&RequestError::Parameter("").into());
        why.clone_into(&mut self.event.reason);
    }

    /// Records the refusal of a door.
    pub fn refused(&mut self, refusal: &Refusal) {
        self.event.refused(refusal);
        debug_assert_eq!(self.event.code, refusal.code());
    }
}

#[expect(clippy::disallowed_methods, reason = "a measured duration decides nothing")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trace")
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.event.millis = self.house.now().tick_millis.saturating_sub(self.began);
        // Only existing datastores have a series of their own in the metrics, so that clients cannot add series.
        let is_of_store = !self.event.code.is_empty()
            && self.event.datastore.parse().is_ok_and(|name| self.house.has_datastore(&name));
        self.metrics.count(&self.event, is_of_store);
        if let Some(admitted) = self.admitted {
            self.metrics.door_took(TimedDoor::Content, admitted.elapsed());
        }
        self.house.audit().record(std::mem::take(&mut self.event));
    }
}
