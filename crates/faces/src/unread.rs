//! Reads the rest of a request's body after the response is decided. A client that is still sending can miss the response if the server stops
//! reading. So the server reads and discards a limited number of bytes of the body. If the body is longer, an HTTP/1 connection is closed, and an
//! HTTP/2 stream is reset.

use crate::received::{BoxError, Incoming};
use crate::respond::Answer;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::{Request, Version};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime::Handle;

/// The limits for reading the rest of a body, in seconds and in bytes. When a limit is reached, an HTTP/2 stream is reset with NO_ERROR (RFC 9113
/// §8.1). Clients such as curl up to 7.88 treat a reset as a failed request, even after a complete response.
const DISCARD_SECONDS: u64 = 2;
const DISCARD_BYTES: u64 = 8 << 20;
/// The maximum length, in bytes, of a body of which the rest is read to keep an HTTP/1.1 connection open. For a longer body, it takes less time to
/// open a new connection.
const KEPT_BYTES: u64 = 64 << 10;

/// The body of a request. If this value is dropped before the end of the body, the rest is read and discarded, up to a limit.
pub struct Received {
    /// Taken by `drop`; `None` for a request without a body.
    body: Option<UnsyncBoxBody<Bytes, BoxError>>,
    is_over: bool,
    /// The maximum number of bytes to discard.
    discarded: u64,
    closing: Closing,
}

/// Whether the response closes the connection, because the body was not read to its end or is malformed (RFC 9112 §9.6). `None` for a request without
/// a body, and for HTTP/2, where only the stream ends.
#[derive(Clone)]
pub(crate) struct Closing(Option<Arc<AtomicBool>>);

/// The request with a body that this module observes, and whether the response closes the connection.
pub(crate) fn watch<B: Incoming>(request: Request<B>) -> (Request<Received>, Closing) {
    let (is_http2, is_over) = (request.version() >= Version::HTTP_2, request.body().is_end_stream());
    let is_small = request.body().size_hint().exact().is_some_and(|bytes| bytes <= KEPT_BYTES);
    let discarded = match is_http2 {
        true => DISCARD_BYTES,
        // If a client waits for `100 Continue`, reading the body would make the client send the body (RFC 9110 §10.1.1).
        false if is_small && !request.headers().contains_key(EXPECT) => KEPT_BYTES,
        false => 0,
    };
    let closing = Closing((!is_http2 && !is_over).then(Arc::default));
    let said = closing.clone();
    let received = |body: B| {
        let body = (!is_over).then(|| body.map_err(Into::into).boxed_unsync());
        Received { body, is_over, discarded, closing }
    };
    (request.map(received), said)
}

impl Closing {
    /// Adds `Connection: close` if the connection must be closed.
    pub(crate) fn tell(self, answer: &mut Answer) {
        if self.0.is_some_and(|ends| ends.load(Ordering::Relaxed)) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    fn is_so(&self) {
        if let Some(ends) = &self.0 {
            ends.store(true, Ordering::Relaxed);
        }
    }
}

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        // The body ends after its last frame, or after an error.
        this.is_over = !matches!(frame, Some(Ok(_)));
        if matches!(frame, Some(Err(_))) {
            this.closing.is_so();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), hyper::body::Body::size_hint)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.is_over && !body.is_end_stream()) else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) if self.discarded > 0 => drop(runtime.spawn(discard(body, self.discarded))),
            _ => self.closing.is_so(),
        }
    }
}

/// Reads and discards a body until its end, until `most` bytes were read, or until the time limit is reached.
async fn discard(mut body: UnsyncBoxBody<Bytes, BoxError>, most: u64) {
    let reading = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            left = left.saturating_sub(bytes);
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(DISCARD_SECONDS), reading).await;
}
