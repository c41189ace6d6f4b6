//! Large files on connections without TLS: what the HTTP library is given stands in for bytes that are in a pipe, and whoever writes to the socket hands
//! the pipe's on in their place. So nobody copies them.
//!
//! The library passes bodies on as they are, in their order, and never looks into them (it writes vectored); the tests compare what arrives.

use bytes::Bytes;
use enfilade_passage::Pipe;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::Notify;

/// As much as the largest pipe holds; its pages are never touched.
static STAND_IN: LazyLock<&'static [u8]> = LazyLock::new(|| Box::leak(vec![0; 1 << 20].into_boxed_slice()));

/// What is in a pipe and not sent yet.
#[derive(Debug)]
pub(crate) struct Piped {
    pub(crate) pipe: Pipe,
    left: AtomicUsize,
    empty: Notify,
}

impl Piped {
    pub(crate) fn new() -> Option<Arc<Self>> {
        let pipe = Pipe::new().filter(|pipe| pipe.room() <= STAND_IN.len())?;
        Some(Arc::new(Piped { pipe, left: AtomicUsize::new(0), empty: Notify::new() }))
    }

    /// Waits until everything is sent.
    pub(crate) async fn emptied(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            self.empty.notified().await;
        }
    }
}

/// The pipes whose bytes are to go out on a connection, in their order.
#[derive(Debug, Default)]
pub struct Splices(Mutex<VecDeque<Arc<Piped>>>);

impl Splices {
    /// What stands in for so many bytes that were put into a pipe.
    pub(crate) fn stand_in(&self, piped: &Arc<Piped>, bytes: usize) -> Bytes {
        piped.left.store(bytes, Ordering::Release);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(Arc::clone(piped));
        Bytes::from_static(STAND_IN.get(..bytes).unwrap_or_default())
    }

    /// Whether bytes that are to be written only stand in for others.
    pub fn is_stand_in(bytes: &[u8]) -> bool {
        !bytes.is_empty() && STAND_IN.as_ptr_range().contains(&bytes.as_ptr())
    }

    /// Sends at most so many of the bytes that are meant; says how many.
    ///
    /// # Errors
    /// As the socket says; and when there are none, which would be a mistake of ours.
    pub fn send(&self, socket: BorrowedFd<'_>, at_most: usize) -> io::Result<usize> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piped) = queue.front() else { return Err(io::Error::other("there is nothing in any pipe")) };
        let left = piped.left.load(Ordering::Acquire);
        let sent = piped.pipe.send(socket, at_most.min(left))?;
        if sent == left {
            piped.left.store(0, Ordering::Release);
            piped.empty.notify_one();
            queue.pop_front();
        } else {
            piped.left.store(left - sent, Ordering::Release);
        }
        Ok(sent)
    }
}
