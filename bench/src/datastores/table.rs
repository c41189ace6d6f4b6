//! Repeats the table of Proxmox's own measurement: numbers of datastores and of lookups. Each operation ends at once, or all operations end together.

use super::{ROUNDS, STORES, TABLE, name};
use crate::Failure;
use crate::report::{Paired, Report};
use crate::samples::{Estimate, Samples};
use crate::stopwatch::now;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind};
use enfilade_passage::House;
use enfilade_peers::datastore_cfg::ServerFiles;

/// A cell of the table: the number of datastores, the number of lookups of each datastore, and whether all operations end together.
#[derive(Clone, Copy)]
struct Cell {
    stores: u64,
    each: u64,
    ends_together: bool,
}

/// The rebuilt Proxmox Backup Server and Enfilade, with the names of the datastores.
struct Servers<'s> {
    theirs: &'s ServerFiles,
    ours: &'s House,
    names: Vec<DatastoreName>,
    texts: Vec<String>,
}

pub(super) fn run(
    report: &mut Report,
    theirs: &ServerFiles,
    ours: &House,
    small: bool,
) -> Result<(), Failure> {
    let names: Vec<DatastoreName> = (0..STORES).map(name).collect::<Result<_, _>>()?;
    let texts = names.iter().map(ToString::to_string).collect();
    let servers = Servers { theirs, ours, names, texts };
    let mut worst: Option<Estimate> = None;
    for (stores, each) in TABLE {
        for ends_together in [false, true] {
            let ratio = measure(report, &servers, Cell { stores, each, ends_together }, small)?;
            worst = worst.filter(|worst| worst.high >= ratio.high).or(Some(ratio));
        }
    }
    worst.into_iter().for_each(|worst| report.goal("cells", worst));
    Ok(())
}

/// Measures a cell. Returns the time of Enfilade, divided by the time of the rebuilt version 4.2.
fn measure(report: &mut Report, servers: &Servers<'_>, cell: Cell, small: bool) -> Result<Estimate, Failure> {
    let count = cell.stores * cell.each;
    // Warm-up: after these lookups, Enfilade has its index of datastores, and the counter files of the rebuilt server exist.
    servers.theirs(cell, true, count)?;
    servers.ours(cell)?;
    let (mut before, mut after, mut own) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        // Every uncached lookup does the same work, so a smaller number of lookups is accurate enough.
        before.push(servers.theirs(cell, false, if small { 10 } else { 100 })?);
        after.push(servers.theirs(cell, true, count)?);
        own.push(servers.ours(cell)?);
    }
    let how = if cell.ends_together { "dropped together" } else { "dropped at once" };
    let what = format!("{} stores × {}, {how}", cell.stores, cell.each);
    report.middle(&format!("{what}, rebuilt 4.1"), STORES, &before, "µs");
    let (peer, n, unit) = ("rebuilt 4.2", STORES, "µs");
    let paired = Paired { what, n, unit, ours: &own, peer, theirs: &after, floor: None };
    Ok(report.compare(None, paired))
}

impl Servers<'_> {
    /// The microseconds of a lookup and the end of its operation, by the rebuilt server.
    fn theirs(&self, cell: Cell, is_cached: bool, times: u64) -> Result<f64, Failure> {
        let mut held = Vec::new();
        let began = now();
        for n in 0..times {
            let name = self.texts.get(cell.store(n)).ok_or("no name")?;
            let operation = self.theirs.look_up(name, is_cached)?;
            if cell.ends_together { held.push(operation) } else { operation.end()? }
        }
        held.into_iter().try_for_each(|operation| operation.end())?;
        Ok(began.elapsed().as_secs_f64() * 1e6 / times as f64)
    }

    /// The microseconds of a lookup and the end of its operation, by Enfilade.
    fn ours(&self, cell: Cell) -> Result<f64, Failure> {
        let count = cell.stores * cell.each;
        let mut held = Vec::with_capacity(usize::try_from(count)?);
        let began = now();
        for n in 0..count {
            let name = self.names.get(cell.store(n)).ok_or("no name")?;
            let operation = self.ours.look_up(name, OperationKind::Write).map_err(|why| why.to_string())?;
            if cell.ends_together {
                held.push(operation)
            }
        }
        drop(held);
        Ok(began.elapsed().as_secs_f64() * 1e6 / count as f64)
    }
}

impl Cell {
    /// The index of the datastore for the lookup with this number.
    fn store(self, n: u64) -> usize {
        usize::try_from(n % self.stores).unwrap_or(0)
    }
}
