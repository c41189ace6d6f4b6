//! Reports the server's state to the service manager (sd_notify(3)): a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`. If
//! `NOTIFY_SOCKET` is not set, nothing is sent.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports that the server accepts requests.
pub(crate) fn ready() {
    tell("READY=1");
}

/// Reports that the server reads its configuration again. A call of [`ready`] must follow.
pub(crate) fn reloading() {
    // The service manager needs the time of the notification, measured with `CLOCK_MONOTONIC`.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
}

/// Reports that the server accepts no new connections and will end.
pub(crate) fn stopping() {
    tell("STOPPING=1");
}

fn tell(text: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes() {
        // A name that begins with `@` is the name of an abstract socket, and not of a file.
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(&name),
    };
    // An error is ignored, because the server must also run if the service manager cannot be reached.
    let _ = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address));
}
