//! Detects connections without progress. If the peer of a connection does not read its response, or sends no request, the server closes the
//! connection. Closing the connection frees its resources.
//!
//! HTTP/1.1 sends one response at a time, so the number of bytes that the socket accepts shows the progress of the response. On HTTP/2 a client may
//! stop reading one stream while it reads other streams. So the bytes of each response are counted, and a response without progress is dropped. The
//! stream of a dropped response keeps one slice in memory, and is reset as soon as the client reads again.

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

/// The number of bytes of a response that the HTTP/2 library gets at once: one frame (RFC 9113 §4.2). If the client does not read, the library holds
/// one slice in memory.
const SLICE_BYTES: usize = 16 * 1024;

/// The activity of a connection.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The number of bytes that the socket accepted.
    sent: AtomicU64,
    /// Whether bytes wait to be sent because the socket accepts no more bytes.
    is_blocked: AtomicBool,
    /// The number of requests that began. `running` is the number of requests that still run.
    begun: AtomicU64,
    running: AtomicU64,
    /// The HTTP/2 responses that count their bytes.
    answers: Mutex<Vec<Weak<Mutex<Sliced>>>>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoesOn,
    /// The client has sent no request for too long.
    Idle,
    /// The client does not read its response.
    Stands,
}

/// The values at the last check.
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

    /// Restarts the idle time, for a connection that was asked to end.
    pub(super) fn begin_again(&mut self) {
        self.active = Instant::now();
    }
}

impl Progress {
    /// Counts a request as running until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// The number of requests that began.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Checks the connection, `seconds` after the last check.
    pub(super) fn look(&self, seen: &mut Seen, seconds: u64, limits: &Limits) -> Verdict {
        let least = limits.download_bytes_per_second * seconds;
        self.drop_standing(least);
        let (sent, begun) = (self.sent.load(Ordering::Relaxed), self.begun());
        let (lately, was_blocked) = (sent - seen.sent, seen.was_blocked);
        seen.was_blocked = self.is_blocked.load(Ordering::Relaxed);
        if lately < least && was_blocked && seen.was_blocked {
            return Verdict::Stands;
        }
        // A few bytes do not count, because they may be answers to ping frames.
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

    /// Drops each response of which the client has read too little since the last check.
    fn drop_standing(&self, least: u64) {
        let mut stuck = Vec::new();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).retain(|answer| {
            let Some(answer) = answer.upgrade() else { return false };
            let dropped = answer.lock().unwrap_or_else(PoisonError::into_inner).look(least);
            let stays = dropped.is_none();
            stuck.extend(dropped);
            stays
        });
        // The responses are dropped after the lock is released. So their destructors run without the lock.
        drop(stuck);
    }

    /// Wraps a response body. On HTTP/2, the bytes of a body larger than one slice are counted.
    pub(super) fn watch(&self, body: Body, running: Running, is_h2: bool) -> Flow {
        if !is_h2 || body.size_hint().upper().is_some_and(|bytes| bytes <= SLICE_BYTES as u64) {
            return Flow::Whole(body, running);
        }
        let sliced =
            Sliced { held: Some((body, running)), rest: Bytes::new(), taken: 0, waits: false, seen: None };
        let sliced = Arc::new(Mutex::new(sliced));
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished responses are also removed here. Otherwise the list would grow between two checks.
        if answers.len() == answers.capacity() {
            answers.retain(|answer| answer.strong_count() > 0);
        }
        answers.push(Arc::downgrade(&sliced));
        Flow::Sliced(sliced)
    }
}

/// A running request.
#[derive(Debug)]
pub(super) struct Running(Arc<Progress>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response that is being sent.
#[derive(Debug)]
pub(crate) enum Flow {
    Whole(
        Body,
        #[expect(
            dead_code,
            reason = "the request counts as running until the whole response is passed to the connection"
        )]
        Running,
    ),
    Sliced(Arc<Mutex<Sliced>>),
}

/// A body that counts its bytes.
#[derive(Debug)]
pub(crate) struct Sliced {
    /// `None` after the body was dropped.
    held: Option<(Body, Running)>,
    rest: Bytes,
    taken: u64,
    /// Whether the client waits for more bytes. Then the server is the cause of the delay.
    waits: bool,
    /// The value of `taken` at the last check.
    seen: Option<u64>,
}

impl Sliced {
    /// Removes the body and returns it, if the client has read too little of the body since the last check.
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
        // The HTTP/2 library takes the first slice even if the client does not read. The first slice is a copy. So the memory of `piece` is freed
        // when the response is dropped.
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

/// A connection that counts its bytes.
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
