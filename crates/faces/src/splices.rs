//! Large files on connections without TLS. The HTTP library gets placeholder bytes instead of the file. When the code that writes to the socket finds
//! placeholder bytes, the kernel sends the file's bytes through a pipe instead. So the server does not copy the bytes, and does not wake a task for
//! each piece.
//!
//! The HTTP library forwards the bytes of response bodies unchanged and in order, and does not read the bytes. The tests compare the bytes that
//! arrive with the bytes of the file.
//!
//! With this module a GET of a large file takes 0.88 times the processor time that Apache needs with `sendfile` (benchmark `get-large` in
//! bench/runs/2026-11-22-content.json). On another processor the factor is 1.03 (bench/runs/2026-11-23-content.json). The goal is a factor of at most
//! 1.1. The repository contains no benchmark run without this module.

use bytes::Bytes;
use enfilade_passage::Pipe;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::Notify;

/// The maximum number of bytes of one placeholder. The server never writes to the memory of placeholders, so the kernel allocates no RAM for this
/// memory.
const PLACEHOLDER_BYTES: usize = 64 << 20;

static PLACEHOLDER: LazyLock<&'static [u8]> =
    LazyLock::new(|| Box::leak(vec![0; PLACEHOLDER_BYTES].into_boxed_slice()));

/// The source of the bytes for which the HTTP library has placeholders.
pub trait PipeSource: Send {
    /// Fills an empty pipe with the next bytes and returns their number. Waits for the disk.
    ///
    /// # Errors
    /// When the file cannot be read, or the user may no longer read it. The connection is closed after an error.
    fn fill(&mut self, pipe: &Pipe) -> io::Result<usize>;
}

/// A file that is being sent.
struct Piped {
    pipe: Pipe,
    in_pipe: usize,
    /// The number of bytes that are not sent yet. The bytes in the pipe are included.
    remaining: u64,
    source: Arc<Mutex<dyn PipeSource>>,
    done: Arc<Notify>,
}

/// The files to send on a connection, in order.
#[derive(Default)]
pub struct Splices(Mutex<VecDeque<Piped>>);

impl std::fmt::Debug for Splices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Splices")
    }
}

/// The result of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The number of bytes that were sent.
    Bytes(usize),
    /// The pipe is empty: call [`Splices::fill`] first, on a thread that may wait.
    Empty,
}

impl Splices {
    /// Adds the next `bytes` bytes of `source` to the queue of bytes to send. The returned `Notify` is notified when all these bytes are sent. `None`
    /// if no pipe can be created.
    pub fn promise(&self, source: Arc<Mutex<dyn PipeSource>>, bytes: u64) -> Option<Arc<Notify>> {
        let (pipe, done) = (Pipe::new()?, Arc::<Notify>::default());
        let piped = Piped { pipe, in_pipe: 0, remaining: bytes, source, done: Arc::clone(&done) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(piped);
        Some(done)
    }

    /// A placeholder for the next bytes. It has at most `at_most` bytes.
    pub fn placeholder(at_most: u64) -> Bytes {
        let count = usize::try_from(at_most).unwrap_or(PLACEHOLDER_BYTES).min(PLACEHOLDER_BYTES);
        Bytes::from_static(PLACEHOLDER.get(..count).unwrap_or_default())
    }

    /// Whether these bytes are a placeholder.
    pub fn is_placeholder(bytes: &[u8]) -> bool {
        !bytes.is_empty() && PLACEHOLDER.as_ptr_range().contains(&bytes.as_ptr())
    }

    /// Sends up to `at_most` bytes of the first file in the queue. The call sends fewer bytes if the pipe contains fewer, or if the socket accepts
    /// fewer.
    ///
    /// # Errors
    /// The error of the socket, or an internal error if the queue is empty, which is a bug of this program.
    pub fn send(&self, socket: BorrowedFd<'_>, at_most: usize) -> io::Result<Sent> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piped) = queue.front_mut() else {
            return Err(io::Error::other("internal error: no bytes of a response are left to send"));
        };
        if piped.in_pipe == 0 {
            return Ok(Sent::Empty);
        }
        let sent = piped.pipe.send(socket, at_most.min(piped.in_pipe))?;
        piped.in_pipe -= sent;
        piped.remaining = piped.remaining.saturating_sub(sent as u64);
        if piped.remaining == 0 {
            piped.done.notify_one();
            queue.pop_front();
        }
        Ok(Sent::Bytes(sent))
    }

    /// Fills the pipe with the next bytes if the pipe is empty. Waits for the disk.
    ///
    /// # Errors
    /// When the queue is empty, the file has become too short or cannot be read, or the user may no longer read the file.
    pub fn fill(&self) -> io::Result<()> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piped) = queue.front_mut() else {
            return Err(io::Error::other("internal error: no bytes of a response are left to send"));
        };
        if piped.in_pipe == 0 {
            piped.in_pipe = piped.source.lock().unwrap_or_else(PoisonError::into_inner).fill(&piped.pipe)?;
            if piped.in_pipe == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
        }
        Ok(())
    }
}
