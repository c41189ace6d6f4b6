//! The body of a response that came from another member of the fleet.

use crate::received::BoxError;
use crate::trace::Trace;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of a response of another member.
pub type PassedBody = UnsyncBoxBody<Bytes, BoxError>;

/// The body of a response of another member, and the event of its request.
pub struct Passed {
    body: PassedBody,
    /// The event is recorded after the last byte.
    trace: Option<Trace>,
}

impl std::fmt::Debug for Passed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passed")
    }
}

impl Passed {
    /// A body with the event of its request. `None` if the body is empty; in this case the event is recorded at once.
    pub(crate) fn new(body: PassedBody, trace: Trace) -> Option<Self> {
        (!body.is_end_stream()).then(|| Passed { body, trace: Some(trace) })
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(trace) = &mut self.trace {
            match &frame {
                Some(Ok(frame)) => trace.event.bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
                Some(Err(why)) => trace.event.reason = format!("the response was cut short: {why}"),
                None => self.trace = None,
            }
        }
        Poll::Ready(frame)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(crate) fn size(&self) -> SizeHint {
        self.body.size_hint()
    }
}
