//! How much space etcd needs after very many changes.

use crate::Failure;
use crate::report::Report;
use crate::samples::Estimate;
use crate::stopwatch::now;
use enfilade_facts::journal::digest;
use enfilade_facts::{Change, Read as _, Revision, Source as _};
use enfilade_fleet::{Etcd, Log};
use enfilade_sources::lmdb::Lmdb;
use enfilade_testkit::Etcd as Machine;
use std::path::Path;
use std::time::Duration;

pub(super) const CHANGES: usize = 1_000_000;
/// The number of changes in an entry of the log. A server with many clients writes entries with many changes.
pub(super) const AT_ONCE: usize = 100;
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long after the last change the size is measured. By then etcd has deleted the old versions of its keys.
pub(super) const REST: Duration = Duration::from_secs(150);

/// Adds entries to a log. A member applies the entries, and trims the log. Reports the space that the data of etcd needs afterwards, and the greatest
/// space that the data needed during the changes, in MiB.
pub(super) fn run(report: &mut Report, place: &Path, small: bool) -> Result<(), Failure> {
    let machine = Machine::start_compacting();
    let addresses = [machine.address.clone()];
    let (at, state) = super::stores(place, 2)?;
    super::begin(&addresses, "/size", (at, state), 2)?;
    let member = super::member(place, &addresses, ("/size", at), (1, None))?;
    super::wait_until(|| member.is_current());
    // The entries are made with a store that only this function changes.
    let author = Lmdb::open(&place.join("0"))?;
    let log = Log::new(Etcd::at(&addresses, None)?, "/size", at.store).of_member("m0");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (count, mut most, mut looked) = (if small { 1_000 } else { CHANGES }, 0.0_f64, now());
    for first in (0..count).step_by(AT_ONCE) {
        let changes = (first..first + AT_ONCE).map(super::change).collect::<Result<Vec<_>, _>>()?;
        let before = author.at().revision;
        let after = |(nth, change): (u64, &Change)| {
            let mut change = change.clone();
            change.only_after(Revision(before.0 + nth));
            change
        };
        let applied: Vec<Change> = (0..).zip(&changes).map(after).collect();
        author.commit_each(&applied).into_iter().collect::<Result<Vec<_>, _>>()?;
        let state = author.read(digest)??;
        loop {
            let head = runtime.block_on(log.head())?;
            match runtime.block_on(log.append(head, &changes, state)) {
                // The member trimmed the log meanwhile.
                Err(enfilade_fleet::LogError::Conflict) => {}
                added => {
                    added?;
                    break;
                }
            }
        }
        if looked.elapsed() > LOOK_EVERY {
            (most, looked) = (most.max(in_use(&machine)?), now());
        }
    }
    super::wait_until(|| member.numbers().behind == 0 || !member.is_current());
    if let Some(why) = member.why() {
        return Err(why.into());
    }
    most = most.max(in_use(&machine)?);
    // During this pause etcd finishes its work.
    #[expect(clippy::disallowed_methods, reason = "it waits for another process")]
    std::thread::sleep(if small { Duration::ZERO } else { REST });
    let after = in_use(&machine)?;
    report.once("etcd, space in use during changes, at most", count as u64, most, "MiB");
    report.once("etcd, space in use after changes", count as u64, after, "MiB");
    report.goal("log-size-after", Estimate::once(after));
    Ok(())
}

/// The size of the data of etcd without free pages, in MiB.
fn in_use(machine: &Machine) -> Result<f64, Failure> {
    let status: serde_json::Value =
        serde_json::from_str(&machine.control(&["endpoint", "status", "--write-out=json"]))?;
    let bytes = status.pointer("/0/Status/dbSizeInUse").and_then(serde_json::Value::as_f64);
    bytes.map(|bytes| bytes / f64::from(1 << 20)).ok_or_else(|| format!("no size in {status}").into())
}
