//! `enfilade acl`.

mod review;

use crate::cli::acl::Acl;
use crate::home::Home;
use crate::output;
use crate::progress::Progress;
use anyhow::Context;
use enfilade_admin::{NewAcl, Propagated};
use enfilade_facts::vocabulary::{DatastoreName, StorePath};
use review::Form;
use serde_json::{Value, json};
use std::io::{BufRead as _, IsTerminal as _, Read as _};

/// The maximum number of objects for which the output says why they could not be changed. With `--json`, the output lists all of them.
const NAMED_MAX: usize = 20;
/// The maximum number of entries of a directory that are counted.
const COUNTED_MAX: u64 = 1_000;

pub(super) fn run(home: &Home, command: Acl, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    match command {
        Acl::Get { datastore, path, sddl } => {
            let path = StorePath::from_plain(&path)?;
            let acl = enfilade_admin::get_acl(&home.change_context(), &datastore, &path)?;
            let value = json!({
                "datastore": datastore.to_string(), "path": path.to_string(), "acl": acl.lines, "sddl": acl.sddl,
                "mode": acl.mode,
            });
            let text = match (&acl.sddl, &acl.lines) {
                (Some(text), _) if sddl => text.clone(),
                (_, Some(lines)) => lines.join("\n"),
                _ => {
                    format!("no ACL; mode bits {:o}, owner {}, group {}", acl.mode & 0o7777, acl.uid, acl.gid)
                }
            };
            output::done(json, &value, &text);
        }
        Acl::Set { datastore, path, lines, sddl, empty, recursive, dry_run } => {
            let path = StorePath::from_plain(&path)?;
            let acl = match sddl {
                Some(text) => NewAcl::Sddl(text),
                None if empty => NewAcl::Lines(Vec::new()),
                None => NewAcl::Lines(lines_of(lines)?),
            };
            if recursive {
                return propagate(home, &datastore, &path, &acl, dry_run, json);
            }
            set(home, (&datastore, &path), &acl, json)?;
        }
        Acl::Save { datastore, path } => {
            let path = StorePath::from_plain(&path)?;
            let mut bad = 0;
            enfilade_admin::save_acls(
                &home.change_context(),
                &datastore,
                &path,
                &mut |path, acl| match acl {
                    Ok(sddl) => output::json_line(&json!({ "path": path, "sddl": sddl })),
                    Err(why) => {
                        bad += 1;
                        output::note(&format!("warning: {path}: its ACL {why}"));
                    }
                },
            )?;
            anyhow::ensure!(bad == 0, "{bad} ACLs were not saved; see the warnings above");
        }
        Acl::Restore { datastore } => restore(home, &datastore, json)?,
        Acl::Review { datastore, path, people, right, csv } => {
            review::run(
                home,
                &datastore,
                &path,
                people,
                right,
                if csv { Form::Csv } else { Form::of(json) },
            )?;
        }
        Acl::Map { sid, who } => {
            let at = enfilade_admin::map_sid(&home.change_context(), sid, &who)?;
            let value = json!({ "sid": sid.to_string(), "who": who.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("{sid} is mapped to {who}"));
        }
        Acl::Unmap { sid } => {
            let at = enfilade_admin::unmap_sid(&home.change_context(), sid)?;
            let value = json!({ "sid": sid.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("{sid} is no longer mapped"));
        }
        Acl::Mapped => {
            let rows = enfilade_admin::mapped_sids(source)?;
            if json {
                rows.iter().for_each(|(sid, who)| {
                    output::json_line(&json!({ "sid": sid.to_string(), "who": who }));
                });
                return Ok(());
            }
            let rows: Vec<Vec<String>> =
                rows.into_iter().map(|(sid, who)| vec![sid.to_string(), who]).collect();
            output::table(&["SID", "MAPPED TO"], &rows);
        }
        Acl::Changes { before, after } => review::changes(&before, &after, json)?,
    }
    Ok(())
}

/// Sets the ACL of one file or directory. Prints the replaced ACL. For a directory, also prints the number of its entries, which keep their own
/// rights.
fn set(
    home: &Home,
    (datastore, path): (&DatastoreName, &StorePath),
    acl: &NewAcl,
    json: bool,
) -> anyhow::Result<()> {
    let ctx = home.change_context();
    // The command also replaces an ACL that cannot be read. So this code ignores an error of the read.
    let before = enfilade_admin::get_acl(&ctx, datastore, path).ok().and_then(|acl| acl.lines);
    let place = enfilade_admin::set_acl(&ctx, datastore, path, acl)?;
    let now = enfilade_admin::get_acl(&ctx, datastore, path)?;
    let below = enfilade_admin::count_entries(&ctx, datastore, path, COUNTED_MAX).unwrap_or(0);
    let value = json!({
        "datastore": datastore.to_string(), "path": path.to_string(), "acl": now.lines, "attribute": place,
        "before": before, "entries_unchanged": below,
    });
    let mut text = format!("ACL of {path} of {datastore} set, stored in the attribute {place}");
    for line in before.iter().flatten() {
        text.push_str(&format!("\nbefore: {line}"));
    }
    if below > 0 {
        let at_least = if below == COUNTED_MAX { "at least " } else { "" };
        text.push_str(&format!(
            "\n{at_least}{below} entries of the directory keep their own rights, so a user with rights on an entry can still open the entry by its \
             path; --recursive also changes the entries"
        ));
    }
    output::done(json, &value, &text);
    Ok(())
}

/// The lines of an ACL: the arguments, or, if there are no arguments, the lines of standard input.
fn lines_of(lines: Vec<String>) -> anyhow::Result<Vec<String>> {
    if !lines.is_empty() {
        return Ok(lines);
    }
    if std::io::stdin().is_terminal() {
        output::note(
            "type the lines of the ACL, such as `allow @staff read inherit=files,dirs`, then Ctrl-D:",
        );
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .context("the ACL cannot be read from standard input")?;
    let lines: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    anyhow::ensure!(
        !lines.is_empty(),
        "nothing was changed, because the new ACL has no lines: give the lines as arguments or on standard input; --empty sets an ACL without entries"
    );
    Ok(lines)
}

fn propagate(
    home: &Home,
    datastore: &DatastoreName,
    path: &StorePath,
    acl: &NewAcl,
    dry_run: bool,
    json: bool,
) -> anyhow::Result<()> {
    let all = enfilade_admin::count_beneath(&home.change_context(), datastore, path)?;
    let (mut progress, mut done) = (Progress::start("setting ACLs"), 0);
    let propagated =
        enfilade_admin::propagate_acl(&home.change_context(), datastore, path, acl, dry_run, &mut || {
            done += 1;
            progress.at(done, all);
        });
    drop(progress);
    let Propagated { changed, same, protected, left } = propagated?;
    let would = if dry_run { "would be changed" } else { "changed" };
    let value = json!({
        "datastore": datastore.to_string(), "path": path.to_string(), "dry_run": dry_run, "changed": changed, "same": same,
        "protected": protected, "left": left.iter().map(|(path, why)| json!({ "path": path, "error": why })).collect::<Vec<Value>>(),
    });
    let mut text = format!(
        "{changed} ACLs {would}, {same} ACLs already correct, {} protected objects inherit nothing",
        protected.len()
    );
    for (path, why) in left.iter().take(NAMED_MAX) {
        text.push_str(&format!("\nnot changed: {path}: {why}"));
    }
    if left.len() > NAMED_MAX {
        text.push_str(&format!("\nand {} more; --json lists all", left.len() - NAMED_MAX));
    }
    output::done(json, &value, &text);
    anyhow::ensure!(left.is_empty(), "{} objects could not be changed; see the messages above", left.len());
    Ok(())
}

fn restore(home: &Home, datastore: &DatastoreName, json: bool) -> anyhow::Result<()> {
    let (mut changed, mut same, mut bad) = (0_u64, 0_u64, 0_u64);
    for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
        let line = line.context("standard input cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        let row: Value = serde_json::from_str(&line).with_context(|| {
            format!("line {number} is not a line of `acl save`: expected JSON with `path` and `sddl`")
        })?;
        let text = |key: &str| row.get(key).and_then(Value::as_str);
        let (Some(path), Some(sddl)) = (text("path"), text("sddl")) else {
            anyhow::bail!("line {number} is not a line of `acl save`: expected JSON with `path` and `sddl`");
        };
        let path = StorePath::from_plain(path)?;
        match enfilade_admin::restore_acl(&home.change_context(), datastore, &path, sddl) {
            Ok(true) => changed += 1,
            Ok(false) => same += 1,
            Err(why) => {
                bad += 1;
                output::note(&format!("warning: {path}: {why}"));
            }
        }
    }
    let value = json!({ "datastore": datastore.to_string(), "changed": changed, "same": same, "left": bad });
    output::done(json, &value, &format!("{changed} ACLs restored, {same} already correct"));
    anyhow::ensure!(bad == 0, "{bad} ACLs could not be restored; see the warnings above");
    Ok(())
}
