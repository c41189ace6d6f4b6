//! A connection without TLS, on which large files go from the disk's pages to the network without a copy.

use enfilade_faces::Splices;
use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Writes what it is given, and in the place of what only stands in for other bytes those.
pub(super) struct Splicing {
    stream: TcpStream,
    splices: Arc<Splices>,
}

impl Splicing {
    pub(super) fn new(stream: TcpStream, splices: Arc<Splices>) -> Self {
        Splicing { stream, splices }
    }

    fn poll_splice(&self, cx: &mut Context<'_>, at_most: usize) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let sent =
                self.stream.try_io(Interest::WRITABLE, || self.splices.send(self.stream.as_fd(), at_most));
            match sent {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
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
        match Splices::is_stand_in(bytes) {
            true => self.poll_splice(cx, bytes.len()),
            false => Pin::new(&mut self.stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = slices.iter().take_while(|slice| !Splices::is_stand_in(slice)).count();
        match slices.get(own) {
            None => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
            // What comes before goes first.
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
