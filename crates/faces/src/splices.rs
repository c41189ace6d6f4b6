//! Large files on connections without TLS: what the HTTP library is given stands in for bytes that are still in the file, and whoever writes to the
//! socket has the kernel hand those on in their place, by a pipe. So nobody copies them, and nobody is woken for each piece.
//!
//! The library passes bodies on as they are, in their order, and never looks into them (it writes vectored); the tests compare what arrives.

use bytes::Bytes;
use enfilade_passage::Pipe;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::Notify;

/// How many bytes one stand-in stands for at most; its own are never touched.
const STAND_IN_BYTES: usize = 64 << 20;

static STAND_IN: LazyLock<&'static [u8]> =
    LazyLock::new(|| Box::leak(vec![0; STAND_IN_BYTES].into_boxed_slice()));

/// Where the bytes come from that are promised.
pub trait PipeSource: Send {
    /// Puts the next ones into an empty pipe; says how many. Waits for the disk.
    ///
    /// # Errors
    /// When there are none, or they may not be sent any more: then the connection ends.
    fn fill(&mut self, pipe: &Pipe) -> io::Result<usize>;
}

/// A file on its way.
struct Piped {
    pipe: Pipe,
    in_pipe: usize,
    /// How many are still to come, those in the pipe included.
    left: u64,
    source: Arc<Mutex<dyn PipeSource>>,
    done: Arc<Notify>,
}

/// The files whose bytes are to go out on a connection, in their order.
#[derive(Default)]
pub struct Splices(Mutex<VecDeque<Piped>>);

impl std::fmt::Debug for Splices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Splices")
    }
}

/// What came of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many went.
    Bytes(usize),
    /// The pipe is empty: [`Splices::fill`] has to be called first, by a thread that may wait.
    Empty,
}

impl Splices {
    /// Promises so many bytes of a file; whoever waits is told when all of them are gone. Nothing where there is no pipe to be had.
    pub fn promise(&self, source: Arc<Mutex<dyn PipeSource>>, bytes: u64) -> Option<Arc<Notify>> {
        let (pipe, done) = (Pipe::new()?, Arc::<Notify>::default());
        let piped = Piped { pipe, in_pipe: 0, left: bytes, source, done: Arc::clone(&done) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(piped);
        Some(done)
    }

    /// What stands in for the next of them, at most so many.
    pub fn stand_in(at_most: u64) -> Bytes {
        let count = usize::try_from(at_most).unwrap_or(STAND_IN_BYTES).min(STAND_IN_BYTES);
        Bytes::from_static(STAND_IN.get(..count).unwrap_or_default())
    }

    /// Whether bytes that are to be written only stand in for others.
    pub fn is_stand_in(bytes: &[u8]) -> bool {
        !bytes.is_empty() && STAND_IN.as_ptr_range().contains(&bytes.as_ptr())
    }

    /// Sends at most so many of the bytes that are meant, as far as they are in the pipe and the socket takes them.
    ///
    /// # Errors
    /// As the socket says; and when nothing is promised, which would be a mistake of ours.
    pub fn send(&self, socket: BorrowedFd<'_>, at_most: usize) -> io::Result<Sent> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piped) = queue.front_mut() else { return Err(io::Error::other("nothing is promised")) };
        if piped.in_pipe == 0 {
            return Ok(Sent::Empty);
        }
        let sent = piped.pipe.send(socket, at_most.min(piped.in_pipe))?;
        piped.in_pipe -= sent;
        piped.left = piped.left.saturating_sub(sent as u64);
        if piped.left == 0 {
            piped.done.notify_one();
            queue.pop_front();
        }
        Ok(Sent::Bytes(sent))
    }

    /// Puts the next bytes into the pipe, where that is empty. Waits for the disk.
    ///
    /// # Errors
    /// When there are none, or they may not be sent any more.
    pub fn fill(&self) -> io::Result<()> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piped) = queue.front_mut() else { return Err(io::Error::other("nothing is promised")) };
        if piped.in_pipe == 0 {
            piped.in_pipe = piped.source.lock().unwrap_or_else(PoisonError::into_inner).fill(&piped.pipe)?;
            if piped.in_pipe == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
        }
        Ok(())
    }
}
