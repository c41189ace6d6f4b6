//! `enfilade facts`.

mod target;
mod undone;

use crate::cli::Facts;
use crate::home::Installation;
use crate::progress::Progress;
use crate::upkeep::{
    audit, compact as run_compact, mebibytes, older, open, shorter, told, upgrade as run_upgrade,
};
use crate::{clock, output, token_key};
use anyhow::{Context, bail, ensure};
use enfilade_facts::tables::LogEntry;
use enfilade_facts::{Read, Revision, Source};
use enfilade_sources::backup::{Backup, MANIFEST};
use enfilade_sources::check;
use enfilade_sources::copy::{self, Copy, Gathered};
use enfilade_sources::files::atomic;
use enfilade_sources::lmdb::{CompactError, Compaction, Lmdb, OpenError, Plan, RestoreError};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;
use target::Target;
pub(super) use target::refuse_existing;
use undone::{Before, only_in_log};
pub(super) use undone::{see_log, valid_again};

pub(super) fn run(installation: &Installation, command: Facts, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        Facts::Status => status(&open(installation)?, json),
        Facts::Check => {
            let was_refused = Lmdb::check_pages(&installation.facts())?;
            return run_check(&open(installation)?, was_refused, json);
        }
        Facts::Log { last } => log(&open(installation)?, last, json)?,
        Facts::Backup { file, force } => {
            backup(installation, &Target::of(Some(&file), force)?, json)?;
        }
        Facts::Restore { file: Some(file), force, accept_rollback, set_aside } => {
            let copy = read(installation, &file).and_then(|from| Ok(copy::read_backup(from)?));
            put_in_place(installation, &file, copy, Consent { force, accept_rollback, set_aside }, json)?;
        }
        Facts::Restore { file: None, .. } => accept(installation, json)?,
        Facts::Upgrade { dry_run } => upgrade(installation, dry_run, json)?,
        Facts::Compact { dry_run } => compact(installation, dry_run, json)?,
        Facts::Dump { file, secrets, force } => {
            dump(installation, &Target::of(file.as_deref(), force)?, secrets, json)?;
        }
        Facts::Load { file, force, accept_rollback, set_aside } => {
            let copy = read(installation, &file).and_then(|from| Ok(copy::read_dump(from)?));
            put_in_place(installation, &file, copy, Consent { force, accept_rollback, set_aside }, json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a backup or dump for a restore. A pipe is copied completely into a file before the restore. The reason: the writer of the pipe may be slow,
/// and no other process can write to the store while the restore runs.
fn read(installation: &Installation, file: &Path) -> anyhow::Result<BufReader<File>> {
    let of_the_house = || {
        format!(
            "this backup, which `enfilade backup` wrote, contains more than the records of the store: run `enfilade restore '{}' --force`",
            file.display()
        )
    };
    let mut from = File::open(file)?;
    ensure!(!file.join(MANIFEST).exists(), of_the_house());
    if !from.metadata()?.is_file() {
        from = atomic::spooled(from, &installation.data)?;
    }
    let mut from = BufReader::with_capacity(1 << 20, from);
    ensure!(!Backup::begins(from.fill_buf()?), of_the_house());
    Ok(from)
}

fn status(lmdb: &Lmdb, json: bool) {
    let status = lmdb.status();
    if json {
        output::json_line(&json!({
            "store": status.at.store.to_string(), "revision": status.at.revision.0, "shipped": status.shipped.0,
            "file_bytes": status.file_bytes, "used_bytes": status.used_bytes,
            "map_bytes": status.map_bytes, "worth_compacting": status.is_worth_compacting(), "readers": status.readers, "readers_max": status.readers_max,
        }));
        return;
    }
    let advice =
        if status.is_worth_compacting() { "; `enfilade facts compact` makes the file shorter" } else { "" };
    let rows = [
        ("store", status.at.store.to_string()),
        ("revision", format!("{} (written to the audit log up to {})", status.at.revision, status.shipped)),
        ("size", format!("{} used of at most {}", mebibytes(status.used_bytes), mebibytes(status.map_bytes))),
        ("file", format!("{}{advice}", mebibytes(status.file_bytes))),
        ("readers", format!("at most {} of {} slots used at once", status.readers, status.readers_max)),
    ];
    rows.iter().for_each(|(what, value)| output::line(&format!("{what:<10}{value}")));
}

fn run_check(lmdb: &Lmdb, was_refused: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::start("checking the facts");
    let checked =
        lmdb.snapshot(|snapshot| check::check(snapshot, &mut |done, all| progress.show(done, all)))??;
    drop(progress);
    let is_sound = checked.problems.is_empty();
    let advice = match is_sound {
        true => "no record is damaged or missing, and each record has the content that was last written",
        false => {
            "requests that need a damaged record are refused; replace the record, or restore a backup with `enfilade facts restore FILE --force`"
        }
    };
    if json {
        let tables: serde_json::Map<_, _> =
            checked.tables.iter().map(|(table, count)| (table.name().to_owned(), json!(count))).collect();
        output::json_line(&json!({
            "sound": is_sound, "tables": tables, "problems": checked.problems, "says": advice, "accepted_after_fault": was_refused,
        }));
    } else {
        let row =
            |(table, count): &(enfilade_facts::Table, u64)| vec![table.name().to_owned(), count.to_string()];
        output::table(&["TABLE", "RECORDS"], &checked.tables.iter().map(row).collect::<Vec<_>>());
        checked.problems.iter().for_each(|problem| output::line(&format!("damaged: {problem}")));
        output::line(advice);
        if was_refused {
            output::line(
                "the store was refused after a memory fault. No page of the store is damaged, so servers and commands can open the store again now",
            );
        }
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn log(lmdb: &Lmdb, last: u64, json: bool) -> anyhow::Result<()> {
    let entries = lmdb.read(|view| {
        let newest = view.head()?.revision.0;
        let entry = |number| Ok(view.get::<LogEntry>(&Revision(number))?.map(|entry| (number, entry)));
        let entries = (newest.saturating_sub(last) + 1..=newest).map(entry);
        entries.collect::<Result<Vec<_>, enfilade_facts::SourceError>>()
    })??;
    let entries: Vec<(u64, LogEntry)> = entries.into_iter().flatten().collect();
    if json {
        entries.iter().for_each(|(number, entry)| {
            output::json_line(&json!({
                "revision": number, "time": entry.unix_seconds, "who": entry.who, "what": entry.what,
                "request": entry.request.map(|id| id.to_string()),
            }));
        });
        return Ok(());
    }
    let row = |(number, entry): (u64, LogEntry)| {
        let time = output::time(entry.unix_seconds);
        vec![number.to_string(), time, entry.who, entry.what]
    };
    output::table(&["REVISION", "TIME", "WHO", "WHAT"], &entries.into_iter().map(row).collect::<Vec<_>>());
    Ok(())
}

fn gather(lmdb: &Lmdb, directory: &Path) -> anyhow::Result<Gathered> {
    let mut progress = Progress::start("reading the facts");
    let mut show = |done, all| progress.show(done, all);
    let now = clock::now().unix_seconds;
    let gathered = Gathered::of(&|look| lmdb.with_view(look), directory, now, &mut show);
    gathered.with_context(|| {
        format!("the records of the store (the facts) cannot be copied to `{}`", directory.display())
    })
}

fn backup(installation: &Installation, target: &Target<'_>, json: bool) -> anyhow::Result<()> {
    let mut gathered = gather_for(installation, target)?;
    let mut progress = Progress::start("writing the backup");
    target.write(|to| {
        let mut to = BufWriter::new(to);
        let mut show = |done, all| progress.at(done, all);
        gathered.write_backup(&mut to, &mut show).map_err(std::io::Error::other)?;
        to.flush()
    })?;
    drop(progress);
    let origin = &gathered.origin;
    let text = format!(
        "{} records as of revision {} were written to {target}; the backup contains hashes of secrets",
        origin.records, origin.revision
    );
    target.done(json, &serde_json::to_value(origin)?, &text);
    Ok(())
}

/// Collects the facts. The store is closed before the facts are written to the target, because a program that reads them from a pipe may be slow.
fn gather_for(installation: &Installation, target: &Target<'_>) -> anyhow::Result<Gathered> {
    let lmdb = open(installation)?;
    target.refuse_place(&installation.data, &lmdb)?;
    gather(&lmdb, target.spool(&installation.data))
}

fn dump(installation: &Installation, target: &Target<'_>, secrets: bool, json: bool) -> anyhow::Result<()> {
    let mut gathered = gather_for(installation, target)?;
    let mut progress = Progress::start("writing the dump");
    target.write(|to| {
        let mut to = BufWriter::new(to);
        let mut show = |done, all| progress.show(done, all);
        gathered.write_dump(secrets, &mut to, &mut show).map_err(std::io::Error::other)?;
        to.flush()
    })?;
    drop(progress);
    let origin = &gathered.origin;
    let holds = match secrets {
        true => "the dump contains hashes of secrets",
        false => "the dump contains no hashes of secrets",
    };
    let value = json!({
        "records": origin.records, "store": origin.store, "revision": origin.revision, "unix_seconds": origin.unix_seconds, "secrets": secrets,
    });
    let text = format!(
        "{} records as of revision {} were written to {target}; {holds}",
        origin.records, origin.revision
    );
    target.done(json, &value, &text);
    Ok(())
}

/// The options with which the operator accepts that facts are replaced or lost.
#[derive(Clone, Copy)]
struct Consent {
    force: bool,
    accept_rollback: bool,
    set_aside: bool,
}

fn put_in_place(
    installation: &Installation,
    file: &Path,
    copy: anyhow::Result<Copy<'_>>,
    consent: Consent,
    json: bool,
) -> anyhow::Result<()> {
    let unchanged = || format!("`{}` was not restored; nothing was changed", file.display());
    let copy = copy.with_context(unchanged)?;
    let origin = copy.origin.clone();
    let count = origin.records;
    let audit = audit(format!(
        "facts restore {}: all facts replaced by those of revision {}",
        file.display(),
        origin.revision
    ));
    let mut progress = Progress::start("restoring the facts");
    let mut show = |done, all| progress.show(done, all);
    let fill = |lmdb: &Lmdb| lmdb.restore(copy, &audit, consent.accept_rollback, &mut show);
    let opened = open_to_overwrite(installation, consent)?;
    let before = Before::look(&installation.facts(), opened.as_ref());
    let filled = match opened {
        Some(lmdb) => fill(&lmdb).map(|at| (at, None)),
        None => {
            let (facts, now) = (installation.facts(), clock::now().unix_seconds);
            let terms = installation.config.facts.terms();
            let filled = Lmdb::set_aside(&facts, terms, now, consent.accept_rollback, fill);
            filled.map(|(at, aside)| (at, Some(aside)))
        }
    };
    drop(progress);
    let (at, aside) = filled.map_err(|why| match why {
        why @ RestoreError::Halfway { .. } => why.into(),
        why => anyhow::Error::from(why).context(unchanged()),
    })?;
    let mut text = format!(
        "{count} records as of revision {} are in place; the id of the store is {} now",
        origin.revision, at.store
    );
    if let Some(aside) = &aside {
        text.push_str(&format!("\nthe earlier store was moved to {}", aside.display()));
    }
    let undone = before.undone(&origin, at, &installation.data, aside.is_some());
    text.extend(undone.iter().map(|undone| format!("\n{undone}")));
    if !origin.secrets {
        text.push_str(
            "\nthe dump contains no hashes of secrets: give users new passwords with `enfilade user passwd`, and tokens new secrets with `enfilade \
             token regenerate`",
        );
    }
    let value = json!({
        "records": count, "of_revision": origin.revision, "store": at.store.to_string(), "revision": at.revision.0,
        "set_aside": aside, "secrets": origin.secrets, "revocations_until": undone.is_some().then_some(origin.unix_seconds),
    });
    output::done(json, &value, &text);
    if let Some(why) = open(installation)
        .ok()
        .and_then(|lmdb| token_key::after_restore(&installation.data, installation.config.facts.group, &lmdb))
    {
        output::note(&format!("warning: {why}"));
    }
    Ok(())
}

/// Opens the store for a restore that overwrites the store. Returns `None` if the store is to be moved aside: if `--set-aside` is given, or if
/// `--force` is given and the store is damaged, was rolled back or was replaced.
fn open_to_overwrite(
    installation: &Installation,
    Consent { force, set_aside, .. }: Consent,
) -> anyhow::Result<Option<Lmdb>> {
    if set_aside && installation.facts().exists() {
        return refuse_on_member(installation).map(|()| None);
    }
    match open(installation) {
        Ok(lmdb) => {
            if !force && !enfilade_admin::is_empty(&lmdb as &dyn Source)? {
                bail!(
                    "`{}` already contains facts; give --force to replace them",
                    installation.facts().display()
                );
            }
            Ok(Some(lmdb))
        }
        Err(why) if is_of_this_store(&why) && force => {
            refuse_on_member(installation).context(why.to_string())?;
            output::note(&format!("warning: {why}"));
            Ok(None)
        }
        Err(why) if is_of_this_store(&why) => Err(anyhow::Error::from(why).context(
            "the present store cannot be opened; give --force to move it aside and restore into a new store",
        )),
        Err(why) => Err(why.into()),
    }
}

/// Refuses to replace the store of a member of a fleet by a store that belongs to no fleet. The store may be damaged, so only the configuration shows
/// whether this machine is a member.
fn refuse_on_member(installation: &Installation) -> anyhow::Result<()> {
    ensure!(
        installation.config.fleet.etcd.is_none(),
        "enfilade.toml has `fleet.etcd`, so the facts are not replaced on this machine alone: let the member join again (docs/fleet.md, \"Replace a machine\"). \
         If this machine is not a member, remove `fleet.etcd` from enfilade.toml, and try again"
    );
    Ok(())
}

/// Whether the files of this store are the cause of the error. If they are the cause, a new store in the same place can be opened.
fn is_of_this_store(why: &OpenError) -> bool {
    matches!(
        why,
        OpenError::Io { .. }
            | OpenError::Damaged { .. }
            | OpenError::Faulted(_)
            | OpenError::WentBack { .. }
            | OpenError::Replaced(_)
    )
}

fn accept(installation: &Installation, json: bool) -> anyhow::Result<()> {
    let lost = match open(installation) {
        Ok(_) => bail!("the store was neither rolled back nor replaced, so there is nothing to accept"),
        Err(OpenError::WentBack { found, expected, .. }) => Some((found, expected)),
        Err(OpenError::Replaced(_)) => None,
        Err(why) => return Err(why.into()),
    };
    let audit = audit("facts restore --accept-rollback".into());
    let mut progress = Progress::start("restoring the facts");
    let mut show = |done, all| progress.show(done, all);
    let at = Lmdb::accept(&installation.facts(), installation.config.facts.terms(), &audit, &mut show)?;
    drop(progress);
    let value = json!({ "store": at.store.to_string(), "revision": at.revision.0 });
    let lost = match lost {
        Some((found, expected)) => format!(
            "the changes after revision {found}, up to revision {expected}, are lost. The sessions, credentials and rights that these changes \
             revoked, disabled, deleted or removed (also by NoAccess) work again. Make these changes again before you start a server\n{}",
            only_in_log(found.0)
        ),
        None => "if this store is an older copy, all revocations, deletions and removals of rights that were made after it was copied are lost. Make these changes again before you start a server"
            .to_owned(),
    };
    let text = format!(
        "from now on, servers use the store as it is now; the new id of the store is {}\n{lost}",
        at.store
    );
    output::done(json, &value, &text);
    Ok(())
}

fn upgrade(installation: &Installation, dry_run: bool, json: bool) -> anyhow::Result<()> {
    let Some(older) = older(installation)? else {
        // The store is opened even if it needs no upgrade, because damage is found when the store is opened.
        let lmdb = open(installation)?;
        let value = json!({ "upgraded": false, "revision": lmdb.at().revision.0 });
        let text = match lmdb.is_replica() {
            true => {
                "this machine is a member of a fleet, so its store was not changed; `enfilade fleet upgrade` upgrades the format for all members"
            }
            false => "the store already has the format of this version of enfilade; nothing was changed",
        };
        output::done(json, &value, text);
        return Ok(());
    };
    if dry_run {
        let mut progress = Progress::start("reading the facts");
        let plan = older.try_out(&mut |done, all| progress.show(done, all))?;
        drop(progress);
        let text = format!("{}\nevery record can be upgraded; nothing was changed", told(&plan));
        output::done(json, &json!({ "upgraded": false, "plan": described(&plan) }), &text);
        return Ok(());
    }
    let (plan, at) = run_upgrade(older)?;
    let value = json!({ "upgraded": true, "plan": described(&plan), "revision": at.revision.0 });
    let text = format!("{}\nthe store was upgraded; the new revision is {}", told(&plan), at.revision);
    output::done(json, &value, &text);
    Ok(())
}

fn described(plan: &Plan) -> serde_json::Value {
    let Plan { from, to, records, tables, backup } = plan;
    let tables: Vec<&str> = tables.iter().map(|table| table.name()).collect();
    json!({ "from": from, "to": to, "records": records, "tables": tables, "backup": backup })
}

fn compact(installation: &Installation, dry_run: bool, json: bool) -> anyhow::Result<()> {
    if dry_run {
        let lmdb = open(installation)?;
        let mut progress = Progress::start("reading the facts");
        let plan = lmdb.plan_compaction(&mut |done, all| progress.show(done, all))?;
        drop(progress);
        let revision = json!({ "compacted": false, "plan": measured(&plan) });
        output::done(
            json,
            &revision,
            &format!("{} of disk space would be freed (an estimate); nothing was changed", shorter(&plan)),
        );
        return Ok(());
    }
    let (done, at) = run_compact(installation).map_err(|why| match why {
        CompactError::Open(why @ (OpenError::InUse(_) | OpenError::Taken(_))) => anyhow::Error::from(why)
            .context(
                "the facts were not compacted, and nothing was changed, because another process uses the facts: stop \
                every enfilade process on this data directory, then run this command again",
            ),
        why => why.into(),
    })?;
    let value = json!({ "compacted": true, "plan": measured(&done), "revision": at.revision.0 });
    output::done(
        json,
        &value,
        &format!("{} of disk space freed; the new revision is {}", shorter(&done), at.revision),
    );
    Ok(())
}

fn measured(done: &Compaction) -> serde_json::Value {
    json!({
        "records": done.records, "bytes_before": done.bytes_before, "bytes_after": done.bytes_after,
        "won_bytes": done.won_bytes(),
    })
}
