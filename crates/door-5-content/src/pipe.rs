//! Sends bytes of a file to a socket through a pipe. The kernel passes the pages of the file to the socket without copying them.

use crate::read::Reader;
use crate::refuse::Refusal;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// The capacities in bytes that are requested from the kernel, the largest capacity first. A full pipe needs no further memory, because it refers to
/// the pages of the file in the page cache.
const ROOM_BYTES: [usize; 2] = [8 << 20, 1 << 20];

/// A pipe of the kernel, through which the content of a file is sent to a socket.
#[derive(Debug)]
pub struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    room: usize,
}

impl Pipe {
    /// A new pipe; `None` if no descriptors are left.
    pub fn new() -> Option<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // The kernel refuses a capacity if the user of this process already has too many large pipes. Then the pipe keeps its default capacity.
        let room = ROOM_BYTES.iter().find_map(|room| fcntl_setpipe_size(&into, *room).ok());
        let room = room.unwrap_or(64 * 1024);
        Some(Pipe { out, into, room })
    }

    /// The capacity, in bytes.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Sends at most `at_most` bytes to a socket, and returns how many bytes were sent.
    ///
    /// # Errors
    /// `WouldBlock` when the socket accepts no more bytes now, and other errors of the kernel.
    pub fn send(&self, socket: BorrowedFd<'_>, at_most: usize) -> std::io::Result<usize> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        Ok(io::retry_on_intr(|| splice(&self.out, None, socket, None, at_most, flags))?)
    }
}

impl Reader {
    /// Puts at most `at_most` bytes from `offset` on into an empty pipe, and returns how many bytes were put into it. Returns 0 at the end of the
    /// file. Waits for the disk if the bytes are not in memory.
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
                // The file ends here, or the pipe is full. A pipe counts pages, so a part of a page takes as much space as a whole page.
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
