//! Deletes the records that depended on removed records, in small transactions.

use crate::home::{Home, server_change_context};
use enfilade_admin::keystone::sweep;
use enfilade_passage::House;
use std::sync::Arc;
use std::time::Duration;

/// How often the thread looks for records to delete.
const EVERY: Duration = Duration::from_secs(1);
/// The pause between two transactions, in which other changes can run.
const PAUSE: Duration = Duration::from_millis(2);

/// Starts the thread that deletes the dependents of removed records.
pub(crate) fn follow(home: &Home, house: &Arc<House>) -> anyhow::Result<()> {
    let (source, files, house) = (Arc::clone(&home.facts.source), home.files.clone(), Arc::clone(house));
    std::thread::Builder::new().name("sweeping".into()).spawn(move || {
        loop {
            let ctx = server_change_context(&*source, &files, house.reserved(), house.now());
            // In a fleet, only the files member deletes records: one machine is enough. After an error, the remaining records stay unreachable, and
            // are deleted later.
            let more = files.is_followed() && sweep(&ctx).unwrap_or(false);
            std::thread::park_timeout(if more { PAUSE } else { EVERY });
        }
    })?;
    Ok(())
}
