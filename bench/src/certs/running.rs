//! A running server of the comparison.

use crate::Failure;
use crate::machine::resident_bytes;
use crate::stopwatch::{Child, cpu_nanos, now, pause};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// A running server, ended when dropped.
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
    /// The time from its start to its first accepted connection, in milliseconds.
    pub(super) millis: f64,
    /// The socket of HAProxy's runtime API.
    pub(super) control: Option<PathBuf>,
}

impl Running {
    pub(super) fn process(&self) -> u32 {
        self.child.0.id()
    }

    /// The resident memory, in bytes.
    pub(super) fn resident(&self) -> f64 {
        resident_bytes(self.process()) as f64
    }

    /// The CPU that the server has used so far, in milliseconds.
    pub(super) fn cpu_millis(&self) -> Result<f64, Failure> {
        Ok(cpu_nanos(self.process())? / 1e6)
    }

    /// Waits until the server accepts a connection.
    pub(super) fn wait(&mut self) -> Result<(), Failure> {
        let began = now();
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.0.try_wait()? {
                return Err(format!("the server ended before it listened: {status}").into());
            }
            if began.elapsed() > Duration::from_secs(600) {
                return Err("the server does not listen after 10 minutes".into());
            }
            pause(Duration::from_millis(2));
        }
        Ok(())
    }
}
