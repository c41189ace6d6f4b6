//! Datastores. Their truth is `datastore.cfg`: a change is written there first, and then looked at like anybody's edit.

mod look;

pub use look::{
    DatastoreDetails, DatastoreSummary, DatastoreWarning, datastore_warnings, list_datastores, show_datastore,
};
pub(crate) use look::{overlap, roots};

use crate::acls::open_to_roles;
use crate::desk::Desk;
use crate::error::Error;
use crate::roles::remove_roles_on;
use crate::users::check_comment;
use enfilade_facts::tables::{Datastore, DatastoreProfile, FileName};
use enfilade_facts::vocabulary::{
    AccessMask, AclDialect, DatastoreName, Maintenance, MaintenanceMode, RolePath, StorePath,
};
use enfilade_facts::{At, Read};
use enfilade_sources::files::section_config::{Section, set};
use enfilade_sources::files::{datastore_cfg, directory};
use enfilade_sources::mounts::network_mount_over;
use std::path::{Path, PathBuf};

/// What can be done with a section.
#[derive(Clone, Debug)]
pub enum DatastoreEdit {
    /// Make it, and its directory.
    Create {
        /// Where its content is; absolute.
        path: String,
        /// Whatever else its section says, by the names of `datastore.cfg`.
        properties: Vec<(String, String)>,
    },
    /// Change properties, by the names of `datastore.cfg`; `None` takes one away.
    Set(Vec<(String, Option<String>)>),
    /// Close it, or open it.
    Maintenance(Option<Maintenance>),
    /// Take it out of the file, and every role on it with it.
    Remove,
}

/// Changes one section: the file first, under its lock, then the facts. From the returned revision on it is obeyed.
///
/// # Errors
/// When it makes no sense, or the file cannot be changed; nothing is changed then.
pub fn edit_datastore(desk: &Desk<'_>, name: &DatastoreName, edit: &DatastoreEdit) -> Result<At, Error> {
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
            check_path(desk, name, path, &row.root(name))?;
            // What is on a device of its own is made there, once that is mounted.
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
            // Whoever had a role on it has none on another datastore that gets its name.
            if desk.facts.read(|view| view.get::<Datastore>(name))??.is_some() {
                remove_roles_on(desk, &RolePath::of(name, &StorePath::root()))?;
            }
            "remove"
        }
    };
    let file = FileName::Datastores;
    let mut made = Vec::new();
    let at = desk.write_through(&format!("datastore {verb} {name}"), &[file], |files| {
        files.sections(file, |sections| {
            apply(sections, name, edit).map_err(Error::Invalid)?;
            content.map_or(Ok(()), |path| make_content_directory(desk, path, &mut made))
        })
    });
    if at.is_err() {
        // Innermost first, and only what is empty.
        made.iter().rev().for_each(|path| drop(std::fs::remove_dir(path)));
    }
    let at = at?;
    // What is on another machine's file system leaves an empty directory behind when that goes.
    match edit {
        DatastoreEdit::Create { path, .. } => match network_mount_over(path).unwrap_or_default() {
            Some(point) => edit_profile(desk, name, |profile| profile.mounted_at = Some(point.clone())),
            None => Ok(at),
        },
        _ => Ok(at),
    }
}

/// Changes what is known of a datastore beside its section.
///
/// # Errors
/// When there is none of that name, it makes no sense, or the facts cannot be changed.
pub fn edit_profile(
    desk: &Desk<'_>,
    name: &DatastoreName,
    edit: impl Fn(&mut DatastoreProfile),
) -> Result<At, Error> {
    let (seeded, at) = desk.commit(&format!("datastore set {name}"), |view, change| {
        let row = view.get::<Datastore>(name)?.ok_or_else(|| Error::Missing {
            what: "datastore",
            name: name.to_string(),
            hint: "see `enfilade datastore list`",
        })?;
        let before = view.get::<DatastoreProfile>(name)?;
        let mut profile = before.clone().unwrap_or_default();
        edit(&mut profile);
        if let Some(point) = &profile.mounted_at
            && !Path::new(&row.root(name)).starts_with(point)
        {
            let why =
                format!("the datastore is not below `{point}`, so it does not matter what is mounted there");
            return Err(Error::Invalid(why));
        }
        // Whoever sees an entry is told its attributes.
        if !profile.access.visible.covers(AccessMask::READ_ATTRIBUTES) {
            let why = "what may be seen has to grant read-attributes at least";
            return Err(Error::Invalid(why.to_owned()));
        }
        let acls = profile.access.acls;
        let is_other = before.as_ref().map_or(AclDialect::default(), |before| before.access.acls) != acls;
        let seeded = is_other.then(|| (row.root(name), acls));
        change.expect_present::<Datastore>(name).expect_unchanged(name, before.as_ref());
        match profile == DatastoreProfile::default() {
            true => change.delete::<DatastoreProfile>(name),
            false => change.put(name, &profile),
        };
        Ok(seeded)
    })?;
    if let Some((root, acls)) = seeded {
        open_to_roles(desk, &root, acls)?;
    }
    Ok(at)
}

/// Two stores over the same files would each let in whom the other keeps out; and a store over the server's own files everybody.
fn check_path(desk: &Desk<'_>, name: &DatastoreName, said: &str, root: &str) -> Result<(), Error> {
    if !Path::new(said).is_absolute() || said.split('/').any(|part| part == "..") {
        return Err(Error::Invalid(format!("the path `{said}` is not absolute, or holds `..`")));
    }
    let path = Path::new(root);
    let others = roots(desk.facts)?.into_iter().filter(|(other, _)| other != name);
    let others: Vec<_> = others.collect();
    // Also where a link leads, as far as it is there.
    let real = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    let real = real.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    let real = real.unwrap_or_else(|| path.to_owned());
    let shared = || overlap(path, others.iter().cloned()).or_else(|| overlap(&real, others.iter().cloned()));
    let own = || desk.reserved.overlap_of_path(path).or_else(|| desk.reserved.overlap_of_path(&real));
    let taken = || {
        own().map(|own| {
            let (path, own) = (path.display(), own.display());
            format!("the path `{path}` overlaps with `{own}`, which the server reserves for its own files; choose another directory")
        })
    };
    // Of what is outside of the roots nothing is told: not whether it is there, nor where a link leads.
    outside(desk, path, &real).or_else(shared).or_else(taken).map_or(Ok(()), |why| Err(Error::Invalid(why)))
}

/// Why a datastore may not be made there, where the desk is for directories beneath some alone.
fn outside(desk: &Desk<'_>, said: &Path, real: &Path) -> Option<String> {
    let roots = desk.roots?;
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

/// Makes the directory where it is not there; one we made is governed by roles until somebody sets an ACL.
/// What was made is told, outermost first.
fn make_content_directory(desk: &Desk<'_>, path: &str, made: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |why| Error::File(format!("directory `{path}` cannot be made: {why}"));
    directory::make(Path::new(path), made).map_err(failed)?;
    open_to_roles(desk, path, AclDialect::default())
}

fn apply(sections: &mut Vec<Section>, name: &DatastoreName, edit: &DatastoreEdit) -> Result<(), String> {
    let position = sections.iter().position(|section| section.id == name.as_str());
    if let DatastoreEdit::Create { path, properties } = edit {
        if position.is_some() {
            return Err(format!("there is a datastore `{name}` already; choose another name"));
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
        sections.remove(position);
        return Ok(());
    }
    let Some(section) = sections.get_mut(position) else { return Ok(()) };
    if let Some(error) = &section.error {
        return Err(format!("line {}: {}; mend the section first", error.line, error.reason));
    }
    match edit {
        DatastoreEdit::Set(changes) => {
            for (key, value) in changes {
                match key.as_str() {
                    // Where a store's content is, is what it is.
                    "path" | "name" | "backing-device" => {
                        return Err(format!(
                            "`{key}` of a datastore cannot be changed; make another datastore"
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

/// Nothing is written that would not be read.
fn check_section(section: &Section) -> Result<(), String> {
    if let Some((key, _)) = section.properties.iter().find(|(_, value)| value.contains(['\n', '\r'])) {
        return Err(format!("property `{key}`: expected one line"));
    }
    datastore_cfg::read(section).map(|_| ()).map_err(|why| why.reason)
}

/// A mode nobody knows closes a store: it is read, and never written on somebody's word.
fn check_mode(text: &str) -> Result<(), String> {
    match Maintenance::from_property(text).mode {
        MaintenanceMode::Unknown(mode) => Err(format!(
            "maintenance mode `{mode}` is not known; expected read-only, offline, unmount, s3-refresh or delete"
        )),
        _ => Ok(()),
    }
}

/// Whatever is being deleted stays so.
fn check_leaving(section: &Section, name: &DatastoreName, next: Option<&str>) -> Result<(), String> {
    let is_delete = |text: &str| Maintenance::from_property(text).mode == MaintenanceMode::Delete;
    let deleting =
        section.properties.iter().any(|(key, value)| key == "maintenance-mode" && is_delete(value));
    match deleting && !next.is_some_and(is_delete) {
        true => Err(format!("datastore `{name}` is being deleted; that mode is left only by removing it")),
        false => Ok(()),
    }
}

fn comment_of<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    properties.into_iter().find(|(key, _)| *key == "comment").map(|(_, value)| value)
}
