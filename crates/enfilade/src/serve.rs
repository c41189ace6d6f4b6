//! `enfilade serve`.

mod fleet;

use crate::access_log::AccessLog;
use crate::acme::{self, Answers};
use crate::backup::schedule;
use crate::certificates::{self, Keeper, Served, Watched, WatchedList};
use crate::cli::Serve;
use crate::config::{
    Check, Config, TransportSecurity, UrlOrigin, unread_variables, variables, without_effect,
};
use crate::confinement::Confinement;
use crate::example;
use crate::first_start::{self, Settled};
use crate::home::{Home, is_house, server_change_context};
use crate::listen::{self, Addresses, Admission, Door, Listener, Place, Tls};
use crate::protocols::Routers;
use crate::reserved::refuse_exposed_backups;
use crate::shared_certificates::Held;
use crate::signals::Signals;
use crate::start::Prepared;
use crate::{
    activities, audit_log, clock, control, disks, files, fleet_certificates, identity_endpoints, keys, notes,
    notify, operations, output, process_use, reload, self_made, sweeping, takeover, token_key, traces,
};
use anyhow::Context;
use enfilade_admin::BadCertificate;
use enfilade_faces::{Faces, Redirect, Router};
use enfilade_facts::limits::Limits;
use enfilade_passage::{House, Upgrade, Watch};
use enfilade_privileged::client::{self, Connection};
use enfilade_sources::files::challenges;
use enfilade_sources::mounts::MountWatch;
use enfilade_tls::Tickets;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// If there is no store of facts yet, binds the sockets and closes them again, and reads the certificates. So a first start that cannot listen, or
/// has no usable certificate, creates nothing.
pub(crate) fn try_to_listen(data: &Path, mut config: Config, arguments: &Serve) -> anyhow::Result<()> {
    if is_house(data) {
        return Ok(());
    }
    take(&mut config, arguments);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Listeners::bind(&config).await.map(drop) })?;
    certificates::examine(&config.tls, data).map(drop)
}

/// Replaces the addresses in the configuration by the addresses from the command line.
fn take(config: &mut Config, arguments: &Serve) {
    if let Some(listen) = &arguments.listen {
        config.tls.listen.clone_from(listen);
    }
    if let Some(listen) = &arguments.ops_listen {
        config.operations.listen.clone_from(listen);
    }
}

/// The configuration with the addresses of the command line.
pub(crate) fn with_addresses(config: &Config, arguments: &Serve) -> Config {
    let mut config = config.clone();
    take(&mut config, arguments);
    config
}

pub(crate) fn run(
    mut home: Home,
    arguments: &Serve,
    prepared: Prepared,
    json: bool,
) -> anyhow::Result<ExitCode> {
    take(&mut home.config, arguments);
    home.reserved.change(|reserved| reserved.openable.clone_from(&prepared.limits.openable));
    let mut useless = without_effect(&home.config);
    useless.extend(unread_variables(variables()));
    useless.extend(certificates::unused_names(&home.config.tls, &home.data));
    useless.iter().for_each(|says| output::note(&format!("warning: configuration: {says}")));
    refuse_exposed_backups(&home.data, &home.config, enfilade_admin::roots(home.source())?)?;
    let connections = within_descriptors(home.config.limits.0.connections, raise_descriptor_limit())?;
    // The key for the hashes of API tokens is checked before anything is made or served. Without this key, the server would refuse every secret of an
    // API token as wrong.
    home.hash_key()?;
    if let Some(why) = token_key::lost_session_keys(&home.fernet_keys(), home.source())? {
        output::note(&format!("warning: {why}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(home.config.limits.0.threads as usize)
        .build()?;
    // The queued log lines are written before the error.
    runtime.block_on(serve(&home, connections, prepared, json)).inspect_err(|_| notes::write())?;
    // A thread that is blocked in a file system possibly never ends. So this call waits for at most one second.
    runtime.shutdown_timeout(Duration::from_secs(1));
    // From here on, the other members do not wait for this server when they change facts.
    home.facts.server.iter().for_each(|server| server.end());
    Ok(ExitCode::SUCCESS)
}

/// Raises the soft limit of descriptors to the hard limit. A listing uses a descriptor for each entry of a batch. The usual soft limit of 1,024
/// exists only for programs that use `select`. Returns the new limit; `None` if there is no limit.
fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current
}

/// The number of descriptors that are reserved for files, in addition to a tenth of all descriptors.
const DESCRIPTORS_LEFT: u64 = 256;

/// Limits the number of connections by the number of descriptors.
fn within_descriptors(connections: u64, descriptors: Option<u64>) -> anyhow::Result<u64> {
    let Some(descriptors) = descriptors else { return Ok(connections) };
    let most = (descriptors - descriptors / 10).saturating_sub(DESCRIPTORS_LEFT);
    let advice = "raise `LimitNOFILE` of the service, or `ulimit -Hn`, to 65536 or more";
    anyhow::ensure!(most > 0, "the limit of {descriptors} open files is too low to serve; {advice}");
    if most < connections {
        output::note(&format!(
            "at most {most} connections instead of {connections}: the limit of open files is {descriptors}; {advice}"
        ));
    }
    Ok(most.min(connections))
}

/// The certificates that were loaded at the start.
struct Loaded {
    tls: Tls,
    bad: Vec<BadCertificate>,
    tickets: Tickets,
    watched: Option<Watched>,
    /// The shared certificates of the fleet that are in their directory on this machine.
    held: Held,
}

async fn load(home: &Home, list: Option<WatchedList>) -> anyhow::Result<Loaded> {
    let held = fleet_certificates::first(home).await;
    let tickets = Tickets::default();
    certificates::follow_ticket_keys(home, &tickets)?;
    let keeper = Keeper::new(&home.config.tls, &home.data, &tickets)?;
    // The watch begins before the files are read. So no change is missed. If links lead to files of other directories, `Served::follow` starts a new
    // watch, and reads the files again.
    let watched = keeper.watch(list);
    let (certificates, bad) = keeper.load(home.config.tls.rules())?;
    if home.config.tls.check == Check::Eager {
        certificates::verify_all(&keeper.files, &certificates, &bad)?;
    }
    let tls = Tls { certificates: Arc::new(certificates), keeper: Arc::new(keeper) };
    Ok(Loaded { tls, bad, tickets, watched, held })
}

/// Opens the watch that reports changed files. Without the watch, a listing needs a system call (statx) for each entry.
fn hears_changes(home: &Home) -> Option<Watch> {
    match home.config.access.watch {
        false => None,
        true => Watch::new().inspect_err(|why| output::note(&format!("{why}; listings will be slower"))).ok(),
    }
}

fn faces_of(home: &Home, house: &Arc<House>) -> Faces {
    Faces::new(Arc::clone(house), home.files.clone(), home.passwords.clone(), home.datastore_roots())
        .with_limit_model(home.config.identity.limit_model.model())
        .with_sign_in(home.config.decisions.sign_in.as_ref().map(UrlOrigin::as_str))
        .with_transport_security(home.config.tls.hsts.as_ref().and_then(TransportSecurity::header))
        .with_traces(traces::queue(&home.config))
}

/// Counts the open connections.
fn counting(admission: &Arc<Admission>) -> impl Fn() -> u64 + Send + 'static {
    let admission = Arc::clone(admission);
    move || admission.count()
}

async fn serve(
    home: &Home,
    connections: u64,
    Prepared { limits: mut confinement, list, memos }: Prepared,
    json: bool,
) -> anyhow::Result<()> {
    // The sockets are bound before the first start creates the administrator. If a port is in use, the start fails before a password is created.
    let listeners = Listeners::bind(&home.config).await?;
    let settled = first_start::settle(home)?;
    let Loaded { tls: tls_now, bad, tickets, watched, held } = load(home, list).await?;
    // At the start, the certificates are read with io_uring. The limits of system calls forbid io_uring, because io_uring would bypass these limits.
    // So the limits are set after the first reading.
    confinement.limit_calls(&home.config)?;
    let (exchange, current) = watch::channel(tls_now);
    let refusals_per_second = home.config.limits.0.refusals_logged_per_second;
    let log = AccessLog::start(home.last_used()?, home.sessions()?, refusals_per_second)?;
    let (upgrades, accounts) = (follow_upgrades(home)?, activities::follow(home)?);
    let shared = (memos, operations::shared(home)?);
    let house = home.house(home.hash_key()?, log.clone(), upgrades, accounts, shared, hears_changes(home))?;
    let peers = fleet::peers(home)?;
    let faces = fleet::connect(home, peers.as_ref(), faces_of(home, &house));
    let Routers { main: router, operations: of_operations, decisions: of_decisions, members: of_members } =
        Routers::new(&faces, home.config.console.enabled);
    let served = Served::new(exchange, bad, faces.clone(), tickets);
    tell_bad_hashes(home)?;
    let bound = listeners.bound()?;
    faces.metrics().set_confinement(confinement.states());
    follow_everything(home, &house, &faces, &bound, &confinement)?;

    let signals = Signals::new()?;
    let Listeners { tls, operations, plain, http, decisions, may_ask, members } = listeners;
    tell(home, settled.as_ref(), json, &bound);
    let _ = output::lost().inspect(|why| output::note(&format!("warning: {why:#}")));
    files::tell_unused(home);
    identity_endpoints::tell(home.source(), &home.config, &bound.tls, &bound.plain);

    let (drain, draining) = watch::channel(false);
    let limits = Limits { connections, ..faces.limits() };
    let admission = Arc::new(Admission::new(limits));
    process_use::follow(&faces, counting(&admission))?;
    // Metrics and health are served until the end. So a load balancer sees that the server drains.
    let (_to_the_end, never) = watch::channel(false);
    let mut watching = JoinSet::new();
    for listener in operations {
        watching.spawn(listen::operations(
            listener,
            of_operations.clone(),
            Arc::clone(&admission),
            never.clone(),
        ));
    }
    let (answers, obtain) = (Answers::new(&home.data), Arc::new(Notify::new()));
    let door = Door {
        admission: Arc::clone(&admission),
        proxies: Arc::new(home.config.tls.proxy_from.clone()),
        trusted: Arc::new(home.config.http.trusted_proxies.clone()),
        drain: draining,
        limits,
        faces: faces.clone(),
    };
    for listener in plain {
        tokio::spawn(listen::plain(listener, router.clone(), door.clone()));
    }
    decide(decisions, &of_decisions, &may_ask, &current, &door);
    let passed_on = fleet::serve_members(home, members, peers.as_ref(), &of_members, &door)?;
    redirect(home, http, &answers, bound.first_tls().port(), &door);
    for listener in tls {
        let answers = acme::is_asked(home).then(|| Arc::clone(&answers));
        tokio::spawn(listen::tls(listener, (current.clone(), answers), router.clone(), door.clone()));
    }
    if home.config.tls.check == Check::Background {
        served.verify()?;
    }
    served.follow(watched)?;
    fleet_certificates::follow(home, &answers, held)?;
    acme::follow(home, &faces, &answers, &obtain)?;
    notify::ready();

    signals.until_stopped(|| reload::reload(home, &served, &faces, &confinement), &faces, &obtain).await;
    notify::stopping();
    served.write_down();
    faces.metrics().drain();
    let _ = drain.send(true);
    empty(&[&admission, &passed_on], limits.drain_seconds).await;
    watching.abort_all();
    end_records(&faces, log).await;
    Ok(())
}

/// Starts the listeners that redirect to HTTPS, and answer challenges of certificate authorities.
fn redirect(home: &Home, listeners: Vec<TcpListener>, answers: &Arc<Answers>, port: u16, door: &Door) {
    for listener in listeners {
        let directory = home.config.tls.acme_challenges.clone();
        let answers = Arc::clone(answers);
        let challenge = Box::new(move |token: &str| {
            answers.http(token).or_else(|| challenges::of_token(directory.as_deref()?, token))
        });
        tokio::spawn(listen::http(listener, Redirect { port, challenge }, door.clone()));
    }
}

/// Starts the listeners for proxies that ask for decisions.
fn decide(
    listeners: Vec<Listener>,
    router: &Router,
    users: &[u32],
    current: &watch::Receiver<Tls>,
    door: &Door,
) {
    for listener in listeners {
        let (router, door) = (router.clone(), door.clone());
        match listener {
            Listener::Tcp(listener) => {
                tokio::spawn(listen::tls(listener, (current.clone(), None), router, door));
            }
            listener @ Listener::Unix(..) => {
                tokio::spawn(listen::decisions(listener, router, users.to_vec(), door));
            }
        }
    }
}

/// Sends the remaining traces, and writes the remaining lines of the log. Each of the two takes at most one second, because the programs that
/// receive them may have stopped reading.
async fn end_records(faces: &Faces, log: Arc<AccessLog>) {
    traces::finish(faces).await;
    let write = move || {
        log.write();
        notes::write();
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), tokio::task::spawn_blocking(write)).await;
}

/// Waits for the running requests, for at most `drain_seconds`.
async fn empty(admissions: &[&Arc<Admission>], drain_seconds: u64) {
    let open = || admissions.iter().map(|admission| admission.count()).sum::<u64>();
    let seconds = usize::try_from(drain_seconds).unwrap_or(usize::MAX);
    let time = output::counted(seconds, "second", "seconds");
    output::note(&format!("stopping: no new connections are accepted; running requests have {time} to end"));
    let emptied = async {
        while open() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(drain_seconds), emptied).await.is_err() {
        let count = usize::try_from(open()).unwrap_or(usize::MAX);
        output::note(&output::counted(
            count,
            "connection was closed before its requests ended",
            "connections were closed before their requests ended",
        ));
    }
}

/// The sockets of all listeners. Connections wait in the kernel's queue until the server is ready.
struct Listeners {
    tls: Vec<TcpListener>,
    operations: Vec<TcpListener>,
    plain: Vec<Listener>,
    http: Vec<TcpListener>,
    decisions: Vec<Listener>,
    /// The users (UIDs) that may ask for decisions over a Unix socket.
    may_ask: Vec<u32>,
    members: Vec<TcpListener>,
}

impl Listeners {
    async fn bind(config: &Config) -> anyhow::Result<Self> {
        let tls = &config.tls;
        Ok(Listeners {
            tls: tls.listen.bind("HTTPS").await?,
            operations: config.operations.listen.bind("metrics and health").await?,
            plain: match &tls.plain_listen {
                Some(addresses) => {
                    addresses.bind_all(("HTTP without TLS", "tls.plain_listen"), 0o660).await?
                }
                None => Vec::new(),
            },
            // Every process may connect, because the kernel reports which user runs the process.
            decisions: match &config.decisions.listen {
                Some(addresses) => addresses.bind_all(("decisions", "decisions.listen"), 0o666).await?,
                None => Vec::new(),
            },
            may_ask: config.decisions.uids()?,
            members: match config.member_address() {
                Some(address) => Addresses::one(address).bind("other members").await?,
                None => Vec::new(),
            },
            http: match &tls.http_listen {
                Some(addresses) => addresses.bind("HTTP").await?,
                None => Vec::new(),
            },
        })
    }

    fn bound(&self) -> std::io::Result<Bound> {
        let of = |listeners: &[TcpListener]| {
            listeners.iter().map(TcpListener::local_addr).collect::<std::io::Result<Vec<_>>>()
        };
        Ok(Bound {
            tls: of(&self.tls)?,
            operations: of(&self.operations)?,
            plain: self.plain.iter().map(Listener::place).collect::<Result<_, _>>()?,
            decisions: self.decisions.iter().map(Listener::place).collect::<Result<_, _>>()?,
            http: of(&self.http)?,
        })
    }
}

/// Starts the threads that watch for changes outside this process, and the threads that clean up.
fn follow_everything(
    home: &Home,
    house: &Arc<House>,
    faces: &Faces,
    bound: &Bound,
    limits: &Confinement,
) -> anyhow::Result<()> {
    files::follow(home, faces.clone())?;
    audit_log::follow(&home.store)?;
    let addresses = bound.tls.iter().map(|address| example::reachable(*address)).collect();
    control::follow(&home.data, home.config.facts.group, house, (addresses, limits.clone()))?;
    follow_mounts(house)?;
    operations::follow(house)?;
    operations::look_after(faces, &home.files)?;
    operations::remove_abandoned(faces)?;
    operations::expire_items(faces)?;
    keys::follow(home, house)?;
    faces.set_keys(keys::lister(home));
    disks::follow(home, faces)?;
    traces::follow(&home.config, faces);
    schedule::follow(home, faces)?;
    self_made::follow(home)?;
    takeover::follow(home, house)?;
    sweeping::follow(home, house)
}

/// Starts a thread that replaces the slow hashes of queued tokens by fast hashes. With this thread, a request with the secret of a token does not
/// wait for the replacement.
fn follow_upgrades(home: &Home) -> anyhow::Result<SyncSender<Upgrade>> {
    let (source, files, reserved) =
        (Arc::clone(&home.facts.source), home.files.clone(), Arc::clone(&home.reserved));
    let (upgrades, queue) = sync_channel(64);
    std::thread::Builder::new().name("upgrades".into()).spawn(move || {
        for upgrade in queue {
            let ctx = server_change_context(&*source, &files, &reserved, clock::now());
            if let Err(why) = enfilade_admin::upgrade_token(&ctx, &upgrade) {
                output::note(&format!(
                    "warning: the slow hash of token {} was not replaced by a fast hash: {why}; the server tries again at the next use of the secret \
                     of the token",
                    upgrade.token
                ));
            }
        }
    })?;
    Ok(upgrades)
}

/// At the start, logs some of the API tokens that have an unusable hash. `enfilade doctor` shows all of them.
fn tell_bad_hashes(home: &Home) -> anyhow::Result<()> {
    const TOLD_MAX: usize = 20;
    let source = Arc::clone(&home.facts.source);
    // This work runs in a thread, because the check of a million tokens takes some time.
    std::thread::Builder::new().name("hashes".into()).spawn(move || {
        let Ok(bad) = enfilade_admin::list_bad_hashes(&*source) else { return };
        for (token, why) in bad.iter().take(TOLD_MAX) {
            output::note(&format!(
                "warning: the hash of token `{token}` is unusable: {why}; run `enfilade token regenerate`"
            ));
        }
        let untold = bad.len().saturating_sub(TOLD_MAX);
        if untold > 0 {
            let more = output::counted(untold, "more token has", "more tokens have");
            output::note(&format!("warning: {more} an unusable hash; `enfilade doctor` lists all of them"));
        }
    })?;
    Ok(())
}

/// Starts a thread that stores the list of mounted file systems in the `House` (the state of the server) after each change of the mounts.
fn follow_mounts(house: &Arc<House>) -> anyhow::Result<()> {
    let house = Arc::clone(house);
    let mut watch = MountWatch::open().context("/proc/self/mountinfo cannot be opened")?;
    std::thread::Builder::new().name("mounts".into()).spawn(move || {
        loop {
            match watch.read() {
                Ok(mounts) => house.set_mounts(mounts),
                // If the mounts are unknown, datastores that need a mount count as not mounted.
                Err(_) => house.set_mounts(enfilade_facts::Mounts::default()),
            }
            let _ = watch.wait(Duration::from_secs(60));
        }
    })?;
    Ok(())
}

/// The addresses of the listeners, except the listener for other members of the fleet. Port 0 is replaced by the port that the kernel assigned.
struct Bound {
    tls: Vec<SocketAddr>,
    operations: Vec<SocketAddr>,
    plain: Vec<Place>,
    http: Vec<SocketAddr>,
    decisions: Vec<Place>,
}

impl Bound {
    /// The first address for HTTPS. There is always at least one.
    fn first_tls(&self) -> SocketAddr {
        self.tls.first().copied().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
    }
}

/// Prints the addresses and, at the first start, the login.
fn tell(home: &Home, settled: Option<&Settled>, json: bool, bound: &Bound) {
    let (tls, plain) = (bound.first_tls(), bound.plain.first());
    if json {
        output::json_line(&json!({
            "listen": tls.to_string(), "ops_listen": bound.operations.first().map(SocketAddr::to_string),
            "plain_listen": plain.map(Place::to_string),
            "decisions": bound.decisions.iter().map(Place::to_string).collect::<Vec<_>>(), "http_listen": bound.http.first().map(SocketAddr::to_string),
            "all": bound.tls.iter().map(SocketAddr::to_string).collect::<Vec<_>>(),
            "data": home.data,
            "admin": settled.map(|made| made.admin.to_string()),
            "password": settled.map(|made| made.password.clone()),
        }));
        settled.inspect(|made| made.was_shown(home, json));
        return;
    }
    // A service manager gets standard output and the log in one stream. In this case these lines are JSON, too, so that programs can parse each line
    // of the stream.
    let say: fn(&str) = match !output::is_for_people() && output::is_one_stream() {
        true => |line| output::note(line.trim()),
        false => output::line,
    };
    say(&format!("enfilade {} serves {}", env!("CARGO_PKG_VERSION"), home.data.display()));
    let path = example::path(home);
    say(&format!("  files       https://{}{path}", example::reachable(tls)));
    for name in home.config.tls.names().iter().filter(|_| tls.ip().is_unspecified()) {
        // In a URL, an IPv6 address must be in brackets.
        let host = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        say(&format!("              https://{host}:{}{path}", tls.port()));
    }
    for more in bound.tls.iter().skip(1) {
        say(&format!("              https://{}{path}", example::reachable(*more)));
    }
    for plain in &bound.plain {
        let place = match plain {
            Place::Address(address) => format!("http://{}{path}", example::reachable(*address)),
            Place::Socket(socket) => socket.clone(),
        };
        say(&format!("  plain       {place}   (no TLS: for a proxy in front)"));
    }
    for decisions in &bound.decisions {
        say(&format!("  decisions   {decisions}   (for proxies: see `enfilade integrate`)"));
    }
    for operations in &bound.operations {
        say(&format!("  operations  http://{}/metrics", example::reachable(*operations)));
    }
    say(&format!("  ACLs        {}", acl_note(home)));
    match (settled, first_start::first_password(&home.data)) {
        (Some(made), _) => {
            say(&format!("  login       {}   password {}", made.admin, made.shown(home)));
        }
        (None, Some(file)) => say(&format!(
            "  login       admin@local   password in {}: change it with `enfilade user passwd admin@local`",
            file.display()
        )),
        (None, None) => {}
    }
    let login = settled.map(|made| made.login(home));
    let (heading, line) = example::first_request(home, login, &example::reachable(tls));
    say(&heading);
    say(&format!("  {line}"));
    settled.inspect(|made| made.was_shown(home, json));
}

/// The name of the extended attribute for new ACLs. The name determines whether Samba can serve the same files.
fn acl_note(home: &Home) -> &'static str {
    match enfilade_content::acl_place(&home.data) {
        Some(enfilade_content::AclPlace::Security) => "security.NTACL",
        Some(enfilade_content::AclPlace::User) => "user.NTACL (this process may not write security.NTACL)",
        None if client::helper().is_some_and(|_| Connection::open().is_err()) => {
            "cannot be written: the helper process does not answer (`[privileges] helper`)"
        }
        None => "cannot be written: the file system of the data directory has no extended attributes",
    }
}
