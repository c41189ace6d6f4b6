//! Reads the files that people edit, and updates the facts.

use crate::clock;
use enfilade_facts::Source;
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::lmdb::Lmdb;

/// Reads the files, updates the facts, and records the time of the reading for all processes of the machine. Returns the problems in the files.
pub(crate) fn look(store: &Lmdb, facts: &dyn Source, mirror: &mut Mirror) -> anyhow::Result<Vec<String>> {
    let began = clock::now();
    let outcome = mirror.look(facts, began)?;
    store.mirror_leader().looked(began.tick_millis, clock::now().tick_millis);
    Ok(outcome.problems)
}
