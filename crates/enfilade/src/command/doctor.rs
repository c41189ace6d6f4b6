//! `enfilade doctor`: makes all checks that are possible in a process that serves no requests. Each result is one line. If there is a problem, the
//! line says what to do.

mod cloud;
mod datastores;
mod fleet;
mod limits;
mod log;
mod names;

use crate::backup::schedule;
use crate::config::{lost_file, without_effect};
use crate::files::without_login;
use crate::home::{Installation, file_set, roots_of};
use crate::reserved::refuse_exposed_backups;
use crate::{acme, certificates, clock, output, owner, placed, time_service, token_key};
use enfilade_admin::{Administers, BadCertificate, ReservedPaths};
use enfilade_facts::Read;
use enfilade_facts::limits::MAP_PERCENT_MAX;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_privileged::client::{self, Connection};
use enfilade_sources::files::attempts::{Attempted, Attempts};
use enfilade_sources::files::mirror::Mirror;
use enfilade_sources::lmdb::Lmdb;
use enfilade_tls::CertificateFile;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;

/// The state of a checked item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Well,
    /// The item works, but needs attention.
    Warning,
    /// The item does not work.
    Error,
}

/// One checked item.
struct Finding {
    what: String,
    state: State,
    says: String,
}

fn well(what: &str, says: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), state: State::Well, says: says.into() }
}

fn warning(what: &str, says: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), state: State::Warning, says: says.into() }
}

fn error(what: &str, says: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), state: State::Error, says: says.into() }
}

/// Makes all checks. The exit code is 1 if an error was found, and otherwise 0. Warnings do not change the exit code.
pub(super) fn run(installation: &Installation, json: bool) -> anyhow::Result<ExitCode> {
    // The checks run as the owner of the data directory, because root could read files that the server cannot read.
    owner::become_owner(&installation.data)?;
    let mut findings =
        vec![directory(&installation.data), descriptors(), synchronised(), acls(&installation.data)];
    let mut useless = without_effect(&installation.config);
    useless.extend(certificates::unused_names(&installation.config.tls, &installation.data));
    let certificates = certificates_of(installation);
    findings.push(configuration(installation, &certificates));
    findings.extend(useless.into_iter().map(|says| warning("configuration", says)));
    findings.extend(certificates);
    findings.extend(limits::check(installation));
    findings.extend(acme_of(installation));
    match Lmdb::open_for(&installation.facts(), installation.config.facts.terms()) {
        Ok(lmdb) => {
            findings.extend(store(&installation.data, &lmdb));
            findings.extend(fleet::check(installation, &lmdb));
            findings.extend(files(installation, &lmdb));
            findings.push(token_key(installation, &lmdb));
            findings.push(session_keys(installation, &lmdb));
            findings.push(administrators(&installation.data, &lmdb));
            findings.extend(cloud::endpoints(installation, &lmdb));
            findings.extend(unused(installation, &lmdb));
            findings.extend(tokens(&lmdb));
            findings.extend(datastores::check(installation, &lmdb));
            findings.extend(roles(&lmdb));
            findings.extend(imports(installation, &lmdb));
            findings.push(attempts(&installation.data));
        }
        Err(why) => findings.push(error("facts", why.to_string())),
    }
    findings.push(backups(installation));
    let is_well = findings.iter().all(|finding| finding.state != State::Error);
    tell(&findings, json);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(findings: &[Finding], json: bool) {
    let word = |state| match state {
        State::Well => "ok",
        State::Warning => "warning",
        State::Error => "error",
    };
    if json {
        for Finding { what, state, says } in findings {
            output::json_line(&json!({ "what": what, "state": word(*state), "says": says }));
        }
        return;
    }
    let row =
        |finding: &Finding| vec![word(finding.state).to_owned(), finding.what.clone(), finding.says.clone()];
    output::table(&["STATE", "WHAT", "SAYS"], &findings.iter().map(row).collect::<Vec<_>>());
}

/// Whether a server can start with the configuration. `certificates` contains the findings about the certificates of the configuration. `enfilade
/// config check` makes these checks, and others.
fn configuration(installation: &Installation, certificates: &[Finding]) -> Finding {
    let what = "configuration";
    let Installation { data, config, had_config_file, .. } = installation;
    let path = installation.config_path();
    if *had_config_file && !path.exists() {
        return error(what, lost_file(&path));
    }
    if certificates.iter().any(|found| found.state == State::Error) {
        return error(what, "a server cannot start with this configuration: see the line `certificates`");
    }
    match refuse_exposed_backups(data, config, roots_of(data, config)) {
        Err(why) => error(what, format!("a server cannot start with this configuration: {why:#}")),
        Ok(()) => well(what, "valid; `enfilade config show` prints it"),
    }
}

/// The state of the certificate that an ACME authority issues.
fn acme_of(installation: &Installation) -> Option<Finding> {
    let tls = &installation.config.tls;
    let what = "acme";
    let names = tls.acme_names().join(" ");
    let bundle = acme::bundle(&installation.config, &installation.data)?;
    let record = acme::Record::read(&installation.data);
    let valid_until = record
        .valid_until
        .filter(|_| bundle.exists() && record.directory.as_deref() == Some(tls.acme_directory.url()));
    let state = match valid_until {
        Some(until) => format!("the certificate for {names} is valid until {}", output::time(until)),
        None => format!("there is no certificate for {names} from {} yet", tls.acme_directory.url()),
    };
    Some(match (record.failed, valid_until) {
        (Some((at, why)), Some(until)) if until > clock::now().unix_seconds => {
            warning(what, format!("{state}; its renewal failed at {}: {why}", output::time(at)))
        }
        (None, Some(until)) if until <= clock::now().unix_seconds => {
            let expired = format!("the certificate for {names} expired at {}", output::time(until));
            error(
                what,
                format!("{expired}: start the server if it is not running; it renews the certificate"),
            )
        }
        (Some((at, why)), _) => {
            error(what, format!("{state}; the last attempt failed at {}: {why}", output::time(at)))
        }
        (None, Some(_)) => well(what, state),
        (None, None) => warning(what, format!("{state}: a running server obtains one within a minute")),
    })
}

/// The state of the scheduled backups of the server.
fn backups(installation: &Installation) -> Finding {
    let what = "backups";
    let Some(every) = schedule::every(installation) else {
        return warning(
            what,
            "no backups are scheduled: set `[backup] directory`, or run `enfilade backup` regularly",
        );
    };
    let record = match schedule::Record::read(&installation.data) {
        Ok(record) => record,
        Err(why) => return warning(what, format!("{why:#}")),
    };
    if let Err(why) = refuse_exposed_backups(&installation.data, &installation.config, Vec::new()) {
        return error(what, format!("{why:#}"));
    }
    if let Some(failed) = record.failed {
        return error(
            what,
            format!("the last backup failed at {}: {}", output::time(failed.unix_seconds), failed.why),
        );
    }
    let directory = schedule::directory(installation);
    match record.last_in(directory.as_deref()) {
        None => warning(
            what,
            "no backup was made in `[backup] directory` yet. A server makes the first backup when it starts: if the server was started before `[backup]` was set, restart the server",
        ),
        Some(last) if schedule::is_gone(&last.file) => error(
            what,
            format!(
                "the last backup `{}` is missing: check the directory and its disk; a running server makes a new backup within 10 minutes",
                last.file.display()
            ),
        ),
        Some(last) if last.unix_seconds + 2 * every < clock::now().unix_seconds => warning(
            what,
            format!(
                "the last backup was made at {}, and the next backup is overdue: check that a server is running, and look into the log of the server",
                output::time(last.unix_seconds)
            ),
        ),
        Some(last) => {
            let older =
                record.made.iter().rev().skip(1).filter(|older| !schedule::is_gone(&older.file)).count();
            well(
                what,
                format!(
                    "the newest backup is `{}`; the server also keeps {}",
                    last.file.display(),
                    output::counted(older, "older backup", "older backups")
                ),
            )
        }
    }
}

fn directory(data: &Path) -> Finding {
    if let Err(why) = owner::check(data) {
        return error("data directory", format!("{why:#}"));
    }
    match std::fs::metadata(data) {
        Ok(meta) if meta.mode() & 0o007 != 0 => {
            let says = format!(
                "`{}` is accessible to all users; run `chmod o= '{}'`",
                data.display(),
                data.display()
            );
            warning("data directory", says)
        }
        Ok(meta) => {
            let owner = owner::name_of(meta.uid());
            well("data directory", format!("{}; all checks run as its owner, user {owner}", data.display()))
        }
        Err(why) => error("data directory", format!("`{}`: {why}", data.display())),
    }
}

fn descriptors() -> Finding {
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < 65_536 => warning(
            "descriptors",
            format!(
                "a process that is started like this command can open at most {most} files and connections: raise `LimitNOFILE` of the service, or \
                 `ulimit -Hn`, to serve many connections at the same time"
            ),
        ),
        _ => well("descriptors", "enough"),
    }
}

/// Whether the clock of the machine is synchronised. Servers use the clock of the machine to decide whether a session or credential has expired or
/// was revoked.
fn synchronised() -> Finding {
    match time_service::is_synchronised() {
        Some(true) => well("clock", "synchronised"),
        Some(false) => warning(
            "clock",
            "not synchronised: run a time service (`systemctl enable --now systemd-timesyncd`, or chrony); expiry dates and sessions depend on the clock",
        ),
        None => warning("clock", "the kernel does not report whether the clock is synchronised"),
    }
}

fn acls(data: &Path) -> Finding {
    match enfilade_content::acl_place(data) {
        Some(enfilade_content::AclPlace::Security) => well("ACLs", "new ACLs are stored in security.NTACL"),
        Some(enfilade_content::AclPlace::User) => warning(
            "ACLs",
            "a server without a helper process (`[privileges] helper`) and without CAP_SYS_ADMIN stores new ACLs in user.NTACL, which Samba does \
             not read; with the helper or the capability, a server stores new ACLs in security.NTACL",
        ),
        None if client::helper().is_some_and(|_| Connection::open().is_err()) => {
            error("ACLs", "no ACL can be written: see the line `helper`")
        }
        None => error(
            "ACLs",
            "the file system of the data directory has no extended attributes: choose another file system",
        ),
    }
}

fn certificates_of(installation: &Installation) -> Vec<Finding> {
    let what = "certificates";
    let tls = &installation.config.tls;
    let path = tls.place(&installation.data).path().display().to_string();
    let (files, looked) = match certificates::examine(tls, &installation.data) {
        Ok(Some(found)) => found,
        Ok(None) => {
            return vec![warning(
                what,
                format!("`{path}` does not exist yet: `enfilade serve` makes it with a certificate"),
            )];
        }
        Err(why) => return vec![error(what, format!("the server cannot start: {why:#}"))],
    };
    let verified = files.verify(&looked.certificates, 1, &AtomicUsize::new(0));
    let bad = [looked.bad, verified.bad].concat();
    let certificates = looked.certificates.after(verified.out);
    let warnings = [looked.warnings, verified.warnings].concat();
    let now = clock::now().unix_seconds;
    let said = |bad: BadCertificate| warning("certificate", format!("`{}`: {}", bad.file, bad.why));
    let mut findings: Vec<Finding> = bad.into_iter().chain(warnings).map(said).collect();
    let ends = certificates.files().filter_map(|file| validity(file, now));
    findings.extend(ends.map(|says| warning("certificate", says)));
    findings.push(match certificates.count() {
        0 => error(
            what,
            format!("no usable certificate in `{path}`: {}", certificates::how_to_add(files.place())),
        ),
        usable => well(
            what,
            format!("{} in `{path}`", output::counted(usable, "usable certificate", "usable certificates")),
        ),
    });
    findings
}

/// Warnings begin this many seconds before a certificate expires, because a renewal by hand takes days.
const SOON_SECONDS: i64 = 14 * 24 * 3600;

/// The problem with the validity period of a certificate, if it is not valid now, or will expire soon.
fn validity(file: &CertificateFile, now: i64) -> Option<String> {
    let (file, from, to) = (&file.path, file.not_before, file.not_after);
    match () {
        () if now < from => Some(format!("`{file}` is not valid before {}", output::time(from))),
        () if to < now => Some(format!("`{file}` expired at {}: renew it", output::time(to))),
        () if to < now + SOON_SECONDS => Some(format!("`{file}` expires at {}: renew it", output::time(to))),
        () => None,
    }
}

fn store(data: &Path, lmdb: &Lmdb) -> Vec<Finding> {
    let stale = lmdb.clear_stale_readers();
    let status = lmdb.status();
    let mut findings = vec![match lmdb.read(|view| view.head()) {
        Ok(Ok(_)) => well("facts", format!("store {}, revision {}", status.at.store, status.at.revision)),
        Ok(Err(why)) | Err(why) => error("facts", why.to_string()),
    }];
    if status.map_bytes / 100 * 80 < status.used_bytes {
        let says = format!(
            "{} of at most {} MiB in use; above {MAP_PERCENT_MAX} % only changes that remove rights are committed: set `[facts] \
             map_mebibytes` to a larger number and restart every enfilade process on this data directory",
            status.used_bytes >> 20,
            status.map_bytes >> 20
        );
        findings.push(warning("facts", says));
    }
    if status.is_worth_compacting() {
        let says = format!(
            "only {} of the {} MiB of the file are in use: stop all enfilade processes on this data directory and run `enfilade facts compact`",
            status.used_bytes >> 20,
            status.file_bytes >> 20
        );
        findings.push(warning("facts", says));
    }
    if stale > 0 {
        findings.push(warning(
            "readers",
            format!(
                "reader slots of ended processes were freed: {stale}. Such slots keep old pages in use, so that the file grows; no action is needed"
            ),
        ));
    }
    findings.push(log::changes(data, lmdb));
    findings
}

/// The failed logins that the servers counted.
fn attempts(data: &Path) -> Finding {
    let what = "failed logins";
    // `enfilade doctor` does not create the file `attempts`, because a server that runs as another user could not write to the file.
    if !data.join("attempts").exists() {
        return well(what, "none counted yet");
    }
    match Attempts::open(&data.join("attempts")).map(|file| file.counted(clock::now().unix_seconds)) {
        Ok(Attempted { failed, barred: 0 }) => well(
            what,
            format!(
                "{failed} failed logins in this hour and the hour before; no attempt came from a blocked address"
            ),
        ),
        Ok(Attempted { failed, barred }) => warning(
            what,
            format!(
                "somebody may be guessing passwords, or a client has a wrong password: {failed} failed logins in this hour and the \
                 hour before, and {barred} attempts from blocked addresses; see `\"code\":\"ID13\"` in the request log"
            ),
        ),
        Err(why) => warning(what, format!("`{}` cannot be read: {why}", data.join("attempts").display())),
    }
}

/// The findings about the files that people edit. For a valid file: the last revision at which the file was valid, and when a server last checked the
/// file. For an invalid file: its problems. Outside of a fleet, this function first reads the files, and updates the mirrored records.
fn files(installation: &Installation, lmdb: &Lmdb) -> Vec<Finding> {
    let set = file_set(&installation.data, &installation.config);
    let age = lmdb.mirror_leader().age_millis(clock::now().tick_millis);
    let looked = match age {
        Some(millis) => format!("last checked {}.{} s ago", millis / 1000, millis % 1000 / 100),
        None => "not checked by a server since the machine started".to_owned(),
    };
    // In a fleet, this command does not read the edited files. The server of the files member reads the files, and the changes go through the log of
    // the fleet.
    if !lmdb.is_replica()
        && let Err(why) = crate::look::look(lmdb, lmdb, &mut Mirror::new(set.clone()))
    {
        return vec![error("files", why.to_string())];
    }
    let files = match enfilade_admin::list_files(lmdb) {
        Ok(files) => files,
        Err(why) => return vec![error("files", why.to_string())],
    };
    let mut findings = Vec::new();
    for file in files {
        let good =
            file.good.map_or("never valid".to_owned(), |good| format!("last valid at revision {good}"));
        if file.problem_count == 0 {
            let path = set.path(file.file);
            findings.push(well(file.file.as_str(), format!("{}: {good}, {looked}", path.display())));
        }
        let since = file.since.map(output::time).unwrap_or_default();
        let problem =
            |problem: &String| error(file.file.as_str(), format!("{problem} (since {since}; {good})"));
        findings.extend(file.problems.iter().map(problem));
        let untold = (file.problem_count as usize).saturating_sub(file.problems.len());
        if untold > 0 {
            let more = output::counted(untold, "more problem", "more problems");
            findings.push(error(file.file.as_str(), format!("and {more}")));
        }
    }
    findings
}

/// Whether the key for the hashes of API tokens exists, and whether this key made the hashes.
fn token_key(installation: &Installation, lmdb: &Lmdb) -> Finding {
    let what = "key of API tokens";
    let data = &installation.data;
    match token_key::judge(data, installation.config.facts.group, lmdb) {
        Ok((judged, key)) => match (token_key::fault(data, judged, key.is_none()), key) {
            (Some(why), _) => error(what, why),
            (None, Some(_)) => well(what, token_key::path(data).display().to_string()),
            (None, None) => well(what, "no API token needs the key; the first API token creates the key"),
        },
        Err(why) => error(what, why.to_string()),
    }
}

/// Whether the Fernet keys, which sign and encrypt the tokens of sessions, exist and can be read.
fn session_keys(installation: &Installation, lmdb: &Lmdb) -> Finding {
    let what = "keys of sessions";
    let keys = installation.fernet_keys();
    let directory = keys.directory();
    match (keys.read(), enfilade_admin::has_issued_sessions(lmdb)) {
        (Ok(found), _) if !found.keys.is_empty() => well(what, directory.display().to_string()),
        (Err(why), _) if why.kind() != std::io::ErrorKind::NotFound => {
            error(what, format!("`{}` cannot be read: {why}; run `enfilade keys check`", directory.display()))
        }
        (_, Ok(true)) => error(what, token_key::lost_sessions(directory)),
        (_, Ok(false)) => well(what, "no keys exist yet: `enfilade keys init` creates the keys"),
        (_, Err(why)) => error(what, why.to_string()),
    }
}

/// Whether any user can administer the server over HTTP.
fn administrators(data: &Path, lmdb: &Lmdb) -> Finding {
    let what = "administrators";
    let of = Administers::Server;
    let found = match enfilade_admin::administrators(lmdb, of, clock::now().unix_seconds) {
        Ok(found) => found,
        Err(why) => return error(what, why.to_string()),
    };
    match (found.iter().find(|one| one.can_log_in()), without_login(&found, data)) {
        (Some(one), _) => well(what, format!("{} has the role Admin on / and can log in", one.name)),
        (None, Some(says)) => warning(what, says),
        (None, None) => cloud::administrator(lmdb)
            .unwrap_or_else(|| warning(what, format!("no enabled user has {}: {}", of.role(), of.new_one()))),
    }
}

/// The files of a Proxmox server that are in the directory of `user.cfg`, but that this server does not use.
fn unused(installation: &Installation, lmdb: &Lmdb) -> Vec<Finding> {
    let (data, reserved) = (&installation.data, ReservedPaths::new(installation.reserved()));
    let unused = placed::unused(data, lmdb, &file_set(data, &installation.config), &reserved);
    unused.into_iter().map(|unused| warning(unused.file, unused.says)).collect()
}

/// Roles of `acl.cfg` on namespaces, which have no effect on this server, and errors if the list of imported records cannot be read.
fn imports(installation: &Installation, lmdb: &Lmdb) -> Vec<Finding> {
    let files = file_set(&installation.data, &installation.config);
    let without_effect = enfilade_admin::roles_without_effect(lmdb, &files).into_iter();
    let mut findings: Vec<Finding> = without_effect.map(|says| warning("roles", says)).collect();
    let list = enfilade_admin::imported_names(lmdb).map_err(|why| why.to_string());
    let of_file = placed::imported_before(&installation.data).map_err(|why| format!("{why:#}"));
    let wrong = list.err().into_iter().chain(of_file.err());
    findings.extend(wrong.map(|why| {
        error(
            "imports",
            format!("the list of imported records cannot be used: {why}; do not import anything until the list is repaired"),
        )
    }));
    findings
}

/// A warning for each API token with a malformed hash: the server refuses every secret for such a token.
fn tokens(lmdb: &Lmdb) -> Vec<Finding> {
    match enfilade_admin::list_bad_hashes(lmdb) {
        Ok(bad) => {
            let says = |why: &str| {
                format!("the hash of the token's secret is unusable: {why}; run `enfilade token regenerate`")
            };
            bad.iter().map(|(token, why)| warning(&format!("token {token}"), says(why))).collect()
        }
        Err(why) => vec![error("tokens", why.to_string())],
    }
}

/// Warnings about role assignments with names that do not exist. The API of Proxmox and `acl.cfg` accept such names. There is a warning for each
/// missing datastore on which roles are assigned, and for each missing user, token or group in `acl.cfg`.
fn roles(lmdb: &Lmdb) -> Vec<Finding> {
    let found =
        enfilade_admin::list_roles(lmdb).and_then(|rows| Ok((rows, enfilade_admin::list_datastores(lmdb)?)));
    let (rows, stores) = match found {
        Ok(found) => found,
        Err(why) => return vec![error("roles", why.to_string())],
    };
    let mut unknown: BTreeMap<DatastoreName, usize> = BTreeMap::new();
    rows.iter()
        .filter_map(|row| row.path.datastore())
        .for_each(|name| *unknown.entry(name).or_default() += 1);
    unknown.retain(|name, _| stores.iter().all(|row| row.name != *name));
    let says = |(name, count): (DatastoreName, usize)| {
        let roles = output::counted(count, "role is assigned", "roles are assigned");
        warning(
            "roles",
            format!(
                "{roles} on /datastore/{name}, but there is no datastore `{name}`; see `enfilade role list`"
            ),
        )
    };
    let mut findings: Vec<Finding> = unknown.into_iter().map(says).collect();
    match enfilade_admin::roles_of_nobody(lmdb) {
        Ok(nobody) => findings.extend(nobody.into_iter().map(|(name, count)| {
            let entries = output::counted(count, "entry", "entries");
            warning(
                "roles",
                format!(
                    "acl.cfg has {entries} of `{name}`, which does not exist: correct the name, or remove the entries, because a later user, token \
                     or group of this name would get the roles"
                ),
            )
        })),
        Err(why) => findings.push(error("roles", why.to_string())),
    }
    findings
}
