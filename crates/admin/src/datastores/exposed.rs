//! Finds datastores that share files with a path that the server reserves. These functions check every place where the server keeps or writes
//! secrets: the data directory, the directory of backups, the target of a backup or dump.

use crate::error::Error;
use enfilade_content::{Refusal, Reserved, ReservedPaths, Root};
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{AclDialect, DatastoreName};
use enfilade_facts::{Read, Source};
use enfilade_sources::files::{datastore_cfg, section_config};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// A datastore that shares files with a reserved path: its users could read the files of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The name of the datastore.
    pub name: DatastoreName,
    /// The path of the content.
    pub root: String,
    /// The reserved path.
    pub reserved: PathBuf,
}

/// Every datastore with the path of its content.
///
/// # Errors
/// When the facts cannot be read.
pub fn roots(source: &dyn Source) -> Result<Vec<(DatastoreName, String)>, Error> {
    let stores = source.read(|view| view.list::<Datastore>(&[]))??;
    Ok(stores.into_iter().map(|(name, row)| (name.clone(), row.root(&name))).collect())
}

/// Every datastore that the text of a `datastore.cfg` defines, with the path of its content. Sections with an error are left out.
pub fn roots_in_file(text: &[u8]) -> Vec<(DatastoreName, String)> {
    let sections = section_config::parse(text).sections;
    let stores = sections.iter().filter_map(|section| datastore_cfg::read(section).ok());
    stores.map(|(name, row)| (name.clone(), row.root(&name))).collect()
}

/// How long the check waits for the file system of a datastore.
const PATIENCE: Duration = Duration::from_secs(5);

/// The datastores that share files with a reserved path. Existing content is compared by device and inode, and by the paths within its file system.
/// The server compares content in the same way when it opens the content to serve it. Content that cannot be opened is compared by its path. If the
/// file system of a datastore does not answer, the datastore is left out: its content cannot be read now, and is compared later, when it is opened.
pub fn exposed(roots: impl IntoIterator<Item = (DatastoreName, String)>, reserved: Reserved) -> Vec<Exposed> {
    let reserved = Arc::new(ReservedPaths::new(reserved));
    let found = |(name, root): (DatastoreName, String)| {
        let (answer, answered) = sync_channel(1);
        let (asked, own) = (root.clone(), Arc::clone(&reserved));
        // A file system that does not answer blocks only this thread.
        let thread = std::thread::Builder::new().name("exposed".into());
        let is_asked = thread.spawn(move || drop(answer.send(overlap_of(&asked, &own)))).is_ok();
        let reserved = match is_asked {
            true => answered.recv_timeout(PATIENCE).ok().flatten()?,
            false => overlap_of(&root, &reserved)?,
        };
        Some(Exposed { name, root, reserved })
    };
    roots.into_iter().filter_map(found).collect()
}

fn overlap_of(root: &str, reserved: &ReservedPaths) -> Option<PathBuf> {
    match Root::open(root, AclDialect::default(), reserved) {
        Ok(_) => None,
        Err(Refusal::Reserved { reserved, .. }) => Some(PathBuf::from(reserved)),
        Err(_) => reserved.overlap_of_path(Path::new(root)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_datastore_is_found_by_its_real_path_whether_it_exists_or_not() {
        let place = std::env::temp_dir().join(format!("enfilade-exposed-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let at = |text: &str| place.join(text);
        std::fs::create_dir_all(at("store/deep")).unwrap();
        std::fs::create_dir_all(at("other")).unwrap();
        std::os::unix::fs::symlink(at("store"), at("link")).unwrap();
        let text = format!(
            "datastore: srv\n\tpath {}\n\ndatastore: gone\n\tpath {}\n\nbroken\n",
            at("link").display(),
            at("gone").display()
        );
        let names = |path: &str| {
            let own = Reserved { directories: [at(path)].into(), ..Reserved::default() };
            let found = exposed(roots_in_file(text.as_bytes()), own);
            found.into_iter().map(|found| found.name.to_string()).collect::<Vec<_>>()
        };
        for (path, expected) in [
            ("store/new/data", vec!["srv"]),
            ("link/new", vec!["srv"]),
            ("store/deep", vec!["srv"]),
            ("store", vec!["srv"]),
            ("gone/below", vec!["gone"]),
            ("", vec!["srv", "gone"]),
            ("other/new", vec![]),
        ] {
            assert_eq!(names(path), expected, "{path}");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
