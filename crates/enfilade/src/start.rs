//! Opens the store of facts for a server. An older store is upgraded, and a store with much free space is compacted. If another process restores,
//! upgrades or compacts the store, the server waits for a limited time. After an upgrade or compaction, and before the server starts its threads, the
//! server limits the files and ports that its process may open.

use crate::certificates::WatchedList;
use crate::config::Config;
use crate::confinement::Confinement;
use crate::fleet::Use;
use crate::home::{Home, Installation};
use crate::memos::Memos;
use crate::upkeep::{compact, older, open, shorter, told, upgrade};
use crate::{notes, output};
use anyhow::{Context as _, anyhow, bail};
use enfilade_facts::limits::UPGRADE_AT_START_RECORDS_MAX;
use enfilade_facts::{Read, Table};
use enfilade_sources::lmdb::{Lmdb, OpenError, UpgradeError};
use std::thread::Builder;
use std::time::Duration;

/// The time between two attempts to open a store that another process uses.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// The maximum number of attempts while another process restores, upgrades or compacts the store, for 2 minutes in total. Another server that starts
/// needs up to one minute for this work.
const WORK_TRIES: u32 = 600;
/// The maximum number of attempts to upgrade while other processes have the store open, for 5 seconds in total. Another server that starts at the
/// same time closes the store at once. A running server of the older version keeps the store open.
const CLOSE_TRIES: u32 = 25;

/// The values that a starting server makes before it opens the data directory.
pub(crate) struct Prepared {
    /// The limits of the process, which are set.
    pub(crate) limits: Confinement,
    pub(crate) list: Option<WatchedList>,
    pub(crate) memos: Memos,
}

impl Prepared {
    /// Makes the memos in another thread, while this thread lists the certificates. Then limits the files and ports of this process. The other thread
    /// must have ended before that, because the kernel limits only the calling thread and the threads that it starts later.
    fn new(installation: &Installation, config: &Config) -> anyhow::Result<Self> {
        let memos = Builder::new().name("memos".into()).spawn(Memos::new);
        let memos = memos.context("the thread `memos` cannot be started")?;
        let list = WatchedList::of(&config.tls, &installation.data);
        let memos = memos.join();
        let memos =
            memos.map_err(|_| anyhow!("internal error: the thread `memos` has ended with a panic"))??;
        let limits = Confinement::of_files(installation, config, list.as_ref())?;
        Ok(Prepared { limits, list, memos })
    }
}

/// Opens the data directory for a server. If several servers start at the same time, one of them upgrades or compacts the store, and the others wait.
///
/// `config` includes the addresses from the command line.
pub(crate) fn open_home(installation: &Installation, config: &Config) -> anyhow::Result<(Home, Prepared)> {
    let (mut tries, mut announced, mut prepared) = (0, 0, None);
    loop {
        let opened = try_to_open(installation, config, &mut prepared, tries == 0);
        let why = match (opened, prepared.take()) {
            (Ok(home), Some(prepared)) => return Ok((home, prepared)),
            (Err(why), made) => {
                prepared = made;
                why
            }
            (Ok(_), None) => bail!(
                "internal error: the data directory was opened before the limits of the server were known"
            ),
        };
        let most = match others(&why) {
            Some(OpenError::Taken(_)) => WORK_TRIES,
            Some(OpenError::InUse(_)) => CLOSE_TRIES,
            _ => 0,
        };
        if most <= tries {
            return Err(why);
        }
        // The reason and the limit can change between two attempts: the other process first opens the store, then upgrades it.
        if announced < most {
            let seconds = TRY_AGAIN.as_millis() * u128::from(most - tries) / 1000;
            say(&format!("this server waits, and tries again for {seconds} s: {why}"));
            announced = most;
        }
        tries += 1;
        std::thread::park_timeout(TRY_AGAIN);
    }
}

fn try_to_open(
    installation: &Installation,
    config: &Config,
    prepared: &mut Option<Prepared>,
    is_first: bool,
) -> anyhow::Result<Home> {
    // All handles of a process share one environment. While this handle exists, the pages of the store are not checked again.
    let _store = prepare(installation, is_first)?;
    if prepared.is_none() {
        *prepared = Some(Prepared::new(installation, config)?);
        notes::start()?;
    }
    Home::open(installation.clone(), Use::Serve)
}

/// Opens the store. If necessary, the store is first upgraded or compacted.
fn prepare(installation: &Installation, is_first: bool) -> anyhow::Result<Lmdb> {
    let store = match open(installation) {
        Err(OpenError::Older { .. }) => {
            upgrade_to_serve(installation, is_first)?;
            open(installation)?
        }
        opened => opened?,
    };
    compact_to_serve(installation, store)
}

/// Writes a note immediately, because no thread writes the queue yet.
fn say(text: &str) {
    output::note(text);
    notes::write();
}

/// The error from opening the store, if this error is the reason why the start failed.
fn others(why: &anyhow::Error) -> Option<&OpenError> {
    match why.downcast_ref::<UpgradeError>() {
        Some(UpgradeError::Open(why)) => Some(why),
        _ => why.downcast_ref::<OpenError>(),
    }
}

/// Upgrades an older store if the upgrade takes less than a minute. So a package can be updated without further commands. Refuses a store if its
/// upgrade would take longer than a minute.
fn upgrade_to_serve(installation: &Installation, is_first: bool) -> anyhow::Result<()> {
    let Some(older) = older(installation)? else { return Ok(()) };
    let plan = older.plan()?;
    if UPGRADE_AT_START_RECORDS_MAX < plan.records {
        bail!(
            "this server did not start, because the upgrade of the facts takes longer than a minute ({}): stop every other server of this store, run `enfilade facts upgrade`, then start this server again",
            told(&plan)
        );
    }
    if is_first {
        say(&format!("upgrading the facts: {}", told(&plan)));
    }
    let (_, at) = upgrade(older)?;
    output::note(&format!("the store was upgraded; the new revision is {}", at.revision));
    Ok(())
}

/// Compacts the store if this saves enough space and takes less than a minute. The server starts even if the compaction fails.
fn compact_to_serve(installation: &Installation, lmdb: Lmdb) -> anyhow::Result<Lmdb> {
    // The records of a member refer to changes in the log by their numbers, and a compaction would change these numbers.
    if lmdb.is_replica() {
        return Ok(lmdb);
    }
    let records = lmdb.read(|view| {
        let counts = Table::of_facts().map(|table| view.tally(table, &[]).map(|tally| tally.count));
        counts.sum::<Result<u64, _>>()
    })??;
    if !lmdb.status().is_worth_compacting() || UPGRADE_AT_START_RECORDS_MAX < records {
        return Ok(lmdb);
    }
    drop(lmdb);
    match compact(installation) {
        Ok((done, at)) => output::note(&format!(
            "the facts were compacted ({} of disk space freed); the new revision is {}",
            shorter(&done),
            at.revision
        )),
        Err(why) => output::note(&format!(
            "the facts were not compacted at this start, and the server continues: {why}"
        )),
    }
    Ok(open(installation)?)
}
