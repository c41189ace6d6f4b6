//! The time from the start of a server with a directory of certificates to its first answer: HAProxy and Enfilade.

mod handshakes;
mod make;
mod phases;
mod spray;

pub(crate) use make::make;

use crate::Failure;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{Child, Samples, now, pause};
use enfilade_admin::{CertificateFiles, CertificatePlace, CertificateTerms, IndexUse, LeafIndex};
use enfilade_facts::MemoSeed;
use enfilade_sources::files::certificates::{Engine, Ring, Threads, list};
use enfilade_tls::{Ask, Certificates, Digest, Rules, Tickets};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const ROUNDS: usize = 5;
const CHANGED: usize = 10;
const FULL: usize = 25_000;
const MILLION: usize = 1_000_000;

pub(crate) fn run(report: &mut Report, count: usize) -> Result<(), Failure> {
    let directory = make::directory(count)?;
    let n = count as u64;
    let scratch = Scratch::new("certs")?;
    let is_cold_possible = drop_caches();
    if !is_cold_possible {
        eprintln!("the cache of the kernel cannot be dropped here, so nothing is measured cold");
    }
    let peer = haproxy(report, &directory, &scratch, n, is_cold_possible)?;
    readers(report, &directory, n, is_cold_possible)?;
    let own = ours(report, &directory, &scratch, n, is_cold_possible)?;
    // The goals apply only from this number of certificates on.
    let is_full = count >= FULL;
    if let Some(peer) = peer.filter(|_| is_full) {
        report.goal(
            "warm",
            "ours, every name answerable, to HAProxy's start, warm",
            own.warm / peer.warm,
            1.0 / 150.0,
            "times",
        );
        if let (Some(own), Some(peer)) = (own.cold, peer.cold) {
            report.goal("cold", "the same, cold", own / peer, 1.0 / 45.0, "times");
        }
        report.goal(
            "verified",
            "ours, all keys verified, to HAProxy's start",
            own.verified / peer.warm,
            1.0 / 8.0,
            "times",
        );
        report.goal(
            "restart",
            "ours, a restart with an index, every file asked, to HAProxy's start",
            own.restart / peer.warm,
            1.0 / 250.0,
            "times",
        );
        report.goal(
            "reload",
            "ours, a reload after 10 changed files, to HAProxy's start",
            own.reload / peer.warm,
            1.0 / 200.0,
            "times",
        );
    }
    if count >= MILLION {
        report.goal("million", "ours, every name of a million answerable, warm", own.warm, 6.0, "s");
        let gib = own.idle_kib * n as f64 / 1024.0 / 1024.0;
        report.goal("million-memory", "ours, memory of a million while idle", gib, 1.0, "GiB");
    }
    if is_full {
        report.goal("memory", "ours, memory of each certificate while idle", own.idle_kib, 1.0, "KiB");
    }
    if count >= MILLION {
        // The cost of a handshake does not depend on the number of certificates; `spray` is measured with fewer certificates.
        return Ok(());
    }
    handshakes::run(report, &scratch)?;
    spray::run(report, &directory, &scratch, count)
}

/// The time from the start to the first accepted connection, in seconds.
struct Start {
    warm: f64,
    cold: Option<f64>,
}

fn haproxy(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    is_cold_possible: bool,
) -> Result<Option<Start>, Failure> {
    if Command::new("haproxy").arg("-v").output().is_err() {
        eprintln!("haproxy is not installed (`apt-get install haproxy`), so nothing is compared with it");
        return Ok(None);
    }
    if n > 110_000 {
        eprintln!("HAProxy is not started with more than 110,000 certificates");
        return Ok(None);
    }
    let start = || -> Result<(f64, u64), Failure> {
        let began = now();
        let haproxy = start_haproxy(directory, scratch.path())?.ok_or("haproxy is gone")?;
        Ok((began.elapsed().as_secs_f64(), resident(haproxy.child.0.id())))
    };
    eprintln!("HAProxy starts with {n} certificates, twice");
    // After this, the files are in the page cache.
    read_all(directory)?;
    let (warm, bytes) = start()?;
    report.once("HAProxy, from its start to the first connection, warm", n, warm * 1e3, "ms");
    report.once("HAProxy, memory of each certificate", n, bytes as f64 / n as f64 / 1024.0, "KiB");
    let mut cold = None;
    if is_cold_possible && drop_caches() {
        let (seconds, _) = start()?;
        report.once("HAProxy, from its start to the first connection, cold", n, seconds * 1e3, "ms");
        cold = Some(seconds);
    }
    Ok(Some(Start { warm, cold }))
}

/// A running HAProxy that listens.
struct Haproxy {
    child: Child,
    address: SocketAddr,
}

/// Starts HAProxy with the certificates of a directory; `None` if it is not installed.
fn start_haproxy(directory: &Path, place: &Path) -> Result<Option<Haproxy>, Failure> {
    if Command::new("haproxy").arg("-v").output().is_err() {
        return Ok(None);
    }
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let config = place.join("haproxy.cfg");
    let text = format!(
        "global\n  maxconn 1000\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
         frontend f\n  bind {address} ssl crt {}\n  http-request return status 200\n",
        directory.display()
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f"]).arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Child::start(&mut command)?;
    wait_for(address)?;
    Ok(Some(Haproxy { child, address }))
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

fn read_all(directory: &Path) -> Result<(), Failure> {
    Ok(Threads::default().read(directory, &list(directory)?, &|_, _| ())?)
}

/// Measures each way to read the files, without parsing them.
fn readers(report: &mut Report, directory: &Path, n: u64, is_cold_possible: bool) -> Result<(), Failure> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Threads::new(1)), Box::new(Threads::default())];
    match Ring::probe() {
        Ok(ring) => engines.extend([Box::new(phases::Phases) as Box<dyn Engine>, Box::new(ring)]),
        Err(why) => eprintln!("{why}"),
    }
    for engine in engines {
        let bytes = AtomicU64::new(0);
        let read = |names: &[OsString]| {
            let each = |_: usize, read: Result<&[u8], String>| {
                bytes.fetch_add(read.map_or(0, |read| read.len() as u64), Ordering::Relaxed);
            };
            engine.read(directory, names, &each)
        };
        let mut warm = Samples::default();
        // Reading very many files takes seconds, so fewer rounds are accurate enough.
        let (rounds, cold_rounds) = if n >= MILLION as u64 { (2, 1) } else { (ROUNDS, 3) };
        for _ in 0..rounds {
            let began = now();
            read(&list(directory)?)?;
            warm.push(began.elapsed().as_secs_f64() * 1e3);
        }
        report.middle(&format!("list and read, {}, warm", engine.name()), n, &warm, "ms");
        if is_cold_possible {
            let mut cold = Samples::default();
            for _ in 0..cold_rounds {
                drop_caches();
                let began = now();
                read(&list(directory)?)?;
                cold.push(began.elapsed().as_secs_f64() * 1e3);
            }
            report.middle(&format!("list and read, {}, cold", engine.name()), n, &cold, "ms");
        }
    }
    Ok(())
}

struct Own {
    warm: f64,
    cold: Option<f64>,
    verified: f64,
    restart: f64,
    reload: f64,
    idle_kib: f64,
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
        for _ in 0..3 {
            drop_caches();
            cold.push(look()?.0 * 1e3);
        }
        report.middle("the same, cold", n, &cold, "ms");
    }
    let certificates = look()?.1;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let began = now();
    let verified = shelf.verify(&certificates, cores, &AtomicUsize::new(0));
    let verifying = began.elapsed().as_secs_f64();
    if !verified.bad.is_empty() || !verified.changed.is_empty() {
        return Err(format!("{} are bad, {} changed", verified.bad.len(), verified.changed.len()).into());
    }
    report.once("ours, all keys verified", n, verifying * 1e3, "ms");
    let restart = restart(report, directory, scratch, n, &certificates, is_cold_possible)?;
    drop(certificates);
    let reload = reload(report, directory, scratch, n)?;
    let (idle_kib, start) = served(report, directory, scratch, n, is_cold_possible)?;
    Ok(Own { warm: start.warm, cold: start.cold, verified: verifying, restart, reload, idle_kib })
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

/// The time of a restart with the index of an earlier start, in seconds: from reading the index until every name can be answered.
fn restart(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    certificates: &Certificates,
    is_cold_possible: bool,
) -> Result<f64, Failure> {
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
    let mut checked = f64::INFINITY;
    for (how, what) in [(IndexUse::Checked, "every file asked"), (IndexUse::Trusted, "believed")] {
        let mut warm = Samples::default();
        for _ in 0..ROUNDS {
            warm.push(one(how)? * 1e3);
        }
        let middle = report.middle(&format!("ours, restart with an index, {what}, warm"), n, &warm, "ms");
        checked = if how == IndexUse::Checked { middle / 1e3 } else { checked };
        if is_cold_possible {
            let mut cold = Samples::default();
            for _ in 0..3 {
                drop_caches();
                cold.push(one(how)? * 1e3);
            }
            report.middle("the same, cold", n, &cold, "ms");
        }
    }
    Ok(checked)
}

/// Returns the time of a reload after ten files were rewritten, in seconds.
fn reload(report: &mut Report, directory: &Path, scratch: &Scratch, n: u64) -> Result<f64, Failure> {
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
    Ok(report.middle("ours, a reload after 10 changed files, all of them asked", n, &samples, "ms") / 1e3)
}

/// Measures the whole server in its own process.
fn served(
    report: &mut Report,
    directory: &Path,
    scratch: &Scratch,
    n: u64,
    is_cold_possible: bool,
) -> Result<(f64, Start), Failure> {
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
    let warm = report.middle("ours, from its start to the first connection, warm", n, &warm, "ms") / 1e3;
    let idle_kib = (resident.at(50) - alone as f64) / n as f64 / 1024.0;
    report.once("ours, memory of each certificate", n, idle_kib, "KiB");
    let mut cold = None;
    if is_cold_possible {
        let mut samples = Samples::default();
        for _ in 0..3 {
            drop_caches();
            samples.push(start()?.0 * 1e3);
        }
        cold = Some(
            report.middle("ours, from its start to the first connection, cold", n, &samples, "ms") / 1e3,
        );
    }
    Ok((idle_kib, Start { warm, cold }))
}

fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Drops the kernel's page cache. Returns whether that was possible.
pub(crate) fn drop_caches() -> bool {
    let _ = Command::new("sync").status();
    let is_dropped = std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    pause(Duration::from_millis(300));
    is_dropped
}
