//! Listings of directories in a datastore of a million files, compared with listings in a small datastore. The server of the large datastore lists
//! every directory of it, and so reads more names than it can remember.

use super::FOUR;
use super::apache::Apache;
use super::client::propfind;
use super::files::{Maker, prepare};
use super::peer::{self, Peer};
use crate::Failure;
use crate::goals::Goal;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{now, pause};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The names of the small datastore and of the large datastore.
const NAMES: [&str; 2] = ["few", "many"];
const GOAL: &str = "tree-million";
/// The pause after files were made. A server remembers the state of a file only if its last change is some seconds old.
const SETTLED: Duration = Duration::from_secs(4);

struct Size {
    /// The number of directories in each datastore.
    directories: [usize; 2],
    /// The number of files in each directory.
    in_each: usize,
    /// The number of rounds. In each round, new directories replace the directories of the small datastore.
    rounds: usize,
    /// The number of directories of each datastore whose listings are measured in a round.
    listed: usize,
}

const SIZE: Size = Size { directories: [10, 1_000], in_each: 1_000, rounds: 10, listed: 10 };
const SMALL: Size = Size { directories: [10, 100], in_each: 100, rounds: 2, listed: 10 };

impl Size {
    /// The directories of the large datastore that belong to a round.
    fn of_round(&self, round: usize) -> Range<usize> {
        let [_, many] = self.directories;
        let each = many / self.rounds;
        round * each..(round + 1) * each
    }

    fn files(&self) -> [usize; 2] {
        self.directories.map(|directories| directories * self.in_each)
    }
}

pub(super) fn goal() -> Goal {
    let Size { in_each, rounds, listed, .. } = SIZE;
    let [few, many] = SIZE.files();
    let workload = format!(
        "One Enfilade serves a small datastore of {few} files, another Enfilade serves a large datastore of {many} files. Each directory has \
         {in_each} files. A listing is a PROPFIND of depth 1 for four properties, without TLS. {rounds} rounds: in each round each server lists \
         {listed} directories for the first time, one server after the other. The directories of the small datastore are made anew before each \
         round; in the large datastore each round has other directories. Before the measurement the kernel reads these directories into memory. \
         After it, the second server also lists the other directories of the round, which do not count, so that at the end it has listed its whole \
         datastore. The value is the mean of the {rounds} ratios"
    );
    let what = format!(
        "CPU time of a listing in a datastore of {many} files, divided by CPU time of a listing in a datastore of {few} files"
    );
    Goal::new(GOAL, 1.1, "times", what, workload)
}

pub(super) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let size = if small { SMALL } else { SIZE };
    let scratch = Scratch::new("content-million")?;
    let files = scratch.path().join("files");
    make(&files, &size)?;
    let apache = Apache::start(scratch.path(), &files)?;
    let mut bench = Bench { size, scratch: &scratch, tokens: Default::default() };
    for (token, name) in bench.tokens.iter_mut().zip(NAMES) {
        *token = prepare(&scratch.path().join(format!("data-{name}")), &files.join(name))?;
    }
    let theirs = NAMES.map(|name| {
        // If Apache is not installed, this is already in the report.
        let peer = apache.as_ref().and_then(|apache| peer::compared(report, Some(apache), &files));
        peer.map(|peer| Peer { base: format!("/files/{name}"), ..peer })
    });
    bench.measure(report, &theirs)?;
    drop(apache);
    eprintln!("removing the files");
    Ok(())
}

/// Makes a tree for each datastore.
fn make(files: &Path, size: &Size) -> Result<(), Failure> {
    let maker = Maker::new()?;
    maker.directory(files, 0o755)?;
    for (name, directories) in NAMES.into_iter().zip(size.directories) {
        make_tree(&maker, &files.join(name), directories, size.in_each)?;
    }
    Ok(())
}

fn make_tree(maker: &Maker, place: &Path, directories: usize, in_each: usize) -> Result<(), Failure> {
    let mut shown = now();
    maker.directory(place, 0o755)?;
    for n in 0..directories {
        let place = place.join(directory(n));
        maker.directory(&place, 0o755)?;
        for n in 0..in_each {
            maker.file(&place.join(format!("file-{n:05}.txt")), b"")?;
        }
        if shown.elapsed() > Duration::from_secs(2) {
            eprintln!("making files: {} of {}", (n + 1) * in_each, directories * in_each);
            shown = now();
        }
    }
    Ok(())
}

fn directory(n: usize) -> String {
    format!("d{n:04}")
}

struct Bench<'b> {
    size: Size,
    scratch: &'b Scratch,
    tokens: [(String, String); 2],
}

/// CPU milliseconds of a listing in each datastore.
#[derive(Default)]
struct Listed {
    ours: [Samples; 2],
    theirs: [Samples; 2],
}

impl Bench<'_> {
    fn measure(&self, report: &mut Report, theirs: &[Option<Peer>; 2]) -> Result<(), Failure> {
        let ((small, _small_server), (large, _large_server)) = (self.start(0)?, self.start(1)?);
        let before = (large.resident)();
        let mut first = Listed::default();
        for round in 0..self.size.rounds {
            eprintln!("first listings, round {} of {}", round + 1, self.size.rounds);
            self.make_anew()?;
            // The servers first process the changes of the files, which is not measured.
            [&small, &large].into_iter().try_for_each(|peer| propfind(peer, "/", FOUR).map(drop))?;
            self.round([&small, &large], theirs, round, &mut first)?;
        }
        let grown = (large.resident)().saturating_sub(before) as f64 / f64::from(1 << 20);
        let mut again = Listed::default();
        for round in 0..self.size.rounds {
            eprintln!("listings again, round {} of {}", round + 1, self.size.rounds);
            self.round([&small, &large], theirs, round, &mut again)?;
        }
        self.tell(report, "first", Some(GOAL), &first);
        self.tell(report, "again after all others", None, &again);
        let [_, many] = self.size.files();
        report.once("growth of memory by listings of all directories", many as u64, grown, "MiB");
        Ok(())
    }

    /// Starts a server with one of the datastores, and waits until it is idle.
    fn start(&self, at: usize) -> Result<(Peer, Server), Failure> {
        let name = NAMES.get(at).ok_or("no such datastore")?;
        let (tokenid, secret) = self.tokens.get(at).ok_or("no such datastore")?;
        let server = Server::start(&self.scratch.path().join(format!("data-{name}")), &[])?;
        server.settle()?;
        Ok((peer::enfilade(&server, (tokenid, secret), &self.place(name)), server))
    }

    /// Replaces the directories of the small datastore by new directories, which no server remembers.
    fn make_anew(&self) -> Result<(), Failure> {
        let ([few, _], [name, _]) = (self.size.directories, NAMES);
        let place = self.place(name);
        for n in 0..few {
            std::fs::remove_dir_all(place.join(directory(n)))?;
        }
        make_tree(&Maker::new()?, &place, few, self.size.in_each)?;
        pause(SETTLED);
        Ok(())
    }

    fn place(&self, name: &str) -> PathBuf {
        self.scratch.path().join("files").join(name)
    }

    /// Enfilade and Apache list some directories of each datastore. Then Enfilade lists the remaining directories of this round in the large
    /// datastore, which is not measured.
    fn round(
        &self,
        ours: [&Peer; 2],
        theirs: &[Option<Peer>; 2],
        round: usize,
        all: &mut Listed,
    ) -> Result<(), Failure> {
        let of_round = self.size.of_round(round);
        let measured = of_round.start..of_round.start + self.size.listed;
        let ranges = [0..self.size.listed, measured.clone()];
        // In every second round, the other datastore is first.
        let order = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        for at in order {
            let range = ranges.get(at).cloned().ok_or("no such datastore")?;
            let pairs = [
                (ours.get(at).copied(), &mut all.ours),
                (theirs.get(at).and_then(Option::as_ref), &mut all.theirs),
            ];
            for (peer, samples) in pairs {
                let (Some(peer), Some(samples)) = (peer, samples.get_mut(at)) else { continue };
                for n in range.clone() {
                    read(&self.place(NAMES.get(at).ok_or("no such datastore")?).join(directory(n)))?;
                }
                samples.push(self.list(peer, range.clone())?);
            }
        }
        let [_, large] = ours;
        self.list(large, measured.end..of_round.end).map(drop)
    }

    /// Lists directories. Returns the CPU milliseconds of one listing.
    fn list(&self, peer: &Peer, directories: Range<usize>) -> Result<f64, Failure> {
        let (before, count) = ((peer.cpu)()?, directories.len());
        for n in directories {
            let (_, bytes) = propfind(peer, &format!("/{}/", directory(n)), FOUR)?;
            // Each entry has its path and its properties, which are more than 100 bytes.
            if bytes < self.size.in_each * 100 {
                return Err(
                    format!("{}: a listing of {bytes} bytes does not have all files", peer.name).into()
                );
            }
        }
        Ok(((peer.cpu)()? - before) / count as f64 * 1e3)
    }

    fn tell(&self, report: &mut Report, which: &str, goal: Option<&'static str>, all: &Listed) {
        let what = format!("PROPFIND of one directory in a datastore of so many files, {which}, CPU");
        let sizes = self.size.files().map(|files| files as u64);
        for ((n, ours), theirs) in sizes.into_iter().zip(&all.ours).zip(&all.theirs) {
            if theirs.len() > 0 {
                let what = what.clone();
                report
                    .compare(None, Paired { what, n, unit: "ms", ours, peer: "Apache", theirs, floor: None });
            } else {
                report.middle(&format!("{what}, Enfilade"), n, ours, "ms");
            }
        }
        let [_, most] = sizes;
        for (name, [few, many], goal) in [("Enfilade", &all.ours, goal), ("Apache", &all.theirs, None)] {
            if few.len() == 0 {
                continue;
            }
            let ratio = many.over(few).mean();
            report.estimate(&format!("{what}, to that in the small one, {name}"), most, ratio, "times");
            goal.into_iter().for_each(|goal| report.goal(goal, ratio));
        }
    }
}

/// Reads the names in a directory, and the state and the ACL of each entry, so that the kernel has them in memory.
fn read(place: &Path) -> Result<(), Failure> {
    let mut room = [0; 1024];
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        std::hint::black_box(std::fs::symlink_metadata(&path)?);
        let acl = rustix::fs::lgetxattr(&path, "security.NTACL", &mut room);
        std::hint::black_box(acl.or_else(|_| rustix::fs::lgetxattr(&path, "user.NTACL", &mut room))?);
    }
    Ok(())
}
