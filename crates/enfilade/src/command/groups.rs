//! `enfilade group`.

use super::{has_administrator, keep_administrator, or_dash, warn_without_administrator};
use crate::cli::{Group, Member};
use crate::home::Home;
use crate::output;
use enfilade_admin::{Loss, Target};
use serde_json::json;

pub(super) fn run(home: &Home, command: Group, json: bool) -> anyhow::Result<()> {
    let source = home.source();
    match command {
        Group::Add { group, sid, gid, comment } => {
            let (id, at) = enfilade_admin::add_group(&home.change_context(), &group, sid, gid, comment)?;
            let value =
                json!({ "group": group.to_string(), "id": id.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("group @{group} created"));
        }
        Group::List => {
            let groups = enfilade_admin::list_groups(source)?;
            if json {
                groups.iter().for_each(|group| {
                    output::json_line(&json!({
                        "group": group.group, "id": group.id.to_string(), "sid": group.sid.to_string(),
                        "gid": group.gid, "members": group.members, "comment": group.comment,
                    }));
                });
                return Ok(());
            }
            let rows: Vec<Vec<String>> = groups
                .into_iter()
                .map(|group| {
                    let members = Some(group.members.join(" ")).filter(|members| !members.is_empty());
                    vec![
                        group.group,
                        or_dash(group.gid),
                        group.sid.to_string(),
                        or_dash(members),
                        or_dash(group.comment),
                    ]
                })
                .collect();
            output::table(&["GROUP", "GID", "SID", "MEMBERS", "COMMENT"], &rows);
        }
        Group::Remove { group, force } => {
            keep_administrator(home, &Loss::Group(&group), force)?;
            let had_administrator = has_administrator(home)?;
            let at = enfilade_admin::remove_group(&home.change_context(), &group)?;
            let value = json!({ "group": group.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("group @{group} removed, with its memberships and roles"));
            warn_without_administrator(home, had_administrator)?;
        }
        Group::Member(Member::Add { group, members }) => {
            for member in members {
                let target: Target = member.parse()?;
                let at = enfilade_admin::add_member(&home.change_context(), &group, &target)?;
                let value =
                    json!({ "group": group.to_string(), "member": member, "revision": at.revision.0 });
                output::done(json, &value, &format!("{target} is in @{group}"));
            }
        }
        Group::Member(Member::Remove { group, members, force }) => {
            let targets: Vec<Target> =
                members.iter().map(|member| member.parse()).collect::<Result<_, _>>()?;
            keep_administrator(home, &Loss::Members(&group, &targets), force)?;
            let had_administrator = has_administrator(home)?;
            for (member, target) in members.into_iter().zip(targets) {
                let at = enfilade_admin::remove_member(&home.change_context(), &group, &target)?;
                let value =
                    json!({ "group": group.to_string(), "member": member, "revision": at.revision.0 });
                output::done(json, &value, &format!("{target} is no longer in @{group}"));
            }
            warn_without_administrator(home, had_administrator)?;
        }
    }
    Ok(())
}
