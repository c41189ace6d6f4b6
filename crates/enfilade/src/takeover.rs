//! Takes over the datastores of a member of the fleet if the member has no server any more (rule 12 of docs/fleet-protocol.md).

use crate::fleet_log::{log, name};
use crate::home::{Home, server_change_context};
use crate::output;
use enfilade_facts::tables::{Datastore, DatastoreProfile, HomeMembers};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{At, Read as _, Source, SourceError};
use enfilade_fleet::Log;
use enfilade_passage::House;
use enfilade_sources::mounts;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How often the thread looks for members without a server.
const EVERY: Duration = Duration::from_secs(1);
/// The members that may serve a datastore are listed in an order. This member takes the datastore over if, in this number of checks in a row, all
/// members before this member in the list had no server. Because several checks are needed, a member keeps its datastores while its server is
/// restarted, or while all servers start at the same time.
const LOOKS: u32 = 10;

/// Starts the thread that takes over datastores. A server that is in no fleet needs no such thread.
pub(crate) fn follow(home: &Home, house: &Arc<House>) -> anyhow::Result<()> {
    if home.facts.server.is_none() {
        return Ok(());
    }
    let (config, store) = (home.config.clone(), home.store.at().store);
    let (source, files, house) = (Arc::clone(&home.facts.source), home.files.clone(), Arc::clone(house));
    let mut standby = Standby::new(name(&config)?);
    std::thread::Builder::new().name("takeover".into()).spawn(move || {
        let (mut told, mut members) = (None, Members(None));
        loop {
            std::thread::park_timeout(EVERY);
            // If this member cannot prove that its facts are current, it takes over no datastore.
            if standby.read(&*source).is_err() || standby.may_serve.is_empty() {
                continue;
            }
            let registered = members.registered(|| log(&config, store));
            let Ok(registered) = registered else { continue };
            for (name, home) in standby.look(&registered) {
                let ctx = server_change_context(&*source, &files, house.reserved(), house.now());
                let done = can_serve(&*source, &name).and_then(|()| {
                    enfilade_admin::take_over(&ctx, &name, &home, &standby.own).map_err(|why| why.to_string())
                });
                let says = match done {
                    Ok(_) => format!(
                        "this member serves datastore {name} from now on, because {} had no server for {} s",
                        home.before(&standby.own).unwrap_or_default().join(", "),
                        u64::from(LOOKS) * EVERY.as_secs()
                    ),
                    Err(why) => format!("warning: this member does not take over datastore {name}: {why}"),
                };
                if told.as_ref() != Some(&says) {
                    output::note(&says);
                    told = Some(says);
                }
            }
        }
    })?;
    Ok(())
}

/// Reads the members that have a server. The connection to etcd stays open between two calls.
struct Members(Option<(Runtime, Log)>);

impl Members {
    fn registered(&mut self, log: impl FnOnce() -> anyhow::Result<Log>) -> anyhow::Result<BTreeSet<String>> {
        let (runtime, log) = match self.0.take() {
            Some(open) => open,
            None => (Builder::new_current_thread().enable_all().build()?, log()?),
        };
        // After an error, the next call opens a new connection.
        let registered = runtime.block_on(log.registered_members())?;
        self.0 = Some((runtime, log));
        Ok(registered)
    }
}

/// The datastores that this member may take over, and the results of its checks.
struct Standby {
    /// The name of this member.
    own: String,
    /// The facts that were read last.
    at: Option<At>,
    /// The datastores that another member serves, and that this member may take over.
    may_serve: Vec<(DatastoreName, HomeMembers)>,
    /// For each datastore, the number of checks in a row in which the members before this member had no server.
    looks: HashMap<DatastoreName, u32>,
}

impl Standby {
    fn new(own: &str) -> Self {
        Standby { own: own.to_owned(), at: None, may_serve: Vec::new(), looks: HashMap::new() }
    }

    /// Reads the facts, if they changed.
    fn read(&mut self, source: &dyn Source) -> Result<(), SourceError> {
        if self.at == Some(source.at()) {
            return Ok(());
        }
        let (at, rows) =
            source.read(|view| Ok::<_, SourceError>((view.at(), view.list::<DatastoreProfile>(&[])?)))??;
        let waits = |home: &HomeMembers| home.before(&self.own).is_some_and(|before| !before.is_empty());
        self.may_serve = rows
            .into_iter()
            .filter_map(|(name, row)| Some((name, row.home.filter(|home| waits(home))?)))
            .collect();
        self.at = Some(at);
        Ok(())
    }

    /// For each datastore, checks whether any member that is before this member in the list has a server. Returns the datastores to take over now.
    fn look(&mut self, registered: &BTreeSet<String>) -> Vec<(DatastoreName, HomeMembers)> {
        let have_none = |home: &HomeMembers| {
            home.before(&self.own).unwrap_or_default().into_iter().all(|member| !registered.contains(member))
        };
        let (absent, present): (Vec<_>, Vec<_>) =
            self.may_serve.iter().partition(|(_, home)| have_none(home));
        for (name, _) in present {
            self.looks.remove(name);
        }
        let mut due = Vec::new();
        for (name, home) in absent {
            let looks = self.looks.entry(name.clone()).or_default();
            *looks += 1;
            if *looks >= LOOKS {
                due.push((name.clone(), home.clone()));
            }
        }
        due
    }
}

/// Checks that this machine can serve the content of a datastore that another member has served. The error is the reason why this machine cannot
/// serve it.
fn can_serve(source: &dyn Source, name: &DatastoreName) -> Result<(), String> {
    let read = |why: SourceError| why.to_string();
    let found = source
        .read(|view| Ok((view.get::<Datastore>(name)?, view.get::<DatastoreProfile>(name)?)))
        .and_then(|found| found);
    let (row, profile) = found.map_err(read)?;
    let row = row.ok_or_else(|| "it was removed".to_owned())?;
    let point = row.mount_point(name).or(profile.and_then(|profile| profile.mounted_at));
    let mounts = mounts::now().unwrap_or_default();
    if let Some(point) = point.filter(|point| !mounts.is_mount_point(point)) {
        return Err(format!("nothing is mounted at `{point}` on this machine"));
    }
    // Landlock may forbid this process to open a directory that exists. So the check opens the directory.
    std::fs::read_dir(row.root(name)).map(drop).map_err(|why| {
        format!(
            "`{}` cannot be opened on this machine: {why}; if the path of the datastore was changed after this server started, restart this server",
            row.root(name)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_waits_for_a_server_that_is_restarted() {
        let name: DatastoreName = "photos".parse().unwrap();
        let home = HomeMembers::new(&["b", "c", "d"]);
        let mut standby = Standby::new("d");
        standby.may_serve = vec![(name.clone(), home.clone())];
        let members = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let nobody: BTreeSet<String> = members(&["a", "d"]);
        for _ in 1..LOOKS {
            assert_eq!(standby.look(&nobody), vec![]);
        }
        assert_eq!(standby.look(&members(&["a", "c", "d"])), vec![], "c is before d");
        for _ in 1..LOOKS {
            assert_eq!(standby.look(&nobody), vec![]);
        }
        assert_eq!(standby.look(&nobody), [(name, home)]);
    }
}
