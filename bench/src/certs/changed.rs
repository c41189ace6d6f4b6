//! One of many certificates is renewed while the server runs. Enfilade reads the replaced file, at SIGHUP or because it watches the directory.
//! HAProxy gets the certificate by its runtime API, which changes only its memory.

use super::handshakes::{client, shaken};
use super::running::Running;
use super::servers::Program;
use super::{Case, FULL, haproxy, in_turns, make};
use crate::Failure;
use crate::goals::Goal;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::{now, pause};
use rustix::process::{Pid, Signal, kill_process};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const ROUNDS: usize = 10;
/// The time between two handshakes that look for the new certificate.
const ASK_EVERY: Duration = Duration::from_millis(2);
/// How long a server may take to serve the new certificate.
const MOST: Duration = Duration::from_secs(60);
/// How long the CPU of a renewal is counted. The time is long enough for the watch of the directory: after a reload, the watch also notices the file,
/// and the server reads it again.
const COUNTED: Duration = Duration::from_secs(1);
/// The number of certificates that are renewed in a round: two with a signal, and two without a signal. One of each two is for the time, the other
/// for the CPU.
const EACH: usize = 4;

pub(super) fn goals() -> Vec<Goal> {
    let workload = format!(
        "{FULL} certificates as `cargo xtask certs` makes them. {ROUNDS} rounds: in each round one certificate is renewed in both servers, one \
         server after the other. The new certificate has the same names and another key. Enfilade's time begins just before the new file is renamed \
         over the old one; then Enfilade gets SIGHUP. HAProxy's time begins just before the commands `set ssl cert` and `commit ssl cert` on its \
         socket. The time ends when a client gets the new certificate in a handshake; the client pauses {} ms between two handshakes. The value is \
         the mean of the {ROUNDS} ratios",
        ASK_EVERY.as_millis()
    );
    vec![Goal::new(
        "reload-one",
        1.0,
        "times",
        "time until Enfilade serves a renewed certificate, divided by time until HAProxy serves it",
        workload,
    )]
}

/// How a server gets a renewed certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The file is replaced, and the server gets SIGHUP.
    Signal,
    /// The file is replaced, and the server notices it.
    Watch,
    /// HAProxy's runtime API.
    Api,
}

/// A way to renew certificates of a server, and the costs of the renewals, in milliseconds.
struct Turns<'r> {
    way: Way,
    server: &'r Running,
    time: Samples,
    cpu: Samples,
}

impl<'r> Turns<'r> {
    fn new(way: Way, server: &'r Running) -> Self {
        Turns { way, server, time: Samples::default(), cpu: Samples::default() }
    }
}

pub(super) fn run(report: &mut Report, case: &Case<'_>, programs: &[Program]) -> Result<(), Failure> {
    let renewed = case.scratch.path().join("renewed");
    // The new certificates have the same numbers as the old certificates, and therefore the same names. Their keys are different.
    make::make(&renewed, EACH * ROUNDS)?;
    let (place, client) = (case.copy("changed", EACH * ROUNDS)?, client(false)?);
    let [ours, theirs] = [false, true]
        .map(|is_haproxy| programs.iter().find(|program| program.is_haproxy() == is_haproxy))
        .map(|program| program.map(|program| program.start(&place)).transpose());
    let (ours, theirs) = (ours?.ok_or("no server")?, theirs?);
    let mut all = vec![Turns::new(Way::Signal, &ours), Turns::new(Way::Watch, &ours)];
    all.extend(theirs.as_ref().map(|server| Turns::new(Way::Api, server)));
    for round in 0..ROUNDS {
        // In every second round the certificates have RSA keys.
        let mut renewals = Vec::new();
        for of in 0..EACH {
            renewals.push(Renewal::new(&renewed, &place, of * ROUNDS + round, Arc::clone(&client))?);
        }
        in_turns(&mut all, round, |turns| turns.once(&renewals))?;
    }
    tell(report, case, &all);
    Ok(())
}

fn tell(report: &mut Report, case: &Case<'_>, all: &[Turns<'_>]) {
    let none = Samples::default();
    let of = |way: Way| {
        let turns = all.iter().find(|turns| turns.way == way);
        turns.map_or((&none, &none), |turns| (&turns.time, &turns.cpu))
    };
    let (signal, watch, api) = (of(Way::Signal), of(Way::Watch), of(Way::Api));
    let what = "a renewed certificate, until it is served";
    case.tell(report, case.goal("reload-one"), (what, "ms"), [signal.0, api.0]);
    case.tell(report, None, ("a renewed certificate, server CPU", "ms"), [signal.1, api.1]);
    report.middle(&format!("{what}, Enfilade without a signal"), case.n(), watch.0, "ms");
    report.middle("a renewed certificate, server CPU, Enfilade without a signal", case.n(), watch.1, "ms");
}

impl Turns<'_> {
    /// Measures the time of one renewal, and the CPU of another renewal. HAProxy gets the certificates that Enfilade gets with a signal.
    fn once(&mut self, renewals: &[Renewal]) -> Result<(), Failure> {
        let first = if self.way == Way::Watch { 2 } else { 0 };
        for (of, renewal) in renewals.iter().skip(first).take(2).enumerate() {
            // During this pause the server finishes the work of the last renewal. In the handshake of `is_served`, it parses the key of the old
            // certificate.
            pause(COUNTED);
            if renewal.is_served(self.server)? {
                return Err(format!("`{}` has the new certificate before its renewal", renewal.name).into());
            }
            match of {
                0 => self.time.push(renewal.time(self.way, self.server)?),
                _ => self.cpu.push(renewal.cpu(self.way, self.server)?),
            }
        }
        Ok(())
    }
}

/// A renewed certificate.
struct Renewal {
    name: String,
    /// The new file, and the file that it replaces.
    from: PathBuf,
    to: PathBuf,
    pem: String,
    certificate: CertificateDer<'static>,
    client: Arc<ClientConfig>,
}

impl Renewal {
    fn new(renewed: &Path, place: &Path, n: usize, client: Arc<ClientConfig>) -> Result<Self, Failure> {
        let [from, to] = [renewed, place].map(|directory| directory.join(format!("{n:07}.pem")));
        let pem = std::fs::read_to_string(&from)?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())?;
        let name = make::names_of(n).pop().unwrap_or_default().replace('*', "x");
        Ok(Renewal { name, from, to, pem, certificate, client })
    }

    /// The milliseconds until the server serves the new certificate.
    fn time(&self, way: Way, server: &Running) -> Result<f64, Failure> {
        let began = now();
        self.install(way, server)?;
        while !self.is_served(server)? {
            if began.elapsed() > MOST {
                return Err(format!("`{}` has the old certificate after a minute", self.name).into());
            }
            pause(ASK_EVERY);
        }
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }

    /// The CPU of the server for the new certificate and for one handshake with it, in milliseconds.
    fn cpu(&self, way: Way, server: &Running) -> Result<f64, Failure> {
        pause(Duration::from_millis(20));
        let before = server.cpu_millis()?;
        self.install(way, server)?;
        pause(COUNTED);
        if !self.is_served(server)? {
            return Err(format!("`{}` has the old certificate after {COUNTED:?}", self.name).into());
        }
        pause(Duration::from_millis(20));
        Ok(server.cpu_millis()? - before)
    }

    fn install(&self, way: Way, server: &Running) -> Result<(), Failure> {
        if way == Way::Api {
            let control = server.control.as_ref().ok_or("the server has no runtime API")?;
            return haproxy::replace(control, &self.to, &self.pem);
        }
        std::fs::rename(&self.from, &self.to)?;
        if way == Way::Signal {
            let process = Pid::from_raw(i32::try_from(server.process())?).ok_or("no process")?;
            kill_process(process, Signal::HUP)?;
        }
        Ok(())
    }

    /// Whether a handshake for the name gets the new certificate.
    fn is_served(&self, server: &Running) -> Result<bool, Failure> {
        let connection = shaken(server.address, &self.client, &self.name)?;
        let first = connection.peer_certificates().and_then(|chain| chain.first());
        Ok(first == Some(&self.certificate))
    }
}
