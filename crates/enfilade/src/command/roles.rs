//! `enfilade role`.

use super::{enabled, kept};
use crate::cli::{Assignment, RoleCommand};
use crate::home::Home;
use crate::output;
use enfilade_facts::At;
use serde_json::json;

pub(super) fn run(home: &Home, command: RoleCommand, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    let said = |assignment: &Assignment, at: At, text: &str| {
        let value = json!({
            "path": assignment.path.to_string(), "auth_id": assignment.auth_id, "role": assignment.role.name(),
            "revision": at.revision.0,
        });
        output::done(json, &value, text);
    };
    match command {
        RoleCommand::Assign { assignment, no_propagate } => {
            let Assignment { path, auth_id, role } = &assignment;
            let at =
                enfilade_admin::assign_role(&home.desk(), path, &auth_id.parse()?, *role, !no_propagate)?;
            said(&assignment, at, &format!("{auth_id} is {role} on {path}"));
        }
        RoleCommand::Remove { assignment } => {
            let Assignment { path, auth_id, role } = &assignment;
            let at = enfilade_admin::remove_role(&home.desk(), path, &auth_id.parse()?, *role)?;
            said(&assignment, at, &format!("{auth_id} is no longer {role} on {path}"));
        }
        RoleCommand::List => {
            let rows = enfilade_admin::list_roles(source)?;
            if json {
                rows.iter().for_each(|row| {
                    output::json_line(&json!({
                        "path": row.path.to_string(), "auth_id": row.who, "role": row.role.name(),
                        "propagate": row.propagate, "kept_in": row.is_kept.then_some("acl.cfg"), "fault": row.fault,
                    }));
                });
                return Ok(());
            }
            let rows: Vec<Vec<String>> = rows
                .into_iter()
                .map(|row| {
                    let kept = kept(row.is_kept, row.fault.as_deref(), "acl.cfg");
                    vec![row.path.to_string(), row.who, row.role.to_string(), enabled(row.propagate), kept]
                })
                .collect();
            output::table(&["PATH", "WHO", "ROLE", "BELOW", "KEPT IN"], &rows);
        }
    }
    Ok(())
}
