//! A loop without a server makes each file as Enfilade does, and syncs the directory after each file. If files are made
//! one at a time, no server can make and sync a file at a lower cost than this loop. For several files at once, a lower cost is possible, because
//! Enfilade syncs the directory once for files that end together.

use super::{FILE_BYTES, Spent, remove_all};
use crate::Failure;
use crate::stopwatch::{cpu_nanos, now};
use rustix::fs::{RenameFlags, renameat_with};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes this many files on this many threads, and removes them. With `syncs` each file and then its directory is synced.
pub(super) fn make(directory: &Path, files: usize, threads: usize, syncs: bool) -> Result<Spent, Failure> {
    let next = AtomicUsize::new(0);
    rustix::fs::sync();
    let (before, began) = (cpu_nanos(std::process::id())?, now());
    std::thread::scope(|scope| {
        let run = || -> std::io::Result<()> {
            let maker = Maker { place: directory, open: File::open(directory)?, syncs };
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
    syncs: bool,
}

impl Maker<'_> {
    /// Makes a file under another name, and renames it when it is complete.
    fn file(&self, n: usize) -> std::io::Result<()> {
        let (hidden, name) = (format!(".f{n}"), format!("f{n}"));
        let mut file = File::create_new(self.place.join(&hidden))?;
        file.write_all(&[b'x'; FILE_BYTES])?;
        if self.syncs {
            file.sync_all()?;
        }
        renameat_with(&self.open, &*hidden, &self.open, &*name, RenameFlags::NOREPLACE)?;
        if self.syncs {
            self.open.sync_all()?;
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
        for syncs in [true, false] {
            let spent = make(scratch.path(), 50, 4, syncs).unwrap();
            assert!(spent.seconds > 0.0 && spent.cpu > 0.0);
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        }
    }
}
