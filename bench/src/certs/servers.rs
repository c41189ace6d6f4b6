//! The compared servers Enfilade and HAProxy, each in a separate process with the certificates of a directory.

use super::running::Running;
use super::{Case, ROUNDS, haproxy};
use crate::Failure;
use crate::samples::Samples;
use crate::served::Server;
use crate::stopwatch::now;
use std::path::{Path, PathBuf};

/// A server that can be started.
pub(super) struct Program {
    kind: Kind,
    /// The directory of its data or of its configuration.
    place: PathBuf,
    /// Its resident memory after a start with one certificate, in bytes: the median of some starts.
    alone: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Enfilade,
    Haproxy,
}

/// Returns Enfilade, and then HAProxy if HAProxy is compared.
pub(super) fn both(case: &Case<'_>) -> Result<Vec<Program>, Failure> {
    let one = case.scratch.path().join("one");
    std::fs::create_dir_all(&one)?;
    std::fs::copy(case.directory.join("0000000.pem"), one.join("0000000.pem"))?;
    let mut programs = vec![Program::new(Kind::Enfilade, case.scratch.path().join("data"), &one)?];
    if case.is_compared {
        programs.push(Program::new(Kind::Haproxy, case.scratch.path().join("haproxy"), &one)?);
    }
    Ok(programs)
}

impl Program {
    fn new(kind: Kind, place: PathBuf, one: &Path) -> Result<Self, Failure> {
        match kind {
            // The first start initializes the data directory.
            Kind::Enfilade => drop(Server::start(&place, &[])?),
            Kind::Haproxy => std::fs::create_dir_all(&place)?,
        }
        let program = Program { kind, place, alone: 0.0 };
        let alone = (0..ROUNDS).map(|_| Ok(program.start(one)?.resident())).collect::<Result<_, Failure>>();
        Ok(Program { alone: Samples::median(&alone?), ..program })
    }

    pub(super) fn is_haproxy(&self) -> bool {
        self.kind == Kind::Haproxy
    }

    /// Starts the server, and waits until it accepts a connection.
    pub(super) fn start(&self, directory: &Path) -> Result<Running, Failure> {
        if self.kind == Kind::Haproxy {
            return haproxy::start(directory, &self.place);
        }
        let with = directory.to_string_lossy();
        let environment = [
            ("ENFILADE_TLS__CHECK", "lazy"),
            ("ENFILADE_TLS__INDEX", "off"),
            ("ENFILADE_TLS__CERTIFICATES", &*with),
        ];
        let certificate = self.place.join("tls/localhost.crt");
        let began = now();
        let Server { child, https, .. } = Server::start_trusting(&self.place, &environment, &certificate)?;
        let mut running = Running { child, address: https.address(), millis: 0.0, control: None };
        running.wait()?;
        running.millis = began.elapsed().as_secs_f64() * 1e3;
        Ok(running)
    }

    /// The resident memory of the running server, minus the resident memory after a start with one certificate, in KiB.
    pub(super) fn own_kib(&self, running: &Running) -> f64 {
        (running.resident() - self.alone) / 1024.0
    }
}
