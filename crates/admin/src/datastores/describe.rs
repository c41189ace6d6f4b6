//! Details and warnings of datastores.

use super::chunks::is_chunk_store;
use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::keystone::full_name;
use enfilade_content::{Fill, Refusal, ReservedPaths, Root, Usage, real_path};
use enfilade_datastore::FleetPlace;
use enfilade_facts::tables::{Binding, Datastore, DatastoreProfile, HomeMembers};
use enfilade_facts::vocabulary::{AclDialect, DatastoreName, MaintenanceMode};
use enfilade_facts::{Mounts, Read, Source};
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A datastore, for listing.
#[derive(Clone, Debug)]
pub struct DatastoreSummary {
    /// The name of the datastore.
    pub name: DatastoreName,
    /// The path of the content.
    pub path: String,
    /// The maintenance mode, if the datastore is in one.
    pub maintenance: Option<String>,
    /// The problem of the section in `datastore.cfg`, if it has one.
    pub fault: Option<String>,
    /// The comment.
    pub comment: Option<String>,
    /// The members of the fleet that may serve the datastore, if the settings of the datastore name members.
    pub home: Option<HomeMembers>,
}

/// The details of a datastore.
#[derive(Clone, Debug)]
pub struct DatastoreDetails {
    /// The section in `datastore.cfg`.
    pub row: Datastore,
    /// The path of the content.
    pub root: String,
    /// The full name of the project to which the datastore is bound: `NAME@DOMAIN`.
    pub project: Option<String>,
    /// Properties that are not in `datastore.cfg`.
    pub profile: DatastoreProfile,
    /// The directory at which a file system must be mounted before the datastore is served.
    pub mount_point: Option<String>,
    /// The used and the free space of the file system or of the quota; an error text if they are unknown.
    pub usage: Result<Usage, String>,
}

/// Every datastore, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_datastores(source: &dyn Source) -> Result<Vec<DatastoreSummary>, Error> {
    let (rows, profiles) = source
        .read(|view| Ok::<_, Error>((view.list::<Datastore>(&[])?, view.list::<DatastoreProfile>(&[])?)))??;
    let mut profiles: HashMap<_, _> = profiles.into_iter().collect();
    let summary = |(name, row): (DatastoreName, Datastore)| DatastoreSummary {
        path: row.root(&name),
        home: profiles.remove(&name).and_then(|profile| profile.home),
        name,
        maintenance: row.maintenance.map(|maintenance| maintenance.mode.name().to_owned()),
        fault: row.fault.map(|fault| fault.to_string()),
        comment: row.comment,
    };
    Ok(rows.into_iter().map(summary).collect())
}

/// The details of a datastore. If the datastore has a quota, its content is counted. The count reads the attributes of every file.
///
/// # Errors
/// When the datastore does not exist, or the facts cannot be read.
pub fn show_datastore(ctx: &ChangeContext<'_>, name: &DatastoreName) -> Result<DatastoreDetails, Error> {
    let (row, profile, project) = ctx.facts.read(|view| {
        let row = view.get::<Datastore>(name)?.ok_or_else(|| Error::Missing {
            what: "datastore",
            name: name.to_string(),
            hint: "see `enfilade datastore list`",
        })?;
        let project = match view.get::<Binding>(name)? {
            Some(binding) => Some(full_name(view, &binding.project)?),
            None => None,
        };
        Ok::<_, Error>((row, view.get::<DatastoreProfile>(name)?.unwrap_or_default(), project))
    })??;
    let root = row.root(name);
    let usage = Root::open(&root, profile.access.acls, ctx.reserved).and_then(|root| {
        let disk = root.usage()?;
        let Some(quota) = profile.quota else { return Ok(disk) };
        let used = Fill::default().used(&root)?;
        Ok(Usage { total: quota, used, available: disk.available.min(quota.saturating_sub(used)) })
    });
    let mount_point = row.mount_point(name).or_else(|| profile.mounted_at.clone());
    let usage = usage.map_err(|why| why.to_string());
    Ok(DatastoreDetails { row, root, project, profile, mount_point, usage })
}

/// If a path overlaps with the path of one of these datastores, returns an error text with the name of the datastore.
pub(crate) fn overlap(
    path: &Path,
    others: impl IntoIterator<Item = (DatastoreName, String)>,
) -> Option<String> {
    // Each path is compared both as written and with all links in it resolved, because a link can lead from one path to another.
    let spellings = |path: &Path| [path.to_owned(), real_path(path)];
    let paths = spellings(path);
    let overlaps = |root: &PathBuf| paths.iter().any(|path| path.starts_with(root) || root.starts_with(path));
    let mut others = others.into_iter();
    let (other, root) = others.find(|(_, root)| spellings(Path::new(root)).iter().any(overlaps))?;
    Some(format!(
        "the path `{}` overlaps with datastore `{other}` at `{root}`; choose a separate directory",
        path.display()
    ))
}

/// A file system counts as full when less than `1 / FULL_PART` of it is free.
const FULL_PART: u64 = 100;

/// A warning about a datastore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatastoreWarning {
    /// The name of the datastore.
    pub name: DatastoreName,
    /// The text, with the next step.
    pub says: String,
    /// Whether the datastore refuses all requests because of this problem.
    pub is_shut: bool,
}

/// Warnings about the datastores that this machine serves. A warning does not make `datastore.cfg` invalid.
///
/// # Errors
/// When the facts cannot be read.
pub fn datastore_warnings(
    source: &dyn Source,
    mounts: &Mounts,
    reserved: &ReservedPaths,
    place: &FleetPlace,
) -> Result<Vec<DatastoreWarning>, Error> {
    let (mut rows, profiles) = source
        .read(|view| Ok::<_, Error>((view.list::<Datastore>(&[])?, view.list::<DatastoreProfile>(&[])?)))??;
    let mut profiles: HashMap<_, _> = profiles.into_iter().collect();
    rows.retain(|(name, _)| {
        let home = profiles.get(name).and_then(|row| row.home.as_ref());
        place.elsewhere(home).is_none()
    });
    let mut roots: Vec<(String, &DatastoreName)> =
        rows.iter().map(|(name, row)| (row.root(name).trim_end_matches('/').to_owned(), name)).collect();
    // Sorted by path components, so that nested paths come directly after the path that contains them.
    roots.sort_by(|(a, _), (b, _)| Path::new(a).cmp(Path::new(b)));
    let mut warnings: Vec<DatastoreWarning> = Vec::new();
    let warning =
        |name: &DatastoreName, says, is_shut| DatastoreWarning { name: name.clone(), says, is_shut };
    let mut above: Vec<&(String, &DatastoreName)> = Vec::new();
    for root in &roots {
        while above.last().is_some_and(|last| !Path::new(&root.0).starts_with(&last.0)) {
            above.pop();
        }
        if let Some((path, other)) = above.last() {
            let how = if *path == root.0 { "the directory" } else { "in the directory" };
            let says = format!("`{}` is {how} of datastore {other}: use a separate directory", root.0);
            warnings.push(warning(root.1, says, false));
        }
        above.push(root);
    }
    let mut directories: HashMap<(u64, u64), &DatastoreName> = HashMap::new();
    for (name, row) in &rows {
        if let Some(MaintenanceMode::Unknown(mode)) = row.maintenance.as_ref().map(|row| &row.mode) {
            let says = format!(
                "maintenance mode `{mode}` is unknown, so all requests are refused: correct the mode in datastore.cfg"
            );
            warnings.push(warning(name, says, true));
        }
        // If the file system of a datastore is not mounted, the directory is not checked further, because it does not have the content of the
        // datastore.
        let point = row.mount_point(name).or_else(|| profiles.remove(name).and_then(|row| row.mounted_at));
        if let Some(point) = point.filter(|point| !mounts.is_mount_point(point)) {
            warnings.push(warning(
                name,
                format!("nothing is mounted at `{point}`: mount the file system"),
                false,
            ));
            continue;
        }
        let root = row.root(name);
        let meta = std::fs::metadata(&root);
        let is_there = meta.as_ref().is_ok_and(Metadata::is_dir);
        if let (true, Ok(meta)) = (is_there, &meta)
            && let Some(other) = directories.insert((meta.dev(), meta.ino()), name)
            && !warnings.iter().any(|known| known.name == *name || known.name == *other)
        {
            let says = format!(
                "`{root}` is another path to the directory of datastore {other}: use a separate directory"
            );
            warnings.push(warning(name, says, false));
        }
        let opened = Root::open(&root, AclDialect::default(), reserved);
        if let Err(refused @ (Refusal::Reserved { .. } | Refusal::NeedsRestart(_))) = &opened {
            warnings.push(warning(name, refused.to_string(), true));
            continue;
        }
        if row.maintenance.is_none() && is_chunk_store(Path::new(&root)).unwrap_or(false) {
            let says = format!(
                "`{root}` is a chunk store of Proxmox Backup Server, and clients with a write role can change its backups: run \
                 `enfilade datastore maintenance {name} read-only`"
            );
            warnings.push(warning(name, says, false));
        }
        if let (true, Err(why)) = (is_there, std::fs::read_dir(&root)) {
            let says = format!(
                "`{root}` exists, but the user of this process cannot read it: {why}; check owner and mode of the directory and of the directories above it"
            );
            warnings.push(warning(name, says, true));
            continue;
        }
        let says = state(&root, meta.map(|meta| meta.is_dir()), opened);
        warnings.extend(says.map(|says| warning(name, says, !is_there)));
    }
    Ok(warnings)
}

/// The problem of the directory of one datastore, if it has one.
fn state(root: &str, is_directory: std::io::Result<bool>, opened: Result<Root, Refusal>) -> Option<String> {
    match is_directory {
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            return Some(format!(
                "`{root}` cannot be reached by the user of this process: {why}; check owner and mode of the directories above it"
            ));
        }
        Err(why) => return Some(format!("`{root}`: {why}; create the directory, or mount its file system")),
        Ok(false) => return Some(format!("`{root}` is not a directory")),
        Ok(true) => {}
    }
    let usage = opened.and_then(|root| root.usage()).ok()?;
    let is_full = usage.total > 0 && usage.available < usage.total / FULL_PART;
    is_full.then(|| {
        format!("the file system of `{root}` is full: {} bytes are left; make room", usage.available)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::{AuditRecord, Change};
    use enfilade_sources::memory::Memory;

    fn warnings(stores: &[(&str, &str)]) -> Vec<String> {
        let source = Memory::new(enfilade_facts::StoreId(1));
        let mut change =
            Change::new(AuditRecord { who: "t".into(), what: "t".into(), unix_seconds: 0, request: None });
        for (name, path) in stores {
            let row = Datastore { path: (*path).to_owned(), ..Datastore::default() };
            change.put(&name.parse().unwrap(), &row);
        }
        source.commit(&change).unwrap();
        let found =
            datastore_warnings(&source, &Mounts::default(), &ReservedPaths::default(), &FleetPlace::Alone)
                .unwrap();
        found.into_iter().map(|found| format!("{}: {}", found.name, found.says)).collect()
    }

    #[test]
    fn a_directory_that_may_not_be_reached_is_not_called_missing() {
        let says = |kind: ErrorKind| state("/x", Err(kind.into()), Err(Refusal::IsRoot)).unwrap();
        let said = says(ErrorKind::PermissionDenied);
        assert!(said.contains("check owner and mode") && !said.contains("create the directory"), "{said}");
        assert!(says(ErrorKind::NotFound).ends_with("create the directory, or mount its file system"));
    }

    #[test]
    fn paths_that_share_files_are_told_of_however_they_are_written() {
        let place = std::env::temp_dir().join(format!("enfilade-look-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let at = |text: &str| place.join(text).to_str().unwrap().to_owned();
        for directory in ["a/b", "ab", "c"] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        std::os::unix::fs::symlink(at("c"), at("link")).unwrap();
        assert_eq!(
            warnings(&[("one", &at("a")), ("two", &at("ab")), ("three", &at("c"))]),
            Vec::<String>::new()
        );
        let said = warnings(&[("one", &at("a")), ("two", &at("a/b")), ("other", &at("ab"))]);
        assert_eq!(
            said,
            [format!("two: `{}` is in the directory of datastore one: use a separate directory", at("a/b"))]
        );
        let said = warnings(&[("one", &at("c")), ("two", &format!("{}/", at("c")))]);
        assert!(said.len() == 1 && said[0].contains("is the directory of datastore"), "{said:?}");
        let said = warnings(&[("one", &at("c")), ("two", &at("link"))]);
        assert!(said.len() == 1 && said[0].contains("is another path to"), "{said:?}");
        let said = warnings(&[("one", &at("nowhere"))]);
        assert!(said.len() == 1 && said[0].contains("No such file"), "{said:?}");
        std::fs::remove_dir_all(&place).unwrap();
    }
}
