//! Ends connections. A connection ends at once if `cut` is notified, or if the client does not read a response. An idle connection first stops
//! accepting requests, and then ends. If the server stops, a connection ends after its running requests. An HTTP/2 connection also ends when it
//! reaches its maximum number of requests or its maximum age, or when its client resets too many streams.

use super::progress::{Counted, Flow, Progress, Running, Seen, Verdict};
use enfilade_faces::Body;
use enfilade_facts::limits::Limits;
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::io::InspectReader;

/// Becomes true once, when the server stops. From then on, listeners accept no more connections, and running requests finish.
pub(crate) type Drain = watch::Receiver<bool>;

/// The period over which stream resets of a client are counted (CVE-2023-44487).
const RESETS_OVER: Duration = Duration::from_secs(30);

/// The length of the connection preface, which a client sends before all frames (RFC 9113 §3.4).
const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// The frame type `RST_STREAM` (RFC 9113 §6.4).
const RESET: u8 = 3;

/// The limits and signals that end a connection.
pub(crate) struct ConnectionLifecycle {
    limits: Limits,
    /// Notified when the connection must end at once.
    cut: Arc<Notify>,
    /// Notified when the connection must accept no more requests.
    enough: Notify,
    progress: Arc<Progress>,
    is_h2: bool,
}

impl ConnectionLifecycle {
    pub(crate) fn new(limits: Limits, cut: Arc<Notify>, is_h2: bool) -> Arc<Self> {
        Arc::new(ConnectionLifecycle { limits, cut, enough: Notify::new(), progress: Arc::default(), is_h2 })
    }

    /// Counts a request as running until the returned guard is dropped.
    pub(crate) fn begin(&self) -> Running {
        let running = self.progress.begin();
        if self.is_h2 && self.progress.begun() == self.limits.requests_per_connection {
            self.enough.notify_one();
        }
        running
    }

    /// Wraps a response. The wrapper checks the progress of the response.
    pub(crate) fn answer(&self, answer: Response<Body>, running: Running) -> Response<Flow> {
        answer.map(|body| self.progress.watch(body, running, self.is_h2))
    }

    /// Wraps the connection. The wrapper counts the bytes of the connection.
    pub(crate) fn count<S>(&self, stream: S) -> Counted<S> {
        Counted::new(stream, Arc::clone(&self.progress))
    }

    /// Ends an HTTP/2 connection after its running requests. The client gets a GOAWAY frame.
    pub(crate) fn has_enough(&self) {
        self.enough.notify_one();
    }

    /// Wraps an HTTP/2 connection. The wrapper counts stream resets. A client that resets too many streams gets GOAWAY. If the client resets as many
    /// streams again, it is disconnected.
    pub(crate) fn watch<S: AsyncRead + AsyncWrite>(
        self: &Arc<Self>,
        stream: S,
    ) -> InspectReader<S, impl FnMut(&[u8]) + use<S>> {
        let (lifecycle, mut frames) = (Arc::clone(self), Frames::new());
        let (mut since, mut resets) = (Instant::now(), 0);
        InspectReader::new(stream, move |bytes| {
            let new = frames.count(RESET, bytes);
            if new == 0 {
                return;
            }
            if since.elapsed() > RESETS_OVER {
                (since, resets) = (Instant::now(), 0);
            }
            resets += new;
            if resets >= lifecycle.limits.resets_per_connection {
                lifecycle.enough.notify_one();
            }
            if resets >= 2 * lifecycle.limits.resets_per_connection {
                lifecycle.cut.notify_one();
            }
        })
    }

    async fn is_over(&self) {
        if !self.is_h2 {
            return std::future::pending().await;
        }
        // Completes at the notification, or when the connection has reached its time limit.
        let _ =
            tokio::time::timeout(Duration::from_secs(self.limits.connection_seconds), self.enough.notified())
                .await;
    }
}

/// The position in the received frames. A frame has a header of nine bytes, which contains the length of the payload (RFC 9113 §4.1).
struct Frames {
    /// The number of received bytes of the header.
    head: u8,
    /// The length of the payload.
    length: u32,
    /// The number of bytes before the next header.
    left: usize,
}

impl Frames {
    fn new() -> Self {
        Frames { head: 0, length: 0, left: PREFACE }
    }

    /// Processes received bytes. Returns the number of frames of this type. A frame counts when the byte with its type arrives.
    fn count(&mut self, kind: u8, mut bytes: &[u8]) -> u64 {
        let mut found = 0;
        loop {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            let Some((byte, rest)) = bytes.split_at(skipped).1.split_first() else { return found };
            bytes = rest;
            match self.head {
                0..=2 => self.length = self.length << 8 | u32::from(*byte),
                3 => found += u64::from(*byte == kind),
                _ => {}
            }
            self.head += 1;
            if self.head == 9 {
                *self = Frames { head: 0, length: 0, left: self.length as usize };
            }
        }
    }
}

/// A connection that can finish its running requests without accepting new requests.
pub(crate) trait Drainable: Future {
    fn drain(self: std::pin::Pin<&mut Self>);
}

macro_rules! drainable {
    ($module:ident, $($executor:ident)?) => {
        impl<I, S, B $(, $executor)?> Drainable for $module::Connection<I, S $(, $executor)?>
        where
            Self: Future,
            B: hyper::body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
            S: hyper::service::HttpService<Incoming, ResBody = B>,
            S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
            I: hyper::rt::Read + hyper::rt::Write + Unpin,
            $($executor: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,)?
        {
            fn drain(self: std::pin::Pin<&mut Self>) {
                self.graceful_shutdown();
            }
        }
    };
}
drainable!(http1,);
drainable!(http2, E);

/// Runs a connection until it ends or is cut.
pub(crate) async fn finish(served: impl Drainable, mut drain: Drain, lifecycle: &ConnectionLifecycle) {
    let is_over = lifecycle.is_over();
    tokio::pin!(served, is_over);
    let seconds = lifecycle.limits.progress_seconds.min(lifecycle.limits.idle_seconds);
    let every = Duration::from_secs(seconds);
    let mut looks = interval_at(Instant::now() + every, every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut draining, mut seen) = (false, Seen::now());
    loop {
        tokio::select! {
            _ = &mut served => return,
            () = lifecycle.cut.notified() => return,
            _ = looks.tick() => match lifecycle.progress.look(&mut seen, seconds, &lifecycle.limits) {
                Verdict::GoesOn => continue,
                // An idle connection is drained before it is closed. So on HTTP/2, a request that the client sent before it got the GOAWAY frame is
                // still answered.
                Verdict::Idle if !draining => seen.begin_again(),
                Verdict::Idle | Verdict::Stands => return,
            },
            () = &mut is_over, if !draining => {}
            _ = drain.wait_for(|drain| *drain), if !draining => {}
        }
        draining = true;
        served.as_mut().drain();
    }
}

pub(crate) fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head_seconds))
        .max_headers(limits.headers as usize)
        // If the head of a request is larger than this, the response has the status 431. Bodies are read in pieces of at most this size.
        .max_buf_size(limits.head_bytes as usize);
    builder
}

pub(crate) fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams as u32)
        .max_header_list_size(limits.head_bytes as u32)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_they_come() {
        let frame = |kind: u8, length: usize| {
            let mut frame = vec![0, 0, length as u8, kind, 0, 0, 0, 0, 1];
            // The content looks like headers of `RST_STREAM` frames.
            frame.extend(std::iter::repeat_n(RESET, length));
            frame
        };
        let kinds = [(4, 0), (1, 40), (RESET, 4), (0, 200), (RESET, 4), (RESET, 4), (0, 9), (6, 8)];
        let all: Vec<u8> = std::iter::repeat_n(RESET, PREFACE)
            .chain(kinds.iter().flat_map(|&(kind, length)| frame(kind, length)))
            .collect();
        for piece in 1..all.len() {
            let mut frames = Frames::new();
            let found: u64 = all.chunks(piece).map(|bytes| frames.count(RESET, bytes)).sum();
            assert_eq!(found, 3, "in pieces of {piece}");
        }
    }
}
