//! `enfilade fleet`.

mod join;

use crate::cli::Fleet;
use crate::fleet_log::{log, name, wait_for};
use crate::home::Installation;
use crate::progress::Progress;
use crate::shared_certificates::{CertificatesOfFleet, directory};
use crate::shared_keys::{self, KeysOfFleet};
use crate::upkeep::{audit, open};
use crate::{clock, output};
use anyhow::{Context, bail, ensure};
use enfilade_facts::format::FORMAT;
use enfilade_facts::journal::digest;
use enfilade_facts::tables::{DatastoreProfile, FileName, MirroredFile};
use enfilade_facts::{Read as _, Source};
use enfilade_fleet::{Head, KeysDigest, Log, LogError, Member};
use enfilade_sources::files::mirror::is_version;
use enfilade_sources::lmdb::Lmdb;
pub(super) use join::join;
use serde_json::json;
use std::collections::BTreeMap;

/// The pause between two checks while a command waits until earlier proofs of members have expired.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

pub(super) fn run(installation: &Installation, command: Fleet, json: bool) -> anyhow::Result<()> {
    match command {
        Fleet::Init => init(installation, json),
        Fleet::Invite { name, file } => join::invite(installation, name.as_str(), &file, json),
        // This command makes the data directory. So it has already run, before the program looked for a data directory.
        Fleet::Join { .. } => Ok(()),
        Fleet::Status => status(installation, json),
        Fleet::Upgrade => upgrade(installation, json),
        Fleet::FollowFiles => follow_files(installation, json),
        Fleet::Leave => leave(installation, json),
        Fleet::Expel { name } => expel(installation, name.as_str(), json),
        Fleet::Recover { force, accept_files } => recover(installation, (force, accept_files), json),
    }
}

/// The store of this machine. Fails if this machine is not a member.
fn member(installation: &Installation) -> anyhow::Result<Lmdb> {
    let lmdb = open(installation)?;
    ensure!(
        lmdb.is_replica(),
        "this machine is not a member of a fleet: run `enfilade fleet init`, or `enfilade fleet join FILE` with a new data directory"
    );
    Ok(lmdb)
}

fn log_of(installation: &Installation, lmdb: &Lmdb) -> anyhow::Result<Log> {
    log(&installation.config, lmdb.at().store)
}

/// Refuses to continue if a server uses the store.
fn refuse_open(installation: &Installation) -> anyhow::Result<()> {
    Lmdb::keep_closed(&installation.facts()).map(drop).context("stop the server of this machine first")
}

fn init(installation: &Installation, json: bool) -> anyhow::Result<()> {
    let config = &installation.config;
    let name = name(config)?;
    refuse_open(installation)?;
    let lmdb = open(installation)?;
    ensure!(
        !lmdb.is_replica(),
        "this machine is a member of a fleet already: `enfilade fleet status` shows it"
    );
    ensure!(
        enfilade_admin::is_set_up(&lmdb)?,
        "this data directory is new: run `enfilade init` first, because only the first member can create an administrator and a datastore"
    );
    let (at, state) = lmdb.read(|view| Ok::<_, anyhow::Error>((view.at(), digest(view)?)))??;
    drop(lmdb);
    shared_keys::forget(&installation.data)?;
    CertificatesOfFleet::forget(&installation.data)?;
    let log = log(config, at.store)?;
    let begun = wait_for(async {
        let begun = match log.begin(at.revision, state).await {
            // An earlier `init` may have been interrupted after it had created the log in etcd.
            Err(why @ LogError::NotOurs { .. }) => {
                let found = log.head().await;
                match found.is_ok_and(|head| (head.at, head.state) == (at, state)) {
                    true => false,
                    false => return Err(why),
                }
            }
            begun => begun.map(|_| true)?,
        };
        log.admit_first(name, clock::now().unix_seconds).await?;
        Ok(begun)
    })?;
    let marked = Lmdb::set_replica(&installation.facts(), installation.config.facts.terms(), true);
    if let Err(why) = marked {
        if begun {
            let log = self::log(config, at.store)?;
            wait_for(async { log.end().await })?;
        }
        return Err(why.into());
    }
    // The data directory may contain shared certificates of an earlier fleet. The new fleet gets them.
    let certificates = CertificatesOfFleet::new(&installation.data, config, at.store);
    let shared = certificates.call(async |log| certificates.share_held(log).await);
    if let Err(why) = shared {
        output::note(&format!(
            "warning: the certificates in `{}` are not certificates of the fleet: {why:#}. Add them with `enfilade certs add --fleet`; otherwise \
             the server removes them when another certificate is added",
            directory(&installation.data).display()
        ));
    }
    let value = json!({ "member": name, "store": at.store.to_string(), "revision": at.revision.0 });
    output::done(
        json,
        &value,
        &format!(
            "`{name}` is the first member of the fleet, with the facts of this machine. Start the server; to add a member, run \
             `enfilade fleet invite NAME FILE`"
        ),
    );
    Ok(())
}

fn status(installation: &Installation, json: bool) -> anyhow::Result<()> {
    let lmdb = member(installation)?;
    let log = log_of(installation, &lmdb)?;
    let (head, members) = wait_for(async { log.status().await })?;
    if json {
        members.iter().for_each(|member| output::json_line(&shown(head, member)));
        return Ok(());
    }
    let here = name(&installation.config)?;
    let rows: Vec<Vec<String>> = members.iter().flat_map(|member| rows(head, member, here)).collect();
    output::table(
        &["MEMBER", "HOST", "VERSION", "PROCESS", "CHANGE", "BEHIND", "STATE", "READS", "KEYS", "FILES"],
        &rows,
    );
    if have_different_keys(&members) {
        output::note(
            "warning: the servers have different keys of sessions, so some servers refuse sessions that other servers issued. If nobody changed keys on purpose, restart the servers one after the other: at its start, a server takes the keys of the fleet (column KEYS). To give the keys of one machine to all members, run `enfilade keys share` on that machine; never share keys that an attacker may have",
        );
    }
    output::line(&format!(
        "\nthe newest change in the log is {}; the log has {}, and its oldest change is {}",
        head.at.revision,
        output::bytes(head.log_bytes),
        head.first
    ));
    output::line(&format_of(head));
    Ok(())
}

/// The format of the fleet, and whether the format can be raised.
fn format_of(head: Head) -> String {
    match head.format < FORMAT {
        true => format!(
            "the fleet has format {}; when all servers can read format {FORMAT} (column READS), run `enfilade fleet upgrade`",
            head.format
        ),
        false => format!("the fleet has format {}", head.format),
    }
}

fn upgrade(installation: &Installation, json: bool) -> anyhow::Result<()> {
    let lmdb = member(installation)?;
    let log = log_of(installation, &lmdb)?;
    let (before, members) = wait_for(async {
        let (_, members) = log.status().await?;
        Ok((log.upgrade().await?, members))
    })?;
    let idle = members.iter().filter(|member| member.processes.is_empty()).map(|member| member.name.as_str());
    let idle: Vec<&str> = idle.collect();
    let mut text = match before == FORMAT {
        true => format!("the fleet already has format {FORMAT}, the newest one of this version of Enfilade"),
        false => format!("the format of the fleet was raised from {before} to {FORMAT}"),
    };
    if before != FORMAT && !idle.is_empty() {
        text.push_str(&format!(
            "\nthese members have no running server: {}. Update the program there before you start a server",
            idle.join(", ")
        ));
    }
    output::done(json, &json!({ "before": before, "format": FORMAT, "without_server": idle }), &text);
    Ok(())
}

/// One line for each server of a member. If the member has no server, one line for the member.
fn rows(head: Head, member: &Member, here: &str) -> Vec<Vec<String>> {
    let name =
        if member.name == here { format!("{} (this machine)", member.name) } else { member.name.clone() };
    let files = if member.has_files { "followed" } else { "-" };
    let row =
        |host: &str, version: &str, process: &str, applied: Option<u64>, [state, reads, keys]: [&str; 3]| {
            let behind = applied.map(|applied| head.at.revision.0.saturating_sub(applied));
            let number =
                |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            vec![
                name.clone(),
                host.to_owned(),
                version.to_owned(),
                process.to_owned(),
                number(applied),
                number(behind),
                state.to_owned(),
                reads.to_owned(),
                keys.to_owned(),
                files.to_owned(),
            ]
        };
    if member.processes.is_empty() {
        return vec![row("-", "-", "-", None, ["no server", "-", "-"])];
    }
    let of = |running: &enfilade_fleet::Running| match (&running.about, running.applied) {
        (Some(about), Some(applied)) => {
            let keys = running.keys.map_or_else(|| "none".to_owned(), hex);
            let reads = running.reads.map_or_else(|| "-".to_owned(), |format| format.to_string());
            let said = ["running", &reads, &keys];
            row(&about.host, &about.version, &about.pid.to_string(), Some(applied.0), said)
        }
        _ => row("-", "-", "-", None, ["no contact with etcd", "-", "-"]),
    };
    member.processes.iter().map(of).collect()
}

/// Whether two servers use different keys of sessions.
pub(super) fn have_different_keys(members: &[Member]) -> bool {
    let mut all = members.iter().flat_map(|member| &member.processes).filter_map(|running| running.keys);
    let first = all.next();
    all.any(|keys| Some(keys) != first)
}

fn hex(digest: KeysDigest) -> String {
    format!("{:016x}", u64::from_be_bytes(digest))
}

fn shown(head: Head, member: &Member) -> serde_json::Value {
    let servers: Vec<_> = member
        .processes
        .iter()
        .map(|running| {
            json!({
                "host": running.about.as_ref().map(|about| &about.host),
                "version": running.about.as_ref().map(|about| &about.version),
                "pid": running.about.as_ref().map(|about| about.pid),
                "applied": running.applied.map(|applied| applied.0),
                "keys": running.keys.map(hex),
                "is_heard": running.has_beat(),
                "reads_format": running.reads,
            })
        })
        .collect();
    json!({
        "member": member.name, "joined": member.joined, "files_followed": member.has_files, "servers": servers,
        "newest_change": head.at.revision.0, "log_bytes": head.log_bytes, "format": head.format,
    })
}

fn follow_files(installation: &Installation, json: bool) -> anyhow::Result<()> {
    let lmdb = member(installation)?;
    let here = name(&installation.config)?;
    let log = log_of(installation, &lmdb)?;
    let writer = enfilade_fleet::Writer::new(std::sync::Arc::new(lmdb), log)?;
    writer.catch_up()?;
    let has_same_files = || {
        refuse_other_files(
            installation,
            &writer,
            "Copy the file from the files member (`enfilade fleet status` shows `followed`); if that machine is lost, `enfilade facts dump` shows what the facts \
             contain",
        )
    };
    has_same_files()?;
    let log = || self::log(&installation.config, writer.at().store);
    let (of_status, of_question, of_release, of_move) = (log()?, log()?, log()?, log()?);
    let (_, members) = wait_for(async { of_status.status().await })?;
    // A server of an older version would continue to serve the datastores of the earlier files member.
    let is_older = |member: &&Member| {
        member.processes.iter().any(|running| running.has_beat() && running.reads.is_none())
    };
    if let Some(older) = members.iter().find(is_older) {
        bail!(
            "nothing was changed, and the fleet does not follow the files of this machine yet: a server of member `{}` runs an older version, which would \
             continue to serve the datastores of the earlier files member. Update Enfilade on that member, restart its server, and run this command again",
            older.name
        );
    }
    let (before, delta) =
        wait_for(async { Ok((of_question.files_member().await?, of_question.delta().await?)) })?;
    let is_here = before.as_deref() == Some(here);
    if !is_here {
        wait_for(async { of_release.move_files(before.as_deref(), None).await })?;
        // Now no member commits changes of edited files. But the earlier files member (`before`) may serve the datastores until its last proof has
        // expired.
        let (began, wait) = (clock::now().tick_millis, (delta + delta / 10).as_millis());
        while u128::from(clock::now().tick_millis.saturating_sub(began)) < wait {
            std::thread::park_timeout(LOOK);
        }
        let checked = writer.catch_up().map_err(anyhow::Error::from).and_then(|()| has_same_files());
        let to = if checked.is_ok() { Some(here) } else { before.as_deref() };
        let moved = wait_for(async { of_move.move_files(None, to).await });
        checked?;
        moved?;
    }
    let text = match (&before, is_here) {
        (_, true) => format!(
            "the fleet follows the edited files of `{here}` already, and `{here}` serves the datastores without a home"
        ),
        (Some(before), _) => format!(
            "the fleet now follows the edited files of `{here}`, and no longer those of `{before}`; `{here}` now serves the datastores without a \
             home; running servers obey this within a second"
        ),
        (None, _) => format!(
            "the fleet now follows the edited files of `{here}`, and `{here}` now serves the datastores without a home"
        ),
    };
    output::done(json, &json!({ "member": here, "before": before }), &text);
    Ok(())
}

/// Refuses if an edited file of this machine differs from the file from which the facts were read. `next` says what the operator must do.
fn refuse_other_files(installation: &Installation, source: &dyn Source, next: &str) -> anyhow::Result<()> {
    let files = crate::home::file_set(&installation.data, &installation.config);
    let known: BTreeMap<_, _> = source.read(|view| view.list::<MirroredFile>(&[]))??.into_iter().collect();
    for file in FileName::ALL {
        let path = files.path(file);
        let bytes = files.read(file).with_context(|| format!("`{}` cannot be read", path.display()))?;
        let (differs, next) = match (&bytes, known.get(&file)) {
            (Some(bytes), Some(row)) if !is_version(bytes, row) => {
                ("differs from the file that the fleet read last", next)
            }
            (None, Some(_)) => ("is missing, but the fleet has read such a file", next),
            (Some(_), None) => ("exists, but the fleet has no such file", "Move the file away"),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        bail!(
            "`{}` {differs}. If the fleet used the files of this machine, deleted users could become valid again. {next}",
            path.display()
        );
    }
    Ok(())
}

fn leave(installation: &Installation, json: bool) -> anyhow::Result<()> {
    let name = name(&installation.config)?;
    refuse_open(installation)?;
    let lmdb = member(installation)?;
    let log = log_of(installation, &lmdb)?;
    let (head, members) = wait_for(async { log.status().await })?;
    let here = members.iter().find(|member| member.name == name);
    let others: Vec<&str> =
        members.iter().map(|member| member.name.as_str()).filter(|other| *other != name).collect();
    if let Some(here) = here {
        ensure!(
            !here.processes.iter().any(enfilade_fleet::Running::has_beat),
            "a server of `{name}` is running: stop it first"
        );
    }
    if let Some(other) = others.first() {
        ensure!(
            here.is_none_or(|here| !here.has_files),
            "the fleet follows the edited files of `{name}`: run `enfilade fleet follow-files` on another member, such as `{other}`, first"
        );
        let served = served_by(&lmdb, name)?;
        ensure!(
            served.is_empty(),
            "`{name}` serves these datastores: {}. Let another member, such as `{other}`, serve each of them first: docs/fleet.md, \"Several members with \
             datastores\"",
            served.join(", ")
        );
        let log = log_of(installation, &lmdb)?;
        wait_for(async { log.expel(name).await })?;
        let text = format!(
            "`{name}` is not a member any more. Its data directory `{}` still contains the keys of the fleet and an old copy of the facts. Save the files that \
             you still need from this directory, then delete it",
            installation.data.display()
        );
        output::done(json, &json!({ "member": name, "is_alone": false }), &text);
        return Ok(());
    }
    ensure!(
        lmdb.read(|view| view.at())? == head.at,
        "this machine does not have all changes of the log: start the server of this machine, so that it applies all changes, stop the server, and \
         run this command again"
    );
    // The newest keys are fetched from etcd first, because the log in etcd ends now.
    KeysOfFleet::new(&installation.data, &installation.config, head.at.store).fetch()?;
    let log = log_of(installation, &lmdb)?;
    drop(lmdb);
    Lmdb::set_replica(&installation.facts(), installation.config.facts.terms(), false)?;
    wait_for(async { log.end().await })?;
    let text = format!(
        "`{name}` was the last member and works alone from now on; the log in etcd is deleted. Remove the section [fleet] from enfilade.toml, and start the server"
    );
    output::done(json, &json!({ "member": name, "is_alone": true }), &text);
    Ok(())
}

/// The datastores that have this member as their home.
fn served_by(lmdb: &Lmdb, member: &str) -> anyhow::Result<Vec<String>> {
    let profiles = lmdb.read(|view| view.list::<DatastoreProfile>(&[]))??;
    let is_served =
        |profile: &DatastoreProfile| profile.home.as_ref().is_some_and(|home| home.serves() == member);
    let served = profiles.into_iter().filter(|(_, profile)| is_served(profile));
    Ok(served.map(|(name, _)| name.to_string()).collect())
}

fn expel(installation: &Installation, expelled: &str, json: bool) -> anyhow::Result<()> {
    let lmdb = member(installation)?;
    let here = name(&installation.config)?;
    ensure!(
        expelled != here,
        "`{here}` is this machine: to take it out of the fleet, run `enfilade fleet leave`"
    );
    let log = log_of(installation, &lmdb)?;
    let (_, members) = wait_for(async { log.status().await })?;
    let Some(found) = members.iter().find(|member| member.name == expelled) else {
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        bail!("the fleet has no member `{expelled}`; its members are {}", names.join(", "));
    };
    let (log, of_delta) = (log_of(installation, &lmdb)?, log_of(installation, &lmdb)?);
    let delta = wait_for(async { of_delta.delta().await })?;
    wait_for(async { log.expel(expelled).await })?;
    let mut text = format!(
        "`{expelled}` is not a member any more. At the latest in {} s, its servers refuse all requests. The machine still has a copy of the facts \
         and the keys. If an attacker has the machine, follow docs/fleet.md, \"An attacker has a member\": take its access to etcd away, then run \
         `enfilade keys replace --force`",
        delta.as_secs_f64()
    );
    if found.has_files {
        text.push_str(
            "\nit was the files member: until you run `enfilade fleet follow-files` on another member, no member reads the edited files or serves the datastores for which no home is set",
        );
    }
    let served = served_by(&lmdb, expelled)?;
    if !served.is_empty() {
        text.push_str(&format!(
            "\n`{expelled}` served these datastores: {}. Make sure that it cannot write to their storage any more, then let another member serve each of them: \
             docs/fleet.md, \"Several members with datastores\"",
            served.join(", ")
        ));
    }
    output::done(
        json,
        &json!({ "member": expelled, "had_files": found.has_files, "datastores": served }),
        &text,
    );
    Ok(())
}

fn recover(
    installation: &Installation,
    (force, accept_files): (bool, bool),
    json: bool,
) -> anyhow::Result<()> {
    let lmdb = member(installation)?;
    let at = lmdb.read(|view| view.at())?;
    ensure!(
        force,
        "this machine has applied the changes up to {}. If you go on, changes that only other members or etcd have are lost, and the sessions, \
         credentials and rights that these changes revoked become valid again. Stop every other member, choose the member with the newest change, \
         and run this command there with --force",
        at.revision
    );
    if !accept_files {
        refuse_other_files(
            installation,
            &lmdb,
            "Copy the file from the member whose files the fleet followed, or from its newest backup; to use the files of this machine, add \
             --accept-files",
        )?;
    }
    drop(lmdb);
    refuse_open(installation)?;
    let mut progress = Progress::start("writing the facts");
    let what = format!("taken out of the fleet after change {}", at.revision);
    let new = Lmdb::recover(
        &installation.facts(),
        installation.config.facts.terms(),
        &audit(what),
        &mut |done, all| progress.show(done, all),
    )?;
    drop(progress);
    let text = format!(
        "the facts after change {} are an independent store now, at revision {}. No other member can follow this store: delete the data \
         directories of the other members. To work alone, remove \
         the section [fleet] from enfilade.toml; to begin a new fleet, set another `fleet.prefix` and run `enfilade fleet init`",
        at.revision, new.revision
    );
    output::done(json, &json!({ "store": new.store.to_string(), "revision": new.revision.0 }), &text);
    Ok(())
}
