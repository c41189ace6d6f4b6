//! `enfilade datastore`.

use super::or_dash;
use crate::cli::Datastore;
use crate::home::Home;
use crate::output;
use anyhow::Context;
use enfilade_admin::{DatastoreEdit, keystone};
use enfilade_facts::vocabulary::{Maintenance, MaintenanceMode};
use serde_json::json;

pub(super) fn run(home: &Home, command: Datastore, json: bool) -> anyhow::Result<()> {
    let (name, edit, text) = match command {
        Datastore::List => return list(home, json),
        Datastore::Create { name, path, comment } => {
            let path = std::path::absolute(&path).with_context(|| format!("path `{}`", path.display()))?;
            let path = path.to_str().context("the path is not UTF-8")?.to_owned();
            let text = format!("datastore {name} is there, its content is in {path}");
            (name, DatastoreEdit::Create { path, comment }, text)
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
            (name, DatastoreEdit::Comment(comment), text)
        }
        Datastore::Maintenance { name, mode, message } => {
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
    output::done(json, &json!({ "datastore": name.to_string(), "revision": at.revision.0 }), &text);
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
