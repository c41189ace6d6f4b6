//! The reserved paths: directories and files that the server itself reads or writes. No datastore may contain a reserved path, or lie in a reserved
//! path.

use crate::config::{self, Config};
use enfilade_admin::{CertificatePlace, Reserved};
use enfilade_tls::CrtList;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The name of the directory for datastores, in the data directory. Datastores may lie in this directory, although the data directory is reserved.
pub(crate) const DATASTORES: &str = "datastores";

/// Every directory and file that the server itself reads or writes.
pub(crate) fn reserved(data: &Path, config: &Config, config_file: Option<&Path>) -> Reserved {
    let Config { tls, identity, facts, backup, .. } = config;
    let backups = backup.directory.clone().map(PathBuf::from);
    let own = [&facts.files, &identity.fernet_keys, &tls.issuers, &tls.acme_challenges, &backups];
    // `/proc` is reserved, too: it shows the memory of processes.
    let others = [data.to_owned(), PathBuf::from("/proc")];
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let directories = own.into_iter().flatten().cloned().chain(others).map(absolute).collect();
    let certificates = certificate_directories(&tls.place(data)).into_iter().map(absolute).collect();
    let files = [Some(config::path(data, config_file)), std::env::current_exe().ok(), tls.crt_list.clone()];
    let files = files.into_iter().flatten().chain(tls.sockets()).map(absolute).collect();
    Reserved { directories, certificates, files, datastores: Some(data.join(DATASTORES)) }
}

/// The directories that contain the certificates of a directory setting or of a crt-list. A crt-list that cannot be read counts as empty.
pub(crate) fn certificate_directories(place: &CertificatePlace) -> BTreeSet<PathBuf> {
    let CertificatePlace::List(list) = place else { return [place.path().to_owned()].into() };
    let base = list.parent().map(Path::to_owned).unwrap_or_default();
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let lines = CrtList::parse(&text).lines;
    let of_lines = lines.iter().filter_map(|line| base.join(&line.file).parent().map(Path::to_owned));
    of_lines.chain([base.clone()]).collect()
}
