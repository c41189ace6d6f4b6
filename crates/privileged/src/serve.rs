//! Answers the connections of servers. Each connection has its own thread, so a file system that does not answer delays only requests for this file
//! system.

use crate::act::Acting;
use crate::protocol::{MESSAGE_BYTES_MAX, Request, receive, send};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{SocketFlags, accept_with};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The maximum number of connections at the same time.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to read an answer.
const SEND_PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a failed attempt to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers connections for ever. Connections of users other than `user`, and connections above the maximum number, are closed.
///
/// # Errors
/// When the socket cannot be used any more.
pub fn serve(listening: &OwnedFd, user: u32, ports: &BTreeSet<u16>) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let socket = match accept_with(listening, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            // The limit of descriptors or memory is reached. This condition is expected to be temporary.
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                std::thread::park_timeout(PAUSE);
                continue;
            }
            Err(why) => return Err(why),
        };
        let is_ours = sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid.as_raw() == user);
        if !is_ours || open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            if is_ours {
                open.fetch_sub(1, Ordering::SeqCst);
            }
            continue;
        }
        // If a client does not read its answers, its connection is closed.
        let _ = sockopt::set_socket_timeout(&socket, Timeout::Send, Some(SEND_PATIENCE));
        let (acting, counted) = (Acting::new(user, ports.clone()), Arc::clone(&open));
        let started = std::thread::Builder::new().spawn(move || {
            // An error is ignored, because it concerns only this connection.
            let _ = answer(socket.as_fd(), acting);
            counted.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Answers the requests of one connection. A message that is not a request ends the connection.
fn answer(socket: BorrowedFd<'_>, mut acting: Acting) -> io::Result<()> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    while let Some((length, descriptor)) = receive(socket, &mut buffer)? {
        let request = buffer.get(..length).and_then(Request::read).ok_or(Errno::PROTO)?;
        let done = acting.act(&request, descriptor.as_ref());
        let errno = done.as_ref().map_or_else(|why| why.raw_os_error(), |_| 0);
        let opened = done.ok().flatten();
        send(socket, &errno.to_le_bytes(), opened.as_ref().map(|opened| opened.as_fd()))?;
    }
    Ok(())
}
