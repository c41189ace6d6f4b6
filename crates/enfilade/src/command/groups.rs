//! `enfilade group`.

use super::{keeping_administrators, or_dash};
use crate::cli::{Group, Member};
use crate::home::Home;
use crate::output;
use enfilade_admin::Target;
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
            let at =
                keeping_administrators(home, force, |ctx| Ok(enfilade_admin::remove_group(ctx, &group)?))?;
            let value = json!({ "group": group.to_string(), "revision": at.revision.0 });
            output::done(json, &value, &format!("group @{group} removed, with its memberships and roles"));
        }
        Group::Member(Member::Add { group, members }) => {
            for member in members {
                let target: Target = member.parse()?;
                let at = enfilade_admin::add_member(&home.change_context(), &group, &target)?;
                let value =
                    json!({ "group": group.to_string(), "member": member, "revision": at.revision.0 });
                output::done(json, &value, &format!("{target} is now in @{group}"));
            }
        }
        Group::Member(Member::Remove { group, members, force }) => {
            let targets: Vec<Target> =
                members.iter().map(|member| member.parse()).collect::<Result<_, _>>()?;
            let at = keeping_administrators(home, force, |ctx| {
                Ok(enfilade_admin::remove_members(ctx, &group, &targets)?)
            })?;
            for (member, target) in members.into_iter().zip(targets) {
                let value =
                    json!({ "group": group.to_string(), "member": member, "revision": at.revision.0 });
                output::done(json, &value, &format!("{target} is no longer in @{group}"));
            }
        }
    }
    Ok(())
}
