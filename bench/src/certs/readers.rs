//! The ways to read the files of a directory of certificates, without parsing them.

use super::phases::Phases;
use super::{COLD_ROUNDS, MILLION, ROUNDS, drop_caches};
use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::now;
use enfilade_sources::files::certificates::{Engine, Ring, Threads, list};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads all files, so that they are in the page cache.
pub(super) fn read_all(directory: &Path) -> Result<(), Failure> {
    Ok(Threads::default().read(directory, &list(directory)?.names, &|_, _| ())?)
}

/// Measures each way to read the files, without parsing them.
pub(super) fn run(
    report: &mut Report,
    directory: &Path,
    n: u64,
    is_cold_possible: bool,
) -> Result<(), Failure> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Threads::new(1)), Box::new(Threads::default())];
    match Ring::probe() {
        Ok(ring) => engines.extend([Box::new(Phases) as Box<dyn Engine>, Box::new(ring)]),
        Err(why) => report.missing("reading with io_uring", why.to_string()),
    }
    for engine in engines {
        let bytes = AtomicU64::new(0);
        let read = |names: &[OsString]| {
            let each = |_: usize, read: Result<&[u8], String>| {
                bytes.fetch_add(read.map_or(0, |read| read.len() as u64), Ordering::Relaxed);
            };
            engine.read(directory, names, &each)
        };
        let mut warm = Samples::default();
        // Reading very many files takes seconds, so fewer rounds are accurate enough.
        let (rounds, cold_rounds) = if n >= MILLION as u64 { (2, 1) } else { (ROUNDS, COLD_ROUNDS) };
        for _ in 0..rounds {
            let began = now();
            read(&list(directory)?.names)?;
            warm.push(began.elapsed().as_secs_f64() * 1e3);
        }
        report.middle(&format!("list and read, {}, warm", engine.name()), n, &warm, "ms");
        if is_cold_possible {
            let mut cold = Samples::default();
            for _ in 0..cold_rounds {
                drop_caches();
                let began = now();
                read(&list(directory)?.names)?;
                cold.push(began.elapsed().as_secs_f64() * 1e3);
            }
            report.middle(&format!("list and read, {}, cold", engine.name()), n, &cold, "ms");
        }
    }
    Ok(())
}
