//! File serving compared with Apache's mod_dav. In one run, both servers serve the same files in turns. The CPU of the clients does not count.

pub(crate) mod apache;
pub(crate) mod client;
mod deep;
pub(crate) mod files;
mod million;
pub(crate) mod peer;

use crate::Failure;
use crate::goals::Goal;
use crate::loop_process::LoopProcess;
use crate::report::{Paired, Report};
use crate::samples::{Estimate, Samples};
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::now;
use apache::Apache;
use client::{answer, connect, curl, propfind, request};
use peer::Peer;
use std::io::Write;
use std::process::Command;

const MANY: usize = 41_000;
/// The number of directories, and the number of files in each.
const TREE: (usize, usize) = (200, 200);
const FILE_BYTES: usize = 25_000;
const CONNECTIONS: usize = 8;
const PUTS: usize = 500;

/// The amounts of work.
struct Size {
    many: usize,
    tree: (usize, usize),
    large: u64,
    gets: usize,
    rounds: usize,
    /// The number of rounds of the two goals about GET.
    rounds_of_gets: usize,
}

const SIZE: Size =
    Size { many: MANY, tree: TREE, large: 1 << 30, gets: 40_000, rounds: 3, rounds_of_gets: 15 };
/// The number of requests for which the time to the first byte is measured.
const FIRSTS: usize = 10;

pub(crate) fn goals() -> Vec<Goal> {
    let Size { many, large, gets, rounds, rounds_of_gets, .. } = SIZE;
    let alternately = format!("are measured alternately, {rounds} times each");
    let same = "Enfilade and Apache's mod_dav serve the same files without TLS";
    let turns = format!("{same}, and {alternately}");
    let turns_of_gets = format!("{same}, and are measured alternately, {rounds_of_gets} times each");
    let mean = format!("The value is the mean of the {rounds} ratios");
    let mean_of_gets = format!("The value is the mean of the {rounds_of_gets} ratios");
    let propfind = format!(
        "PROPFIND requests of depth 1 without a body, without TLS, for a directory of {many} files. The server has listed the directory before, and \
         remembers it"
    );
    let goal = |id, at_most, unit, what: &str, workload: String| Goal::new(id, at_most, unit, what, workload);
    let mut goals = vec![
        goal(
            "propfind",
            0.25,
            "times",
            "CPU time of Enfilade for a PROPFIND of all properties, divided by CPU time of Apache",
            format!(
                "{propfind}. Enfilade and Apache's mod_dav {alternately}; each time a client sends 5 requests. {mean}"
            ),
        ),
        goal(
            "propfind-memory",
            16.0,
            "MiB",
            "growth of the resident memory of the server by PROPFIND requests",
            format!(
                "{propfind}. {FIRSTS} requests, one after the other. The server's resident memory after them minus its resident memory before them"
            ),
        ),
        goal(
            "propfind-first",
            10.0,
            "ms",
            "time until the first byte of the response to a PROPFIND",
            format!(
                "{propfind}. {FIRSTS} requests, one after the other, each on its own connection. The value is the median of the {FIRSTS} times"
            ),
        ),
        goal(
            "get-pairs",
            1.0,
            "times",
            "CPU time of Enfilade for a GET of a small file, divided by CPU time of Apache",
            format!(
                "{turns_of_gets}. Each time, {CONNECTIONS} connections send {gets} GET requests in all for files of {FILE_BYTES} bytes. \
                 {mean_of_gets}"
            ),
        ),
        goal(
            "get-large-pairs",
            1.1,
            "times",
            "CPU time of Enfilade for a GET of a large file, divided by CPU time of Apache",
            format!(
                "{turns_of_gets}. Each time, curl gets a file of {large} bytes ten times on one connection. {mean_of_gets}"
            ),
        ),
        goal(
            "put-large",
            1.0,
            "times",
            "time of a PUT to Enfilade until a large file is on the disk, divided by time of a PUT to Apache",
            format!(
                "{turns}. Each time, curl puts a file of {large} bytes. The time ends when the file is on the disk. Enfilade answers only then. \
                 Apache answers earlier, so the benchmark syncs the file system after Apache's answer. {mean}"
            ),
        ),
    ];
    goals.push(million::goal());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    compare(report, small)?;
    million::run(report, small)
}

fn compare(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = match small {
        true => {
            Size { many: 2_000, tree: (20, 20), large: 64 << 20, gets: 4_000, rounds: 2, rounds_of_gets: 2 }
        }
        false => SIZE,
    };
    let scratch = Scratch::new("content")?;
    let files = scratch.path().join("files");
    eprintln!("making {} files", size.many + size.tree.0 * size.tree.1);
    files::make(&files, &size)?;
    deep::make(&files)?;
    let data = scratch.path().join("data");
    let (tokenid, secret) = files::prepare(&data, &files)?;
    let server = Server::start(&data, &[])?;
    let apache = Apache::start(scratch.path(), &files)?;
    let peers = peer::both(report, &server, apache.as_ref(), (&tokenid, &secret), &files);
    let mut compare = Compare { report, size: &size };
    compare.propfind(&peers)?;
    compare.tree(&peers)?;
    compare.small_gets(&peers)?;
    deep::run(compare.report, &peers, small)?;
    compare.large(&peers)?;
    compare.small_puts(&peers)?;
    compare.by_tls(&peers)?;
    Ok(())
}

struct Compare<'c> {
    report: &'c mut Report,
    size: &'c Size,
}

impl Compare<'_> {
    /// Reports the cost of each server, and the cost of Enfilade divided by the cost of Apache. If `goal` is given, the goal is judged by this ratio.
    fn both(
        &mut self,
        peers: &[Peer],
        what: &str,
        unit: &'static str,
        goal: Option<&'static str>,
        mut measure: impl FnMut(&Peer) -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        // The servers take turns, so that noise of the machine affects both.
        let mut samples: Vec<Samples> = peers.iter().map(|_| Samples::default()).collect();
        let rounds = match goal {
            Some("get-pairs" | "get-large-pairs") => self.size.rounds_of_gets,
            _ => self.size.rounds,
        };
        for _ in 0..rounds {
            for (peer, samples) in peers.iter().zip(&mut samples) {
                samples.push(measure(peer)?);
            }
        }
        let n = self.size.many as u64;
        match samples.as_slice() {
            [ours, theirs] => {
                let what = what.to_owned();
                let paired = Paired { what, n, unit, ours, peer: "Apache", theirs, floor: None };
                self.report.compare(goal, paired);
            }
            others => others.iter().for_each(|samples| {
                self.report.middle(&format!("{what}, Enfilade"), n, samples, unit);
            }),
        }
        Ok(())
    }

    fn propfind(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        for (what, body, goal) in [
            ("PROPFIND of a directory, everything", "", Some("propfind")),
            ("PROPFIND of a directory, four properties", FOUR, None),
        ] {
            let ask = |peer: &Peer| propfind(peer, "/many/", body);
            for peer in peers {
                // Warm-up: after this request the server remembers the directory.
                ask(peer)?;
            }
            self.both(peers, &format!("{what}, CPU"), "ms", goal, |peer| {
                let before = (peer.cpu)()?;
                for _ in 0..5 {
                    ask(peer)?;
                }
                Ok(((peer.cpu)()? - before) / 5.0 * 1e3)
            })?;
        }
        let Some(ours) = peers.first() else { return Ok(()) };
        let before = (ours.resident)();
        let mut first = Samples::default();
        for _ in 0..FIRSTS {
            first.push(propfind(ours, "/many/", "")?.0);
        }
        let grown = (ours.resident)().saturating_sub(before) as f64 / f64::from(1 << 20);
        self.report.goal("propfind-memory", Estimate::once(grown));
        let first =
            self.report.middle("PROPFIND of a directory, first byte", self.size.many as u64, &first, "ms");
        self.report.goal("propfind-first", first);
        Ok(())
    }

    fn tree(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        if Command::new("rclone").arg("version").output().is_err() {
            self.report.missing("rclone with a tree", "rclone is not installed (`apt-get install rclone`)");
            return Ok(());
        }
        let version = crate::machine::said(Command::new("rclone").arg("version")).unwrap_or_default();
        self.report.peer("rclone", version, "lsf -R, a client of both servers");
        let size = self.size.tree;
        for scheme in ["http", "https"] {
            self.both(peers, &format!("rclone lsf -R of a tree by {scheme}, CPU"), "s", None, |peer| {
                let before = (peer.cpu)()?;
                let address = if scheme == "https" { peer.tls } else { peer.address };
                let url = format!("{scheme}://{address}{}/tree", peer.base);
                let header = peer.header.replacen(": ", ",", 1);
                let output = Command::new("rclone")
                    .args([
                        "--config",
                        "",
                        "--no-check-certificate",
                        "--webdav-url",
                        &url,
                        "--webdav-headers",
                        &header,
                        "lsf",
                        "-R",
                        ":webdav:",
                    ])
                    .output()?;
                let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
                if lines != size.0 * (size.1 + 1) {
                    return Err(
                        format!("rclone lists {lines}: {}", String::from_utf8_lossy(&output.stderr)).into()
                    );
                }
                Ok((peer.cpu)()? - before)
            })?;
        }
        Ok(())
    }

    fn small_gets(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let gets = self.size.gets / CONNECTIONS;
        self.both(peers, "GET of 25 kB by 8 at once, CPU of each", "µs", Some("get-pairs"), |peer| {
            let before = (peer.cpu)()?;
            std::thread::scope(|scope| -> Result<(), Failure> {
                let run = |n: usize| -> Result<(), String> {
                    let mut stream = connect(peer.address).map_err(|why| why.to_string())?;
                    let request = request(peer, "GET", &format!("/small/{n}"), "", 0);
                    let mut buffer = vec![0; 64 * 1024];
                    for _ in 0..gets {
                        stream.write_all(&request).map_err(|why| why.to_string())?;
                        let got = answer(&mut stream, &mut buffer)?;
                        if got != (200, FILE_BYTES) {
                            return Err(format!("{}: answered with {got:?}", peer.name));
                        }
                    }
                    Ok(())
                };
                let running: Vec<_> = (0..CONNECTIONS).map(|n| scope.spawn(move || run(n))).collect();
                for one in running {
                    one.join().map_err(|_| "a client ended")??;
                }
                Ok(())
            })?;
            Ok(((peer.cpu)()? - before) / (gets * CONNECTIONS) as f64 * 1e6)
        })
    }

    fn large(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let bytes = self.size.large;
        for (scheme, goal) in [("http", Some("get-large-pairs")), ("https", None)] {
            self.both(peers, &format!("GET of a large file by {scheme}, CPU"), "s", goal, |peer| {
                let before = (peer.cpu)()?;
                // One GET takes only about a tenth of a second of CPU, so ten GETs are measured.
                curl(peer, &[], "/large?[1-10]", scheme)?;
                Ok(((peer.cpu)()? - before) / 10.0)
            })?;
        }
        let source = peers.first().and_then(|peer| peer.up.parent()).ok_or("no files")?.join("large");
        let (floor, mut spent) = (LoopProcess::plain(&source)?, Samples::default());
        for _ in 0..self.size.rounds_of_gets {
            let before = (floor.peer().cpu)()?;
            curl(&floor.peer(), &[], "/large?[1-10]", "http")?;
            spent.push(((floor.peer().cpu)()? - before) / 10.0);
        }
        let what = format!("GET of a large file by http, CPU, {}", LoopProcess::NAME);
        self.report.middle(&what, self.size.many as u64, &spent, "s");
        drop(floor);
        let source = source.to_str().ok_or("the scratch directory has no UTF-8 path")?.to_owned();
        // The time includes the sync to the disk for both servers. Apache answers before the file is on the disk, so the benchmark makes this sync
        // itself.
        self.both(peers, "PUT of a large file, on the disk, time", "s", Some("put-large"), |peer| {
            rustix::fs::sync();
            let began = now();
            let goal = format!("/{}/large", peer.place());
            curl(peer, &["--upload-file", &source, "--header", "Expect:"], &goal, "http")?;
            if !peer.syncs {
                rustix::fs::syncfs(std::fs::File::open(&peer.up)?)?;
            }
            let took = began.elapsed().as_secs_f64();
            if std::fs::metadata(peer.up.join("large"))?.len() != bytes {
                return Err(format!("{}: the stored file has another size than the upload", peer.name).into());
            }
            std::fs::remove_file(peer.up.join("large"))?;
            Ok(took)
        })?;
        self.both(peers, "PUT of a large file by https, CPU", "s", None, |peer| {
            let before = (peer.cpu)()?;
            let goal = format!("/{}/large", peer.place());
            curl(peer, &["--upload-file", &source, "--header", "Expect:"], &goal, "https")?;
            let spent = (peer.cpu)()? - before;
            std::fs::remove_file(peer.up.join("large"))?;
            Ok(spent)
        })
    }

    /// Measures further requests over TLS, with curl as the client.
    fn by_tls(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let depth = ["--request", "PROPFIND", "--header", "Depth: 1"];
        self.both(peers, "PROPFIND of a directory, everything, by https, CPU", "ms", None, |peer| {
            let before = (peer.cpu)()?;
            curl(peer, &depth, "/many/?[1-5]", "https")?;
            Ok(((peer.cpu)()? - before) / 5.0 * 1e3)
        })?;
        let gets = self.size.gets / CONNECTIONS;
        self.both(peers, "GET of 25 kB by 8 at once by https, CPU of each", "µs", None, |peer| {
            let before = (peer.cpu)()?;
            std::thread::scope(|scope| -> Result<(), Failure> {
                let get = |n| curl(peer, &[], &format!("/small/{n}?[1-{gets}]"), "https");
                let get = move |n: usize| get(n).map_err(|why| why.to_string());
                let running: Vec<_> = (0..CONNECTIONS).map(|n| scope.spawn(move || get(n))).collect();
                for one in running {
                    one.join().map_err(|_| "a client ended")??;
                }
                Ok(())
            })?;
            Ok(((peer.cpu)()? - before) / (gets * CONNECTIONS) as f64 * 1e6)
        })?;
        let source = peers.first().and_then(|peer| peer.up.parent()).ok_or("no files")?.join("small/0");
        let source = source.to_str().ok_or("the scratch directory has no UTF-8 path")?.to_owned();
        self.both(peers, "PUT of 500 files of 25 kB by https, CPU", "s", None, |peer| {
            let before = (peer.cpu)()?;
            curl(peer, &["--upload-file", &source], &format!("/{}/f[1-{PUTS}]", peer.place()), "https")?;
            let spent = (peer.cpu)()? - before;
            for n in 1..=PUTS {
                std::fs::remove_file(peer.up.join(format!("f{n}")))?;
            }
            Ok(spent)
        })
    }

    fn small_puts(&mut self, peers: &[Peer]) -> Result<(), Failure> {
        let content = vec![b'x'; FILE_BYTES];
        self.both(peers, "PUT of 500 files of 25 kB, CPU", "s", None, |peer| {
            let before = (peer.cpu)()?;
            let place = peer.place();
            let mut stream = connect(peer.address)?;
            let mut buffer = vec![0; 64 * 1024];
            for n in 0..PUTS {
                stream.write_all(&request(peer, "PUT", &format!("/{place}/f{n}"), "", FILE_BYTES))?;
                stream.write_all(&content)?;
                match answer(&mut stream, &mut buffer)?.0 {
                    201 | 204 => {}
                    status => return Err(format!("{}: PUT is answered with {status}", peer.name).into()),
                }
            }
            let spent = (peer.cpu)()? - before;
            for n in 0..PUTS {
                std::fs::remove_file(peer.up.join(format!("f{n}")))?;
            }
            Ok(spent)
        })
    }
}

const FOUR: &str = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:displayname/><D:getlastmodified/>\
                    <D:getcontentlength/><D:resourcetype/></D:prop></D:propfind>";
