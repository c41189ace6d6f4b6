//! Power cuts. All operations of the binary on its files are recorded, with its acknowledgements. Then the campaign creates and opens states that a
//! disk may have after a power cut at any moment. Every acknowledged change must exist, no change may be incomplete, and no state may need a manual
//! repair.
//!
//! `cargo xtask power-cuts --n N` makes N states; the test makes some thousand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]
#![allow(clippy::disallowed_methods, reason = "tests that wait for another process read the clock and sleep")]

mod disk;
mod judge;
mod opener;
mod recorder;
mod script;

use disk::{Choice, Cut, Dice, Disk, Event, FIXED, Model};
use judge::Judge;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_enfilade");
/// The number of states that the test creates.
const STATES: usize = 4_000;
/// One of this many states is tested with the binary, but at most [`STARTED_MAX`] times.
const STARTED: usize = 100;
const STARTED_MAX: usize = 300;
/// For one of this many states that are tested with the binary, a server is started, too.
const SERVED: usize = 5;
/// The run ends when there are more kinds of findings than this number.
const SHOWN_MAX: usize = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

/// Writes the files of a disk to the directory of the recording.
fn write_down(disk: &Disk, root: &Path) {
    let _ = std::fs::remove_dir_all(root);
    std::fs::DirBuilder::new().mode(0o700).create(root).unwrap();
    // Modes are set last, because a mode may forbid writing into a directory.
    let mut modes = Vec::new();
    for (path, id) in disk.paths() {
        let (inode, path) = (&disk.inodes[&id], root.join(path));
        if inode.is_directory {
            std::fs::create_dir(&path).unwrap();
        } else {
            std::fs::write(&path, &inode.content.bytes).unwrap();
        }
        for (name, value) in &*inode.attributes {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&path, name.as_str(), value, flags).unwrap();
        }
        modes.push((path, inode.mode));
    }
    for (path, mode) in modes.into_iter().rev() {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Starts a server, waits for its start line, and ends it.
fn serve(data: &Path) -> Result<(), String> {
    let mut server = Command::new(BINARY)
        .args(["--json", "--data"])
        .arg(data)
        .args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _ = server.kill();
    let output = server.wait_with_output().unwrap();
    let why = || format!("enfilade serve: {}", String::from_utf8_lossy(&output.stderr));
    if line.contains("listen") { Ok(()) } else { Err(why()) }
}

/// Runs commands on the written files, as an operator would after the power cut.
fn begin_again(data: &Path, is_settled: bool, is_served: bool) -> Result<(), String> {
    let run = |arguments: &[&str]| {
        let output =
            Command::new(BINARY).args(["--json", "--data"]).arg(data).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = format!("enfilade {arguments:?}: {}{said}", String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(said) } else { Err(why) }
    };
    if !is_settled {
        run(&["init"]).or_else(|why| if why.contains("is already set up") { Ok(why) } else { Err(why) })?;
    }
    if is_served {
        serve(data)?;
    }
    let users = run(&["user", "list"])?;
    let datastores = run(&["datastore", "list"])?;
    run(&["facts", "check"])?;
    match users.contains("admin@local") && datastores.contains("\"main\"") {
        true => Ok(()),
        false => Err(format!("{users}{datastores}")),
    }
}

#[test]
fn whatever_a_power_cut_leaves_what_was_acknowledged_is_there_whole() {
    let states = number("ENFILADE_CAMPAIGN_N").map_or(STATES, |n| n as usize);
    let seed = number("ENFILADE_CAMPAIGN_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15);
    let scratch = enfilade_testkit::Scratch::new();
    let root = scratch.path().join("disk");
    std::fs::DirBuilder::new().mode(0o700).create(&root).unwrap();
    let script::Record { events, acknowledged } = script::record(&root);
    let mut seen = Disk::new(0o700);
    events.iter().for_each(|event| seen.see(event));
    nothing_was_missed(&seen, &root);
    let mut judge = Judge::new(scratch.path(), 0o700, &events);
    let (changes, locks, paths) = judge.known();
    println!(
        "{} events, {} acknowledgements; {changes} changes of facts, {locks} of locks, {paths} paths",
        events.len(),
        acknowledged.len()
    );
    let mut campaign = Campaign {
        events: &events,
        acknowledged: &acknowledged,
        root: &root,
        dice: Dice(seed | 1),
        judge: &mut judge,
        made: 0,
        each: STARTED.max(states / STARTED_MAX),
        started: 0,
        found: BTreeMap::new(),
    };
    campaign.run(states);
    let Campaign { made, started, found, .. } = campaign;
    for (what, (count, first)) in &found {
        println!("{count} times: {what}\n    first: {first}");
    }
    assert!(found.is_empty(), "{} kinds of findings in {made} states", found.len());
    println!("power-cuts: {made} states, the binary started on {started}: 0 lost or incomplete changes");
}

/// Checks that the recorded operations produce the names, modes and content on the disk, except sockets and the content of `lock.mdb` and of the
/// ledger. Then the recorder missed no such operation. The check cannot show that it recorded every sync.
fn nothing_was_missed(seen: &Disk, root: &Path) {
    let mut left = seen.paths();
    let mut found = vec![root.to_owned()];
    while let Some(directory) = found.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            // A socket has no content, and the next server creates a new socket.
            if entry.file_type().unwrap().is_socket() {
                continue;
            }
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let id = left.remove(&name).unwrap_or_else(|| panic!("`{name}` was not recorded"));
            let inode = &seen.inodes[&id];
            let meta = std::fs::symlink_metadata(&path).unwrap();
            assert_eq!(inode.mode, meta.permissions().mode() & 0o7777, "{name}");
            if meta.is_dir() {
                found.push(path);
            } else if !name.ends_with("lock.mdb") && !name.contains("operations") {
                assert!(std::fs::read(&path).unwrap() == inode.content.bytes, "{name} has other bytes");
            }
        }
    }
    assert!(left.is_empty(), "{left:?} are not there");
}

struct Campaign<'a> {
    events: &'a [Event],
    /// The acknowledgements in order: the event that followed each acknowledgement, and its description.
    acknowledged: &'a [(usize, String)],
    root: &'a Path,
    dice: Dice,
    judge: &'a mut Judge,
    made: usize,
    /// One of this many states is tested with the binary.
    each: usize,
    started: usize,
    /// Each kind of finding, its number, and the first state with this finding.
    found: BTreeMap<String, (usize, String)>,
}

impl Campaign<'_> {
    /// Creates this many states: the fixed states after each acknowledgement and before each sync, and random states at all events.
    fn run(&mut self, states: usize) {
        let is_sync = |at: usize| matches!(self.events.get(at), Some(Event::Sync { .. }));
        let is_acknowledged = |at: usize| self.acknowledged.iter().any(|(by, _)| *by == at);
        let chosen: Vec<bool> =
            (0..=self.events.len()).map(|at| is_sync(at) || is_acknowledged(at)).collect();
        let fixed = chosen.iter().filter(|is_chosen| **is_chosen).count() * FIXED.len() * 2;
        let cuts = (self.events.len() + 1) * 2;
        // If there are enough states, all fixed states are created at every moment.
        let is_long = states > (FIXED.len() + 1) * cuts;
        let random = states.saturating_sub(if is_long { FIXED.len() * cuts } else { fixed });
        for model in [Model::Strict, Model::Ordered] {
            let mut cut = Cut::new(model, 0o700);
            for (at, is_chosen) in chosen.iter().enumerate() {
                let mut choices = Vec::new();
                if *is_chosen || is_long {
                    choices.extend(FIXED);
                }
                let each = random / cuts + usize::from(self.dice.below(cuts) < random % cuts);
                choices.extend((0..each).map(|_| Choice::Random(self.dice.next())));
                for choice in choices {
                    self.look(&cut, model, at, choice);
                    if self.found.len() > SHOWN_MAX {
                        return;
                    }
                }
                if let Some(event) = self.events.get(at) {
                    cut.advance(event);
                }
            }
        }
    }

    fn look(&mut self, cut: &Cut, model: Model, at: usize, choice: Choice) {
        let disk = cut.disk(choice);
        let last = self.acknowledged.iter().rfind(|(by, _)| *by <= at);
        self.made += 1;
        let mut judged = self.judge.judge(&disk, at, last.map(|(by, _)| *by));
        // Before the first acknowledgement, the data directory may be absent.
        if judged.is_ok() && self.made.is_multiple_of(self.each) {
            self.started += 1;
            write_down(&disk, self.root);
            judged =
                begin_again(&self.root.join("data"), last.is_some(), self.started.is_multiple_of(SERVED));
        }
        if let Err(why) = judged {
            let first = format!(
                "state {}: {model:?}, {choice:?}, before event {at} ({}), {} pending, after `{}`",
                self.made,
                self.events.get(at).map_or("end".to_owned(), brief),
                cut.pending(),
                last.map_or("nothing", |(_, what)| what),
            );
            self.found.entry(why).or_insert((0, first)).0 += 1;
        }
        if self.made.is_multiple_of(10_000) {
            println!("{} states", self.made);
        }
    }
}

fn brief(event: &Event) -> String {
    let text = format!("{event:?}");
    text.chars().take(100).collect()
}
