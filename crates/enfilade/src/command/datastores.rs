//! `enfilade datastore`.

use super::{changes, or_dash, set_or_removed};
use crate::cli::{Datastore, Quantity};
use crate::control;
use crate::home::Home;
use crate::{fleet, operations, output, owner};
use anyhow::{Context, ensure};
use enfilade_admin::{
    DatastoreDetails, DatastoreEdit, Reserved, ReservedPaths, datastore_warnings, keystone, show_datastore,
};
use enfilade_facts::tables::{Datastore as DatastoreRow, DatastoreProfile, HomeMembers};
use enfilade_facts::vocabulary::{
    AccessMask, AclDialect, DatastoreName, Maintenance, MaintenanceMode, ProjectId, StorePath,
};
use enfilade_facts::{Read as _, Revision, SourceError};
use enfilade_passage::{Active, FleetPlace, UNKNOWN};
use enfilade_sources::mounts;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The requested changes of a datastore's profile. `None` changes nothing; an inner `None` removes the value.
#[derive(Default)]
struct Profile {
    quota: Option<Option<u64>>,
    mounted_at: Option<Option<String>>,
    acls: Option<AclDialect>,
    visible: Option<AccessMask>,
    checks_traverse: Option<bool>,
    moved_inherits: Option<bool>,
    copy_keeps: Option<bool>,
    /// The members of the fleet that may serve the datastore.
    home: Option<Option<HomeMembers>>,
    /// The project that the datastore is bound to.
    project: Option<Option<ProjectId>>,
}

impl Profile {
    fn changes_anything(&self) -> bool {
        let rules = self.acls.is_some() || self.visible.is_some() || self.checks_traverse.is_some();
        let rules = rules || self.moved_inherits.is_some() || self.copy_keeps.is_some();
        self.quota.is_some() || self.mounted_at.is_some() || self.home.is_some() || rules
    }

    fn change(&self, profile: &mut DatastoreProfile) {
        profile.quota = self.quota.unwrap_or(profile.quota);
        if let Some(point) = &self.mounted_at {
            profile.mounted_at.clone_from(point);
        }
        if let Some(home) = &self.home {
            profile.home.clone_from(home);
        }
        let access = &mut profile.access;
        access.acls = self.acls.unwrap_or(access.acls);
        access.visible = self.visible.unwrap_or(access.visible);
        access.checks_traverse = self.checks_traverse.unwrap_or(access.checks_traverse);
        access.moved_inherits = self.moved_inherits.unwrap_or(access.moved_inherits);
        access.copy_keeps = self.copy_keeps.unwrap_or(access.copy_keeps);
    }
}

pub(super) fn run(home: &Home, command: Datastore, json: bool) -> anyhow::Result<()> {
    let (mut waits, mut profile) = (false, Profile::default());
    let (name, edit, text) = match command {
        Datastore::List => return list(home, json),
        Datastore::Show { name } => return show(home, &name, json),
        Datastore::Create { name, path, comment, quota, acls, mut properties } => {
            profile = Profile { quota: quota.map(Some), acls, ..Profile::default() };
            let (path, more) = place(&path)?;
            let text = format!("datastore {name} created, its content is in {path}{more}");
            properties.extend(comment.map(|comment| ("comment".to_owned(), comment)));
            (name, DatastoreEdit::Create { path, properties }, text)
        }
        Datastore::Set {
            name,
            comment,
            project,
            quota,
            mounted_at,
            acls,
            visible_by,
            check_traverse,
            moves,
            copies,
            home: new_home,
            properties,
        } => {
            profile = Profile {
                quota: quota.map(|Quantity(bytes)| bytes),
                mounted_at: mounted_at.map(|point| Some(point).filter(|point| point != "none")),
                acls,
                visible: visible_by,
                checks_traverse: check_traverse.as_deref().map(|word| word == "yes"),
                moved_inherits: moves.as_deref().map(|word| word == "inherit"),
                copy_keeps: copies.as_deref().map(|word| word == "keep"),
                home: new_home.as_deref().map(|members| home_of(home, &name, members)).transpose()?,
                // The project is looked up before anything changes. So a mistyped name changes nothing.
                project: match project.as_deref() {
                    None => None,
                    Some("") => Some(None),
                    Some(project) => Some(Some(super::keystone::find_project(home, project)?)),
                },
            };
            let bound = profile.project.flatten();
            let bound = bound.map(|id| keystone::name_of_project(home.source(), &id)).transpose()?;
            let parts = [
                set_or_removed("comment", comment.as_deref()),
                set_or_removed("project", bound.as_deref().or(project.as_deref())),
                profile
                    .quota
                    .map(|quota| format!("quota {}", quota.map_or_else(|| "none".to_owned(), output::bytes))),
                profile
                    .mounted_at
                    .as_ref()
                    .map(|point| format!("required mount {}", point.as_deref().unwrap_or("none"))),
                acls.map(|acls| format!("acls {acls}")),
                visible_by.map(|rights| format!("visibility: {rights}")),
                check_traverse.map(|word| format!("traverse check: {word}")),
                moves.map(|word| format!("moves {word}")),
                copies.map(|word| format!("copies {word}")),
                new_home.map(|member| format!("served by {member}")),
            ];
            let of_file = properties.iter().map(|(key, value)| set_or_removed(key, Some(value)));
            let text = changes(&format!("datastore {name}"), parts.into_iter().chain(of_file));
            let comment = comment.map(|text| ("comment".to_owned(), text));
            let set = comment.into_iter().chain(properties);
            let set = set.map(|(key, value)| (key, Some(value).filter(|text| !text.is_empty())));
            (name, DatastoreEdit::Set(set.collect()), text)
        }
        Datastore::Operations { name, wait } => return operations(home, name.as_ref(), wait, json),
        Datastore::Unlock { name, path } => return unlock(home, &name, &path, json),
        Datastore::Maintenance { name, mode, message, wait } => {
            waits = wait;
            let maintenance = maintenance_of(home, &name, &mode, message)?;
            let text = match &maintenance {
                None => format!("datastore {name} is open"),
                Some(maintenance) => {
                    format!("datastore {name} is in maintenance mode {}", in_words(maintenance))
                }
            };
            (name, DatastoreEdit::Maintenance(maintenance), text)
        }
        Datastore::Remove { name } => {
            let text = removed(home, &name)?;
            (name, DatastoreEdit::Remove, text)
        }
    };
    apply(home, (&name, &edit, text), profile, waits, json)
}

/// A text about a datastore that is removed from the configuration.
fn removed(home: &Home, name: &DatastoreName) -> anyhow::Result<String> {
    let roles = enfilade_admin::list_roles(home.source())?;
    let on_it = roles.iter().filter(|row| row.path.datastore().as_ref() == Some(name)).count();
    Ok(format!(
        "datastore {name} removed from the configuration, with its role assignments ({on_it}); its content was not deleted"
    ))
}

/// The new home of a datastore; `None` for the files member. `enfilade_admin` checks the home again when it changes the facts.
fn home_of(home: &Home, name: &DatastoreName, members: &str) -> anyhow::Result<Option<HomeMembers>> {
    let (row, profile) = home.source().read(|view| {
        Ok::<_, SourceError>((view.get::<DatastoreRow>(name)?, view.get::<DatastoreProfile>(name)?))
    })??;
    let row =
        row.with_context(|| format!("there is no datastore `{name}`; see `enfilade datastore list`"))?;
    let before = profile.and_then(|profile| profile.home);
    let after = match members {
        "none" => None,
        members => Some(members_of(home, members)?),
    };
    enfilade_admin::check_home(name, &row, before.as_ref(), after.as_ref())?;
    Ok(after)
}

/// The home that consists of these members of the fleet.
fn members_of(home: &Home, names: &str) -> anyhow::Result<HomeMembers> {
    let known = fleet::members(&home.config, home.source().at().store)?;
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    for (place, name) in names.iter().enumerate() {
        ensure!(
            known.iter().any(|known| known == name),
            "the fleet has no member `{name}`; its members are {}",
            known.join(", ")
        );
        let earlier = names.iter().take(place).any(|earlier| earlier == name);
        ensure!(!earlier, "`{name}` is twice in `--home {}`: name each member once", names.join(","));
    }
    Ok(HomeMembers::new(&names))
}

/// The new maintenance mode of a datastore, or `None` for `none`. A change of the mode keeps the message, unless the command contains another
/// message. An empty message removes the old message.
fn maintenance_of(
    home: &Home,
    name: &DatastoreName,
    mode: &str,
    message: Option<String>,
) -> anyhow::Result<Option<Maintenance>> {
    let message = match message {
        Some(message) => Some(message).filter(|message| !message.is_empty()),
        None => {
            let row = home.source().read(|view| view.get::<DatastoreRow>(name))??;
            row.and_then(|row| row.maintenance?.message)
        }
    };
    Ok((mode != "none").then(|| Maintenance { mode: MaintenanceMode::from_name(mode), message }))
}

/// The mode and the message for refused clients.
fn in_words(maintenance: &Maintenance) -> String {
    let mode = maintenance.mode.name();
    match &maintenance.message {
        Some(message) => format!("{mode}, message: {message}"),
        None => mode.to_owned(),
    }
}

/// Makes the change, waits for running operations if `waits` is set, and prints the result.
fn apply(
    home: &Home,
    (name, edit, text): (&DatastoreName, &DatastoreEdit, String),
    profile: Profile,
    waits: bool,
    json: bool,
) -> anyhow::Result<()> {
    if waits {
        home.refuse_elsewhere(name)?;
    }
    // The file `datastore.cfg` is written only if one of its properties changes.
    let existed = matches!(edit, DatastoreEdit::Create { path, .. } if Path::new(path).exists());
    let is_of_file = !matches!(edit, DatastoreEdit::Set(set) if set.is_empty());
    if is_of_file {
        enfilade_admin::edit_datastore(&home.change_context(), name, edit)?;
    }
    if profile.changes_anything() {
        enfilade_admin::edit_profile(&home.change_context(), name, |after| profile.change(after))?;
    }
    if let Some(project) = profile.project {
        keystone::bind_datastore(&home.change_context(), name, project)?;
    }
    let at = home.source().at();
    if let (true, DatastoreEdit::Maintenance(Some(maintenance))) = (waits, edit) {
        wait(home, name, at.revision, maintenance.mode == MaintenanceMode::ReadOnly)?;
    }
    let text = match edit {
        DatastoreEdit::Create { path, .. } => text + &about_content(home, name, path, existed),
        _ => text,
    };
    let mut value = json!({ "datastore": name.to_string(), "revision": at.revision.0 });
    if let (Some(fields), DatastoreEdit::Create { path, .. }) = (value.as_object_mut(), edit) {
        fields.insert("path".to_owned(), json!(path));
    }
    output::done(json, &value, &text);
    if let DatastoreEdit::Create { path, .. } = edit {
        let mounts = mounts::now().unwrap_or_default();
        let warnings = datastore_warnings(home.source(), &mounts, &as_servers_see(home), &home.facts.place)?;
        let of_new = warnings.iter().filter(|found| found.name == *name);
        of_new.for_each(|found| output::note(&format!("warning: {}", found.says)));
        owner::warning_of(Path::new(path), &home.data).inspect(|says| output::note(says));
    }
    Ok(())
}

/// The reserved paths, and the directories that the running servers can open.
fn as_servers_see(home: &Home) -> ReservedPaths {
    let openable = control::openable(&home.data);
    ReservedPaths::new(Reserved { openable, ..home.reserved_by(&home.config) })
}

/// A text about a new datastore. The text says whether the directory was made. If the directory already had entries, and has no ACL, the text also
/// says which rules decide about access to the entries.
fn about_content(home: &Home, name: &DatastoreName, path: &str, existed: bool) -> String {
    if !existed {
        let is_made = Path::new(path).exists();
        return if is_made { "; a new empty directory was made" } else { "" }.to_owned();
    }
    let (ctx, top) = (home.change_context(), StorePath::root());
    let has_entries = enfilade_admin::count_entries(&ctx, name, &top, 1).is_ok_and(|count| count > 0);
    let has_acl = enfilade_admin::get_acl(&ctx, name, &top).is_ok_and(|acl| acl.lines.is_some());
    match has_entries && !has_acl {
        true => format!(
            "\nthe directory has entries and no ACL: for objects without an ACL, mode bits decide in addition to roles. To set ACLs on everything in it: enfilade acl set {name} / 'allow @GROUP full inherit=files,dirs' --recursive"
        ),
        false => String::new(),
    }
}

/// The absolute path of a new datastore, and a note if the given path is relative, or on a network file system. A datastore on a network file system
/// is served only while the file system is mounted, because without the mount the directory is empty.
fn place(said: &Path) -> anyhow::Result<(String, String)> {
    let path = std::path::absolute(said).with_context(|| format!("path `{}`", said.display()))?;
    let path = path.to_str().context("the path is not UTF-8")?.to_owned();
    let from = (!said.is_absolute()).then(|| format!(" (`{}` in the current directory)", said.display()));
    let point = mounts::network_mount_over(&path).ok().flatten();
    let needs = point
        .map(|point| format!("; the datastore is served only while a file system is mounted at {point}"));
    Ok((path, from.unwrap_or_default() + &needs.unwrap_or_default()))
}

/// Waits until all writes that began before the datastore was closed have ended. `closed` is the revision of the facts at which the datastore was
/// closed. If `reads_go_on` is not set, also waits until all reads have ended, and until no server has a file of the datastore open.
fn wait(home: &Home, name: &DatastoreName, closed: Revision, reads_go_on: bool) -> anyhow::Result<()> {
    let mut told = String::new();
    loop {
        // The new maintenance mode is committed, so it applies to every operation that the ledger counts from now on (docs/freshness.md, rule 5).
        let mut waits_for = Vec::new();
        for process in operations::everybody(&home.data)? {
            let inside = process.inside.iter().find(|(of, _)| of == name).map(|(_, active)| *active);
            match inside {
                Some(active) if active.writers > 0 || !reads_go_on => waits_for.push(format!(
                    "process {}: {} running reads, {} running writes, never idle since {}",
                    process.id,
                    active.readers,
                    active.writers,
                    output::time(active.since)
                )),
                _ if process.closed < closed && !reads_go_on => {
                    waits_for.push(format!("process {} to close the datastore", process.id));
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

fn unlock(home: &Home, name: &DatastoreName, path: &str, json: bool) -> anyhow::Result<()> {
    home.refuse_elsewhere(name)?;
    let path = StorePath::from_plain(path)?;
    let ended =
        enfilade_admin::unlock(&home.change_context(), &*home.locks()?, home.config.limits.0, name, &path)?;
    for lock in &ended {
        let what = if lock.is_deep { " and everything below it" } else { "" };
        let text = format!(
            "removed the lock of {} on {}{what}; it would have expired at {}",
            lock.user,
            lock.path,
            output::time(lock.until)
        );
        let value = json!({
            "datastore": name.to_string(), "path": lock.path.to_string(), "deep": lock.is_deep,
            "user": lock.user, "until": lock.until,
        });
        output::done(json, &value, &text);
    }
    if ended.is_empty() {
        output::note(&format!("no lock covers {path} of {name}"));
    }
    Ok(())
}

fn operations(home: &Home, name: Option<&DatastoreName>, waits: bool, json: bool) -> anyhow::Result<()> {
    if let Some(name) = name.filter(|_| waits) {
        home.refuse_elsewhere(name)?;
        wait(home, name, home.source().at().revision, false)?;
    }
    let processes = operations::everybody(&home.data)?;
    if let Some(name) = name {
        let stores = enfilade_admin::list_datastores(home.source())?;
        // A datastore that was removed may still be in use.
        let is_in_use = processes.iter().flat_map(|process| &process.inside).any(|(of, _)| of == name);
        ensure!(
            is_in_use || stores.iter().any(|store| store.name == *name),
            "there is no datastore `{name}`; see `enfilade datastore list`"
        );
    }
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
        output::note(&format!(
            "no active operations; servers that run on this data directory: {}",
            processes.len()
        ));
    }
    Ok(())
}

/// The member that serves a datastore with this home.
fn served_by(home: Option<&HomeMembers>) -> Option<&str> {
    home.map(HomeMembers::serves)
}

/// The members that take the datastore over if the members before them stop.
fn may_take_over(home: Option<&HomeMembers>) -> Vec<&str> {
    home.into_iter().flat_map(HomeMembers::members).skip(1).collect()
}

fn list(home: &Home, json: bool) -> anyhow::Result<()> {
    let stores = enfilade_admin::list_datastores(home.source())?;
    if json {
        stores.iter().for_each(|store| {
            output::json_line(&json!({
                "datastore": store.name.to_string(), "path": store.path, "maintenance": store.maintenance,
                "fault": store.fault, "comment": store.comment, "home": served_by(store.home.as_ref()), "may_take_over": may_take_over(store.home.as_ref()),
            }));
        });
        return Ok(());
    }
    let others_at = match &home.facts.place {
        FleetPlace::Alone => None,
        FleetPlace::Member { others_at, .. } => Some(others_at.get().unwrap_or_else(|| UNKNOWN.to_owned())),
    };
    let rows: Vec<Vec<String>> = stores
        .into_iter()
        .map(|store| {
            let state = store.fault.or(store.maintenance).unwrap_or_else(|| "open".into());
            let served_by = others_at
                .as_deref()
                .map(|others_at| served_by(store.home.as_ref()).unwrap_or(others_at).to_owned());
            [
                Some(store.name.to_string()),
                Some(state),
                served_by,
                Some(store.path),
                Some(or_dash(store.comment)),
            ]
            .into_iter()
            .flatten()
            .collect()
        })
        .collect();
    match others_at {
        None => output::table(&["DATASTORE", "STATE", "PATH", "COMMENT"], &rows),
        Some(_) => output::table(&["DATASTORE", "STATE", "SERVED BY", "PATH", "COMMENT"], &rows),
    }
    Ok(())
}

fn show(home: &Home, name: &DatastoreName, json: bool) -> anyhow::Result<()> {
    let DatastoreDetails { row, root, project, profile, mount_point, usage } =
        show_datastore(&home.change_context(), name)?;
    let mounts = mounts::now().unwrap_or_default();
    let mounted = mount_point.as_ref().map(|point| mounts.is_mount_point(point));
    let warnings: Vec<String> =
        datastore_warnings(home.source(), &mounts, &as_servers_see(home), &home.facts.place)?
            .into_iter()
            .filter_map(|found| (found.name == *name).then_some(found.says))
            .collect();
    let processes = operations::everybody(&home.data)?;
    let inside: Vec<(u32, Active)> = processes
        .iter()
        .flat_map(|process| process.inside.iter().map(move |(of, active)| (process.id, of, *active)))
        .filter_map(|(process, of, active)| (of == name).then_some((process, active)))
        .collect();
    let (used, total, available, unknown) = match usage {
        Ok(usage) => (Some(usage.used), Some(usage.total), Some(usage.available), None),
        Err(why) => (None, None, None, Some(why)),
    };
    // If the datastore has no quota, its content is not counted. Then the numbers are those of the whole file system.
    let usage_of = if profile.quota.is_some() { "quota" } else { "file system" };
    if json {
        let inside: Vec<_> = inside
            .iter()
            .map(|(process, active)| json!({ "process": process, "read": active.readers, "write": active.writers, "since": active.since }))
            .collect();
        let maintenance = row.maintenance.as_ref();
        output::json_line(&json!({
            "datastore": name.to_string(), "path": root, "comment": row.comment, "project": project, "home": served_by(profile.home.as_ref()), "may_take_over": may_take_over(profile.home.as_ref()),
            "maintenance": maintenance.map(|row| row.mode.name()), "message": maintenance.and_then(|row| row.message.as_deref()),
            "fault": row.fault.map(|fault| fault.to_string()), "mounted": mounted, "mount_point": mount_point, "quota": profile.quota, "used": used, "total": total,
            "available": available, "usage_of": usage_of, "usage_error": unknown, "properties": row.other.iter().cloned().collect::<BTreeMap<_, _>>(),
            "inside": inside, "warnings": warnings,
        }));
        return Ok(());
    }
    let state = row.fault.map(|fault| fault.to_string()).or_else(|| row.maintenance.as_ref().map(in_words));
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), output::bytes);
    let of = |word: &str| match profile.quota {
        Some(_) => word.to_owned(),
        None => format!("file system {word}"),
    };
    let mut rows = vec![
        ["state".to_owned(), state.unwrap_or_else(|| "open".to_owned())],
        ["path".to_owned(), root],
        ["home".to_owned(), or_dash(profile.home.map(|home| home.to_string()))],
        ["comment".to_owned(), or_dash(row.comment)],
        ["project".to_owned(), or_dash(project)],
        [of("used"), bytes(used)],
        [of("available"), bytes(available)],
        [of("total"), bytes(total)],
        ["quota".to_owned(), bytes(profile.quota)],
    ];
    rows.extend(mount_point.zip(mounted).map(|(point, mounted)| {
        ["mounted".to_owned(), format!("{}, at {point}", if mounted { "yes" } else { "no" })]
    }));
    rows.extend(row.other.into_iter().map(|(key, value)| [key, value]));
    rows.extend(inside.iter().map(|(process, active)| {
        let (readers, writers) = (active.readers, active.writers);
        let since = output::time(active.since);
        [
            "active".to_owned(),
            format!("process {process}: {readers} running reads, {writers} running writes, never idle since {since}"),
        ]
    }));
    rows.extend(unknown.into_iter().chain(warnings).map(|says| ["warning".to_owned(), says]));
    output::table(&["DATASTORE", name.as_str()], &rows.into_iter().map(Vec::from).collect::<Vec<_>>());
    Ok(())
}
