//! Whether a connection makes progress. A peer that takes nothing of what it asked for, or asks for nothing, is let go, and so is everything
//! that is held for it.
//!
//! On HTTP/1.1 there is one answer at a time, so the bytes the socket takes say it all. On HTTP/2 a client may leave the window of one stream
//! closed while others go on: there the bytes of each answer are counted, and one that stands still is dropped with all it holds. Its stream is
//! reset as soon as the client reads again; until then it holds one slice.

use enfilade_faces::{Body, Cut};
use enfilade_facts::limits::Limits;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// How much of an answer is handed to HTTP/2 at once, in bytes: what it holds for a client that takes nothing. One frame of it (RFC 9113 §4.2).
const SLICE_BYTES: usize = 16 * 1024;

/// What goes on on a connection.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes the socket took.
    sent: AtomicU64,
    /// Something is to be sent and the socket does not take it.
    is_blocked: AtomicBool,
    /// Requests that began, and those of them that are not over.
    begun: AtomicU64,
    running: AtomicU64,
    /// Answers on HTTP/2.
    answers: Mutex<Vec<Weak<Mutex<Sliced>>>>,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoesOn,
    /// Nobody asked for anything for long.
    Idle,
    /// The client does not take what is sent.
    Stands,
}

/// What was seen at the last look.
#[derive(Debug)]
pub(super) struct Seen {
    sent: u64,
    begun: u64,
    was_blocked: bool,
    active: Instant,
}

impl Seen {
    pub(super) fn now() -> Self {
        Seen { sent: 0, begun: 0, was_blocked: false, active: Instant::now() }
    }

    /// A connection that was told to end has as long again for it.
    pub(super) fn begin_again(&mut self) {
        self.active = Instant::now();
    }
}

impl Progress {
    /// A request begins; it is over when this is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// How many began.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Looks again, so many seconds after the last look.
    pub(super) fn look(&self, seen: &mut Seen, seconds: u64, limits: &Limits) -> Verdict {
        let least = limits.download_bytes_per_second * seconds;
        self.drop_standing(least);
        let (sent, begun) = (self.sent.load(Ordering::Relaxed), self.begun());
        let (lately, was_blocked) = (sent - seen.sent, seen.was_blocked);
        seen.was_blocked = self.is_blocked.load(Ordering::Relaxed);
        if lately < least && was_blocked && seen.was_blocked {
            return Verdict::Stands;
        }
        // What little is sent may answer pings.
        let is_sending = seen.was_blocked || lately > SLICE_BYTES as u64;
        if self.running.load(Ordering::Relaxed) > 0 || begun != seen.begun || is_sending {
            seen.active = Instant::now();
        }
        (seen.sent, seen.begun) = (sent, begun);
        match seen.active.elapsed() >= Duration::from_secs(limits.idle_seconds) {
            true => Verdict::Idle,
            false => Verdict::GoesOn,
        }
    }

    /// Lets go of the answers of which too little was taken since the last look.
    fn drop_standing(&self, least: u64) {
        let mut standing = Vec::new();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).retain(|answer| {
            let Some(answer) = answer.upgrade() else { return false };
            let let_go = answer.lock().unwrap_or_else(PoisonError::into_inner).look(least);
            let stays = let_go.is_none();
            standing.extend(let_go);
            stays
        });
        // Whatever ends with them, ends without a lock.
        drop(standing);
    }

    /// An answer, watched where its connection is one of HTTP/2 and it is larger than what may be held for it.
    pub(super) fn watch(&self, body: Body, running: Running, is_h2: bool) -> Flow {
        if !is_h2 || body.size_hint().upper().is_some_and(|bytes| bytes <= SLICE_BYTES as u64) {
            return Flow::Whole(body, running);
        }
        let sliced =
            Sliced { held: Some((body, running)), rest: Bytes::new(), taken: 0, waits: false, seen: None };
        let sliced = Arc::new(Mutex::new(sliced));
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are over are found here, too: nothing grows between two looks.
        if answers.len() == answers.capacity() {
            answers.retain(|answer| answer.strong_count() > 0);
        }
        answers.push(Arc::downgrade(&sliced));
        Flow::Sliced(sliced)
    }
}

/// A request that is not over.
#[derive(Debug)]
pub(super) struct Running(Arc<Progress>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer on its way.
#[derive(Debug)]
pub(crate) enum Flow {
    Whole(Body, #[expect(dead_code, reason = "held until the answer is handed over")] Running),
    Sliced(Arc<Mutex<Sliced>>),
}

/// One whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Sliced {
    /// Nothing once it was let go.
    held: Option<(Body, Running)>,
    rest: Bytes,
    taken: u64,
    /// The client would take more than there is: it is not the one who is slow.
    waits: bool,
    /// What was taken at the last look.
    seen: Option<u64>,
}

impl Sliced {
    /// Everything it holds, where too little of it was taken.
    fn look(&mut self, least: u64) -> Option<(Body, Running)> {
        let before = self.seen.replace(self.taken)?;
        if self.waits || self.taken - before >= least {
            return None;
        }
        self.rest = Bytes::new();
        self.held.take()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let Some((body, _)) = &mut self.held else { return Poll::Ready(Some(Err(Cut))) };
        if self.rest.is_empty() {
            let frame = Pin::new(body).poll_frame(cx);
            self.waits = frame.is_pending();
            match ready!(frame).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(cut)) => return Poll::Ready(Some(Err(cut))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(SLICE_BYTES));
        // HTTP/2 takes one slice also where its client takes nothing. A copy, so that the piece goes when the answer is let go.
        let slice = if self.taken == 0 { Bytes::copy_from_slice(&piece) } else { piece };
        self.taken += slice.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }
}

impl hyper::body::Body for Flow {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Flow::Whole(body, _) => Pin::new(body).poll_frame(cx),
            Flow::Sliced(sliced) => sliced.lock().unwrap_or_else(PoisonError::into_inner).poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Flow::Whole(body, _) => body.is_end_stream(),
            Flow::Sliced(sliced) => {
                let sliced = sliced.lock().unwrap_or_else(PoisonError::into_inner);
                sliced.rest.is_empty() && sliced.held.as_ref().is_some_and(|(body, _)| body.is_end_stream())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Flow::Whole(body, _) => body.size_hint(),
            Flow::Sliced(sliced) => {
                let sliced = sliced.lock().unwrap_or_else(PoisonError::into_inner);
                let rest = sliced.rest.len() as u64;
                let hint = sliced.held.as_ref().map(|(body, _)| body.size_hint()).unwrap_or_default();
                hint.exact().map_or_else(SizeHint::default, |bytes| SizeHint::with_exact(bytes + rest))
            }
        }
    }
}

/// A connection whose bytes are counted.
pub(crate) struct Counted<S> {
    inner: S,
    progress: Arc<Progress>,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, progress: Arc<Progress>) -> Self {
        Counted { inner, progress }
    }

    fn noted<R>(&self, poll: Poll<io::Result<R>>, bytes: impl Fn(&R) -> usize) -> Poll<io::Result<R>> {
        if let Poll::Ready(Ok(result)) = &poll {
            self.progress.sent.fetch_add(bytes(result) as u64, Ordering::Relaxed);
        }
        self.progress.is_blocked.store(poll.is_pending(), Ordering::Relaxed);
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.noted(poll, |count| *count)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.noted(poll, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.noted(poll, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.noted(poll, |()| 0)
    }
}
