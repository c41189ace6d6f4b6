//! Ports for programs that cannot let the kernel choose a port.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// A loopback port on which no program listens. When the kernel chooses a port itself, the port is 32,768 or higher. The returned port is lower, so
/// it is still free when the program starts to listen. Each process has a range of 100 ports.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 200) as u16 * 100;
    let mut ports = (0..100).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 100);
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a port is free")
}
