//! The measured servers.

use super::rclone::Rclone;
use crate::Failure;
use crate::content::apache::{Apache, cpu_of_all, processes};
use crate::content::peer::{self, Peer};
use crate::machine::resident_bytes;
use crate::report::Report;
use crate::served::{Https, Server};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use std::fs::File;
use std::path::Path;

/// The directory in which each change is on the disk before a system call returns.
pub(super) const SYNCHRONOUS: &str = "up-synchronous";
/// The name of the measurements in which Apache writes to the directory [`SYNCHRONOUS`].
pub(super) const DURABLE: &str = "Apache with a synchronous directory";
/// The name of the measurements of Apache without additional syncs.
pub(super) const APACHE: &str = "Apache";

/// A measured server, and what a client needs for TLS to it.
pub(super) struct Target {
    pub(super) peer: Peer,
    /// `None` if the server is measured without TLS only.
    pub(super) https: Option<Https>,
}

/// Enfilade first, then the other servers that are installed.
pub(super) fn all(
    report: &mut Report,
    server: &Server,
    data: &Path,
    apache: Option<&Apache>,
    rclone: Option<&Rclone>,
    (tokenid, secret): &(String, String),
    files: &Path,
) -> Result<Vec<Target>, Failure> {
    let mut certificates = vec![data.join("tls/localhost.crt")];
    certificates.extend(apache.map(|apache| apache.certificate.clone()));
    let mut all = Vec::new();
    let peers = peer::both(report, server, apache, (tokenid, secret), files);
    for (peer, certificate) in peers.into_iter().zip(certificates) {
        let https = Some(Https::new(peer.tls, &certificate)?);
        all.push(Target { peer, https });
    }
    if let Some(apache) = apache {
        let up = files.join(SYNCHRONOUS);
        match make_synchronous(&up) {
            Ok(()) => all.push(Target { peer: synchronous(apache, &up), https: None }),
            Err(why) => report.missing(
                DURABLE,
                format!("the file system has no synchronous directories ({why}); use ext4"),
            ),
        }
    }
    all.extend(rclone.map(|rclone| Target { peer: rclone.peer(files), https: None }));
    Ok(all)
}

/// The same Apache, with another directory for uploads.
fn synchronous(apache: &Apache, up: &Path) -> Peer {
    let pid = apache.pid();
    Peer {
        name: DURABLE,
        address: apache.address,
        tls: apache.tls,
        base: "/files".to_owned(),
        header: "X-Nobody: asks".to_owned(),
        cpu: Box::new(move || cpu_of_all(pid)),
        resident: Box::new(move || processes(pid).into_iter().map(resident_bytes).sum()),
        up: up.to_owned(),
        syncs: true,
    }
}

/// Sets the attributes `S` and `D` of chattr(1), which new files in the directory inherit.
fn make_synchronous(directory: &Path) -> std::io::Result<()> {
    let open = File::open(directory)?;
    let flags = ioctl_getflags(&open)? | IFlags::SYNC | IFlags::DIRSYNC;
    Ok(ioctl_setflags(&open, flags)?)
}
