//! The body of a request, as the listener passes it to the protocols.

use super::client_progress::{ClientProgress, Waiting};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether a connection sent malformed bytes.
#[derive(Debug, Default)]
pub(super) struct Malformed {
    is_so: AtomicBool,
    /// The waker of the body that waits for more bytes. On HTTP/1.1, only one body at a time waits for bytes. On HTTP/2 no waker is needed, because
    /// the library processes a header block only as a whole, and then wakes the body itself.
    waiting: Mutex<Option<Waker>>,
}

impl Malformed {
    /// Records malformed bytes, and wakes the waiting body. The body must end, because otherwise the library would read the rest of the connection as
    /// trailers.
    pub(super) fn set(&self) {
        self.is_so.store(true, Ordering::Release);
        let waiting = self.waiting().take();
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_so(&self) -> bool {
        self.is_so.load(Ordering::Acquire)
    }

    fn wake(&self, cx: &Context<'_>) {
        let mut waiting = self.waiting();
        if !waiting.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waiting = Some(cx.waker().clone());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that ends with an error if its connection has sent malformed bytes. The malformed bytes may be in the trailers of this request (RFC 9113
/// §8.1.1).
pub(super) struct Received {
    body: Incoming,
    malformed: Arc<Malformed>,
    client: Arc<ClientProgress>,
    /// The guard that counts the request as waiting. It exists while the body waits for more bytes.
    waiting: Option<Waiting>,
}

impl Received {
    /// Wraps the body of a request. `client` is the progress of its connection. `malformed` is set when the connection sent malformed bytes.
    pub(super) fn new(body: Incoming, malformed: Arc<Malformed>, client: Arc<ClientProgress>) -> Self {
        Received { body, malformed, client, waiting: None }
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
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(data))) if data.is_data() => Poll::Ready(Some(Ok(data))),
            frame => {
                if frame.is_pending() {
                    this.malformed.wake(cx);
                }
                match this.malformed.is_so() {
                    true => Poll::Ready(Some(Err(malformed()))),
                    false => frame.map(|frame| frame.map(|frame| frame.map_err(Into::into))),
                }
            }
        };
        match frame.is_pending() {
            true if this.waiting.is_none() => this.waiting = this.client.waits(),
            true => {}
            false => this.waiting = None,
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn malformed() -> Box<dyn std::error::Error + Send + Sync> {
    io::Error::new(io::ErrorKind::InvalidData, "the client sent malformed header or trailer fields").into()
}
