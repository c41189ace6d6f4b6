//! Upgrades and compacts the store of facts, for a command or at the start of a server, and describes the result.

use crate::clock;
use crate::home::{Installation, caller};
use crate::progress::Progress;
use enfilade_facts::{At, AuditRecord};
use enfilade_sources::lmdb::{CompactError, Compaction, Lmdb, Older, OpenError, Plan, UpgradeError};

/// Opens the store of facts.
pub(crate) fn open(installation: &Installation) -> Result<Lmdb, OpenError> {
    Lmdb::open_for(&installation.facts(), installation.config.facts.terms())
}

/// Opens the store for an upgrade, if it has the format of an older version.
pub(crate) fn older(installation: &Installation) -> Result<Option<Older>, OpenError> {
    Older::open(&installation.facts(), installation.config.facts.terms())
}

/// The audit record of a change by this process: its author, its description and its time.
pub(crate) fn audit(what: String) -> AuditRecord {
    AuditRecord { who: caller(), what, unix_seconds: clock::now().unix_seconds, request: None }
}

/// Makes a backup of the store, and then upgrades the store.
pub(crate) fn upgrade(older: Older) -> Result<(Plan, At), UpgradeError> {
    let mut progress = Progress::start("upgrading the facts");
    older.upgrade(&audit(String::new()), &mut |done, all| progress.show(done, all))
}

/// Describes an upgrade.
pub(crate) fn told(plan: &Plan) -> String {
    let Plan { from, to, records, tables, backup } = plan;
    let new: Vec<&str> = tables.iter().map(|table| table.name()).collect();
    let new = if new.is_empty() { String::new() } else { format!("; new tables: {}", new.join(", ")) };
    format!(
        "format {from} to {to}: {records} records{new}; backup file of the upgrade: `{}`",
        backup.display()
    )
}

/// Compacts the store.
pub(crate) fn compact(installation: &Installation) -> Result<(Compaction, At), CompactError> {
    let mut progress = Progress::start("compacting the facts");
    let audit = audit(String::new());
    Lmdb::compact(&installation.facts(), installation.config.facts.terms(), &audit, &mut |done, all| {
        progress.show(done, all)
    })
}

/// Describes a compaction.
pub(crate) fn shorter(done: &Compaction) -> String {
    let (before, after) = (mebibytes(done.bytes_before), mebibytes(done.bytes_after));
    format!("{} records, from {before} to {after}: {}", done.records, mebibytes(done.won_bytes()))
}

/// A size in MiB, as text.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
