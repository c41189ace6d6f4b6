//! `enfilade import`.

mod cloud;
mod dump;
mod keystone;

use crate::cli::Import;
use crate::home::Home;
use crate::output;
use enfilade_sources::files::file_set::FileSet;
use serde_json::json;

pub(super) fn run(home: &Home, command: Import, json: bool) -> anyhow::Result<()> {
    let (report, at, pretend) = match command {
        Import::Proxmox { directory, pretend } => {
            let (report, at) =
                enfilade_admin::import_proxmox(&home.change_context(), &FileSet::new(&directory), pretend)?;
            (report, at, pretend)
        }
        Import::Keystone { os_cloud, passwords, pretend } => {
            let report = keystone::run(home, &os_cloud, passwords.as_deref(), pretend)?;
            (report, home.change_context().facts.at(), pretend)
        }
    };
    let taken = report.iter().filter(|item| item.left_out.is_none()).count();
    if json {
        for item in &report {
            output::json_line(&json!({ "what": item.what, "left_out": item.left_out }));
        }
        output::json_line(
            &json!({ "taken": taken, "left_out": report.len() - taken, "revision": at.revision.0 }),
        );
        return Ok(());
    }
    let verb = if pretend { "would be imported" } else { "imported" };
    let rows: Vec<Vec<String>> = report
        .iter()
        .map(|item| {
            let became =
                item.left_out.as_ref().map_or_else(|| verb.to_owned(), |why| format!("left out: {why}"));
            vec![item.what.clone(), became]
        })
        .collect();
    output::table(&["RECORD", "RESULT"], &rows);
    output::line(&format!("{taken} {verb}, {} left out", report.len() - taken));
    Ok(())
}
