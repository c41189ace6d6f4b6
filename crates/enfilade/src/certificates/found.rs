//! The directory of certificates, as a starting server found it.

use super::Watched;
use crate::config::Tls;
use crate::shared_certificates;
use enfilade_admin::{CertificateFiles, CertificatePlace};
use enfilade_sources::files::certificates::{Listed, list};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The list of the directory of certificates, and a watch that began before the directory was listed. A starting server needs the list twice: it
/// limits the files that it may open, so it needs the links in the directory; and it reads the certificates. A list of 25,000 names takes 10 ms.
pub(crate) struct Found {
    directory: PathBuf,
    listed: Listed,
    watched: Watched,
}

impl Found {
    /// `None` for a crt-list, and for a directory that cannot be listed or watched.
    pub(crate) fn of(tls: &Tls, data: &Path) -> Option<Self> {
        let CertificatePlace::Directory(directory) = tls.place(data) else { return None };
        let shared = Some(shared_certificates::directory(data)).filter(|shared| shared.is_dir());
        let watched = Watched::without_links(shared.into_iter().chain([directory.clone()]).collect()).ok()?;
        let listed = list(&directory).ok()?;
        Some(Found { directory, listed, watched })
    }

    /// The files to which links in the directory lead, and the links on the way.
    pub(crate) fn links(&self) -> BTreeSet<PathBuf> {
        self.listed.links(&self.directory)
    }

    /// Lets `files` use the list, and returns the watch. If a file or directory has changed since the beginning of the watch, the list is not used,
    /// and the result is a new watch.
    pub(super) fn watch(found: Option<Self>, files: &CertificateFiles) -> Option<Watched> {
        let is_current = |found: &Found| {
            found.watched.is_of_directories(files) && found.watched.wait(Duration::ZERO).is_nothing()
        };
        match found.filter(is_current) {
            Some(found) => {
                files.use_list(found.listed);
                Some(found.watched)
            }
            None => Watched::without_links(files.directories()).ok(),
        }
    }
}
