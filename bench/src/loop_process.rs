//! A loop in a process of its own. It does a part of the work of a server of files, and is measured as a server is measured.

use crate::Failure;
use crate::content::peer::Peer;
use crate::machine::resident_bytes;
use crate::stopwatch::{Child, cpu_nanos, pause};
use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TURNS: u32 = 100;

/// The running loop, ended when dropped.
pub(crate) struct LoopProcess {
    address: SocketAddr,
    child: Child,
}

impl LoopProcess {
    pub(crate) const NAME: &'static str = "a loop without a server";

    /// Starts [`crate::plain_loop::serve`], which answers each request with this file.
    pub(crate) fn plain(file: &Path) -> Result<Self, Failure> {
        Self::start("plain-loop", [file])
    }

    /// Starts this program again with this word, the address on which it must listen, and these arguments. Waits until it listens.
    pub(crate) fn start<S: AsRef<OsStr>, const N: usize>(
        word: &str,
        arguments: [S; N],
    ) -> Result<Self, Failure> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([word, &address.to_string()]).args(arguments);
        let child = Child::start(&mut command)?;
        for _ in 0..TURNS {
            if TcpStream::connect(address).is_ok() {
                return Ok(LoopProcess { address, child });
            }
            pause(Duration::from_millis(50));
        }
        Err("the loop without a server does not listen".into())
    }

    /// The loop, in the place of a server.
    pub(crate) fn peer(&self) -> Peer {
        let pid = self.child.0.id();
        Peer {
            name: Self::NAME,
            address: self.address,
            tls: self.address,
            base: String::new(),
            header: "X-Nobody: asks".to_owned(),
            cpu: Box::new(move || Ok(cpu_nanos(pid)? / 1e9)),
            resident: Box::new(move || resident_bytes(pid)),
            up: PathBuf::new(),
            syncs: false,
        }
    }
}
