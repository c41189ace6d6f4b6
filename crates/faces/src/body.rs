//! What an answer is made of: bytes at hand, or bytes still to come.

use crate::respond::Wire;
use crate::serve::Incoming;
use crate::trace::Trace;
use bytes::Bytes;
use enfilade_facts::limits::Limits;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;

/// The answer was cut short; the connection is closed so that the client cannot take it for whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut short")]
pub struct Cut;

/// A whole XML body, which has to be small and to come in time.
pub(crate) async fn collect_xml<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, Wire> {
    collect(body, limits.xml_bytes, limits.body_seconds).await
}

/// A whole form body.
pub(crate) async fn collect_form<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, Wire> {
    let whole = collect(body, limits.json_bytes, limits.body_seconds).await?;
    let fields = whole.iter().filter(|byte| **byte == b'&').count() as u64;
    if fields >= limits.json_values { Err(Wire::Call) } else { Ok(whole) }
}

/// A whole JSON body.
pub(crate) async fn collect_json<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, Wire> {
    let whole = collect(body, limits.json_bytes, limits.body_seconds).await?;
    let (depth, values) = extent(&whole);
    if depth > limits.json_depth || values > limits.json_values { Err(Wire::JsonDepth) } else { Ok(whole) }
}

/// How deep objects and lists are in one another at most, and how many values are in them; of what is no JSON, anything. What is made of a
/// value takes many times the bytes it came in.
fn extent(json: &[u8]) -> (u64, u64) {
    let (mut depth, mut most, mut values, mut in_text, mut is_escaped) = (0_u64, 0, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => (depth, values) = (depth + 1, values + 1),
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            b',' if !in_text => values += 1,
            _ => {}
        }
        most = most.max(depth);
    }
    (most, values)
}

async fn collect<B: Incoming>(body: B, most: u64, seconds: u64) -> Result<Bytes, Wire> {
    let whole = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX)).collect();
    match tokio::time::timeout(Duration::from_secs(seconds), whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(why)) if why.is::<http_body_util::LengthLimitError>() => Err(Wire::BodyTooLarge),
        Ok(Err(_)) => Err(Wire::BodyBroken),
        Err(_) => Err(Wire::BodySlow),
    }
}

/// What of an answer is held for a client on HTTP/2 without being counted, in bytes: a frame of it (RFC 9113 §4.2).
pub(crate) const UNCOUNTED_BYTES: usize = 16 * 1024;

/// A piece of an answer. Its bytes count as held for the user until the last part of it is sent or dropped.
pub(crate) fn counted<P: Send + 'static>(bytes: impl AsRef<[u8]> + Send + 'static, place: P) -> Bytes {
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

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Option<Bytes>),
    /// Pieces, as they come.
    Stream(Pieces),
}

/// Pieces of an answer.
#[derive(Debug)]
pub struct Pieces {
    coming: mpsc::Receiver<Result<Bytes, Cut>>,
    /// Of the request that ends with the last of them, where whoever makes them does not keep it.
    trace: Option<Box<Trace>>,
}

impl Pieces {
    /// The request ends with the last of them.
    pub(crate) fn end(&mut self, trace: Trace) {
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
    /// No bytes.
    pub fn empty() -> Self {
        Body::Whole(None)
    }

    /// Pieces, as they come.
    pub(crate) fn stream(coming: mpsc::Receiver<Result<Bytes, Cut>>) -> Self {
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
            Body::Stream(pieces) => {
                let piece = ready!(pieces.coming.poll_recv(cx));
                pieces.note(piece.as_ref());
                Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_and_values_are_counted_outside_of_text() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (json, expected) in [
            ("", (0, 0)),
            ("1", (0, 0)),
            ("{}", (1, 1)),
            (r#"[{"a":[]},[[]]]"#, (3, 6)),
            (r#"{"[[[[,":"{{{{,"}"#, (1, 1)),
            (r#"["\"[[,",[]]"#, (2, 3)),
            (r#"["\\",[[]]]"#, (3, 4)),
            ("]]]][[", (2, 2)),
            ("[1,2,3]", (1, 3)),
            (&deep(500), (500, 500)),
        ] {
            assert_eq!(extent(json.as_bytes()), expected, "{json}");
        }
    }
}
