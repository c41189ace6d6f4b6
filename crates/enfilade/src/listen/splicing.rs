//! A connection without TLS that sends large files from the page cache to the network without a copy.

use super::sockets::Stream;
use enfilade_faces::{Sent, Splices};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

/// A client is fast if each call of [`send`] waits for the socket for less than this time in total. For a fast client, a thread waits for the socket.
/// The reason: waking the async runtime for every megabyte would take longer than sending the megabyte.
const FAST: Duration = Duration::from_millis(200);

/// A connection that writes the given bytes, but sends the content of pipes in place of placeholder bytes.
pub(super) struct Splicing {
    stream: Stream,
    splices: Arc<Splices>,
    pace: Pace,
    sending: Option<JoinHandle<io::Result<(usize, bool)>>>,
}

/// Whether the client of a connection is fast ([`FAST`]).
enum Pace {
    /// No content of a pipe has been sent yet.
    Unknown,
    /// The client has been fast so far. The descriptor is a duplicate of the socket, for the thread.
    Fast(Arc<OwnedFd>),
    /// The client was slow, or no descriptor was free for the duplicate.
    Slow,
}

impl Splicing {
    pub(super) fn new(stream: Stream, splices: Arc<Splices>) -> Self {
        Splicing { stream, splices, pace: Pace::Unknown, sending: None }
    }

    fn poll_splice(&mut self, cx: &mut Context<'_>, at_most: usize) -> Poll<io::Result<usize>> {
        loop {
            if let Some(sending) = &mut self.sending {
                let sent = ready!(Pin::new(sending).poll(cx));
                self.sending = None;
                let (sent, is_fast) = sent.unwrap_or_else(|_| {
                    Err(io::Error::other("the thread that sends data to the client ended unexpectedly"))
                })?;
                if !is_fast {
                    self.pace = Pace::Slow;
                }
                if sent > 0 {
                    return Poll::Ready(Ok(sent));
                }
            }
            if matches!(self.pace, Pace::Unknown) {
                let socket = self.stream.as_fd().try_clone_to_owned();
                self.pace = socket.map_or(Pace::Slow, |socket| Pace::Fast(Arc::new(socket)));
            }
            let splices = Arc::clone(&self.splices);
            if let Pace::Fast(socket) = &self.pace {
                let socket = Arc::clone(socket);
                self.sending = Some(spawn_blocking(move || send(&splices, &socket, at_most)));
                continue;
            }
            ready!(self.stream.poll_write_ready(cx))?;
            let sent = self.stream.try_write(|| self.splices.send(self.stream.as_fd(), at_most));
            match sent {
                Ok(Sent::Bytes(sent)) => return Poll::Ready(Ok(sent)),
                Ok(Sent::Empty) => {
                    self.sending = Some(spawn_blocking(move || splices.fill().map(|()| (0, true))))
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
    }
}

/// Sends at most `at_most` bytes. Returns the number of sent bytes, and whether the client was fast. Waits for the disk without a time limit. Waits
/// for the socket for at most [`FAST`] in total.
fn send(splices: &Splices, socket: &OwnedFd, at_most: usize) -> io::Result<(usize, bool)> {
    let (mut sent, mut left) = (0, FAST);
    while sent < at_most {
        match splices.send(socket.as_fd(), at_most - sent) {
            Ok(Sent::Bytes(count)) => sent += count,
            // If an error occurs after some bytes were sent, the next call returns the error.
            Ok(Sent::Empty) => match splices.fill() {
                Err(why) if sent == 0 => return Err(why),
                Err(_) => break,
                Ok(()) => {}
            },
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                let began = Instant::now();
                let mut wanted = [PollFd::new(socket, PollFlags::OUT)];
                let time = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
                let ready = rustix::event::poll(&mut wanted, Some(&time));
                left = left.saturating_sub(began.elapsed());
                if ready.is_ok_and(|count| count == 0) || left.is_zero() {
                    return Ok((sent, false));
                }
            }
            Err(why) if sent == 0 => return Err(why),
            Err(_) => break,
        }
    }
    Ok((sent, true))
}

impl AsyncRead for Splicing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Splicing {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Splices::is_placeholder(bytes) {
            true => self.poll_splice(cx, bytes.len()),
            false => Pin::new(&mut self.stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = slices.iter().take_while(|slice| !Splices::is_placeholder(slice)).count();
        match slices.get(own) {
            None => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
            // Bytes before the placeholder are sent before the content of the pipe.
            Some(_) if slices.iter().take(own).any(|slice| !slice.is_empty()) => {
                let before = slices.get(..own).unwrap_or_default();
                Pin::new(&mut self.stream).poll_write_vectored(cx, before)
            }
            Some(meant) => self.poll_splice(cx, meant.len()),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
