//! Datastores, which are mirrored from `datastore.cfg`: a change is first written to the file. Then the server reads the file, as it does after a
//! person edited the file.

mod chunks;
mod describe;
mod exposed;

pub(crate) use chunks::is_chunk_store;
pub use chunks::writable_chunk_stores;
pub(crate) use describe::overlap;
pub use describe::{
    DatastoreDetails, DatastoreSummary, DatastoreWarning, datastore_warnings, list_datastores, show_datastore,
};
pub use exposed::{Exposed, exposed, roots, roots_in_file};

use crate::change_context::ChangeContext;
use crate::comment::check_comment;
use crate::error::Error;
use crate::object_acl::open_to_roles;
use crate::roles::remove_roles_on;
use enfilade_content::real_path;
use enfilade_facts::tables::{Datastore, DatastoreProfile, FileName, HomeMembers};
use enfilade_facts::vocabulary::{
    AccessMask, AclDialect, DatastoreName, Maintenance, MaintenanceMode, RolePath, StorePath,
};
use enfilade_facts::{At, Effect, Read};
use enfilade_sources::files::section_config::{Section, set};
use enfilade_sources::files::{datastore_cfg, directory, owner};
use enfilade_sources::mounts::network_mount_over;
use std::path::{Path, PathBuf};

/// A change of a datastore's section in `datastore.cfg`.
#[derive(Clone, Debug)]
pub enum DatastoreEdit {
    /// Create the section, and the directory of the content.
    Create {
        /// The absolute path of the content.
        path: String,
        /// The other properties of the section, by their names in `datastore.cfg`.
        properties: Vec<(String, String)>,
    },
    /// Change properties, by their names in `datastore.cfg`; `None` removes a property.
    Set(Vec<(String, Option<String>)>),
    /// Set the maintenance mode, or end it with `None`.
    Maintenance(Option<Maintenance>),
    /// Remove the section of `datastore.cfg`, and every role on the datastore.
    Remove,
}

/// Changes one section: first in the file, while the file is locked, then in the facts. The change is in effect from the returned revision on.
///
/// # Errors
/// When the change is invalid, or the file cannot be changed. In both cases, the section stays as it was, but [`DatastoreEdit::Remove`] may have
/// removed the roles already. If the file was changed, but the facts cannot be changed, a running server changes the facts later.
pub fn edit_datastore(
    ctx: &ChangeContext<'_>,
    name: &DatastoreName,
    edit: &DatastoreEdit,
) -> Result<At, Error> {
    let mut content = None;
    let verb = match edit {
        DatastoreEdit::Create { path, properties } => {
            check_comment(comment_of(properties.iter().map(|(key, value)| (key.as_str(), value.as_str()))))?;
            let row = Datastore {
                path: path.clone(),
                backing_device: properties
                    .iter()
                    .find(|(key, _)| key == "backing-device")
                    .map(|(_, value)| value.clone()),
                ..Datastore::default()
            };
            check_path(ctx, name, path, &row.root(name))?;
            // No directory is created on a removable device, because the device is possibly not mounted yet.
            content = row.backing_device.is_none().then_some(path);
            "create"
        }
        DatastoreEdit::Set(changes) => {
            let set = changes.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)));
            check_comment(comment_of(set))?;
            "set"
        }
        DatastoreEdit::Maintenance(_) => "maintenance",
        DatastoreEdit::Remove => {
            // Roles on the datastore are removed, so that a later datastore of the same name does not get these roles.
            if ctx.facts.read(|view| view.get::<Datastore>(name))??.is_some() {
                remove_roles_on(ctx, &RolePath::of(name, &StorePath::root()))?;
            }
            "remove"
        }
    };
    let effect = match edit {
        DatastoreEdit::Remove | DatastoreEdit::Maintenance(Some(_)) => Effect::Takes,
        _ => Effect::Gives,
    };
    let file = FileName::Datastores;
    let mut made = Vec::new();
    let at = ctx.write_through(&format!("datastore {verb} {name}"), effect, &[file], |files| {
        files.sections(file, |sections| {
            apply(sections, name, edit).map_err(Error::Invalid)?;
            content.map_or(Ok(()), |path| make_content_directory(ctx, path, &mut made))
        })
    });
    if at.is_err() {
        // The created directories are removed, innermost first. Only empty directories are removed.
        made.iter().rev().for_each(|path| drop(std::fs::remove_dir(path)));
    }
    let at = at?;
    // While a network file system is not mounted, its mount point is an empty directory. The mount point is recorded, so that the empty directory is
    // not served.
    match edit {
        DatastoreEdit::Create { path, .. } => match network_mount_over(path).unwrap_or_default() {
            Some(point) => edit_profile(ctx, name, |profile| profile.mounted_at = Some(point.clone())),
            None => Ok(at),
        },
        _ => Ok(at),
    }
}

/// Lets a member of the fleet serve a datastore. `before` lists the home members in order; the members that precede `member` in this list have no
/// running server.
///
/// # Errors
/// When the home of the datastore is not `before`, the member is not in `before`, a member that precedes `member` has a server again, or the facts
/// cannot be changed.
pub fn take_over(
    ctx: &ChangeContext<'_>,
    name: &DatastoreName,
    before: &HomeMembers,
    member: &str,
) -> Result<At, Error> {
    let absent = before.before(member);
    let absent =
        absent.ok_or_else(|| Error::Invalid(format!("`{member}` is not a home member of {name}")))?;
    let what = format!("datastore {name}: {member} takes over from {}", absent.join(", "));
    let (_, at) = ctx.commit(&what, |view, change| {
        let profile = view.get::<DatastoreProfile>(name)?;
        let profile = profile.filter(|profile| profile.home.as_ref() == Some(before));
        let profile = profile
            .ok_or_else(|| Error::Invalid(format!("the home of {name} has changed in the meantime")))?;
        let home = Some(before.taken_over_by(member));
        change.expect_same(name, &profile).put(name, &DatastoreProfile { home, ..profile });
        for member in &absent {
            change.expect_no_process_of(member);
        }
        Ok(())
    })?;
    Ok(at)
}

/// Changes the properties of a datastore that are not in its section of `datastore.cfg`. If the kind of ACLs changes, and the directory of the
/// datastore is empty and has no ACL, the directory gets an ACL of the new kind.
///
/// # Errors
/// When the datastore does not exist, the change is invalid, or the facts cannot be changed.
pub fn edit_profile(
    ctx: &ChangeContext<'_>,
    name: &DatastoreName,
    edit: impl Fn(&mut DatastoreProfile),
) -> Result<At, Error> {
    let (seeded, at) = ctx.commit(&format!("datastore set {name}"), |view, change| {
        let row = view.get::<Datastore>(name)?.ok_or_else(|| Error::Missing {
            what: "datastore",
            name: name.to_string(),
            hint: "see `enfilade datastore list`",
        })?;
        let before = view.get::<DatastoreProfile>(name)?;
        let mut profile = before.clone().unwrap_or_default();
        edit(&mut profile);
        let home = before.as_ref().and_then(|before| before.home.as_ref());
        check_home(name, &row, home, profile.home.as_ref())?;
        if let Some(point) = &profile.mounted_at
            && !Path::new(&row.root(name)).starts_with(point)
        {
            let why =
                format!("the mount point `{point}` does not contain the datastore's path; expected this path or a directory above it");
            return Err(Error::Invalid(why));
        }
        // A listing shows the attributes of every visible entry, so an entry must not be visible without the right to read its attributes.
        if !profile.access.visible.covers(AccessMask::READ_ATTRIBUTES) {
            let why = "the rights of `--visible-by` must include read-attributes";
            return Err(Error::Invalid(why.to_owned()));
        }
        let acls = profile.access.acls;
        let is_other = before.as_ref().map_or(AclDialect::default(), |before| before.access.acls) != acls;
        let seeded = is_other.then(|| (row.root(name), acls));
        // The row of the datastore must still be the same at the commit, because the maintenance mode must not change after the check of the home.
        change.expect_same(name, &row).expect_unchanged(name, before.as_ref());
        match profile == DatastoreProfile::default() {
            true => change.delete::<DatastoreProfile>(name),
            false => change.put(name, &profile),
        };
        Ok(seeded)
    })?;
    if let Some((root, acls)) = seeded {
        open_to_roles(ctx, &root, acls)?;
    }
    Ok(at)
}

/// Refuses to change the serving member of a datastore that is not offline. Two members must never serve a datastore at the same time, and in the
/// mode `offline` no operation begins on any member.
///
/// # Errors
/// When the serving member would change, and the datastore is not in the maintenance mode `offline`.
pub fn check_home(
    name: &DatastoreName,
    row: &Datastore,
    before: Option<&HomeMembers>,
    after: Option<&HomeMembers>,
) -> Result<(), Error> {
    let is_offline = row.maintenance.as_ref().is_some_and(|row| row.mode == MaintenanceMode::Offline);
    if is_offline || before.map(HomeMembers::serves) == after.map(HomeMembers::serves) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "`{name}` must be in maintenance mode offline while its home changes: run `enfilade datastore maintenance {name} offline` on the member with the \
         edited files, then `enfilade datastore operations {name} --wait` on the member that serves it now"
    )))
}

/// Refuses a path that is not absolute, is outside of the allowed directories, or overlaps with the server's own files or with another datastore. If
/// two datastores overlapped, one datastore could permit what the other datastore refuses.
fn check_path(ctx: &ChangeContext<'_>, name: &DatastoreName, said: &str, root: &str) -> Result<(), Error> {
    if !Path::new(said).is_absolute() || said.split('/').any(|part| part == "..") {
        return Err(Error::Invalid(format!("the path `{said}` is not absolute, or contains `..`")));
    }
    let path = Path::new(root);
    let others = roots(ctx.facts)?.into_iter().filter(|(other, _)| other != name);
    let others: Vec<_> = others.collect();
    let shared = || overlap(path, others.iter().cloned());
    let taken = || {
        ctx.reserved.overlap_of_path(path).map(|own| {
            let (path, own) = (path.display(), own.display());
            format!("the path `{path}` overlaps with `{own}`, which the server reserves for its own files; choose another directory")
        })
    };
    // This check comes before the other checks, because their refusals would show the client the target of a link, or whether a path outside of the
    // allowed roots exists.
    outside(ctx, path, &real_path(path))
        .or_else(shared)
        .or_else(taken)
        .map_or(Ok(()), |why| Err(Error::Invalid(why)))
}

/// Why a datastore may not be created at this path: the path is below none of the directories in which this caller may create datastores. `None` if
/// the datastore may be created there.
fn outside(ctx: &ChangeContext<'_>, said: &Path, real: &Path) -> Option<String> {
    let roots = ctx.roots?;
    let is_beneath = |root: &PathBuf| {
        let is_in = |real_root: PathBuf| {
            let is_said = said.starts_with(root) || said.starts_with(&real_root);
            is_said && real.starts_with(&real_root) && real != real_root
        };
        std::fs::canonicalize(root).is_ok_and(is_in)
    };
    let named = || roots.iter().map(|root| format!("`{}`", root.display())).collect::<Vec<_>>().join(", ");
    (!roots.iter().any(is_beneath)).then(|| {
        format!(
            "the path `{}` is not below any allowed directory ({}); to allow it, add a directory to `[datastores] roots` and restart the server",
            said.display(),
            named()
        )
    })
}

/// Creates the directory if it does not exist. If the directory is empty and has no ACL, it gets an ACL with which only roles determine access.
/// `made` receives the created directories, outermost first.
fn make_content_directory(ctx: &ChangeContext<'_>, path: &str, made: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |why| Error::File(format!("directory `{path}` cannot be created: {why}"));
    directory::make(Path::new(path), made).map_err(failed)?;
    // If root runs the command, the owner of the new directories is set to the owner of the data directory, because the server runs as this user.
    made.iter().try_for_each(|new| owner::give(new, ctx.files.directory())).map_err(failed)?;
    open_to_roles(ctx, path, AclDialect::default())
}

fn apply(sections: &mut Vec<Section>, name: &DatastoreName, edit: &DatastoreEdit) -> Result<(), String> {
    let position = sections.iter().position(|section| section.id == name.as_str());
    if let DatastoreEdit::Create { path, properties } = edit {
        if position.is_some() {
            return Err(format!("datastore `{name}` already exists; choose another name"));
        }
        for (_, value) in properties.iter().filter(|(key, _)| key == "maintenance-mode") {
            check_mode(value)?;
        }
        let path = ("path".to_owned(), path.clone());
        let properties = std::iter::once(path).chain(properties.iter().cloned()).collect();
        let section = Section::new("datastore", name.as_str(), properties);
        check_section(&section)?;
        sections.push(section);
        return Ok(());
    }
    let position =
        position.ok_or_else(|| format!("there is no datastore `{name}`; see `enfilade datastore list`"))?;
    if matches!(edit, DatastoreEdit::Remove) {
        // All sections with this name are removed. Otherwise the server would now serve the path of another section with the same name.
        sections.retain(|section| section.id != name.as_str());
        return Ok(());
    }
    let count = sections.iter().filter(|section| section.id == name.as_str()).count();
    if count > 1 {
        return Err(format!(
            "datastore.cfg has {count} sections with the name `{name}`, but only one is allowed; remove the other sections from the file, then try again"
        ));
    }
    let Some(section) = sections.get_mut(position) else { return Ok(()) };
    if let Some(error) = &section.error {
        return Err(format!(
            "datastore.cfg, line {}: {}; correct the section, then try again",
            error.line, error.reason
        ));
    }
    match edit {
        DatastoreEdit::Set(changes) => {
            for (key, value) in changes {
                match key.as_str() {
                    // These properties determine which content the datastore has, so they never change.
                    "path" | "name" | "backing-device" => {
                        return Err(format!(
                            "`{key}` of a datastore cannot be changed; create another datastore"
                        ));
                    }
                    "maintenance-mode" => {
                        value.as_deref().map_or(Ok(()), check_mode)?;
                        check_leaving(section, name, value.as_deref())?;
                    }
                    _ => {}
                }
                set(section, key, value.clone());
            }
        }
        DatastoreEdit::Maintenance(maintenance) => {
            let value = maintenance.as_ref().map(Maintenance::to_property);
            check_leaving(section, name, value.as_deref())?;
            set(section, "maintenance-mode", value);
        }
        DatastoreEdit::Create { .. } | DatastoreEdit::Remove => {}
    }
    check_section(section)
}

/// Refuses to write a section that cannot be parsed when the file is read.
fn check_section(section: &Section) -> Result<(), String> {
    if let Some((key, _)) = section.properties.iter().find(|(_, value)| value.contains(['\n', '\r'])) {
        return Err(format!("property `{key}` contains a line break: expected one line"));
    }
    datastore_cfg::read(section).map(|_| ()).map_err(|why| why.reason)
}

/// Refuses a change to an unknown mode. (If the file contains an unknown mode, the datastore refuses all requests.)
fn check_mode(text: &str) -> Result<(), String> {
    match Maintenance::from_property(text).mode {
        MaintenanceMode::Unknown(mode) => Err(format!(
            "maintenance mode `{mode}` is not known; expected read-only, offline, unmount, s3-refresh or delete"
        )),
        _ => Ok(()),
    }
}

/// Refuses to end the mode `delete`, which a datastore cannot leave.
fn check_leaving(section: &Section, name: &DatastoreName, next: Option<&str>) -> Result<(), String> {
    let is_delete = |text: &str| Maintenance::from_property(text).mode == MaintenanceMode::Delete;
    let deleting =
        section.properties.iter().any(|(key, value)| key == "maintenance-mode" && is_delete(value));
    match deleting && !next.is_some_and(is_delete) {
        true => Err(format!(
            "datastore `{name}` has the maintenance mode `delete`, which cannot be ended; remove the datastore"
        )),
        false => Ok(()),
    }
}

fn comment_of<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    properties.into_iter().find(|(key, _)| *key == "comment").map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_there_twice_is_removed_completely_and_not_changed() {
        let section = |name: &str, path: &str| {
            Section::new("datastore", name, vec![("path".to_owned(), path.to_owned())])
        };
        let mut sections = vec![section("dupe", "/a"), section("main", "/m"), section("dupe", "/b")];
        let name: DatastoreName = "dupe".parse().unwrap();
        let why = apply(&mut sections, &name, &DatastoreEdit::Maintenance(None)).unwrap_err();
        assert!(why.starts_with("datastore.cfg has 2 sections with the name `dupe`"), "{why}");
        apply(&mut sections, &name, &DatastoreEdit::Remove).unwrap();
        let left: Vec<&str> = sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(left, ["main"]);
        assert!(apply(&mut sections, &name, &DatastoreEdit::Remove).is_err());
    }
}
