//! Closes a connection without losing the response. A client may still send when the server has sent the response, for example after an oversized
//! header or a refused upload. If the socket is then closed with unread bytes, the client gets a reset instead of the response. So before the socket
//! is closed, the remaining bytes are read and discarded: at most 8 MiB, and for at most 2 s.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 8 * 1024 * 1024;

/// A connection that reads and discards the remaining bytes when it is shut down.
pub(crate) struct Lingering<S> {
    inner: S,
    shut: bool,
    until: Option<Pin<Box<Sleep>>>,
    left: usize,
}

impl<S> Lingering<S> {
    pub(crate) fn new(inner: S) -> Self {
        Lingering { inner, shut: false, until: None, left: LINGER_BYTES }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.shut {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            this.shut = true;
        }
        let until = this.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        let mut space = [0; 16 * 1024];
        while this.left > 0 {
            if until.as_mut().poll(cx).is_ready() {
                break;
            }
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if buffer.filled().is_empty() => break,
                Ok(()) => this.left = this.left.saturating_sub(buffer.filled().len()),
                Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
