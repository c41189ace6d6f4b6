//! One look at the files people edit.

use crate::clock;
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::lmdb::Lmdb;

/// Looks, and records the end of the look for all processes of the machine.
pub(crate) fn look(source: &Lmdb, mirror: &mut Mirror) -> anyhow::Result<Vec<String>> {
    let began = clock::now();
    let outcome = mirror.look(source, began)?;
    source.mirror_leader().looked(began.tick_millis, clock::now().tick_millis);
    Ok(outcome.problems)
}
