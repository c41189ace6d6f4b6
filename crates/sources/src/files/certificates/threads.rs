//! Reads many files with threads. Each thread waits for its own file.

use super::{BYTES_MAX, Each, Engine, FLAGS, open_directory, regular, stat_of, too_large};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::retry_on_intr;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of names that a thread takes at once.
const BATCH: usize = 16;
/// The number of threads if the files are read from a disk.
const COLD: usize = 128;
/// The number of reads that a thread measures to find out whether the files are read from a disk.
const SAMPLE: usize = 256;
/// If a read takes longer than this time on average, the files are probably read from a disk, and not from the page cache.
const WARM_NANOS: u64 = 50_000;

/// Reads files with twice as many threads as cores, and with more threads if the files are read from a disk.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    warm: usize,
}

impl Default for Threads {
    fn default() -> Self {
        Self::new(2 * std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Threads {
    /// An engine that uses `warm` threads as long as the files are in the page cache.
    pub fn new(warm: usize) -> Self {
        Threads { warm: warm.max(1) }
    }
}

impl Engine for Threads {
    fn name(&self) -> String {
        format!("{} threads", self.warm)
    }

    fn read(&self, directory: &Path, names: &[OsString], each: &Each<'_>) -> io::Result<()> {
        let directory = open_directory(directory)?;
        let (next, is_cold) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = ReadJob { directory: &directory, names, each, next: &next, is_cold: &is_cold };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..self.warm).map(|_| scope.spawn(|| work.run(true))).collect();
            while running.iter().any(|thread| !thread.is_finished()) {
                if is_cold.swap(false, Ordering::Relaxed) {
                    (self.warm..COLD).for_each(|_| drop(scope.spawn(|| work.run(false))));
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        Ok(())
    }
}

struct ReadJob<'w> {
    directory: &'w OwnedFd,
    names: &'w [OsString],
    each: &'w Each<'w>,
    next: &'w AtomicUsize,
    is_cold: &'w AtomicBool,
}

impl ReadJob<'_> {
    fn run(&self, measures: bool) {
        let mut buffer = Vec::new();
        let mut sample = if measures { SAMPLE } else { 0 };
        let mut waited = 0;
        loop {
            let from = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(rest) = self.names.get(from..).filter(|rest| !rest.is_empty()) else { return };
            for (at, name) in rest.iter().take(BATCH).enumerate() {
                let began = if sample > 0 { monotonic_nanos() } else { 0 };
                let read = self.one(name, &mut buffer);
                if sample > 0 {
                    sample -= 1;
                    waited += monotonic_nanos().saturating_sub(began);
                    if sample == 0 && waited / SAMPLE as u64 > WARM_NANOS {
                        self.is_cold.store(true, Ordering::Relaxed);
                    }
                }
                (self.each)(from + at, read.map(|()| buffer.as_slice()));
            }
        }
    }

    fn one(&self, name: &OsString, buffer: &mut Vec<u8>) -> Result<(), String> {
        let said = |why: rustix::io::Errno| io::Error::from(why).to_string();
        let flags = FLAGS | OFlags::CLOEXEC;
        let file = retry_on_intr(|| openat(self.directory, name, flags, Mode::empty())).map_err(said)?;
        let found = stat_of(&file)?;
        regular(&found)?;
        buffer.clear();
        // The buffer is one byte larger than the file, so that a single read shows that the file ends.
        buffer.reserve(found.st_size as usize + 1);
        loop {
            let count = retry_on_intr(|| rustix::io::read(&file, rustix::buffer::spare_capacity(buffer)))
                .map_err(said)?;
            if count == 0 {
                return Ok(());
            }
            if buffer.len() as u64 > BYTES_MAX {
                return Err(too_large());
            }
            if buffer.len() as u64 == found.st_size as u64 && buffer.len() < buffer.capacity() {
                return Ok(());
            }
            buffer.reserve(4096);
        }
    }
}

fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
