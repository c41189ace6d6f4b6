//! What an answer is made of: bytes at hand, or bytes still to come.

use crate::respond::Wire;
use crate::serve::Incoming;
use bytes::Bytes;
use enfilade_facts::limits::Limits;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
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

/// A whole JSON or form body.
pub(crate) async fn collect_json<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, Wire> {
    collect(body, limits.json_bytes, limits.body_seconds).await
}

async fn collect<B: Incoming>(body: B, most: u64, seconds: u64) -> Result<Bytes, Wire> {
    let whole = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX)).collect();
    match tokio::time::timeout(Duration::from_secs(seconds), whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(why)) if why.is::<http_body_util::LengthLimitError>() => Err(Wire::BodyTooLarge),
        Ok(Err(_)) | Err(_) => Err(Wire::BodyBroken),
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Option<Bytes>),
    /// Pieces, as they come.
    Stream(mpsc::Receiver<Result<Bytes, Cut>>),
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Body::Whole(None)
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
                pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
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
