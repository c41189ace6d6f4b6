//! A loop without a server makes each file as Enfilade does, and syncs each file and the directory. If files are made one at a time, no server can
//! make and sync a file at a lower cost than this loop. If several files are made at once, the loop is measured in two ways: with a sync of the
//! directory for each file, and with a sync of the directory for all files that end at about the same time, as Enfilade does.

use super::{FILE_BYTES, Spent, remove_all};
use crate::Failure;
use crate::stopwatch::{cpu_nanos, now};
use rustix::fs::{RenameFlags, renameat_with};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// What the loop syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syncs {
    Nothing,
    /// Each file, and then its directory.
    Each,
    /// Each file. One sync of the directory is for all threads that wait for it.
    Shared,
}

/// Makes `files` files on `threads` threads, and removes them. Returns the cost to make the files.
pub(super) fn make(directory: &Path, files: usize, threads: usize, syncs: Syncs) -> Result<Spent, Failure> {
    let next = AtomicUsize::new(0);
    let shared = SharedSync::default();
    rustix::fs::sync();
    let (before, began) = (cpu_nanos(std::process::id())?, now());
    std::thread::scope(|scope| {
        let run = || -> std::io::Result<()> {
            let maker = Maker { place: directory, open: File::open(directory)?, syncs, shared: &shared };
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= files {
                    return Ok(());
                }
                maker.file(n)?;
            }
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running
            .into_iter()
            .try_for_each(|one| -> Result<(), Failure> { Ok(one.join().map_err(|_| "a thread panicked")??) })
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu = (cpu_nanos(std::process::id())? - before) / files as f64 / 1e3;
    remove_all(directory, files)?;
    Ok(Spent { seconds, cpu })
}

struct Maker<'m> {
    place: &'m Path,
    open: File,
    syncs: Syncs,
    shared: &'m SharedSync,
}

impl Maker<'_> {
    /// Makes a file under another name, and renames it when it is complete.
    fn file(&self, n: usize) -> std::io::Result<()> {
        let (hidden, name) = (format!(".f{n}"), format!("f{n}"));
        let mut file = File::create_new(self.place.join(&hidden))?;
        file.write_all(&[b'x'; FILE_BYTES])?;
        if self.syncs != Syncs::Nothing {
            file.sync_all()?;
        }
        renameat_with(&self.open, &*hidden, &self.open, &*name, RenameFlags::NOREPLACE)?;
        match self.syncs {
            Syncs::Nothing => Ok(()),
            Syncs::Each => self.open.sync_all(),
            Syncs::Shared => self.shared.sync(&self.open),
        }
    }
}

/// The syncs of a directory that several threads share.
#[derive(Default)]
struct SharedSync {
    counts: Mutex<Counts>,
    ended: Condvar,
}

/// The numbers of the syncs that have begun and that have ended. At most one sync runs at a time.
#[derive(Default)]
struct Counts {
    begun: u64,
    ended: u64,
}

impl SharedSync {
    /// Returns after the end of a sync that began after this call.
    fn sync(&self, directory: &File) -> std::io::Result<()> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = counts.begun + 1;
        while counts.ended < needed {
            if counts.begun > counts.ended {
                counts = self.ended.wait(counts).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            counts.begun += 1;
            drop(counts);
            let synced = directory.sync_all();
            counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.ended = counts.begun;
            self.ended.notify_all();
            synced?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_loop_makes_each_file_once_and_removes_it() {
        let scratch = Scratch::new("uploads-floor").unwrap();
        for syncs in [Syncs::Nothing, Syncs::Each, Syncs::Shared] {
            let spent = make(scratch.path(), 50, 4, syncs).unwrap();
            assert!(spent.seconds > 0.0 && spent.cpu > 0.0);
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        }
    }
}
