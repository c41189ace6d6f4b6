//! The part of a commit that no program can avoid: writing the changed pages, and waiting until they are on the disk.

use crate::Failure;
use crate::samples::Samples;
use crate::stopwatch::cpu_nanos;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const PAGE: usize = 4_096;
/// The number of pages of the file.
const PAGES: u64 = 65_536;
/// The distance between two written pages, so that the pages of a commit are not next to each other. It is a prime number, so that all pages are
/// used.
const STRIDE: u64 = 7_919;
const TURNS: usize = 7;
const COMMITS: u32 = 400;

/// The CPU of a loop that writes `kib` KiB in pages and syncs the pages, in microseconds for each commit.
pub(super) fn written_alone(scratch: &Path, kib: f64) -> Result<Samples, Failure> {
    let file = File::create(scratch.join("pages"))?;
    let page = vec![7; PAGE];
    for at in 0..PAGES {
        file.write_all_at(&page, at * PAGE as u64)?;
    }
    file.sync_all()?;
    let pages = (kib * 1024.0 / PAGE as f64).round() as u64;
    let (mut samples, mut at) = (Samples::default(), 0);
    for _ in 0..TURNS {
        let before = cpu_nanos(std::process::id())?;
        for _ in 0..COMMITS {
            for _ in 0..pages {
                at = (at + STRIDE) % PAGES;
                file.write_all_at(&page, at * PAGE as u64)?;
            }
            file.sync_data()?;
        }
        samples.push((cpu_nanos(std::process::id())? - before) / f64::from(COMMITS) / 1e3);
    }
    Ok(samples)
}
