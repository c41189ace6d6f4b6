//! Measures GET of a file at the top of a datastore, and of files in deep directories.

use super::client::{answer, connect, request};
use super::files::Maker;
use super::peer::Peer;
use crate::Failure;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use enfilade_facts::limits::PATH_DEPTH_MAX;
use std::io::Write as _;
use std::path::Path;

/// The number of names in the paths. Enfilade refuses the last path, because it has too many names.
const DEPTHS: [usize; 3] = [1, PATH_DEPTH_MAX, 100];
const BYTES: usize = 1_000;
const TURNS: usize = 5;

/// The path of a file. The path has `depth` names.
fn path(depth: usize) -> String {
    format!("{}/file", "/d".repeat(depth - 1))
}

/// Makes the files.
pub(super) fn make(files: &Path) -> Result<(), Failure> {
    let maker = Maker::new()?;
    let lowest = DEPTHS.into_iter().max().unwrap_or(1);
    for depth in 1..=lowest {
        let place = files.join(format!(".{}", path(depth)));
        if let Some(directory) = place.parent().filter(|_| depth > 1) {
            maker.directory(directory, 0o755)?;
        }
        if DEPTHS.contains(&depth) {
            maker.file(&place, &super::files::content(BYTES))?;
        }
    }
    Ok(())
}

/// Measures GET of each file by each server in turns.
pub(super) fn run(report: &mut Report, peers: &[Peer], small: bool) -> Result<(), Failure> {
    let gets = if small { 200 } else { 2_000 };
    let mut all: Vec<[Samples; DEPTHS.len()]> = peers.iter().map(|_| Default::default()).collect();
    for _ in 0..TURNS {
        for at in 0..DEPTHS.len() {
            for (peer, samples) in peers.iter().zip(&mut all) {
                let (Some(samples), Some(depth)) = (samples.get_mut(at), DEPTHS.get(at)) else { continue };
                samples.push(microseconds(peer, *depth, gets)?);
            }
        }
    }
    for (at, depth) in DEPTHS.into_iter().enumerate() {
        let of: Vec<&Samples> = all.iter().filter_map(|samples| samples.get(at)).collect();
        tell(report, depth, &of);
    }
    for (peer, [top, low, _]) in peers.iter().zip(&all) {
        let what = format!("GET of a file at this depth, CPU of each, to that at depth 1, {}", peer.name);
        report.estimate(&what, PATH_DEPTH_MAX as u64, low.over(top).mean(), "times");
    }
    Ok(())
}

fn tell(report: &mut Report, depth: usize, of: &[&Samples]) {
    let (n, unit) = (depth as u64, "µs");
    match of {
        [ours, theirs] if depth <= PATH_DEPTH_MAX => {
            let what = "GET of a file at this depth, CPU of each".to_owned();
            report.compare(None, Paired { what, n, unit, ours, peer: "Apache", theirs, floor: None });
        }
        _ => {
            let refused = if depth > PATH_DEPTH_MAX { "refused with 400, " } else { "" };
            let names = [format!("{refused}CPU of each, Enfilade"), "CPU of each, Apache".to_owned()];
            for (samples, name) in of.iter().zip(names) {
                report.middle(&format!("GET of a file at this depth, {name}"), n, samples, unit);
            }
        }
    }
}

/// The mean CPU of a GET, from many GET requests on one connection.
fn microseconds(peer: &Peer, depth: usize, gets: usize) -> Result<f64, Failure> {
    let is_refused = peer.name == "Enfilade" && depth > PATH_DEPTH_MAX;
    let request = request(peer, "GET", &path(depth), "", 0);
    let (mut stream, mut buffer) = (connect(peer.address)?, vec![0; 64 * 1024]);
    let before = (peer.cpu)()?;
    for _ in 0..gets {
        stream.write_all(&request)?;
        match answer(&mut stream, &mut buffer)? {
            (200, BYTES) if !is_refused => {}
            (400, _) if is_refused => {}
            got => return Err(format!("{}: GET at depth {depth} is answered with {got:?}", peer.name).into()),
        }
    }
    Ok(((peer.cpu)()? - before) / gets as f64 * 1e6)
}
