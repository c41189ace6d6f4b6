//! Bytes of a file on their way to a socket: the kernel hands its pages on and nobody copies them.

use crate::read::Reader;
use crate::refuse::Refusal;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// How much one holds, in bytes, where the kernel lets it; the pages are the file's own.
const ROOM_BYTES: [usize; 2] = [8 << 20, 1 << 20];

/// A pipe.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    room: usize,
}

impl Pipe {
    /// A new one; `None` where there are no descriptors left for it.
    pub fn new() -> Option<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // Where many have large ones already it stays as it is.
        let room = ROOM_BYTES.iter().find_map(|room| fcntl_setpipe_size(&into, *room).ok());
        let room = room.unwrap_or(64 * 1024);
        Some(Pipe { out, into, room })
    }

    /// How much it holds, in bytes.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Hands at most so many bytes on to a socket; says how many.
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes no more at the moment, and as the kernel says.
    pub fn send(&self, socket: BorrowedFd<'_>, at_most: usize) -> std::io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        Ok(io::retry_on_intr(|| splice(&self.out, None, socket, None, at_most, flags))?)
    }
}

impl Reader {
    /// Puts at most so many bytes from `offset` on into an empty pipe; says how many, 0 at the end of the file. Waits for the disk where
    /// they are not in memory.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the file cannot be read.
    pub fn fill_pipe(&self, offset: u64, at_most: u64, pipe: &Pipe) -> Result<u64, Refusal> {
        let (mut at, mut left) = (offset, usize::try_from(at_most).unwrap_or(usize::MAX).min(pipe.room));
        while left > 0 {
            let flags = SpliceFlags::MOVE;
            match io::retry_on_intr(|| {
                let mut from = at;
                splice(self.node().fd(), Some(&mut from), &pipe.into, None, left, flags)
            }) {
                // It counts pages: pieces of the begin and the end of the file's pages take one each.
                Ok(0) | Err(io::Errno::AGAIN) => break,
                Ok(count) => {
                    at += count as u64;
                    left = left.saturating_sub(count);
                }
                Err(errno) => return Err(Refusal::io(errno, "reading", &self.node().label())),
            }
        }
        Ok(at - offset)
    }
}
