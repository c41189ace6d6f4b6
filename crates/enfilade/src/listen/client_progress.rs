//! The progress of unauthenticated connections: how long a connection waits for its client, and whether the connection must give up its slot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The progress of an unauthenticated connection.
#[derive(Debug)]
pub(crate) struct ClientProgress {
    /// Whether the connection is authenticated or has ended.
    pub(super) is_known: AtomicBool,
    progress: Mutex<Progress>,
    cut: Notify,
}

#[derive(Debug)]
struct Progress {
    /// The number of running requests.
    requests: u32,
    /// The number of running requests that wait for their body.
    waiting: u32,
    /// The time of the last progress.
    since: Instant,
    is_cut: bool,
}

impl ClientProgress {
    /// The progress of a connection that begins now.
    pub(crate) fn new() -> Arc<Self> {
        let progress = Progress { requests: 0, waiting: 0, since: Instant::now(), is_cut: false };
        Arc::new(ClientProgress {
            is_known: AtomicBool::new(false),
            progress: Mutex::new(progress),
            cut: Notify::new(),
        })
    }

    /// Records progress, such as the end of a handshake.
    pub(crate) fn goes_on(&self) {
        self.progress().since = Instant::now();
    }

    /// Counts a request as running until the returned guard is dropped. While a request is running, the server is the cause of delays, and not the
    /// client.
    pub(crate) fn answers(self: &Arc<Self>) -> Option<Answering> {
        if self.is_known.load(Ordering::Relaxed) {
            return None;
        }
        let mut progress = self.progress();
        if progress.requests == 0 {
            progress.since = Instant::now();
        }
        progress.requests += 1;
        drop(progress);
        Some(Answering(Arc::clone(self)))
    }

    /// Counts a running request as waiting for its body until the returned guard is dropped. While a request waits for its body, the client is the
    /// cause of delays.
    pub(crate) fn waits(self: &Arc<Self>) -> Option<Waiting> {
        if self.is_known.load(Ordering::Relaxed) {
            return None;
        }
        self.progress().waiting += 1;
        Some(Waiting(Arc::clone(self)))
    }

    /// Completes when the connection must end because another connection needs its slot.
    pub(crate) async fn is_cut(&self) {
        self.cut.notified().await;
    }

    pub(super) fn idle_since(&self) -> Option<Instant> {
        let progress = self.progress();
        (progress.is_clients_turn() && !progress.is_cut).then_some(progress.since)
    }

    pub(super) fn cut(&self) {
        let mut progress = self.progress();
        // A request may have arrived after this connection was chosen to give up its slot.
        if progress.is_clients_turn() {
            progress.is_cut = true;
            self.cut.notify_one();
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Whether the server only waits for bytes from the client.
    fn is_clients_turn(&self) -> bool {
        self.requests <= self.waiting
    }
}

/// A request body that an unauthenticated connection waits for. Parts of the body do not count as progress, because a client could send them byte by
/// byte.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<ClientProgress>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.progress().waiting -= 1;
    }
}

/// A running request on an unauthenticated connection.
#[derive(Debug)]
pub(crate) struct Answering(Arc<ClientProgress>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut progress = self.0.progress();
        progress.requests -= 1;
        progress.since = Instant::now();
    }
}
