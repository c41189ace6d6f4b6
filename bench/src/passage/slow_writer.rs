//! Another process that commits changes to the store, as a command does. The kernel lets it make only a few writes in a second, so each of its
//! commits takes as long as on a slow disk (cgroups: `blkio.throttle.write_iops_device`, or `io.max` of version 2).

use crate::Failure;
use crate::stopwatch::{Child, now};
use crate::stores;
use enfilade_facts::tables::{Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{Role, UserId};
use enfilade_facts::{Change, Source as _};
use enfilade_sources::lmdb::Lmdb;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of writes that the process can make in a second.
pub(super) const WRITES_A_SECOND: u32 = 100;

/// A group of processes with this limit, removed when dropped.
pub(super) struct Slow(PathBuf);

impl Slow {
    /// Makes the group, for the disk of `place`.
    ///
    /// # Errors
    /// Why the kernel cannot limit the writes.
    pub(super) fn new(place: &Path) -> Result<Self, Failure> {
        let disk = disk_of(place)?;
        let (first, second) = (Path::new("/sys/fs/cgroup/blkio"), Path::new("/sys/fs/cgroup"));
        let (base, file, text) = if first.is_dir() {
            (first, "blkio.throttle.write_iops_device", format!("{disk} {WRITES_A_SECOND}"))
        } else {
            std::fs::write(second.join("cgroup.subtree_control"), "+io")?;
            (second, "io.max", format!("{disk} wiops={WRITES_A_SECOND}"))
        };
        let group = base.join(format!("enfilade-bench-{}", std::process::id()));
        std::fs::create_dir(&group)?;
        let slow = Slow(group);
        std::fs::write(slow.0.join(file), text)?;
        Ok(slow)
    }

    fn add(&self, process: u32) -> Result<(), Failure> {
        Ok(std::fs::write(self.0.join("cgroup.procs"), process.to_string())?)
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The device numbers (major and minor) of the disk on which this place is.
fn disk_of(place: &Path) -> Result<String, Failure> {
    let device = std::fs::metadata(place)?.dev();
    let numbers = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let device = std::fs::canonicalize(format!("/sys/dev/block/{numbers}"))
        .map_err(|_| format!("`{}` is not on a disk", place.display()))?;
    // The limit is for a whole disk, and not for a partition.
    match device.join("partition").exists() {
        true => Ok(std::fs::read_to_string(device.join("../dev"))?.trim().to_owned()),
        false => Ok(numbers),
    }
}

/// The other process. It ends when dropped.
pub(super) struct Writer {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts the process. It commits changes one after the other from now on.
    pub(super) fn start(store: &Path, slow: &Slow) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("passage-commits").arg(store).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Child::start(&mut command)?;
        let mut said = BufReader::new(child.0.stdout.take().ok_or("the process has no output")?);
        said.read_line(&mut String::new())?;
        slow.add(child.0.id())?;
        child.0.stdin.as_mut().ok_or("the process has no input")?.write_all(b"begin\n")?;
        Ok(Writer { child, said })
    }

    /// Ends the process. Returns the commits per second.
    pub(super) fn end(mut self) -> Result<f64, Failure> {
        drop(self.child.0.stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        line.trim().parse().map_err(|_| "the process that commits failed".into())
    }
}

/// Runs in the other process. Begins to commit after the first line of its input, stops at the end of the input, and prints the commits per second.
pub(crate) fn commit(store: &Path) -> Result<(), Failure> {
    let lmdb = Lmdb::open(store)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    out.flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let (is_over, began, mut count) = (AtomicBool::new(false), now(), 0_u64);
    std::thread::scope(|scope| -> Result<(), Failure> {
        scope.spawn(|| {
            let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            commit_once(&lmdb, count)?;
            count += 1;
        }
        Ok(())
    })?;
    writeln!(out, "{}", count as f64 / began.elapsed().as_secs_f64())?;
    Ok(())
}

/// Changes a role of another user on another datastore.
fn commit_once(lmdb: &Lmdb, n: u64) -> Result<(), Failure> {
    let mut change = Change::new(stores::audit("role assign"));
    let who = Who::User(UserId::from_bytes(stores::id(1, 5)));
    let key = AssignmentKey { path: "/datastore/other".parse()?, who };
    let roles = vec![(Role::Audit, n.is_multiple_of(2))];
    lmdb.commit(change.put(&key, &Assignment { roles, fault: None }))?;
    Ok(())
}
