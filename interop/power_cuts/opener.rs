//! Opens stores in a child process, because damaged pages can end the process that maps them. If the child process ends in this way, this is a
//! finding, and the campaign continues.

use crate::disk::digest;
use enfilade_facts::{LockStore as _, Table, View};
use enfilade_sources::lmdb::Lmdb;
use enfilade_sources::locks::LmdbLocks;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The environment variable that makes this test program an opener.
const OPENER: &str = "ENFILADE_POWER_CUTS_OPENER";
/// The beginning of a line with an answer. All other lines come from the test harness, and are ignored.
const ANSWER: &str = "opened ";

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Facts,
    Locks,
}

/// The content of a store: a number, and a digest of all records. For facts, the number is the revision. For locks, it is the count of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) number: u64,
    pub(crate) all: String,
}

/// A child process that opens stores.
pub(crate) struct Opener {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Opener {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "opener::opens_what_it_is_told", "--nocapture"])
            .env(OPENER, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Opener { child, stdin, stdout }
    }

    /// Opens a store without manual repair. Reads and checks all its records.
    pub(crate) fn open(&mut self, kind: Kind, place: &Path) -> Result<Held, String> {
        writeln!(self.stdin, "{kind:?} {}", place.display()).unwrap();
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some((_, answer)) = line.trim_end().split_once(ANSWER) {
                let (number, all) = answer.split_once(' ').unwrap();
                return match number.parse() {
                    Ok(number) => Ok(Held { number, all: all.to_owned() }),
                    Err(_) => Err(all.to_owned()),
                };
            }
            line.clear();
        }
        let ended = self.child.wait().unwrap();
        *self = Opener::start();
        Err(format!("the process that opens the store ends ({ended})"))
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If the variable [`OPENER`] is set, this process is the child process. Otherwise this test does nothing.
#[test]
fn opens_what_it_is_told() {
    if std::env::var_os(OPENER).is_none() {
        return;
    }
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (kind, place) = line.split_once(' ').unwrap();
        let held = if kind == "Facts" { facts(Path::new(place)) } else { locks(Path::new(place)) };
        match held {
            Ok(Held { number, all }) => println!("{ANSWER}{number} {all}"),
            Err(why) => println!("{ANSWER}- {}", why.replace('\n', " ")),
        }
    }
}

/// All records of a store as bytes. The length of each part precedes the part.
#[derive(Default)]
struct Everything(Vec<u8>);

impl Everything {
    fn add(&mut self, parts: [&[u8]; 2]) {
        for part in parts {
            self.0.extend_from_slice(&part.len().to_le_bytes());
            self.0.extend_from_slice(part);
        }
    }

    fn digest(&self) -> String {
        digest(&self.0).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn facts(place: &Path) -> Result<Held, String> {
    let store = Lmdb::open(place).map_err(|why| why.to_string())?;
    let read = store.snapshot(|snapshot| {
        let checked =
            enfilade_sources::check::check(snapshot, &mut |_, _| {}).map_err(|why| why.to_string())?;
        if !checked.problems.is_empty() {
            return Err(format!("{:?}", checked.problems));
        }
        let mut all = Everything::default();
        for table in Table::ALL {
            let each = &mut |key: &[u8], stored: &[u8]| {
                all.add([key, stored]);
                ControlFlow::Continue(())
            };
            snapshot.scan(table, &[], each).map_err(|why| why.to_string())?;
        }
        let head = View::new(snapshot).head().map_err(|why| why.to_string())?;
        Ok(Held { number: head.revision.0, all: all.digest() })
    });
    read.map_err(|why| why.to_string())?
}

fn locks(place: &Path) -> Result<Held, String> {
    let store = LmdbLocks::open(place, None).map_err(|why| why.to_string())?;
    let (mut number, mut all, mut failed) = (0, Everything::default(), None);
    let look = &mut |rows: &dyn enfilade_facts::locks::LockRows| {
        let each = &mut |key: &[u8], value: &[u8]| {
            number += 1;
            all.add([key, value]);
            ControlFlow::Continue(())
        };
        // A scan needs a prefix of at least one byte.
        failed = (0..=u8::MAX).find_map(|first| rows.scan(&[first], each).err());
    };
    store.read(look).map_err(|why| why.to_string())?;
    match failed {
        Some(why) => Err(why.to_string()),
        None => Ok(Held { number, all: all.digest() }),
    }
}
