//! The files of an installation except its facts, and their paths in a backup. A restore writes each file to the same relative path in the restored
//! data directory.

use super::absolute;
use crate::home::{Installation, file_set};
use crate::placed::IMPORTED;
use crate::reserved::certificate_directories;
use enfilade_facts::tables::FileName;
use enfilade_sources::backup::{BackupError, Content, Item};
use enfilade_sources::files::proxmox_logins::{DOMAINS, SECOND_FACTORS, SHADOW};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The greatest depth of directories in a backup. `keys/fernet` is two levels deep, and a directory of certificates may contain further directories.
const DEPTH_MAX: usize = 3;

/// The files for a backup, with their lengths and digests.
pub(super) struct Parts {
    pub(super) items: Vec<Item>,
    /// The name and the path of each part that is not at its usual place in the data directory.
    pub(super) outside: BTreeMap<&'static str, PathBuf>,
    /// Files that this server does not use, and that the user of this process cannot read.
    pub(super) left_out: Vec<PathBuf>,
}

impl Parts {
    /// Lists the files, and reads each file to compute its length and digest.
    pub(super) fn of(installation: &Installation) -> Result<Self, BackupError> {
        let mut parts = Parts { items: Vec::new(), outside: BTreeMap::new(), left_out: Vec::new() };
        let Installation { data, config, .. } = installation;
        parts.file(data, &installation.config_path(), "enfilade.toml", "enfilade.toml")?;
        let files = file_set(data, config);
        for file in FileName::ALL {
            parts.file(data, &files.path(file), file.as_str(), "the edited files")?;
        }
        // Files of Proxmox from which this server mirrors no records. They are in the backup so that a restored server, too, warns that it does not
        // check the second factors in these files.
        for name in [SHADOW, DOMAINS, SECOND_FACTORS] {
            let from = files.directory().join(name);
            match parts.file(data, &from, name, "the edited files") {
                // On a Proxmox server, only root can read these files. This server works without these files. So a backup does not fail if they
                // cannot be read.
                Err(BackupError::Io { why, .. }) if why.kind() == std::io::ErrorKind::PermissionDenied => {
                    parts.left_out.push(from);
                }
                added => added?,
            }
        }
        parts.file(data, &data.join(IMPORTED), IMPORTED, IMPORTED)?;
        let fernet = config.identity.fernet_keys.as_deref();
        let not = fernet.map(|_| data.join("keys/fernet"));
        parts.directory(&data.join("keys"), Path::new("keys"), not.as_deref())?;
        if let Some(fernet) = fernet {
            parts.whole(data, fernet, "keys/fernet")?;
        }
        // The local CA, the account at an ACME authority, and the certificates of the fleet.
        for own in ["ca", "acme", "tls-shared"] {
            parts.directory(&data.join(own), Path::new(own), None)?;
        }
        let mut certificates = certificate_directories(&config.tls.place(data)).into_iter();
        // A crt-list can name files in several directories.
        for (directory, place) in certificates.by_ref().zip(["tls", "tls-2", "tls-3", "tls-4", "tls-5"]) {
            parts.whole(data, &directory, place)?;
        }
        if let Some(directory) = certificates.next() {
            let why = "a backup holds certificates of at most 5 directories: move the files of the crt-list into fewer directories";
            return Err(BackupError::io(directory, std::io::Error::other(why)));
        }
        if let Some(issuers) = &config.tls.issuers {
            parts.whole(data, issuers, "issuers")?;
        }
        Ok(parts)
    }

    /// Adds one file, if it exists. Fails if the directory of the file cannot be opened, because then the server cannot know whether the file exists.
    fn file(&mut self, data: &Path, from: &Path, to: &str, part: &'static str) -> Result<(), BackupError> {
        if !from.try_exists().map_err(|why| BackupError::io(from, why))? {
            return Ok(());
        }
        let from = absolute(from);
        if from != data.join(to) {
            let place = from.parent().filter(|_| part != to).unwrap_or(&from);
            self.outside.insert(part, place.to_owned());
        }
        self.add(&from, Path::new(to))
    }

    /// Adds a directory. The configuration may place the directory outside the data directory.
    fn whole(&mut self, data: &Path, from: &Path, to: &'static str) -> Result<(), BackupError> {
        let from = absolute(from);
        if from != data.join(to) {
            self.outside.insert(to, from.clone());
        }
        self.directory(&from, Path::new(to), None)
    }

    fn directory(&mut self, from: &Path, to: &Path, not: Option<&Path>) -> Result<(), BackupError> {
        let failed = |why| BackupError::io(from, why);
        let entries = match std::fs::read_dir(from) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<BTreeSet<_>>>();
        for name in names.map_err(failed)? {
            let (from, to) = (from.join(&name), to.join(&name));
            // The names of temporary files and lock files begin with a dot.
            if name.as_encoded_bytes().starts_with(b".") || not == Some(from.as_path()) {
                continue;
            }
            // A symbolic link to a file is followed, because the server follows it, too. A symbolic link to a directory is not followed, because it
            // may lead in a circle.
            if from.is_file() {
                self.add(&from, &to)?;
            } else if !from.is_symlink() && from.is_dir() && to.components().count() <= DEPTH_MAX {
                self.directory(&from, &to, not)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        let meta = match std::fs::metadata(from) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                return Err(BackupError::Changed(from.to_owned()));
            }
            meta => meta.map_err(|why| BackupError::io(from, why))?,
        };
        let content = Content::File(from.to_owned());
        self.items.push(Item::measure(to, meta.permissions().mode(), content)?);
        Ok(())
    }
}
