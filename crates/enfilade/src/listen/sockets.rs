//! The common code for connections over TCP and over a Unix socket.

use super::socket_file::SocketFile;
use rustix::net::{RecvFlags, recv};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// The file is removed before the socket is closed.
    Unix(SocketFile, UnixListener),
}

/// A connection. A TCP connection has the address of its peer, or the client address from a PROXY header.
pub(crate) enum Stream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// The address or path at which clients reach a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Address(SocketAddr),
    /// The text `unix:` followed by a path.
    Socket(String),
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Stream::Tcp(stream, canonical(peer))
            }
            Listener::Unix(_, listener) => Stream::Unix(listener.accept().await?.0),
        })
    }

    /// The address or path at which clients reach the listener. Port 0 is replaced by the assigned port.
    pub(crate) fn place(&self) -> io::Result<Place> {
        Ok(match self {
            Listener::Tcp(listener) => Place::Address(listener.local_addr()?),
            Listener::Unix(file, _) => Place::Socket(file.to_string()),
        })
    }
}

/// The address in canonical form. A socket for both IPv6 and IPv4 reports the IPv4 client 192.0.2.7 as `::ffff:192.0.2.7`.
pub(super) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Tcp(listener)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Address(address) => address.fmt(f),
            Place::Socket(path) => path.fmt(f),
        }
    }
}

/// Calls a method of the stream. Both kinds of streams have the method.
macro_rules! of_either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($inner, _) => $call,
            Stream::Unix($inner) => $call,
        }
    };
}

impl Stream {
    /// The address of the peer; `None` for a Unix socket.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(_, peer) => Some(*peer),
            Stream::Unix(_) => None,
        }
    }

    /// The number of the user that runs the connecting process over a Unix socket (`SO_PEERCRED`, unix(7)). `None` over TCP.
    pub(super) fn user(&self) -> Option<u32> {
        match self {
            Stream::Tcp(..) => None,
            Stream::Unix(stream) => Some(stream.peer_cred().ok()?.uid()),
        }
    }

    /// Waits for the first byte, and returns it without removing it from the receive buffer. `None` if the connection is closed.
    pub(super) async fn begins(&self) -> io::Result<Option<u8>> {
        let peek = || {
            let mut first = [0_u8];
            let (_, count) = recv(self, &mut first, RecvFlags::PEEK)?;
            let [first] = first;
            Ok((count > 0).then_some(first))
        };
        of_either!(self, stream => stream.async_io(Interest::READABLE, peek).await)
    }

    /// Whether the connection begins with the preface of HTTP/2 (RFC 9113 §3.4). The preface begins with `PRI`, and no method of HTTP/1 that this
    /// server knows begins with these letters. No byte is removed from the receive buffer.
    pub(super) async fn is_http2(&self) -> io::Result<bool> {
        const PREFACE: &[u8] = b"PRI";
        loop {
            let mut first = [0_u8; PREFACE.len()];
            let (_, count) = recv(self, &mut first, RecvFlags::PEEK)?;
            let came = first.get(..count.min(PREFACE.len())).unwrap_or_default();
            if came.is_empty() || !PREFACE.starts_with(came) {
                return Ok(false);
            }
            if came == PREFACE {
                return Ok(true);
            }
            // The socket stays readable, so the kernel does not report when more bytes arrive.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Disables Nagle's algorithm. Responses are written in large pieces, so the algorithm would only delay the last piece. A Unix socket does not
    /// use Nagle's algorithm.
    pub(super) fn set_nodelay(&self) {
        if let Stream::Tcp(stream, _) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self, stream => stream.poll_write_ready(cx))
    }

    /// Writes with a function that does not wait. After `WouldBlock` the stream counts as not ready.
    pub(super) fn try_write<R>(&self, write: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        of_either!(self, stream => stream.try_io(Interest::WRITABLE, write))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        of_either!(self, stream => stream.as_fd())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_either!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        of_either!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
