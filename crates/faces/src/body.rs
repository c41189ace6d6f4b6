//! The body of a response: bytes in memory, or a stream.

use crate::passed::Passed;
use crate::trace::Trace;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// The error of a response that was cut short. The server then closes an HTTP/1 connection, or resets an HTTP/2 stream. So the client notices that
/// the response is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut short")]
pub struct Cut;

/// The maximum size, in bytes, of a response over HTTP/2 that does not count against the memory limit of its user. Such a response fits into one
/// frame (RFC 9113 §4.2).
pub const UNCOUNTED_BYTES: usize = 16 * 1024;

/// A piece of a response. While the value `place` exists, the bytes of the piece count against the memory limit of the user. `place` is dropped after
/// the whole piece was sent or dropped.
pub fn counted<P: Send + 'static>(bytes: impl AsRef<[u8]> + Send + 'static, place: P) -> Bytes {
    struct Counted<B, P> {
        bytes: B,
        _place: P,
    }
    impl<B: AsRef<[u8]>, P> AsRef<[u8]> for Counted<B, P> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    Bytes::from_owner(Counted { bytes, _place: place })
}

/// The body of a response.
#[derive(Debug)]
pub enum Body {
    /// The whole body, in memory.
    Whole(Option<Bytes>),
    /// The whole body in memory, and the trailer fields after the body (RFC 9110 §6.5).
    WithTrailers(Option<Bytes>, Option<Box<HeaderMap>>),
    /// A stream of pieces. The server makes the pieces while it sends the response.
    Stream(Pieces),
    /// The response of another member of the fleet, which is passed back to the client.
    Passed(Box<Passed>),
}

/// Pieces of a response.
#[derive(Debug)]
pub struct Pieces {
    coming: mpsc::Receiver<Result<Bytes, Cut>>,
    /// The trace of the request. Its event is recorded after the last piece, or when the client disconnects. `None` if the task that produces the
    /// pieces records the event itself.
    trace: Option<Box<Trace>>,
}

impl Pieces {
    /// Records the event after the last piece.
    pub fn end(&mut self, trace: Trace) {
        self.trace = Some(Box::new(trace));
    }

    fn note(&mut self, piece: Option<&Result<Bytes, Cut>>) {
        let Some(trace) = &mut self.trace else { return };
        match piece {
            Some(Ok(bytes)) => trace.event.bytes += bytes.len() as u64,
            Some(Err(cut)) => trace.event.reason = cut.to_string(),
            None => self.trace = None,
        }
    }
}

impl Body {
    /// A body without bytes.
    pub fn empty() -> Self {
        Body::Whole(None)
    }

    /// A body of the pieces that the channel delivers.
    pub fn stream(coming: mpsc::Receiver<Result<Bytes, Cut>>) -> Self {
        Body::Stream(Pieces { coming, trace: None })
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Body::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::WithTrailers(bytes, trailers) => Poll::Ready(match bytes.take() {
                Some(bytes) => Some(Ok(Frame::data(bytes))),
                None => trailers.take().map(|trailers| Ok(Frame::trailers(*trailers))),
            }),
            Body::Stream(pieces) => {
                let piece = ready!(pieces.coming.poll_recv(cx));
                pieces.note(piece.as_ref());
                Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
            }
            Body::Passed(passed) => passed.poll(cx).map(|frame| frame.map(|frame| frame.map_err(|_| Cut))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(None) | Body::WithTrailers(None, None) => true,
            Body::Passed(passed) => passed.is_over(),
            Body::Whole(_) | Body::WithTrailers(..) | Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Passed(passed) => passed.size(),
            Body::WithTrailers(..) | Body::Stream(_) => SizeHint::default(),
        }
    }
}
