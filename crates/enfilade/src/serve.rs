//! `enfilade serve`.

use crate::access_log::AccessLog;
use crate::certificates::{self, Keeper, Served, Watched};
use crate::cli::Serve;
use crate::config::{Check, TransportSecurity};
use crate::example;
use crate::first_start::{self, Settled};
use crate::home::{Home, server_change_context};
use crate::listen::{self, Admission, Door, Tls};
use crate::{audit_log, clock, files, keys, notes, notify, operations, output, protocols, reload, sweeping};
use anyhow::Context;
use enfilade_admin::BadCertificate;
use enfilade_faces::{Faces, Redirect};
use enfilade_facts::limits::Limits;
use enfilade_passage::{House, Upgrade, Watch};
use enfilade_sources::files::challenges;
use enfilade_sources::mounts::MountWatch;
use enfilade_tls::Tickets;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

pub(crate) fn run(mut home: Home, arguments: &Serve, json: bool) -> anyhow::Result<ExitCode> {
    if let Some(listen) = arguments.listen {
        home.config.tls.listen = listen;
    }
    if let Some(listen) = arguments.ops_listen {
        home.config.operations.listen = listen;
    }
    let connections = within_descriptors(home.config.limits.0.connections, raise_descriptor_limit())?;
    let settled = first_start::settle(&home)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(home.config.limits.0.threads as usize)
        .build()?;
    // Log lines from before the failure are written before the error.
    runtime.block_on(serve(&home, settled, connections, json)).inspect_err(|_| notes::write())?;
    // Threads that are blocked on a file system are not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

/// Raises the soft limit of descriptors to the hard limit: a listing holds a descriptor for each entry of a batch, and the usual soft
/// limit of 1,024 is for programs with `select`. Returns the limit; `None` if there is no limit.
fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current
}

/// Descriptors reserved for files, in addition to a tenth of all.
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

/// The certificates at the start.
struct Loaded {
    tls: Tls,
    bad: Vec<BadCertificate>,
    tickets: Tickets,
    watched: Option<Watched>,
}

fn load(home: &Home) -> anyhow::Result<Loaded> {
    let tickets = Tickets::default();
    certificates::follow_ticket_keys(home, &tickets)?;
    let keeper = Keeper::new(&home.config.tls, &home.data, &tickets)?;
    // The watch begins before the files are read, so that no change is missed.
    let watched = Watched::new(keeper.files.directories());
    let (certificates, bad) = keeper.load(home.config.tls.rules())?;
    if home.config.tls.check == Check::Eager {
        keeper.verify_all(&certificates, &bad)?;
    }
    let tls = Tls { certificates: Arc::new(certificates), keeper: Arc::new(keeper) };
    Ok(Loaded { tls, bad, tickets, watched })
}

/// Opens the watch of changed files. Without it each entry of a listing needs a statx.
fn hears_changes(home: &Home) -> Option<Watch> {
    match home.config.access.watch {
        false => None,
        true => Watch::new().inspect_err(|why| output::note(&format!("{why}; listings will be slower"))).ok(),
    }
}

async fn serve(home: &Home, settled: Option<Settled>, connections: u64, json: bool) -> anyhow::Result<()> {
    notes::hand_over()?;
    let Loaded { tls: tls_now, bad, tickets, watched } = load(home)?;
    let (exchange, current) = watch::channel(tls_now);
    let log = AccessLog::start(home.last_used()?, home.sessions()?)?;
    let shared = operations::shared(home)?;
    let house = home.house(log.clone(), follow_upgrades(home)?, shared, hears_changes(home))?;
    let faces = Faces::new(Arc::clone(&house), home.files.clone(), home.passwords, home.datastore_roots())
        .with_transport_security(home.config.tls.hsts.as_ref().and_then(TransportSecurity::header));
    let router = protocols::router(&faces);
    let served = Served::new(exchange, bad, faces.clone(), tickets);
    tell_bad_hashes(home)?;
    follow_everything(home, &house, &faces)?;

    let tls = listen::bind("HTTPS", home.config.tls.listen).await?;
    let operations = listen::bind("metrics and health", home.config.operations.listen).await?;
    let plain = bind_optional("HTTP without TLS", home.config.tls.plain_listen).await?;
    let http = bind_optional("HTTP", home.config.tls.http_listen).await?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut stop = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let addresses = Addresses {
        tls: tls.local_addr()?,
        operations: operations.local_addr()?,
        plain: plain.as_ref().map(TcpListener::local_addr).transpose()?,
        http: http.as_ref().map(TcpListener::local_addr).transpose()?,
    };
    tell(home, settled, json, &addresses);
    files::tell_passwords(home);

    let (drain, draining) = watch::channel(false);
    let limits = Limits { connections, ..faces.limits() };
    let admission = Arc::new(Admission::new(limits));
    // Metrics and health answer until the end, so that a load balancer sees the draining.
    let (_to_the_end, never) = watch::channel(false);
    let watching =
        tokio::spawn(listen::operations(operations, router.clone(), Arc::clone(&admission), never));
    let proxies = Arc::new(home.config.tls.proxy_from.clone());
    let door = Door { admission: Arc::clone(&admission), proxies, drain: draining, limits };
    if let Some(plain) = plain {
        tokio::spawn(listen::plain(plain, router.clone(), door.clone()));
    }
    if let Some(http) = http {
        let directory = home.config.tls.acme_challenges.clone();
        let challenge = Box::new(move |token: &str| challenges::read(directory.as_deref()?, token));
        let redirect = Redirect { port: addresses.tls.port(), challenge };
        tokio::spawn(listen::http(http, redirect, door.clone()));
    }
    tokio::spawn(listen::tls(tls, current, router, door));
    if home.config.tls.check == Check::Background {
        served.verify()?;
    }
    served.follow(watched)?;
    notify::ready();

    let (ask, mut asked) = mpsc::channel(1);
    faces.set_reloads(ask);
    loop {
        tokio::select! {
            _ = stop.0.recv() => break,
            _ = stop.1.recv() => break,
            _ = hangup.recv() => drop(reload::reload(home, &served, &faces)),
            Some(reply) = asked.recv() => drop(reply.send(reload::reload(home, &served, &faces))),
        }
    }
    notify::stopping();
    served.write_down();
    let drain_seconds = limits.drain_seconds;
    output::note(&format!("stopping: no new connections; running requests have {drain_seconds} seconds"));
    faces.metrics().drain();
    let _ = drain.send(true);
    let emptied = async {
        while admission.count() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(drain_seconds), emptied).await.is_err() {
        output::note(&format!("{} connections were cut", admission.count()));
    }
    watching.abort();
    // This waits for at most a second, because the reader of the log may have stopped reading.
    let write = move || {
        log.write();
        notes::write();
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), tokio::task::spawn_blocking(write)).await;
    Ok(())
}

async fn bind_optional(name: &str, address: Option<SocketAddr>) -> anyhow::Result<Option<TcpListener>> {
    Ok(match address {
        Some(address) => Some(listen::bind(name, address).await?),
        None => None,
    })
}

/// Starts the threads that follow changes outside this process, and those that clean up.
fn follow_everything(home: &Home, house: &Arc<House>, faces: &Faces) -> anyhow::Result<()> {
    files::follow(home, faces.clone())?;
    audit_log::follow(&home.source)?;
    follow_mounts(house)?;
    operations::follow(house)?;
    operations::look_after(faces)?;
    operations::remove_abandoned(faces)?;
    keys::follow(home, house)?;
    sweeping::follow(home, house)
}

/// Starts a thread that upgrades hashes of marked tokens, so that the request with the secret does not wait for it.
fn follow_upgrades(home: &Home) -> anyhow::Result<SyncSender<Upgrade>> {
    let (source, files, reserved) =
        (Arc::clone(&home.source), home.files.clone(), Arc::clone(&home.reserved));
    let (upgrades, queue) = sync_channel(64);
    std::thread::Builder::new().name("upgrades".into()).spawn(move || {
        for upgrade in queue {
            let ctx = server_change_context(&*source, &files, &reserved, clock::now());
            if let Err(why) = enfilade_admin::upgrade_token(&ctx, &upgrade) {
                output::note(&format!("warning: token {} keeps its slow hash: {why}", upgrade.token));
            }
        }
    })?;
    Ok(upgrades)
}

/// Logs the first tokens with an unusable hash once; `enfilade doctor` shows all.
fn tell_bad_hashes(home: &Home) -> anyhow::Result<()> {
    const TOLD_MAX: usize = 20;
    let source = Arc::clone(&home.source);
    // Checking a million tokens takes a while.
    std::thread::Builder::new().name("hashes".into()).spawn(move || {
        let Ok(bad) = enfilade_admin::list_bad_hashes(&*source) else { return };
        for (token, why) in bad.iter().take(TOLD_MAX) {
            output::note(&format!(
                "warning: the hash of token `{token}` is unusable: {why}; run `enfilade token regenerate`"
            ));
        }
        let untold = bad.len().saturating_sub(TOLD_MAX);
        if untold > 0 {
            output::note(&format!("warning: and those of {untold} more tokens; see `enfilade doctor`"));
        }
    })?;
    Ok(())
}

/// Starts a thread that follows mounts.
fn follow_mounts(house: &Arc<House>) -> anyhow::Result<()> {
    let house = Arc::clone(house);
    let mut watch = MountWatch::open().context("/proc/self/mountinfo cannot be opened")?;
    std::thread::Builder::new().name("mounts".into()).spawn(move || {
        loop {
            match watch.read() {
                Ok(mounts) => house.set_mounts(mounts),
                // Mounts are unknown: datastores that need a mount count as not mounted.
                Err(_) => house.set_mounts(enfilade_facts::Mounts::default()),
            }
            let _ = watch.wait(Duration::from_secs(60));
        }
    })?;
    Ok(())
}

/// The addresses of all listeners; a port 0 is replaced by the assigned one.
struct Addresses {
    tls: SocketAddr,
    operations: SocketAddr,
    plain: Option<SocketAddr>,
    http: Option<SocketAddr>,
}

fn tell(home: &Home, settled: Option<Settled>, json: bool, addresses: &Addresses) {
    let Addresses { tls, operations, plain, http } = addresses;
    if json {
        output::json_line(&json!({
            "listen": tls.to_string(), "ops_listen": operations.to_string(),
            "plain_listen": plain.map(|plain| plain.to_string()), "http_listen": http.map(|http| http.to_string()),
            "data": home.data,
            "admin": settled.as_ref().map(|made| made.admin.to_string()),
            "password": settled.as_ref().map(|made| made.password.clone()),
        }));
        return;
    }
    output::line(&format!("enfilade {} serves {}", env!("CARGO_PKG_VERSION"), home.data.display()));
    let path = example::path(home);
    output::line(&format!("  files       https://{}{path}", example::reachable(*tls)));
    if let Some(plain) = plain {
        let plain = example::reachable(*plain);
        output::line(&format!("  plain       http://{plain}{path}   (no TLS: for a proxy in front)"));
    }
    output::line(&format!("  operations  http://{operations}/metrics"));
    output::line(&format!("  ACLs        {}", acl_note(home)));
    if let Some(made) = &settled {
        output::line(&format!(
            "  login       {}   password {}   (shown this once)",
            made.admin, made.password
        ));
    }
    let made = settled.map(|made| format!("{}:{}", made.admin, made.password));
    let (heading, line) = example::first_request(home, made, *tls);
    output::line(heading);
    output::line(&format!("  {line}"));
}

/// The extended attribute for new ACLs: it decides whether Samba can serve the same tree.
fn acl_note(home: &Home) -> &'static str {
    match enfilade_content::acl_place(&home.data) {
        Some(enfilade_content::AclPlace::Security) => "security.NTACL",
        Some(enfilade_content::AclPlace::User) => "user.NTACL (this process may not write security.NTACL)",
        None => "cannot be written here: the file system has no extended attributes",
    }
}
