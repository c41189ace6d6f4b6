//! Datastores. Their truth is `datastore.cfg`: a change is written there first, and then looked at like anybody's edit.

use crate::acls::open_to_roles;
use crate::desk::Desk;
use crate::error::Error;
use crate::users::check_comment;
use enfilade_facts::tables::{Datastore, FileName};
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, MaintenanceMode};
use enfilade_facts::{At, Read, Source};
use enfilade_sources::files::datastore_cfg;
use enfilade_sources::files::section_config::{Section, set};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// A datastore, for listing.
#[derive(Clone, Debug)]
pub struct DatastoreSummary {
    /// Its name.
    pub name: DatastoreName,
    /// Where its content is.
    pub path: String,
    /// Its maintenance mode, if it is in one.
    pub maintenance: Option<String>,
    /// What is wrong with its section.
    pub fault: Option<String>,
    /// What it is for.
    pub comment: Option<String>,
}

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
    /// Take it out of the file.
    Remove,
}

/// Every datastore, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_datastores(source: &dyn Source) -> Result<Vec<DatastoreSummary>, Error> {
    let rows = source.read(|view| view.list::<Datastore>(&[]))??;
    let summary = |(name, row): (DatastoreName, Datastore)| DatastoreSummary {
        path: row.root(&name),
        name,
        maintenance: row.maintenance.map(|maintenance| maintenance.mode.name().to_owned()),
        fault: row.fault.map(|fault| fault.to_string()),
        comment: row.comment,
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// Changes one section: the file first, under its lock, then the facts. From the returned revision on it is obeyed.
///
/// # Errors
/// When it makes no sense, or the file cannot be changed; nothing is changed then.
pub fn edit_datastore(desk: &Desk<'_>, name: &DatastoreName, edit: &DatastoreEdit) -> Result<At, Error> {
    let verb = match edit {
        DatastoreEdit::Create { path, properties } => {
            check_comment(comment_of(properties.iter().map(|(key, value)| (key.as_str(), value.as_str()))))?;
            check_path(desk.facts, name, path)?;
            make_content_directory(path)?;
            "create"
        }
        DatastoreEdit::Set(changes) => {
            let set = changes.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)));
            check_comment(comment_of(set))?;
            "set"
        }
        DatastoreEdit::Maintenance(_) => "maintenance",
        DatastoreEdit::Remove => "remove",
    };
    let file = FileName::Datastores;
    desk.write_through(&format!("datastore {verb} {name}"), &[file], |files| {
        files.sections(file, |sections| apply(sections, name, edit).map_err(Error::Invalid))
    })
}

/// Two stores over the same files would each let in whom the other keeps out.
fn check_path(source: &dyn Source, name: &DatastoreName, path: &str) -> Result<(), Error> {
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(Error::Invalid(format!("the path `{}` is not absolute", path.display())));
    }
    let others = roots(source)?.into_iter().filter(|(other, _)| other != name);
    overlap(path, others).map_or(Ok(()), |why| Err(Error::Invalid(why)))
}

/// Every datastore, and where its content is.
pub(crate) fn roots(source: &dyn Source) -> Result<Vec<(DatastoreName, String)>, Error> {
    let stores = source.read(|view| view.list::<Datastore>(&[]))??;
    Ok(stores.into_iter().map(|(name, row)| (name.clone(), row.root(&name))).collect())
}

/// With which of the others a path shares files, in words.
pub(crate) fn overlap(
    path: &Path,
    others: impl IntoIterator<Item = (DatastoreName, String)>,
) -> Option<String> {
    let mut others = others.into_iter();
    let (other, root) =
        others.find(|(_, root)| path.starts_with(root) || Path::new(root).starts_with(path))?;
    Some(format!(
        "the path `{}` overlaps with datastore `{other}` at `{root}`; choose a directory of its own",
        path.display()
    ))
}

/// Makes the directory where it is not there; one we made is governed by roles until somebody sets an ACL.
fn make_content_directory(path: &str) -> Result<(), Error> {
    let failed = |why| Error::File(format!("directory `{path}` cannot be made: {why}"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    open_to_roles(path)
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
