//! The measured servers.

use super::apache::{self, Apache};
use crate::Failure;
use crate::machine::resident_bytes;
use crate::report::Report;
use crate::served::Server;
use crate::stopwatch::cpu_nanos;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A measured server.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) tls: SocketAddr,
    /// The prefix of all URL paths on this server.
    pub(crate) base: String,
    pub(crate) header: String,
    /// The CPU of all processes so far, in seconds.
    pub(crate) cpu: Box<dyn Fn() -> Result<f64, Failure> + Sync>,
    pub(crate) resident: Box<dyn Fn() -> u64 + Sync>,
    /// The directory for uploads.
    pub(crate) up: PathBuf,
    /// Whether a response to PUT means that the file is on disk.
    pub(crate) syncs: bool,
}

impl Peer {
    /// The name of the directory for uploads.
    pub(crate) fn place(&self) -> &str {
        self.up.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// Enfilade, and Apache if it is installed.
pub(crate) fn both(
    report: &mut Report,
    server: &Server,
    apache: Option<&Apache>,
    token: (&str, &str),
    files: &Path,
) -> Vec<Peer> {
    let apache = compared(report, apache, files);
    [enfilade(server, token, files)].into_iter().chain(apache).collect()
}

/// Enfilade, with the datastore `main`.
pub(crate) fn enfilade(server: &Server, (tokenid, secret): (&str, &str), files: &Path) -> Peer {
    let pid = server.child.0.id();
    Peer {
        name: "Enfilade",
        address: server.plain,
        tls: server.https.address(),
        base: "/dav/main".to_owned(),
        header: format!("Authorization: PBSAPIToken={tokenid}:{secret}"),
        cpu: Box::new(move || Ok(cpu_nanos(pid)? / 1e9)),
        resident: Box::new(move || resident_bytes(pid)),
        up: files.join("up"),
        syncs: true,
    }
}

/// Adds Apache to the report, or the fact that Apache is missing. Returns Apache as a measured server.
pub(crate) fn compared(report: &mut Report, apache: Option<&Apache>, files: &Path) -> Option<Peer> {
    let Some(apache) = apache else {
        let why = "Apache is not installed (`apt-get install apache2`)";
        report.missing("Apache with the same files", why);
        return None;
    };
    report.peer("Apache", apache::version(), apache.configuration.clone());
    let pid = apache.pid();
    Some(Peer {
        name: "Apache",
        address: apache.address,
        tls: apache.tls,
        base: "/files".to_owned(),
        header: "X-Nobody: asks".to_owned(),
        cpu: Box::new(move || apache::cpu_of_all(pid)),
        resident: Box::new(move || apache::processes(pid).into_iter().map(resident_bytes).sum()),
        up: files.join("up-apache"),
        syncs: false,
    })
}
