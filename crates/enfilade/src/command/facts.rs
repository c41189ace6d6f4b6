//! `enfilade facts`.

use crate::cli::Facts;
use crate::home::{Place, caller};
use crate::progress::Progress;
use crate::{clock, output};
use anyhow::{Context, bail};
use enfilade_facts::limits::UPGRADE_AT_START_RECORDS_MAX;
use enfilade_facts::tables::LogEntry;
use enfilade_facts::{At, AuditRecord, Read, Revision, Source};
use enfilade_sources::check;
use enfilade_sources::copy::{self, CopyError, Origin, Record};
use enfilade_sources::files::atomic;
use enfilade_sources::lmdb::{Lmdb, Older, OpenError, Plan};
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(place: &Place, command: Facts, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        Facts::Status => status(&open(place)?, json),
        Facts::Check => return run_check(&open(place)?, json),
        Facts::Log { last } => log(&open(place)?, last, json)?,
        Facts::Backup { file } => backup(&open(place)?, &file, json)?,
        Facts::Restore { file: Some(file), force, accept_rollback } => {
            let mut progress = Progress::start("reading the backup");
            let from = read(&file)?;
            let copy = copy::read_backup(from, &mut |done, all| progress.show(done, all));
            drop(progress);
            put_in_place(place, &file, copy, Consent { force, accept_rollback }, json)?;
        }
        Facts::Restore { file: None, .. } => accept(place, json)?,
        Facts::Upgrade { dry_run } => upgrade(place, dry_run, json)?,
        Facts::Dump { file, secrets } => dump(&open(place)?, file.as_deref(), secrets)?,
        Facts::Load { file, force, accept_rollback } => {
            let copy = copy::read_dump(read(&file)?);
            put_in_place(place, &file, copy, Consent { force, accept_rollback }, json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn open(place: &Place) -> Result<Lmdb, OpenError> {
    Lmdb::open_for(&place.facts(), place.config.facts.group)
}

fn read(file: &Path) -> anyhow::Result<BufReader<File>> {
    Ok(BufReader::new(File::open(file).with_context(|| format!("`{}` cannot be opened", file.display()))?))
}

fn audit(what: String) -> AuditRecord {
    AuditRecord { who: caller(), what, unix_seconds: clock::now().unix_seconds }
}

fn status(lmdb: &Lmdb, json: bool) {
    let status = lmdb.status();
    if json {
        output::json_line(&json!({
            "store": status.at.store.to_string(), "revision": status.at.revision.0, "shipped": status.shipped.0,
            "file_bytes": status.file_bytes, "used_bytes": status.used_bytes,
            "map_bytes": status.map_bytes, "readers": status.readers, "readers_max": status.readers_max,
        }));
        return;
    }
    let rows = [
        ("store", status.at.store.to_string()),
        ("revision", format!("{}, the audit log is at {}", status.at.revision, status.shipped)),
        ("size", format!("{} of {}", mebibytes(status.used_bytes), mebibytes(status.map_bytes))),
        ("readers", format!("{} of {}", status.readers, status.readers_max)),
    ];
    rows.iter().for_each(|(what, value)| output::line(&format!("{what:<10}{value}")));
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn run_check(lmdb: &Lmdb, json: bool) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::start("checking the facts");
    let checked =
        lmdb.snapshot(|snapshot| check::check(snapshot, &mut |done, all| progress.show(done, all)))??;
    drop(progress);
    let is_sound = checked.problems.is_empty();
    if json {
        let tables: serde_json::Map<_, _> =
            checked.tables.iter().map(|(table, count)| (table.name().to_owned(), json!(count))).collect();
        output::json_line(&json!({ "sound": is_sound, "tables": tables, "problems": checked.problems }));
    } else {
        let row =
            |(table, count): &(enfilade_facts::Table, u64)| vec![table.name().to_owned(), count.to_string()];
        output::table(&["TABLE", "RECORDS"], &checked.tables.iter().map(row).collect::<Vec<_>>());
        checked.problems.iter().for_each(|problem| output::line(&format!("damaged: {problem}")));
        output::line(match is_sound {
            true => "every record is the one that was written last, and none is missing",
            false => {
                "damaged records refuse; write over them, or restore a backup with `enfilade facts restore FILE --force`"
            }
        });
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

fn backup(lmdb: &Lmdb, file: &Path, json: bool) -> anyhow::Result<()> {
    let mut progress = Progress::start("writing the backup");
    let mut origin = None;
    atomic::write_with(file, 0o600, |to| {
        let mut to = BufWriter::new(to);
        let now = clock::now().unix_seconds;
        let mut show = |done, all| progress.show(done, all);
        let written = lmdb.read(|view| copy::backup(view, now, &mut to, &mut show));
        let written = written.map_err(CopyError::from).flatten().map_err(std::io::Error::other)?;
        origin = Some(written);
        to.flush()
    })
    .with_context(|| format!("`{}` cannot be written", file.display()))?;
    drop(progress);
    let origin = origin.context("nothing was written")?;
    let text = format!(
        "{} records as of revision {} are in {}; it holds hashes of secrets",
        origin.records,
        origin.revision,
        file.display()
    );
    output::done(json, &serde_json::to_value(&origin)?, &text);
    Ok(())
}

fn dump(lmdb: &Lmdb, file: Option<&Path>, secrets: bool) -> anyhow::Result<()> {
    let now = clock::now().unix_seconds;
    let write = |to: &mut dyn Write| -> std::io::Result<()> {
        let mut to = BufWriter::new(to);
        let written = lmdb.read(|view| copy::dump(view, now, secrets, &mut to));
        written.map_err(CopyError::from).flatten().map_err(std::io::Error::other)?;
        to.flush()
    };
    match file {
        None => write(&mut std::io::stdout().lock()).context("the dump cannot be written")?,
        Some(file) => atomic::write_with(file, 0o600, |to| write(to))
            .with_context(|| format!("`{}` cannot be written", file.display()))?,
    }
    Ok(())
}

/// What whoever restores has said may be lost.
#[derive(Clone, Copy)]
struct Consent {
    force: bool,
    accept_rollback: bool,
}

fn put_in_place(
    place: &Place,
    file: &Path,
    copy: Result<(Origin, Vec<Record>), CopyError>,
    consent: Consent,
    json: bool,
) -> anyhow::Result<()> {
    let (origin, records) = copy.with_context(|| format!("`{}`; nothing was changed", file.display()))?;
    let count = records.len();
    let audit = audit(format!("facts restore {} of revision {}", file.display(), origin.revision));
    let (lmdb, aside) = open_to_overwrite(place, consent.force)?;
    let at = lmdb.restore(records, Revision(origin.revision), &audit, consent.accept_rollback)?;
    let mut text = format!(
        "{count} records as of revision {} are in place; it is store {} now",
        origin.revision, at.store
    );
    if let Some(aside) = &aside {
        text.push_str(&format!("\nthe damaged store is in {}", aside.display()));
    }
    if !origin.secrets {
        text.push_str(
            "\nthe dump holds no secrets: give new passwords with `enfilade user passwd`, make new tokens",
        );
    }
    let value = json!({
        "records": count, "of_revision": origin.revision, "store": at.store.to_string(), "revision": at.revision.0,
        "set_aside": aside, "secrets": origin.secrets,
    });
    output::done(json, &value, &text);
    Ok(())
}

/// The store, or an empty one in the place of a store that cannot be opened.
fn open_to_overwrite(place: &Place, force: bool) -> anyhow::Result<(Lmdb, Option<std::path::PathBuf>)> {
    let group = place.config.facts.group;
    match open(place) {
        Ok(lmdb) => {
            if !force && !enfilade_admin::is_empty(&lmdb as &dyn Source)? {
                bail!(
                    "there are facts in `{}` already; to replace them say --force",
                    place.facts().display()
                );
            }
            Ok((lmdb, None))
        }
        Err(why @ (OpenError::Io { .. } | OpenError::WentBack { .. } | OpenError::Replaced(_))) if force => {
            output::note(&format!("warning: {why}"));
            let (lmdb, aside) = Lmdb::set_aside(&place.facts(), group, clock::now().unix_seconds)?;
            Ok((lmdb, Some(aside)))
        }
        Err(why @ (OpenError::Io { .. } | OpenError::WentBack { .. } | OpenError::Replaced(_))) => {
            Err(anyhow::Error::from(why)
                .context("to set this store aside and restore into a new one say --force"))
        }
        Err(why) => Err(why.into()),
    }
}

fn accept(place: &Place, json: bool) -> anyhow::Result<()> {
    let accepted = |at: At| {
        let value = json!({ "store": at.store.to_string(), "revision": at.revision.0 });
        output::done(json, &value, &format!("the facts are taken as they are; it is store {} now", at.store));
    };
    match open(place) {
        Ok(_) => bail!("the store is sound and has not gone back: there is nothing to accept"),
        Err(OpenError::WentBack { .. } | OpenError::Replaced(_)) => {}
        Err(why) => return Err(why.into()),
    }
    let audit = audit("facts restore --accept-rollback".into());
    let at = Lmdb::accept(&place.facts(), place.config.facts.group, &audit)?;
    accepted(at);
    Ok(())
}

fn older(place: &Place) -> Result<Option<Older>, OpenError> {
    Older::open(&place.facts(), place.config.facts.group)
}

fn upgrade(place: &Place, dry_run: bool, json: bool) -> anyhow::Result<()> {
    let Some(older) = older(place)? else {
        // What is wrong with a store that need not be upgraded is said, too.
        let revision = open(place)?.at().revision;
        let value = json!({ "upgraded": false, "revision": revision.0 });
        output::done(json, &value, "the facts have the format of this version: nothing was changed");
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
    let text = format!("{}\nthe facts are upgraded; the new revision is {}", told(&plan), at.revision);
    output::done(json, &value, &text);
    Ok(())
}

fn run_upgrade(older: Older) -> anyhow::Result<(Plan, At)> {
    let mut progress = Progress::start("upgrading the facts");
    Ok(older.upgrade(&audit(String::new()), &mut |done, all| progress.show(done, all))?)
}

fn told(plan: &Plan) -> String {
    let Plan { from, to, records, tables, backup } = plan;
    let new: Vec<&str> = tables.iter().map(|table| table.name()).collect();
    let new = if new.is_empty() { String::new() } else { format!("; new tables: {}", new.join(", ")) };
    format!(
        "format {from} to {to}: {records} records{new}; backup file of the upgrade: `{}`",
        backup.display()
    )
}

fn described(plan: &Plan) -> serde_json::Value {
    let Plan { from, to, records, tables, backup } = plan;
    let tables: Vec<&str> = tables.iter().map(|table| table.name()).collect();
    json!({ "from": from, "to": to, "records": records, "tables": tables, "backup": backup })
}

/// A server upgrades what takes less than a minute by itself, so that a package can be updated without a word.
pub(super) fn upgrade_to_serve(place: &Place) -> anyhow::Result<()> {
    let Some(older) = older(place)? else { return Ok(()) };
    let plan = older.plan()?;
    if UPGRADE_AT_START_RECORDS_MAX < plan.records {
        bail!(
            "{}; this server did not start, because an upgrade of so many records takes long: stop every other server \
             of this store, run `enfilade facts upgrade`, then start again",
            told(&plan)
        );
    }
    output::note(&format!("upgrading the facts: {}", told(&plan)));
    let (_, at) = run_upgrade(older)?;
    output::note(&format!("the facts are upgraded; the new revision is {}", at.revision));
    Ok(())
}
