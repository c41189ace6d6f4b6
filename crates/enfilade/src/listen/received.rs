//! The body of a request, as the listener hands it on.

use super::admission::{Standing, Waiting};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// A body that does not come to its end once its connection sent something malformed: it may be in the trailers of this very request
/// (RFC 9113 §8.1.1).
pub(super) struct Received {
    body: Incoming,
    is_malformed: Arc<AtomicBool>,
    standing: Arc<Standing>,
    /// While more of it is waited for.
    waiting: Option<Waiting>,
}

impl Received {
    /// On a connection that stands so, and that says so when it sent something malformed.
    pub(super) fn new(body: Incoming, is_malformed: Arc<AtomicBool>, standing: Arc<Standing>) -> Self {
        Received { body, is_malformed, standing, waiting: None }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            if this.waiting.is_none() {
                this.waiting = this.standing.waits();
            }
            return Poll::Pending;
        };
        this.waiting = None;
        let is_data = frame.as_ref().is_some_and(|frame| frame.as_ref().is_ok_and(Frame::is_data));
        if !is_data && this.is_malformed.load(Ordering::Acquire) {
            let why = io::Error::new(io::ErrorKind::InvalidData, "the connection sent malformed fields");
            return Poll::Ready(Some(Err(why.into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
