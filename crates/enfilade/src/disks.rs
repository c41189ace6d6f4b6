//! The space of the file systems of the data directory and of the datastores, for the metrics.
//!
//! A file system that does not answer, such as the file system of a dead NFS server, blocks the thread that calls statvfs(2). So for each directory,
//! a new thread makes the call. If a call does not return in time, no further call for the same directory is made until this call has returned.

use crate::home::Home;
use enfilade_faces::{DATASTORES_SHOWN_MAX, Disk, Faces};
use enfilade_facts::Read as _;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::House;
use rustix::fs::statvfs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The interval at which the space of the file systems is read.
const EVERY: Duration = Duration::from_secs(60);
/// How long the thread waits for a result. A later result is used in the next round.
const PATIENCE: Duration = Duration::from_secs(2);

/// A datastore, or the data directory (`None`).
type Owner = Option<DatastoreName>;

/// Starts the thread that reads the space of the file systems.
pub(crate) fn follow(home: &Home, faces: &Faces) -> anyhow::Result<()> {
    let (data, faces) = (home.data.clone(), faces.clone());
    std::thread::Builder::new().name("disks".into()).spawn(move || {
        let mut silent = BTreeMap::new();
        loop {
            faces.metrics().set_disks(ask_all(places(&data, faces.house()), &mut silent));
            std::thread::park_timeout(EVERY);
        }
    })?;
    Ok(())
}

/// The directories for which the thread reads the space of the file system: the data directory, and the directories of datastores. If the file system
/// of a datastore is not mounted, the directory of the datastore is left out. Without the mount, the directory belongs to another file system.
fn places(data: &Path, house: &House) -> BTreeMap<Owner, PathBuf> {
    let mut stores = house.datastores();
    stores.truncate(DATASTORES_SHOWN_MAX);
    stores.retain(|store| store.is_mounted != Some(false));
    let is_meant = |name: &DatastoreName| stores.binary_search_by(|store| store.name.cmp(name)).is_ok();
    let rows = house.source().read(|view| view.list::<Datastore>(&[]));
    let rows = rows.ok().and_then(Result::ok).unwrap_or_default();
    let of_stores = rows.into_iter().filter(|(name, _)| is_meant(name));
    let of_stores = of_stores.map(|(name, row)| (Some(name.clone()), PathBuf::from(row.root(&name))));
    of_stores.chain([(None, data.to_owned())]).collect()
}

fn ask(place: PathBuf) -> Receiver<Option<Disk>> {
    let (answer, answered) = sync_channel(1);
    // If no thread can be started, there is no result, and the next round tries again.
    let _ = std::thread::Builder::new().name("disk".into()).spawn(move || {
        let _ = answer.send(statvfs(&place).ok().map(|found| Disk {
            size: found.f_blocks.saturating_mul(found.f_frsize),
            available: found.f_bavail.saturating_mul(found.f_frsize),
        }));
    });
    answered
}

/// Reads the space of the file systems of these directories. `silent` contains the calls of earlier rounds that did not return yet.
fn ask_all(
    places: BTreeMap<Owner, PathBuf>,
    silent: &mut BTreeMap<Owner, Receiver<Option<Disk>>>,
) -> BTreeMap<Owner, Disk> {
    let (mut disks, mut before) = (BTreeMap::new(), std::mem::take(silent));
    for (owner, place) in places {
        let (answered, patience) = match before.remove(&owner) {
            Some(answered) => (answered, Duration::ZERO),
            None => (ask(place), PATIENCE),
        };
        match answered.recv_timeout(patience) {
            Ok(Some(disk)) => drop(disks.insert(owner, disk)),
            Err(RecvTimeoutError::Timeout) => drop(silent.insert(owner, answered)),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {}
        }
    }
    // The calls for directories that are no longer in `places` are kept, because their threads may still wait.
    silent.append(&mut before);
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_does_not_answer_is_absent_and_not_asked_again() {
        let name: DatastoreName = "dead".parse().unwrap();
        let (answer, answered) = sync_channel(1);
        let mut silent = BTreeMap::from([(Some(name.clone()), answered)]);
        let places = || BTreeMap::from([(None, "/".into()), (Some(name.clone()), "/".into())]);
        let disks = ask_all(places(), &mut silent);
        assert!(disks[&None].size > disks[&None].available && disks.len() == 1);
        assert_eq!(silent.keys().collect::<Vec<_>>(), [&Some(name.clone())]);
        answer.send(Some(disks[&None])).unwrap();
        assert_eq!((ask_all(places(), &mut silent).len(), silent.len()), (2, 0));
    }
}
