//! HAProxy with a directory of certificates.

use super::readers::read_all;
use super::{Start, drop_caches, wait_for};
use crate::Failure;
use crate::machine::{resident_bytes, said};
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::{Child, now};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn run(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    is_cold_possible: bool,
) -> Result<Option<Start>, Failure> {
    let Some(version) = said(Command::new("haproxy").arg("-v")) else {
        report.missing(
            "HAProxy with these certificates",
            "haproxy is not installed (`apt-get install haproxy`)",
        );
        return Ok(None);
    };
    report.peer("HAProxy", version, configuration("ADDRESS", "DIRECTORY"));
    if n > 110_000 {
        eprintln!("HAProxy is not started with more than 110,000 certificates");
        return Ok(None);
    }
    let timed = || -> Result<(f64, u64), Failure> {
        let began = now();
        let haproxy = start(directory, scratch.path())?.ok_or("haproxy is gone")?;
        Ok((began.elapsed().as_secs_f64() * 1e3, resident_bytes(haproxy.child.0.id())))
    };
    eprintln!("HAProxy starts with {n} certificates, twice");
    // After this, the files are in the page cache.
    read_all(directory)?;
    let (warm, bytes) = timed()?;
    report.once("HAProxy, from its start to the first connection, warm", n, warm, "ms");
    report.once("HAProxy, memory of each certificate", n, bytes as f64 / n as f64 / 1024.0, "KiB");
    let mut cold = None;
    if is_cold_possible && drop_caches() {
        let (millis, _) = timed()?;
        report.once("HAProxy, from its start to the first connection, cold", n, millis, "ms");
        cold = Some(Samples::from_iter([millis]));
    }
    Ok(Some(Start { warm: Samples::from_iter([warm]), cold }))
}

/// A running HAProxy that listens.
pub(super) struct Haproxy {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
}

/// Starts HAProxy with the certificates of a directory; `None` if it is not installed.
pub(super) fn start(directory: &Path, place: &Path) -> Result<Option<Haproxy>, Failure> {
    if Command::new("haproxy").arg("-v").output().is_err() {
        return Ok(None);
    }
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = place.join("haproxy.cfg");
    std::fs::write(&config, configuration(&address.to_string(), &directory.display().to_string()))?;
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f"]).arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Child::start(&mut command)?;
    wait_for(address)?;
    Ok(Some(Haproxy { child, address }))
}

fn configuration(address: &str, directory: &str) -> String {
    format!(
        "global\n  maxconn 1000\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
         frontend f\n  bind {address} ssl crt {directory}\n  http-request return status 200\n"
    )
}
