//! `enfilade datastore`.

use super::or_dash;
use crate::cli::Datastore;
use crate::home::Home;
use crate::{operations, output};
use anyhow::Context;
use enfilade_admin::{DatastoreEdit, keystone};
use enfilade_facts::Revision;
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, MaintenanceMode};
use enfilade_passage::Active;
use serde_json::json;
use std::time::Duration;

pub(super) fn run(home: &Home, command: Datastore, json: bool) -> anyhow::Result<()> {
    let mut waits = false;
    let (name, edit, text) = match command {
        Datastore::List => return list(home, json),
        Datastore::Create { name, path, comment } => {
            let path = std::path::absolute(&path).with_context(|| format!("path `{}`", path.display()))?;
            let path = path.to_str().context("the path is not UTF-8")?.to_owned();
            let text = format!("datastore {name} is there, its content is in {path}");
            let properties = comment.map(|comment| ("comment".to_owned(), comment)).into_iter().collect();
            (name, DatastoreEdit::Create { path, properties }, text)
        }
        Datastore::Set { name, comment, project } => {
            let mut bound = None;
            if let Some(project) = &project {
                let id = match project.as_str() {
                    "" => None,
                    project => Some(keystone::find_project(home.source(), project)?),
                };
                bound = Some(keystone::bind_datastore(&home.desk(), &name, id)?);
            }
            if let (Some(at), None) = (bound, &comment) {
                let value = json!({ "datastore": name.to_string(), "revision": at.revision.0 });
                output::done(json, &value, &format!("datastore {name} is changed"));
                return Ok(());
            }
            let comment = comment.context("nothing to set; give --comment or --project")?;
            let comment = Some(comment).filter(|text| !text.is_empty());
            let text = format!("datastore {name} is changed");
            (name, DatastoreEdit::Set(vec![("comment".to_owned(), comment)]), text)
        }
        Datastore::Operations { name } => return operations(home, name.as_ref(), json),
        Datastore::Maintenance { name, mode, message, wait } => {
            waits = wait;
            let text = format!("datastore {name} is in maintenance mode {mode}");
            let maintenance =
                (mode != "none").then(|| Maintenance { mode: MaintenanceMode::from_name(&mode), message });
            (name, DatastoreEdit::Maintenance(maintenance), text)
        }
        Datastore::Remove { name } => {
            let text = format!("datastore {name} is out of the configuration; its content is where it was");
            (name, DatastoreEdit::Remove, text)
        }
    };
    let at = enfilade_admin::edit_datastore(&home.desk(), &name, &edit)?;
    if let (true, DatastoreEdit::Maintenance(Some(maintenance))) = (waits, &edit) {
        wait(home, &name, at.revision, maintenance.mode == MaintenanceMode::ReadOnly)?;
    }
    output::done(json, &json!({ "datastore": name.to_string(), "revision": at.revision.0 }), &text);
    Ok(())
}

/// Waits for everybody who came in before the store was closed: those who write, and unless it can still be read those who
/// read; and then until no server holds anything of it open.
fn wait(home: &Home, name: &DatastoreName, closed: Revision, reads_go_on: bool) -> anyhow::Result<()> {
    let mut told = String::new();
    loop {
        // The change is committed: whoever is not in the ledger now has seen it (freshness protocol, rule 5).
        let mut waits_for = Vec::new();
        for process in operations::everybody(&home.data)? {
            let inside = process.inside.iter().find(|(of, _)| of == name).map(|(_, active)| *active);
            match inside {
                Some(active) if active.writers > 0 || !reads_go_on => waits_for.push(format!(
                    "process {}: {} reading, {} writing, since {}",
                    process.id,
                    active.readers,
                    active.writers,
                    output::time(active.since)
                )),
                _ if process.closed < closed && !reads_go_on => {
                    waits_for.push(format!("process {} to close it", process.id));
                }
                _ => {}
            }
        }
        if waits_for.is_empty() {
            return Ok(());
        }
        let text = format!("waiting for {}", waits_for.join("; "));
        if text != told {
            output::note(&text);
            told = text;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

fn operations(home: &Home, name: Option<&DatastoreName>, json: bool) -> anyhow::Result<()> {
    let processes = operations::everybody(&home.data)?;
    let inside = processes.iter().flat_map(|process| {
        let of_name = move |(of, _): &&(DatastoreName, Active)| name.is_none_or(|name| name == of);
        process.inside.iter().filter(of_name).map(move |(of, active)| (process.id, of, *active))
    });
    if json {
        inside.for_each(|(process, of, active)| {
            output::json_line(&json!({
                "datastore": of.to_string(), "process": process, "read": active.readers,
                "write": active.writers, "since": active.since,
            }));
        });
        return Ok(());
    }
    let rows: Vec<Vec<String>> = inside
        .map(|(process, of, active)| {
            vec![
                of.to_string(),
                process.to_string(),
                active.readers.to_string(),
                active.writers.to_string(),
                output::time(active.since),
            ]
        })
        .collect();
    output::table(&["DATASTORE", "PROCESS", "READING", "WRITING", "SINCE"], &rows);
    if rows.is_empty() {
        output::note(&format!("nobody is inside; {} servers run here", processes.len()));
    }
    Ok(())
}

fn list(home: &Home, json: bool) -> anyhow::Result<()> {
    let stores = enfilade_admin::list_datastores(home.source())?;
    if json {
        stores.iter().for_each(|store| {
            output::json_line(&json!({
                "datastore": store.name.to_string(), "path": store.path, "maintenance": store.maintenance,
                "fault": store.fault, "comment": store.comment,
            }));
        });
        return Ok(());
    }
    let rows: Vec<Vec<String>> = stores
        .into_iter()
        .map(|store| {
            let state = store.fault.or(store.maintenance);
            vec![
                store.name.to_string(),
                state.unwrap_or_else(|| "open".into()),
                store.path,
                or_dash(store.comment),
            ]
        })
        .collect();
    output::table(&["DATASTORE", "STATE", "PATH", "COMMENT"], &rows);
    Ok(())
}
