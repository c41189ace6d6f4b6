//! Checks whether the audit log contains every change.

use super::{Finding, error, warning, well};
use crate::{operations, output};
use enfilade_facts::tables::LogEntry;
use enfilade_facts::{Read as _, Revision, SourceError};
use enfilade_sources::lmdb::Lmdb;
use std::path::Path;
use std::time::Duration;

/// How long the check waits for a running server to write the newest changes. The server looks for changes every half second.
const PATIENCE: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(100);

/// The finding about the audit log: whether some changes have no line in it yet, and the reason.
pub(super) fn changes(data: &Path, lmdb: &Lmdb) -> Finding {
    let what = "audit log";
    let mut waited = Duration::ZERO;
    loop {
        let count = match waiting(lmdb) {
            Err(why) => return error(what, why.to_string()),
            Ok(0) => return well(what, "complete: the audit log contains every change"),
            Ok(count) => count,
        };
        let servers = operations::everybody(data).unwrap_or_default();
        let servers: Vec<u32> = servers.iter().map(|server| server.id).collect();
        if servers.is_empty() || waited >= PATIENCE {
            return warning(what, said_of(count, &servers));
        }
        std::thread::park_timeout(STEP);
        waited += STEP;
    }
}

/// The number of changes that no server has written to the audit log yet. Some revisions have no entry in the store, such as the revisions before a
/// restore. These revisions are not counted, because no server writes them to the log.
fn waiting(lmdb: &Lmdb) -> Result<usize, SourceError> {
    let shipped = lmdb.status().shipped;
    lmdb.read(|view| {
        let newest = view.head()?.revision;
        if newest <= shipped {
            return Ok(0);
        }
        let first = view.any_near::<LogEntry>(&Revision(shipped.0 + 1))?.map(|(revision, _)| revision);
        let Some(first) = first.filter(|first| shipped < *first) else { return Ok(0) };
        let mut count = 0;
        for revision in (first.0..=newest.0).map(Revision) {
            count += usize::from(view.get::<LogEntry>(&revision)?.is_some());
        }
        Ok(count)
    })?
}

fn said_of(count: usize, servers: &[u32]) -> String {
    let changes = output::counted(count, "change is", "changes are");
    let Some(first) = servers.first() else {
        return format!(
            "{changes} not in the log yet, because no server runs: the next server writes them at its start"
        );
    };
    // The standard error of another user's process cannot be examined.
    let place = std::fs::read_link(format!("/proc/{first}/fd/2"));
    let place = place.map(|place| format!(" `{}`", place.display())).unwrap_or_default();
    format!(
        "{changes} not in the log, although a server runs (process {first}): the server cannot write to its standard error{place}, or the log \
         collector does not read; free disk space for the log, or check the log collector (`systemctl status systemd-journald`). The server writes \
         these changes later, but lines of requests and warnings are lost (`enfilade_log_lines_lost_total` in the metrics counts them)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_and_the_next_step_are_named() {
        let said = said_of(1, &[]);
        assert!(said.starts_with("1 change is not in the log yet, because no server runs"), "{said}");
        let own = std::process::id();
        let said = said_of(7, &[own]);
        assert!(said.starts_with("7 changes are not in the log, although a server runs"), "{said}");
        let place = std::fs::read_link("/proc/self/fd/2").unwrap();
        assert!(said.contains(&format!("standard error `{}`", place.display())), "{said}");
    }
}
