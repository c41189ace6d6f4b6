//! The reserved paths: directories and files that the server itself reads or writes. No datastore may contain a reserved path, or lie in a reserved
//! path.

use crate::config::{self, Config};
use anyhow::{Context as _, bail, ensure};
use enfilade_admin::{CertificatePlace, Exposed, Reserved, exposed, real_path};
use enfilade_facts::Source;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_tls::CrtList;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The name of the directory for datastores, in the data directory. Datastores may lie in this directory, although the data directory is reserved.
pub(crate) const DATASTORES: &str = "datastores";

/// Every directory and file that the server itself reads or writes.
pub(crate) fn reserved(data: &Path, config: &Config, config_file: Option<&Path>) -> Reserved {
    let Config { tls, identity, facts, backup, fleet, decisions, .. } = config;
    let backups = backup.directory.clone().map(PathBuf::from);
    let own = [&facts.files, &identity.fernet_keys, &tls.issuers, &tls.acme_challenges, &backups];
    // `/proc` is reserved, too, because it shows the memory of processes.
    let others = [data.to_owned(), PathBuf::from("/proc")];
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let directories = own.into_iter().flatten().cloned().chain(others).map(absolute).collect();
    let certificates = certificate_directories(&tls.place(data)).into_iter().map(absolute).collect();
    let sockets = decisions.listen.iter().flat_map(|listen| listen.sockets()).chain(tls.sockets());
    let files = [
        Some(config::path(data, config_file)),
        std::env::current_exe().ok(),
        tls.crt_list.clone(),
        fleet.ca.clone(),
        fleet.certificate.clone(),
        fleet.key.clone(),
    ];
    let files = files.into_iter().flatten().chain(sockets).map(absolute).collect();
    Reserved { directories, certificates, files, datastores: Some(data.join(DATASTORES)), openable: None }
}

/// Datastores, each with the path of its content.
pub(crate) type Roots = Vec<(DatastoreName, String)>;

/// A set of reserved paths that contains only the data directory. Datastores may lie in its subdirectory for datastores.
pub(crate) fn data_alone(data: &Path) -> Reserved {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let datastores = Some(data.join(DATASTORES));
    Reserved { directories: [data].into(), datastores, ..Reserved::default() }
}

/// A file or directory that will be written, and will contain secrets of the server.
pub(crate) fn written_to(path: &Path) -> Reserved {
    Reserved {
        files: [std::path::absolute(path).unwrap_or_else(|_| path.to_owned())].into(),
        ..Reserved::default()
    }
}

/// Refuses a place for the server's own files if the place shares files with a datastore. `roots` are the datastores of the server with the data
/// directory `house`. Every command that creates such a place, writes to it, or checks its configured path calls this function.
///
/// A datastore that overlaps with `house` itself is ignored, because the server refuses every request for this datastore. So a datastore with such a
/// path in `datastore.cfg` prevents neither backups nor restores.
// INVARIANT: S8. If a datastore that contains this path is added later, it is refused when it is created or opened.
pub(crate) fn refuse_exposed(own: Reserved, house: &Path, roots: Roots) -> anyhow::Result<()> {
    let found = exposed(roots, own);
    let those = found.iter().map(|found| (found.name.clone(), found.root.clone()));
    let shut = exposed(those.collect::<Roots>(), data_alone(house));
    match found.iter().find(|found| shut.iter().all(|shut| shut.name != found.name)) {
        Some(Exposed { name, root, reserved }) => bail!(
            "`{}` overlaps with datastore `{name}` at `{root}`, so users of the datastore could read the keys of the server: choose a directory \
             outside of the datastore",
            reserved.display()
        ),
        None => Ok(()),
    }
}

/// Refuses a path for a file or directory with secrets if its parent directory does not exist. Also refuses a path in a datastore, because the users
/// of the datastore could read the secrets.
fn refuse_place(data: &Path, source: &dyn Source, target: &Path) -> anyhow::Result<()> {
    let target = std::path::absolute(target)?;
    let above = target.parent().unwrap_or(&target);
    ensure!(
        above.is_dir(),
        "`{}`, in which `{}` is to be made, is not a directory: make it with `mkdir -p '{}'`, or give another path",
        above.display(),
        target.display(),
        above.display()
    );
    refuse_exposed(written_to(&target), data, enfilade_admin::roots(source)?)
}

/// Like [`refuse_place`]. Also refuses a path in the data directory. A backup or dump at such a path would be lost together with the data directory,
/// and could replace a file of the server.
pub(crate) fn refuse_backup_place(data: &Path, source: &dyn Source, target: &Path) -> anyhow::Result<()> {
    refuse_place(data, source, target)?;
    ensure!(
        !real_path(&std::path::absolute(target)?).starts_with(real_path(data)),
        "`{}` is in the data directory `{}`, and would be lost together with it: choose another directory, best on another disk",
        target.display(),
        data.display()
    );
    Ok(())
}

/// Refuses a configured directory of backups that shares files with a datastore, or that is in the data directory.
pub(crate) fn refuse_exposed_backups(data: &Path, config: &Config, roots: Roots) -> anyhow::Result<()> {
    let Some(directory) = config.backup.directory.clone().map(PathBuf::from) else { return Ok(()) };
    ensure!(
        !real_path(&directory).starts_with(real_path(data)),
        "configuration: `backup.directory`: `{}` is in the data directory `{}`, and its backups would be lost together with it: choose another directory, \
         best on another disk",
        directory.display(),
        data.display()
    );
    let own = Reserved { directories: [directory].into(), ..Reserved::default() };
    refuse_exposed(own, data, roots).context("configuration: `backup.directory`")
}

/// Warnings about datastores that share files with another configured path of the server. A server refuses all requests for such a datastore.
pub(crate) fn exposed_warnings(own: Reserved, roots: Roots) -> impl Iterator<Item = String> {
    exposed(roots, own).into_iter().map(|Exposed { name, root, reserved }| {
        format!(
            "datastore `{name}` at `{root}` overlaps with `{}`, which the server reserves for its own files, so all requests for the datastore are \
             refused: change the path of the datastore or of these files",
            reserved.display()
        )
    })
}

/// The directories of the certificates: the directory of PEM bundles, or the directories of a crt-list and of the files in it. A crt-list that cannot
/// be read counts as empty.
pub(crate) fn certificate_directories(place: &CertificatePlace) -> BTreeSet<PathBuf> {
    let CertificatePlace::List(list) = place else { return [place.path().to_owned()].into() };
    let base = list.parent().map(Path::to_owned).unwrap_or_default();
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let lines = CrtList::parse(&text).lines;
    let of_lines = lines.iter().filter_map(|line| base.join(&line.file).parent().map(Path::to_owned));
    of_lines.chain([base.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person who has the key of a member could change the facts of the whole fleet in etcd.
    #[test]
    fn files_of_the_fleet_and_sockets_of_decisions_are_reserved() {
        let text = "[fleet]\nca = \"/srv/keys/ca.pem\"\ncertificate = \"/srv/keys/a.pem\"\nkey = \"/srv/keys/a.key\"\n\
                    [decisions]\nlisten = \"unix:/srv/run/decide.sock\"\n";
        let config = config::parse_file(text).unwrap();
        let reserved = reserved(Path::new("/srv/data"), &config, None);
        for path in ["/srv/keys/ca.pem", "/srv/keys/a.pem", "/srv/keys/a.key", "/srv/run/decide.sock"] {
            assert!(reserved.files.contains(Path::new(path)), "{path}: {:?}", reserved.files);
        }
    }
}
