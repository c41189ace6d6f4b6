//! Ports for programs that cannot let the kernel choose a port.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// The number of ranges, and the number of ports in a range.
const RANGES: u16 = 200;
const PORTS: u16 = 100;

/// A loopback port on which no program listens. When the kernel chooses a port itself, the port is 32,768 or higher. The returned port is lower, so
/// it is still free when the program starts to listen. Each process has a range of 100 ports. The process locks its range until the process ends. A
/// test can stop a program and start the program again on the same port. Because of the lock, no other test process can use the port in the meantime.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static RANGE: OnceLock<(u16, File)> = OnceLock::new();
    let first = 10_000 + RANGE.get_or_init(own_range).0 * PORTS;
    let mut ports = (0..PORTS).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS);
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("no port is free")
}

/// A range that no other process has, and its locked file.
fn own_range() -> (u16, File) {
    let locked = |range: u16| {
        let path = std::env::temp_dir().join(format!("enfilade-ports-{range}"));
        let file = File::options().create(true).append(true).open(path).ok()?;
        file.try_lock().ok().map(|()| (range, file))
    };
    let begin = (std::process::id() % u32::from(RANGES)) as u16;
    (0..RANGES).find_map(|n| locked((begin + n) % RANGES)).expect("no range of ports is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranges_are_different() {
        let (first, second) = (own_range(), own_range());
        assert_ne!(first.0, second.0);
    }
}
