//! nginx in a separate directory. It writes a log line for each request, as Enfilade does.

use super::IDLE_SECONDS;
use crate::Failure;
use crate::content::apache::{cpu_of_all, end_with_workers, processes};
use crate::content::peer::Peer;
use crate::machine::{resident_bytes, said};
use crate::peers::self_signed;
use crate::report::Report;
use crate::stopwatch::{Child, pause};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "/usr/sbin/nginx";
const TURNS: u32 = 100;

/// A running nginx, ended when dropped.
pub(super) struct Nginx {
    child: Child,
    address: SocketAddr,
    tls: SocketAddr,
    /// The file of its certificate for `localhost`.
    pub(super) certificate: PathBuf,
}

impl Nginx {
    /// Starts nginx, which serves the directory `files` at the URL path `/files`. `None` if it is not installed.
    pub(super) fn start(report: &mut Report, scratch: &Path, files: &Path) -> Result<Option<Self>, Failure> {
        let Some(version) = said(Command::new(PROGRAM).arg("-v")) else {
            report.missing(
                "nginx with the same files",
                "nginx is not installed (`apt-get install nginx-light`)",
            );
            return Ok(None);
        };
        let place = scratch.join("nginx");
        std::fs::create_dir(&place)?;
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
        let (address, tls) = (free()?, free()?);
        let certificate = place.join("cert.pem");
        self_signed(&place.join("key.pem"), &certificate)?;
        let config = config(&place, files, address, tls);
        std::fs::write(place.join("nginx.conf"), &config)?;
        report.peer("nginx", version, config.replace(&scratch.display().to_string(), "SCRATCH"));
        let mut command = Command::new(PROGRAM);
        command.arg("-c").arg(place.join("nginx.conf")).arg("-e").arg(place.join("error.log"));
        let child = Child::start(command.stderr(Stdio::null()))?;
        let nginx = Nginx { child, address, tls, certificate };
        for _ in 0..TURNS {
            if TcpStream::connect(address).is_ok() {
                return Ok(Some(nginx));
            }
            pause(Duration::from_millis(100));
        }
        let said = std::fs::read_to_string(place.join("error.log")).unwrap_or_default();
        Err(format!("nginx does not listen: {said}").into())
    }

    /// nginx as a measured server.
    pub(super) fn peer(&self, files: &Path) -> Peer {
        let pid = self.child.0.id();
        Peer {
            name: "nginx",
            address: self.address,
            tls: self.tls,
            base: "/files".to_owned(),
            header: "X-Nobody: asks".to_owned(),
            cpu: Box::new(move || cpu_of_all(pid)),
            resident: Box::new(move || processes(pid).into_iter().map(resident_bytes).sum()),
            up: files.to_owned(),
            syncs: false,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        end_with_workers(&mut self.child);
    }
}

fn config(place: &Path, files: &Path, address: SocketAddr, tls: SocketAddr) -> String {
    let (place, files) = (place.display(), files.display());
    format!(
        "daemon off;\nuser www-data;\nworker_processes auto;\npid {place}/pid;\nevents {{ worker_connections 12000; }}\n\
         http {{\naccess_log {place}/access.log;\nsendfile on;\ntcp_nopush on;\nkeepalive_timeout {IDLE_SECONDS};\nkeepalive_requests 1000000;\n\
         server {{\nlisten {address} backlog=4096;\nlisten {tls} ssl http2 backlog=4096;\n\
         ssl_certificate {place}/cert.pem;\nssl_certificate_key {place}/key.pem;\nlocation /files/ {{ alias {files}/; }}\n}}\n}}\n"
    )
}
