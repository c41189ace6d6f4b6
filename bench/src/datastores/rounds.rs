//! Repeats the runs of Proxmox's own measurement, except the runs of its table, which are in `table.rs`.

use super::{STORES, house, look, name};
use crate::Failure;
use crate::report::Report;
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stopwatch::now;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::House;
use enfilade_peers::datastore_cfg::ServerFiles;
use std::path::Path;

/// Measures 100,000 lookups of each of 5 datastores, and the first and the second lookup of every datastore after a start.
pub(super) fn run(
    report: &mut Report,
    theirs: &ServerFiles,
    ours: &House,
    scratch: &Scratch,
    run: &Path,
    small: bool,
) -> Result<(), Failure> {
    let names: Vec<DatastoreName> = (0..STORES).map(name).collect::<Result<_, _>>()?;
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    // The rebuilt Proxmox server takes half a minute for all lookups; a fiftieth of them is accurate enough.
    let (times, part) = if small { (1_000, 100) } else { (100_000, 10_000) };
    let each = |count: usize| (0..5_usize).flat_map(move |store| (0..count).map(move |_| store));
    let began = now();
    for store in each(times) {
        look(ours, names.get(store).ok_or("no name")?);
    }
    let own = began.elapsed().as_secs_f64() * 1e6 / (5 * times) as f64;
    let began = now();
    for store in each(part / 5) {
        theirs.look_up(texts.get(store).ok_or("no name")?, true)?.end()?;
    }
    let after = began.elapsed().as_secs_f64() * 1e6 / part as f64;
    report.once("ours, 5 stores × 100,000", STORES, own, "µs");
    report.once("after, 5 stores × 100,000 (a tenth of it)", STORES, after, "µs");
    report.once("after to ours, 5 stores × 100,000", STORES, after / own, "times");
    let mut figures: [Samples; 4] = Default::default();
    for round in 0..if small { 1 } else { 5 } {
        let theirs = ServerFiles::new(
            &scratch.path().join(format!("cold-{round}")),
            &run.join(format!("cold-{round}")),
            STORES,
        )?;
        let house = house(&scratch.path().join(format!("cold-ours-{round}")), STORES)?;
        let [after_cold, after_warm, own_cold, own_warm] = &mut figures;
        for samples in [after_cold, after_warm] {
            let began = now();
            texts.iter().try_for_each(|name| theirs.look_up(name, true)?.end())?;
            samples.push(began.elapsed().as_secs_f64() * 1e6 / STORES as f64);
        }
        for samples in [own_cold, own_warm] {
            let began = now();
            names.iter().for_each(|name| look(&house, name));
            samples.push(began.elapsed().as_secs_f64() * 1e6 / STORES as f64);
        }
    }
    let whats = [
        "after, each store once, cold",
        "after, and once more",
        "ours, each store once, cold",
        "ours, and once more",
    ];
    for (what, samples) in whats.into_iter().zip(&figures) {
        report.middle(what, STORES, samples, "µs");
    }
    Ok(())
}
