//! Taking away, piece by piece, what hung on something that was removed.

use crate::home::{Home, server_desk};
use enfilade_admin::keystone::sweep;
use enfilade_passage::House;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether there is anything.
const EVERY: Duration = Duration::from_secs(1);
/// Between two pieces: whoever wants to change something comes in between.
const PAUSE: Duration = Duration::from_millis(2);

/// Begins it.
pub(crate) fn follow(home: &Home, house: &Arc<House>) -> anyhow::Result<()> {
    let (source, files, house) = (Arc::clone(&home.source), home.files.clone(), Arc::clone(house));
    std::thread::Builder::new().name("sweeping".into()).spawn(move || {
        loop {
            let desk = server_desk(&*source, &files, house.reserved(), house.now());
            // What could not be taken away now stays unreachable, and is taken away another time.
            let more = sweep(&desk).unwrap_or(false);
            std::thread::park_timeout(if more { PAUSE } else { EVERY });
        }
    })?;
    Ok(())
}
