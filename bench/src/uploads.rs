//! Uploads of many small files, and of one large file. Enfilade answers when a file is on the disk, but Apache does not wait for the disk. To compare
//! them, a loop without a server measures the cost of the syncs that Apache does not make. Apache is compared in three ways: without syncs, with the
//! cost of the syncs added, and with a directory in which each change is synchronous.

mod durable;
mod floor;
mod large;
mod planned;
mod rclone;
mod sender;
mod targets;
mod told;

use crate::Failure;
use crate::content::apache::Apache;
use crate::content::files::{self, Maker};
use crate::goals::Goal;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::now;
use floor::Syncs;
use sender::Sender;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use targets::Target;

const FILE_BYTES: usize = 4_096;
/// The size of a file, as it is written in the names of rows.
const FILE: &str = "4 kB";

/// The amounts of work.
struct Size {
    files: usize,
    large: u64,
    rounds: usize,
    /// How long files are put at planned times in a round.
    planned_seconds: u64,
}

/// A process of Apache's event workers closes idle connections while all of its threads are busy. By default, a process has 25 threads, and the kernel
/// may give more of the 32 connections to one process. So each process gets more threads than there are connections.
const APACHE_THREADS: &str = "ThreadsPerChild 64\nMaxRequestWorkers 384\n";

const SIZE: Size = Size { files: 10_000, large: 1 << 30, rounds: 5, planned_seconds: 8 };
const SMALL: Size = Size { files: 400, large: 16 << 20, rounds: 2, planned_seconds: 3 };

/// One way to put all files.
struct Case {
    at_once: usize,
    by_tls: bool,
    /// The number of files that are put per second at planned times, far fewer than a server can store.
    each_second: u64,
    /// The ids of the goals for CPU and for time.
    cpu: Option<&'static str>,
    time: Option<&'static str>,
}

const CASES: [Case; 3] = [
    Case { at_once: 1, by_tls: false, each_second: 50, cpu: Some("cpu-1"), time: None },
    Case { at_once: 32, by_tls: false, each_second: 200, cpu: Some("cpu-32"), time: Some("rate-32") },
    Case { at_once: 32, by_tls: true, each_second: 200, cpu: None, time: None },
];

impl Case {
    fn name(&self) -> String {
        let how = if self.by_tls { " over TLS" } else { "" };
        format!("PUT of {FILE}{how}, {} at once", self.at_once)
    }
}

pub(crate) fn goals() -> Vec<Goal> {
    let Size { files, rounds, .. } = SIZE;
    let work = |at_once: usize, what: &str| {
        let (connections, threads) = match at_once {
            1 => ("1 connection sends".to_owned(), "1 thread".to_owned()),
            many => (format!("{many} connections send at the same time"), format!("{many} threads")),
        };
        format!(
            "Without TLS. {rounds} rounds: in each round Enfilade and Apache's mod_dav are measured one after the other. To each of them, \
             {connections} {files} PUT requests in all, of {FILE_BYTES} bytes each, to new names in one directory. Enfilade syncs each file, Apache \
             does not. So {what} of the syncs is added to {what} of Apache. It is measured in each round by a loop without a server: on {threads}, \
             the loop creates, writes, syncs and renames as many files, and syncs the directory after each file. Then the same loop runs without \
             syncs. The difference between both loops is {what} of the syncs. The value is the mean of the {rounds} ratios"
        )
    };
    let cpu = |id, at_once| {
        let what = "CPU time of Enfilade for a PUT of a small file, divided by the sum of Apache's CPU time and the CPU time of the syncs that Apache does not make";
        Goal::new(id, 1.0, "times", what, work(at_once, "the CPU time"))
    };
    let time = "time of Enfilade for all PUTs of small files, divided by the sum of Apache's time and the time of the syncs that Apache does not make";
    let mut goals = vec![
        cpu("cpu-1", 1),
        cpu("cpu-32", 32),
        Goal::new("rate-32", 1.0 / 1.5, "times", time, work(32, "the time")),
    ];
    goals.extend(durable::goals());
    goals
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = if small { SMALL } else { SIZE };
    let scratch = Scratch::new("uploads")?;
    let files = scratch.path().join("files");
    furnish(&files, &size)?;
    let data = scratch.path().join("data");
    let token = files::prepare(&data, &files)?;
    let server = Server::start(&data, &[])?;
    let apache = Apache::start_with(scratch.path(), &files, APACHE_THREADS)?;
    let rclone = rclone::start(report, &files)?;
    let targets = targets::all(report, &server, &data, apache.as_ref(), rclone.as_ref(), &token, &files)?;
    server.settle()?;
    let mut bench = Bench { report, size, targets, loops: files.join("loop"), named: AtomicUsize::new(0) };
    for case in &CASES {
        bench.case(case)?;
        bench.planned(case)?;
    }
    bench.durable()?;
    bench.large(&files.join("large"))
}

/// Makes the directories for uploads, which Apache and rclone may write to, and the large file.
fn furnish(files: &Path, size: &Size) -> Result<(), Failure> {
    let maker = Maker::new()?;
    maker.directory(files, 0o755)?;
    for directory in ["up", "up-apache", targets::SYNCHRONOUS, rclone::PLACE, "loop"] {
        maker.directory(&files.join(directory), 0o777)?;
    }
    maker.large(&files.join("large"), size.large)
}

struct Bench<'b> {
    report: &'b mut Report,
    size: Size,
    targets: Vec<Target>,
    /// The directory of the loop without a server.
    loops: PathBuf,
    /// The number of names that were used so far: each file gets a new name.
    named: AtomicUsize,
}

/// The cost of the files of a turn.
#[derive(Clone, Copy)]
struct Spent {
    seconds: f64,
    /// CPU of each file, in microseconds.
    cpu: f64,
}

/// The turns of one server.
struct Series {
    name: &'static str,
    spent: Vec<Spent>,
}

impl Bench<'_> {
    /// Puts all files to each server in turns, and makes the same files in the loop without a server.
    fn case(&mut self, case: &Case) -> Result<(), Failure> {
        let mut asked: Vec<&Target> =
            self.targets.iter().filter(|target| !case.by_tls || target.https.is_some()).collect();
        let series = |name: &'static str| Series { name, spent: Vec::new() };
        let mut all: Vec<Series> = asked.iter().map(|target| series(target.peer.name)).collect();
        let [mut synced, mut unsynced, mut shared] =
            ["the loop", "the loop without syncs", "the loop with shared syncs"].map(series);
        for round in 0..self.size.rounds {
            eprintln!("{}: round {} of {}", case.name(), round + 1, self.size.rounds);
            for target in &asked {
                let spent = self.put_all(target, case)?;
                if let Some(series) = all.iter_mut().find(|series| series.name == target.peer.name) {
                    series.spent.push(spent);
                }
            }
            for (series, syncs) in
                [(&mut synced, Syncs::Each), (&mut unsynced, Syncs::Nothing), (&mut shared, Syncs::Shared)]
            {
                series.spent.push(floor::make(&self.loops, self.size.files, case.at_once, syncs)?);
            }
            // Another server begins the next round.
            asked.rotate_left(1);
        }
        told::tell(self.report, case, self.size.files as u64, &all, [&synced, &unsynced, &shared]);
        Ok(())
    }

    /// Puts all files on connections that are open at the same time, each file as soon as the previous file on the connection is answered. Then
    /// removes the files.
    fn put_all(&self, target: &Target, case: &Case) -> Result<Spent, Failure> {
        let files = self.size.files;
        let first = self.named.fetch_add(files, Ordering::Relaxed);
        let next = AtomicUsize::new(first);
        // The connections are opened after the sync, which can take so long that a server closes an idle connection.
        rustix::fs::sync();
        let mut senders = self.senders(target, case)?;
        let (before, began) = ((target.peer.cpu)()?, now());
        std::thread::scope(|scope| {
            let next = &next;
            let run = |mut sender: Sender<'_>| -> Result<(), String> {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= first + files {
                        return Ok(());
                    }
                    sender.put(n)?;
                }
            };
            let running: Vec<_> = senders.drain(..).map(|sender| scope.spawn(move || run(sender))).collect();
            running.into_iter().try_for_each(|one| one.join().map_err(|_| "a client panicked".to_owned())?)
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu = ((target.peer.cpu)()? - before) / files as f64 * 1e6;
        remove_all(&target.peer.up, files)?;
        Ok(Spent { seconds, cpu })
    }

    fn senders<'t>(&self, target: &'t Target, case: &Case) -> Result<Vec<Sender<'t>>, Failure> {
        (0..case.at_once).map(|_| Sender::open(target, case.by_tls)).collect()
    }
}

/// Removes the files of a directory. It is an error if the directory does not have the expected number of files, or if a file has another size.
fn remove_all(directory: &Path, expected: usize) -> Result<(), Failure> {
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // Apache stores the properties of files in a subdirectory.
        if entry.file_type()?.is_dir() {
            continue;
        }
        let bytes = entry.metadata()?.len();
        if bytes != FILE_BYTES as u64 {
            return Err(format!("`{}` has {bytes} bytes", entry.path().display()).into());
        }
        std::fs::remove_file(entry.path())?;
        count += 1;
    }
    match count == expected {
        true => Ok(()),
        false => Err(format!("`{}` has {count} files instead of {expected}", directory.display()).into()),
    }
}
