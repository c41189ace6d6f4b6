//! The time from the start of a server with a directory of certificates to its first answer: HAProxy and Enfilade.

mod handshakes;
mod haproxy;
mod make;
mod phases;
mod readers;
mod spray;

pub(crate) use make::make;

use crate::Failure;
use crate::goals::Goal;
use crate::report::{Paired, Report};
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{now, pause};
use enfilade_admin::{CertificateFiles, CertificatePlace, CertificateTerms, IndexUse, LeafIndex};
use enfilade_facts::MemoSeed;
use enfilade_sources::files::certificates::list;
use enfilade_tls::{Ask, Certificates, Digest, Rules, Tickets};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const ROUNDS: usize = 5;
const CHANGED: usize = 10;
/// The number of rounds with an empty page cache.
const COLD_ROUNDS: usize = 3;
/// The number of certificates with which the goals are judged, unless their workload has another number.
pub(crate) const FULL: usize = 25_000;
const MILLION: usize = 1_000_000;

pub(crate) fn goals() -> Vec<Goal> {
    let of = |work: &str| {
        format!(
            "{FULL} certificates of `cargo xtask certs`. {work}; divided by the start of HAProxy until it accepts a connection, warm"
        )
    };
    let start = "the whole server in a process of its own, until it accepts a connection";
    let mut goals = vec![
        Goal::new(
            "warm",
            1.0 / 150.0,
            "times",
            "start with all certificates, divided by HAProxy's, warm",
            of(&format!("{ROUNDS} starts: {start}")),
        ),
        Goal::new(
            "cold",
            1.0 / 45.0,
            "times",
            "start with all certificates, divided by HAProxy's, cold",
            format!(
                "{FULL} certificates of `cargo xtask certs`, the page cache is dropped before each start. {COLD_ROUNDS} starts: {start}; divided by that of HAProxy"
            ),
        ),
        Goal::new(
            "verified",
            1.0 / 8.0,
            "times",
            "all keys verified, divided by HAProxy's start",
            of("In process, on all cores, once"),
        ),
        Goal::new(
            "restart",
            1.0 / 250.0,
            "times",
            "restart with an index, divided by HAProxy's start",
            of(&format!("In process, {ROUNDS} times: the index is read, the state of every file is asked")),
        ),
        Goal::new(
            "reload",
            1.0 / 200.0,
            "times",
            "reload after changed files, divided by HAProxy's start",
            of(&format!("In process, {ROUNDS} times: {CHANGED} files were replaced")),
        ),
        Goal::new(
            "memory",
            1.0,
            "KiB",
            "memory of a certificate while idle",
            format!(
                "{FULL} certificates of `cargo xtask certs`. {ROUNDS} starts; the resident memory minus that of a start with one certificate"
            ),
        ),
        Goal::new(
            "million",
            6.0,
            "s",
            "start with a million certificates, warm",
            format!("`--n {MILLION}`. {ROUNDS} starts: {start}"),
        ),
        Goal::new(
            "million-memory",
            1.0,
            "GiB",
            "memory of a million certificates while idle",
            format!(
                "`--n {MILLION}`. {ROUNDS} starts; the resident memory minus that of a start with one certificate"
            ),
        ),
    ];
    goals.extend(handshakes::goals());
    goals.extend(spray::goals());
    goals
}

pub(crate) fn run(report: &mut Report, count: usize) -> Result<(), Failure> {
    let directory = make::directory(count)?;
    let n = count as u64;
    let scratch = Scratch::new("certs")?;
    let is_cold_possible = drop_caches();
    if !is_cold_possible {
        report.missing(
            "starts with an empty page cache",
            "the page cache can be dropped only by root of the machine",
        );
    }
    // The goals belong to one number of certificates.
    report.keep_goals(|id| id.starts_with("million") == (count == MILLION));
    let peer = haproxy::run(report, &directory, &scratch, n, is_cold_possible)?;
    readers::run(report, &directory, n, is_cold_possible)?;
    let own = ours(report, &directory, &scratch, n, is_cold_possible)?;
    if count == FULL {
        if let Some(peer) = &peer {
            for (id, (what, ours), theirs) in [
                ("warm", ("start with all certificates, warm", &own.warm), Some(&peer.warm)),
                ("cold", ("start with all certificates, cold", &own.cold), peer.cold.as_ref()),
                ("verified", ("all keys verified, and a start", &own.verified), Some(&peer.warm)),
                (
                    "restart",
                    ("a restart with an index, every file asked, and a start", &own.restart),
                    Some(&peer.warm),
                ),
                ("reload", ("a reload after 10 changed files, and a start", &own.reload), Some(&peer.warm)),
            ] {
                let Some(theirs) = theirs.filter(|_| ours.len() > 0) else { continue };
                let what = what.to_owned();
                let paired = Paired { what, n, unit: "ms", ours, peer: "HAProxy", theirs, floor: None };
                report.compare(Some(id), paired);
            }
        }
        report.goal("memory", own.idle_kib);
    }
    if count == MILLION {
        report.goal("million", own.warm.middle().times(1e-3));
        report.goal("million-memory", own.idle_kib.times(n as f64 / 1024.0 / 1024.0));
    }
    if count >= MILLION {
        // The cost of a handshake does not depend on the number of certificates; `spray` is measured with fewer certificates.
        return Ok(());
    }
    handshakes::run(report, &scratch)?;
    spray::run(report, &directory, &scratch, count)
}

/// The times from the start to the first accepted connection, in milliseconds.
struct Start {
    warm: Samples,
    cold: Option<Samples>,
}

fn wait_for(address: SocketAddr) -> Result<(), Failure> {
    let began = now();
    while TcpStream::connect(address).is_err() {
        if began.elapsed() > Duration::from_secs(600) {
            return Err("HAProxy or the server does not listen".into());
        }
        pause(Duration::from_millis(2));
    }
    Ok(())
}

/// Times of Enfilade, in milliseconds; without `cold` starts if the page cache cannot be dropped.
struct Own {
    warm: Samples,
    cold: Samples,
    verified: Samples,
    restart: Samples,
    reload: Samples,
    /// The memory of a certificate.
    idle_kib: Estimate,
}

fn ours(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    is_cold_possible: bool,
) -> Result<Own, Failure> {
    let shelf = files_of(directory)?;
    let look = || -> Result<_, Failure> {
        let began = now();
        let looked = shelf.look(Rules::default(), None, crate::clock::nanos())?;
        is_answered(&looked.certificates, directory, n)?;
        if !looked.bad.is_empty() {
            return Err(format!("{} are bad", looked.bad.len()).into());
        }
        Ok((began.elapsed().as_secs_f64(), looked.certificates))
    };
    let mut warm = Samples::default();
    for _ in 0..ROUNDS {
        warm.push(look()?.0 * 1e3);
    }
    report.middle(
        &format!("ours, every name answerable, in the process, {}, warm", shelf.engine()),
        n,
        &warm,
        "ms",
    );
    if is_cold_possible {
        let mut cold = Samples::default();
        for _ in 0..COLD_ROUNDS {
            drop_caches();
            cold.push(look()?.0 * 1e3);
        }
        report.middle("the same, cold", n, &cold, "ms");
    }
    let certificates = look()?.1;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let began = now();
    let verified = shelf.verify(&certificates, cores, &AtomicUsize::new(0));
    let verifying = began.elapsed().as_secs_f64() * 1e3;
    if !verified.bad.is_empty() || !verified.changed.is_empty() {
        return Err(format!("{} are bad, {} changed", verified.bad.len(), verified.changed.len()).into());
    }
    report.once("ours, all keys verified", n, verifying, "ms");
    let restart = restart(report, directory, scratch, n, &certificates, is_cold_possible)?;
    drop(certificates);
    let reload = reload(report, directory, scratch, n)?;
    let (idle_kib, start) = served(report, directory, scratch, n, is_cold_possible)?;
    let Start { warm, cold } = start;
    let verified = Samples::from_iter([verifying]);
    Ok(Own { warm, cold: cold.unwrap_or_default(), verified, restart, reload, idle_kib })
}

fn files_of(directory: &Path) -> Result<CertificateFiles, Failure> {
    let terms = CertificateTerms::new(Tickets::default(), None)?;
    let place = CertificatePlace::Directory(directory.to_owned());
    Ok(CertificateFiles::new(place, Digest::new(&MemoSeed([9; 16])), terms))
}

/// Checks that the last name gets its certificate.
fn is_answered(certificates: &Certificates, directory: &Path, n: u64) -> Result<(), Failure> {
    let last = make::names_of(n as usize - 1).pop().ok_or("no name")?;
    let permit = enfilade_tls::open(certificates, &Ask::new(Some(&last)))?;
    let path = directory.join(format!("{:07}.pem", n - 1));
    match permit.certificate() == path.to_string_lossy() && certificates.count() as u64 == n {
        true => Ok(()),
        false => Err(format!("`{last}` is answered with `{}`", permit.certificate()).into()),
    }
}

/// The times of a restart with the index of an earlier start, in milliseconds: from reading the index until every name can be answered.
fn restart(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    certificates: &Certificates,
    is_cold_possible: bool,
) -> Result<Samples, Failure> {
    let index = scratch.path().join("index");
    let written = LeafIndex::write(&index, directory, &MemoSeed([9; 16]), certificates)?;
    if written as u64 != n {
        return Err(format!("{written} of {n} are known for sure").into());
    }
    let one = |how: IndexUse| -> Result<f64, Failure> {
        let shelf = files_of(directory)?;
        let began = now();
        let known = LeafIndex::read(&index, directory, how).ok_or("the index is not believed")?;
        let looked = shelf.look(Rules::default(), Some(&known), crate::clock::nanos())?;
        is_answered(&looked.certificates, directory, n)?;
        let seconds = began.elapsed().as_secs_f64();
        if looked.read > 0 {
            return Err(format!("{} files were read", looked.read).into());
        }
        Ok(seconds)
    };
    let mut checked = Samples::default();
    for (how, what) in [(IndexUse::Checked, "every file asked"), (IndexUse::Trusted, "believed")] {
        let mut warm = Samples::default();
        for _ in 0..ROUNDS {
            warm.push(one(how)? * 1e3);
        }
        report.middle(&format!("ours, restart with an index, {what}, warm"), n, &warm, "ms");
        if how == IndexUse::Checked {
            checked = warm;
        }
        if is_cold_possible {
            let mut cold = Samples::default();
            for _ in 0..COLD_ROUNDS {
                drop_caches();
                cold.push(one(how)? * 1e3);
            }
            report.middle("the same, cold", n, &cold, "ms");
        }
    }
    Ok(checked)
}

/// Returns the times of a reload after ten files were rewritten, in milliseconds.
fn reload(report: &mut Report, directory: &Path, scratch: &Scratch, n: u64) -> Result<Samples, Failure> {
    // The reload uses a directory of links to the same files, so that the original directory stays unchanged.
    let place = scratch.path().join("reloaded");
    std::fs::create_dir_all(&place)?;
    for name in list(directory)? {
        std::fs::hard_link(directory.join(&name), place.join(&name))
            .or_else(|_| std::fs::copy(directory.join(&name), place.join(&name)).map(drop))?;
    }
    let shelf = files_of(&place)?;
    let mut certificates = shelf.look(Rules::default(), None, crate::clock::nanos())?.certificates;
    // The links were created just now. A file that is this new is read again at the next look, so this look comes after a pause.
    pause(Duration::from_millis(100));
    certificates = shelf.look_again(&certificates, Rules::default(), crate::clock::nanos())?.certificates;
    let mut samples = Samples::default();
    for round in 0..ROUNDS {
        for at in 0..CHANGED {
            let from = directory.join(format!("{:07}.pem", (round * CHANGED + at + 100) % n as usize));
            let to = place.join(format!("{:07}.pem", (round * CHANGED + at) % n as usize));
            std::fs::remove_file(&to)?;
            std::fs::copy(from, to)?;
        }
        let began = now();
        let looked = shelf.look_again(&certificates, Rules::default(), crate::clock::nanos())?;
        samples.push(began.elapsed().as_secs_f64() * 1e3);
        if looked.read < CHANGED
            || looked.read > CHANGED * (ROUNDS + 1)
            || looked.certificates.count() as u64 != n
        {
            return Err(format!("{} files were read for {CHANGED} that changed", looked.read).into());
        }
        certificates = looked.certificates;
    }
    report.middle("ours, a reload after 10 changed files, all of them asked", n, &samples, "ms");
    Ok(samples)
}

/// Measures the whole server in its own process.
fn served(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    is_cold_possible: bool,
) -> Result<(Estimate, Start), Failure> {
    let data = scratch.path().join("data");
    let none = [("ENFILADE_TLS__CHECK", "lazy")];
    // The first start initializes the data directory. The second start measures the memory with one certificate.
    drop(Server::start(&data, &none)?);
    let alone = Server::start(&data, &none)?.resident();
    let with = directory.to_string_lossy();
    let environment = [
        ("ENFILADE_TLS__CHECK", "lazy"),
        ("ENFILADE_TLS__INDEX", "off"),
        ("ENFILADE_TLS__CERTIFICATES", &*with),
    ];
    let certificate = data.join("tls/localhost.crt");
    let start = || -> Result<(f64, Server), Failure> {
        let began = now();
        let server = Server::start_trusting(&data, &environment, &certificate)?;
        wait_for(server.https.address())?;
        Ok((began.elapsed().as_secs_f64(), server))
    };
    let mut warm = Samples::default();
    let mut resident = Samples::default();
    for _ in 0..ROUNDS {
        let (seconds, server) = start()?;
        warm.push(seconds * 1e3);
        resident.push(server.resident() as f64);
    }
    report.middle("ours, from its start to the first connection, warm", n, &warm, "ms");
    let idle_kib = resident.middle().minus(Estimate::once(alone as f64)).times(1.0 / n as f64 / 1024.0);
    report.estimate("ours, memory of each certificate", n, idle_kib, "KiB");
    let mut cold = None;
    if is_cold_possible {
        let mut samples = Samples::default();
        for _ in 0..COLD_ROUNDS {
            drop_caches();
            samples.push(start()?.0 * 1e3);
        }
        report.middle("ours, from its start to the first connection, cold", n, &samples, "ms");
        cold = Some(samples);
    }
    Ok((idle_kib, Start { warm, cold }))
}

/// Drops the kernel's page cache. Returns whether that was possible.
pub(crate) fn drop_caches() -> bool {
    let _ = Command::new("sync").status();
    let is_dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    pause(Duration::from_millis(300));
    is_dropped
}
