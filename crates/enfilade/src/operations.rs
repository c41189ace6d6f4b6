//! Active operations of datastores: the operations of this server, and the operations of all servers.

use crate::home::Home;
use crate::{clock, output};
use anyhow::Context;
use enfilade_admin::DatastoreWarning;
use enfilade_faces::Faces;
use enfilade_facts::LockStore;
use enfilade_passage::{House, Ledger, LedgerWords, Process, ledger_words};
use enfilade_sources::files::file_set::FileSet;
use enfilade_sources::mounts;
use enfilade_sources::processes::{self, OwnWords};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The maximum number of datastores that may be in use at the same time.
const STORES_MAX: usize = 131_072;
/// The number of ticks ([`TICK`]) after which the server closes the open directories of datastores without active operations. While a directory is
/// open, the server does not notice that the directory was replaced.
const LET_GO_TICKS: u32 = 4;
/// How often the thread checks whether the facts have changed.
const TICK: Duration = Duration::from_millis(250);

/// The directory in which each server counts its operations.
pub(crate) fn place(data: &Path) -> PathBuf {
    data.join("operations")
}

struct Own(OwnWords);

impl LedgerWords for Own {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// The state that all servers of the data directory share in addition to the facts: active operations and locks.
pub(crate) fn shared(home: &Home) -> anyhow::Result<(Ledger, Arc<dyn LockStore>)> {
    Ok((own(home)?, home.locks()?))
}

/// The ledger of this server, which other servers read.
fn own(home: &Home) -> anyhow::Result<Ledger> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let directory = place(&home.data);
    let words = OwnWords::take(&directory, ledger_words(STORES_MAX, threads), home.config.facts.group)
        .with_context(|| {
            format!(
                "the file with the counts of active operations cannot be created in `{}`",
                directory.display()
            )
        })?;
    let data = home.data.clone();
    // If the file of one server cannot be read, clients see no operations at all, not even those of this server. The command line shows the error.
    let everybody = Arc::new(move || everybody(&data).unwrap_or_default());
    Ok(Ledger::new(Arc::new(Own(words)), std::process::id(), threads, clock::now()).with_processes(everybody))
}

/// Every server of this data directory, with its active operations.
pub(crate) fn everybody(data: &Path) -> anyhow::Result<Vec<Process>> {
    let directory = place(data);
    let living =
        processes::living(&directory).with_context(|| format!("`{}` cannot be read", directory.display()))?;
    Ok(living.iter().filter_map(|words| Process::read(words.count(), |at| words.word(at))).collect())
}

/// Whether a server runs on this data directory.
pub(crate) fn is_served(data: &Path) -> bool {
    everybody(data).is_ok_and(|servers| !servers.is_empty())
}

/// The interval at which the server checks the directories of datastores for warnings, and counts the usage for quotas.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Starts a thread that closes the open directories of datastores without active operations. The thread does this periodically, and when the facts
/// change.
pub(crate) fn follow(house: &Arc<House>) -> anyhow::Result<()> {
    let house = Arc::clone(house);
    std::thread::Builder::new().name("operations".into()).spawn(move || {
        let mut last = house.close_idle_roots();
        loop {
            for _ in 0..LET_GO_TICKS {
                std::thread::park_timeout(TICK);
                house.drain_events();
                if house.source().at() != last {
                    break;
                }
            }
            last = house.close_idle_roots();
        }
    })?;
    Ok(())
}

/// Starts a thread that checks the directories of datastores. The thread counts usage for quotas, and logs warnings, including warnings about roles
/// without effect.
pub(crate) fn look_after(faces: &Faces, files: &FileSet) -> anyhow::Result<()> {
    let (faces, files) = (faces.clone(), files.clone());
    std::thread::Builder::new().name("stores".into()).spawn(move || {
        let mut told = Vec::new();
        loop {
            let house = faces.house();
            let mounts = mounts::now().unwrap_or_default();
            if let Ok(warnings) =
                enfilade_admin::datastore_warnings(house.source(), &mounts, house.reserved(), house.place())
            {
                let mut amiss = BTreeMap::new();
                warnings.iter().for_each(|found| *amiss.entry(found.name.clone()).or_default() += 1);
                faces.metrics().set_amiss(amiss);
                let says =
                    |found: &DatastoreWarning| format!("warning: datastore {}: {}", found.name, found.says);
                let of_roles = enfilade_admin::roles_without_effect(house.source(), &files).into_iter();
                let of_roles = of_roles.map(|says| format!("warning: {says}")).take(WARNINGS_TOLD_MAX);
                let now: Vec<String> =
                    warnings.iter().take(WARNINGS_TOLD_MAX).map(says).chain(of_roles).collect();
                now.iter().filter(|says| !told.contains(*says)).for_each(|says| output::note(says));
                told = now;
            }
            std::thread::park_timeout(LOOK_EVERY);
            house.count_content();
        }
    })?;
    Ok(())
}

/// Starts a thread that removes unfinished uploads and unfinished copies that crashed servers left behind. The thread works at the start and once a
/// day.
pub(crate) fn remove_abandoned(faces: &Faces) -> anyhow::Result<()> {
    let faces = faces.clone();
    std::thread::Builder::new().name("abandoned".into()).spawn(move || {
        loop {
            let removed = faces.house().remove_abandoned(&|| !faces.metrics().is_draining());
            if removed > 0 {
                output::note(&format!(
                    "removed {removed} unfinished uploads and copies that crashed servers left behind"
                ));
            }
            std::thread::park_timeout(ABANDONED_EVERY);
        }
    })?;
    Ok(())
}

/// Starts a thread that removes old items from the trash of datastores, and old unfinished uploads. Each run removes a limited number of files, so
/// that a large trash does not keep the disks busy for long.
pub(crate) fn expire_items(faces: &Faces) -> anyhow::Result<()> {
    let faces = faces.clone();
    std::thread::Builder::new().name("trash".into()).spawn(move || {
        loop {
            let left = Cell::new(EXPIRED_FILES_MAX);
            let keep_going = || {
                let now = left.get();
                left.set(now.saturating_sub(1));
                now > 0 && !faces.metrics().is_draining()
            };
            let removed = faces.house().expire_items(&keep_going);
            if removed > 0 {
                output::note(&format!(
                    "removed {removed} old items from the trash and old unfinished uploads"
                ));
            }
            std::thread::park_timeout(TRASH_EVERY);
        }
    })?;
    Ok(())
}

/// The interval between two runs of [`expire_items`].
const TRASH_EVERY: Duration = Duration::from_secs(600);

/// The maximum number of files and directories that one run of [`expire_items`] removes. A disk that removes 1,000 files in a second is busy for 20
/// seconds.
const EXPIRED_FILES_MAX: u64 = 20_000;

const ABANDONED_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of logged warnings about datastores, and about roles. `enfilade doctor` shows all warnings.
const WARNINGS_TOLD_MAX: usize = 100;
