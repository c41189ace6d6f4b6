//! The fleet of which this machine is a member. This module connects to the log of the fleet, and opens the source of the facts for a command or a
//! server.

use crate::config::Config;
use crate::fleet_log::{log, name, wait_for};
use crate::shared_keys::KeysOfFleet;
use crate::{clock, output, passing};
use anyhow::bail;
use enfilade_facts::{Source, StoreId};
use enfilade_fleet::{About, Reach, Server, Writer};
use enfilade_passage::{FilesMember, FleetPlace};
use enfilade_sources::files::file_set::WhyNotFollowed;
use enfilade_sources::lmdb::Lmdb;
use enfilade_tls::MemberTls;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The purpose for which a process uses the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A command. It first fetches the newest changes from etcd. If this fails, it prints a warning, and continues with the facts of this machine,
    /// which may be old.
    Command,
    /// A server. It reads the facts only while it can prove that they are current.
    Serve,
}

/// The facts of a process.
pub(crate) struct Facts {
    /// The source of the facts. If this machine is a member of a fleet, changes go through the log.
    pub(crate) source: Arc<dyn Source>,
    /// The registration of a server in its fleet.
    pub(crate) server: Option<Arc<Server>>,
    /// The keys with which the fleet signs sessions; `None` if this machine is not a member.
    pub(crate) keys: Option<Arc<KeysOfFleet>>,
    /// Returns the reason why this machine does not follow its edited files; `None` if this machine always follows them.
    pub(crate) no_files: Option<WhyNotFollowed>,
    /// The key and the certificate with which this process identifies itself to other members; `None` if other members do not connect to it.
    pub(crate) tls: Option<Arc<MemberTls>>,
    /// The datastores that this machine serves.
    pub(crate) place: FleetPlace,
}

/// At its start, a server waits until it can prove that its facts are current. At this interval, it logs why it cannot prove this yet.
const SAY_AGAIN: Duration = Duration::from_secs(10);
/// The interval at which a waiting server checks whether it can prove that its facts are current.
const LOOK: Duration = Duration::from_millis(50);

impl Facts {
    /// The facts of a store, for a process of this machine.
    ///
    /// # Errors
    /// When the store is the store of a member and `[fleet]` is not set. When `[fleet]` is set and the store is not the store of a member.
    pub(crate) fn open(data: &Path, store: &Arc<Lmdb>, config: &Config, usage: Use) -> anyhow::Result<Facts> {
        match (store.is_replica(), &config.fleet.etcd) {
            (false, None) => {
                let source = Arc::clone(store) as Arc<dyn Source>;
                Ok(Facts {
                    source,
                    server: None,
                    keys: None,
                    tls: None,
                    no_files: None,
                    place: FleetPlace::Alone,
                })
            }
            (false, Some(_)) => bail!(
                "enfilade.toml has `fleet.etcd`, but this machine is not a member of a fleet: run `enfilade fleet init` to begin a fleet, or \
                 `enfilade fleet join FILE` with a new data directory to join one; or remove the section [fleet]"
            ),
            (true, None) => bail!(
                "this machine is a member of a fleet, but enfilade.toml does not set `fleet.etcd`: write the section [fleet] again (docs/fleet.md); \
                 or take the machine out of the fleet with `enfilade fleet recover`"
            ),
            (true, Some(_)) => Self::of_member(data, store, config, usage),
        }
    }

    fn of_member(data: &Path, store: &Arc<Lmdb>, config: &Config, usage: Use) -> anyhow::Result<Facts> {
        let (name, id) = (name(config)?, store.at().store);
        let keys = Arc::new(KeysOfFleet::new(data, config, id));
        let raw = Arc::clone(store) as Arc<dyn Source>;
        let mut tls = None;
        let (source, server) = match usage {
            Use::Command => {
                let writer = Writer::new(raw, log(config, id)?)?;
                if let Err(why) = writer.catch_up() {
                    output::note(&format!(
                        "warning: this command may use old facts: this machine has the changes only up to change {}, because {why}",
                        store.at().revision
                    ));
                }
                (Arc::new(writer) as Arc<dyn Source>, None)
            }
            Use::Serve => {
                tls = config.member_address().is_some().then(passing::make_tls).transpose()?.map(Arc::new);
                let reach = config
                    .member_address()
                    .zip(tls.as_ref())
                    .map(|(address, tls)| Reach { address, certificate: tls.fingerprint() });
                let about = About {
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
                    pid: std::process::id(),
                    reach,
                };
                // The coarse clock is not used here: the coarse clock may show an earlier time. Then the server would rely on a proof for too long.
                let tick = || clock::now().tick_millis;
                let server = Arc::new(Server::start(name, about, raw, log(config, id)?, tick)?);
                server.use_keys(keys.installed().map(|(id, _)| id));
                wait_until_current(&server, &keys);
                (Arc::clone(&server) as Arc<dyn Source>, Some(server))
            }
        };
        let (files, mut unknown) = (FilesMember::known_to(name), None);
        match &server {
            Some(server) => {
                let files = files.clone();
                server.on_files_member(Box::new(move |member| files.set(member)));
            }
            None => match files_member(config, id) {
                Ok(member) => files.set(member.as_deref()),
                Err(why) => unknown = Some(format!("{why:#}")),
            },
        }
        let place = FleetPlace::Member { name: name.to_owned(), others_at: files.clone() };
        let no_files = why_no_files(files, unknown);
        Ok(Facts { source, server, keys: Some(keys), tls, no_files: Some(no_files), place })
    }
}

/// The reason why the edited files of this member are not followed. `unknown` is the reason why etcd did not answer.
fn why_no_files(files: FilesMember, unknown: Option<String>) -> WhyNotFollowed {
    Arc::new(move || {
        if files.is_own() {
            return None;
        }
        Some(match (files.get(), &unknown) {
            (Some(member), _) => format!(
                "this fleet follows the edited files of member `{member}`: make this change on that machine"
            ),
            (None, Some(why)) => {
                format!("it is not known whether the fleet follows the edited files of this machine: {why}")
            }
            (None, None) => "this fleet has no files member: run `enfilade fleet follow-files` on the member whose edited files the fleet should follow"
                .to_owned(),
        })
    })
}

/// The datastores that this machine serves. If etcd does not answer, it is not known whether this machine serves the datastores without a home.
pub(crate) fn place(config: &Config, store: &Lmdb) -> FleetPlace {
    match (store.is_replica(), name(config)) {
        (true, Ok(name)) => {
            let files = FilesMember::known_to(name);
            files.set(files_member(config, store.at().store).ok().flatten().as_deref());
            FleetPlace::Member { name: name.to_owned(), others_at: files }
        }
        _ => FleetPlace::Alone,
    }
}

/// The names of all members.
pub(crate) fn members(config: &Config, store: StoreId) -> anyhow::Result<Vec<String>> {
    let log = log(config, store)?;
    let (_, members) = wait_for(async { log.status().await })?;
    Ok(members.into_iter().map(|member| member.name).collect())
}

/// The member that has the edited files of the fleet.
fn files_member(config: &Config, store: StoreId) -> anyhow::Result<Option<String>> {
    log(config, store).and_then(|log| wait_for(async { log.files_member().await }))
}

fn wait_until_current(server: &Server, keys: &KeysOfFleet) {
    let (mut waited, mut no_keys) = (Duration::ZERO, None);
    while !server.is_current() {
        if server.lacks_keys().is_some() {
            match keys.fetch() {
                Ok(id) => server.use_keys(id),
                Err(why) => no_keys = Some(format!("{why:#}")),
            }
        }
        std::thread::park_timeout(LOOK);
        waited += LOOK;
        if waited.as_millis().is_multiple_of(SAY_AGAIN.as_millis()) {
            let why = no_keys.take().or_else(|| server.why().map(|why| why.to_string()));
            let why = why.unwrap_or_else(|| "etcd has not answered".to_owned());
            output::note(&format!("this server waits until it can prove that its facts are current: {why}"));
        }
    }
}
