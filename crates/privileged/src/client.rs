//! The functions with which a server asks the helper. The helper is available to the whole process, as a capability would be. So the path of the
//! helper's socket is set once for the process.

use crate::protocol::{Request, receive, send};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

static HELPER: OnceLock<Helper> = OnceLock::new();

/// The helper of this process.
#[derive(Debug)]
struct Helper {
    path: PathBuf,
    /// A connection for each mount that contains the root of a datastore, by the id of the mount. So a file system that does not answer delays only
    /// requests for this mount. If the kernel has no unique ids, all mounts share the connection with the id 0.
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
}

/// A connection to the helper.
#[derive(Debug)]
pub struct Connection {
    /// The socket. Its lock is held from a request until the answer.
    socket: Mutex<OwnedFd>,
}

/// Sets the path of the helper's socket, before the first request. A second call changes nothing.
pub fn use_helper(path: &Path) {
    let _ = HELPER.set(Helper { path: path.to_owned(), connections: Mutex::default() });
}

/// The path of the helper's socket, if this process has a helper.
pub fn helper() -> Option<&'static Path> {
    HELPER.get().map(|helper| helper.path.as_path())
}

/// Whether the error of a request means that the helper does not answer or does not exist.
pub fn is_unreachable(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN | Errno::PIPE | Errno::PROTO | Errno::NOENT
    )
}

impl Connection {
    /// Connects to the helper.
    ///
    /// # Errors
    /// The error of the kernel; `ENOTCONN` if this process has no helper.
    pub fn open() -> io::Result<Connection> {
        let helper = HELPER.get().ok_or(Errno::NOTCONN)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(&helper.path)?)?;
        Ok(Connection { socket: Mutex::new(socket) })
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// The error in the helper's answer, or the error of the connection.
    pub fn ask(&self, request: &Request<'_>, about: Option<BorrowedFd<'_>>) -> io::Result<Option<OwnedFd>> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        send(socket.as_fd(), &request.to_bytes(), about)?;
        let mut answer = [0; 4];
        let (length, opened) = receive(socket.as_fd(), &mut answer)?.ok_or(Errno::CONNRESET)?;
        match (length, i32::from_le_bytes(answer)) {
            (4, 0) => Ok(opened),
            (4, errno) if errno > 0 => Err(Errno::from_raw_os_error(errno)),
            _ => Err(Errno::PROTO),
        }
    }
}

/// Asks the helper to carry out a request for a file in the same mount as `root`, the root directory of a datastore. `mount` is the id of this mount,
/// if the kernel has unique ids.
///
/// # Errors
/// The errors of [`Connection::open`] and [`Connection::ask`].
pub fn ask_below(
    root: BorrowedFd<'_>,
    mount: Option<u64>,
    request: &Request<'_>,
    file: BorrowedFd<'_>,
) -> io::Result<()> {
    let helper = HELPER.get().ok_or(Errno::NOTCONN)?;
    let mount = mount.unwrap_or_default();
    let connections = || helper.connections.lock().unwrap_or_else(PoisonError::into_inner);
    let known = connections().get(&mount).cloned();
    let done = known.as_ref().map(|connection| connection.ask(request, Some(file)));
    let connection = match (known, done) {
        (Some(connection), Some(Err(Errno::XDEV))) => connection,
        (_, Some(Err(why))) if !is_unreachable(why) => return Err(why),
        (_, Some(Ok(_))) => return Ok(()),
        // There is no connection yet, or the helper was restarted. A new connection is opened, and the request is sent again. This is safe: if the
        // helper had carried out the request already, the second attempt changes nothing, but it can return an error.
        _ => Arc::new(Connection::open()?),
    };
    connection.ask(&Request::Root, Some(root))?;
    connections().insert(mount, Arc::clone(&connection));
    connection.ask(request, Some(file)).map(drop)
}

/// Asks the helper for a listening socket on an address with a port below 1024.
///
/// # Errors
/// The errors of [`Connection::open`] and [`Connection::ask`]; `EPROTO` if the answer contains no socket.
pub fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    Connection::open()?.ask(&Request::Listen(address), None)?.ok_or(Errno::PROTO)
}
