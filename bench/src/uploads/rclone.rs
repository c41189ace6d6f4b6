//! `rclone serve webdav` with the same files. It does not sync files, and writes no log of requests.

use crate::Failure;
use crate::content::peer::Peer;
use crate::machine::{resident_bytes, said};
use crate::report::Report;
use crate::stopwatch::{Child, cpu_nanos, pause};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The directory for uploads.
pub(super) const PLACE: &str = "up-rclone";
const TURNS: u32 = 100;

/// A running rclone, ended when dropped.
pub(super) struct Rclone {
    child: Child,
    address: SocketAddr,
}

/// Starts rclone; `None` if it is not installed.
pub(super) fn start(report: &mut Report, files: &Path) -> Result<Option<Rclone>, Failure> {
    let Some(version) = said(Command::new("rclone").arg("version")) else {
        report.missing("`rclone serve webdav`", "rclone is not installed (`apt-get install rclone`)");
        return Ok(None);
    };
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let words = ["serve", "webdav", "--config", "", "--addr", &address.to_string()].map(str::to_owned);
    report.peer("rclone", version, "serve webdav --config \"\", no log of requests");
    let mut command = Command::new("rclone");
    command.args(words).arg(files).stdout(Stdio::null()).stderr(Stdio::null());
    let rclone = Rclone { child: Child::start(&mut command)?, address };
    for _ in 0..TURNS {
        if TcpStream::connect(address).is_ok() {
            return Ok(Some(rclone));
        }
        pause(Duration::from_millis(100));
    }
    Err("rclone does not listen".into())
}

impl Rclone {
    /// rclone as a measured server.
    pub(super) fn peer(&self, files: &Path) -> Peer {
        let pid = self.child.0.id();
        Peer {
            name: "rclone",
            address: self.address,
            tls: self.address,
            base: String::new(),
            header: "X-Nobody: asks".to_owned(),
            cpu: Box::new(move || Ok(cpu_nanos(pid)? / 1e9)),
            resident: Box::new(move || resident_bytes(pid)),
            up: files.join(PLACE),
            syncs: false,
        }
    }
}
