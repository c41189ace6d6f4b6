//! The list of the files in the directory of certificates. A starting server makes this list.

use super::Watched;
use crate::config::Tls;
use crate::shared_certificates;
use enfilade_admin::{CertificateFiles, CertificatePlace};
use enfilade_sources::files::certificates::{Listed, list};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The list of the directory of certificates, and a watch that began before the directory was listed. A starting server needs the list twice: it
/// limits the files that it may open, so it needs the links in the directory; and it reads the certificates.
pub(crate) struct WatchedList {
    listed: Listed,
    watched: Watched,
}

impl WatchedList {
    /// Begins to watch the directory of certificates, and lists it. `None` for a crt-list, and for a directory that cannot be listed or watched.
    pub(crate) fn of(tls: &Tls, data: &Path) -> Option<Self> {
        let CertificatePlace::Directory(directory) = tls.place(data) else { return None };
        let shared = Some(shared_certificates::directory(data)).filter(|shared| shared.is_dir());
        let watched = Watched::without_links(shared.into_iter().chain([directory.clone()]).collect()).ok()?;
        Some(WatchedList { listed: list(&directory).ok()?, watched })
    }

    /// The files to which links in the directory lead, and the links on the way.
    pub(crate) fn links(&self) -> BTreeSet<PathBuf> {
        self.listed.links()
    }

    /// Lets `files` use the list, and returns the watch. If the directory or a file has changed since the beginning of the watch, the list is not
    /// used, and the result is a new watch.
    pub(super) fn watch(list: Option<Self>, files: &CertificateFiles) -> Option<Watched> {
        let is_current = |list: &WatchedList| {
            list.watched.is_of_directories(files)
                && list.watched.wait(Duration::ZERO).is_nothing()
                && list.listed.is_unchanged()
        };
        match list.filter(is_current) {
            Some(list) => {
                files.use_list(list.listed);
                Some(list.watched)
            }
            None => Watched::without_links(files.directories()).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use enfilade_facts::MemoSeed;
    use enfilade_testkit::Scratch;
    use enfilade_tls::{Digest, Rules, Tickets};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Lists the directory, makes a change, and returns the names of the files that the next look reads. No file is a certificate, so each file is
    /// bad.
    fn read_after(change: impl FnOnce(&Path)) -> Vec<String> {
        let place = Scratch::new();
        let at = |name: &str| place.path().join(name);
        for (directory, file) in [("one", "a.pem"), ("two", "b.pem")] {
            fs::create_dir(at(directory)).unwrap();
            fs::write(at(directory).join(file), "").unwrap();
        }
        symlink("one", at("tls")).unwrap();
        let text = format!("[tls]\ncertificates = \"{}\"\n", at("tls").display());
        let tls = config::parse_file(&text).unwrap().tls;
        let list = WatchedList::of(&tls, place.path());
        assert!(list.is_some());
        let digest = Digest::new(&MemoSeed([1; 16]));
        let files =
            super::super::files(tls.place(place.path()), &tls, None, digest, Tickets::default()).unwrap();
        change(place.path());
        assert!(WatchedList::watch(list, &files).is_some());
        let looked = files.look(Rules::default(), None, 1).unwrap();
        let name = |path: &str| Path::new(path).file_name().unwrap().to_string_lossy().into_owned();
        looked.bad.iter().map(|bad| name(&bad.file)).collect()
    }

    #[test]
    fn the_list_is_used_only_if_nothing_has_changed() {
        assert_eq!(read_after(|_| ()), ["a.pem"]);
        assert_eq!(read_after(|at| fs::write(at.join("one/c.pem"), "").unwrap()), ["a.pem", "c.pem"]);
        assert!(read_after(|at| fs::remove_file(at.join("one/a.pem")).unwrap()).is_empty());
        let switched = read_after(|at| {
            symlink("two", at.join("next")).unwrap();
            fs::rename(at.join("next"), at.join("tls")).unwrap();
        });
        assert_eq!(switched, ["b.pem"]);
    }

    /// Without this test, the test above could not tell a list that is used from a list that is made again.
    #[test]
    fn the_list_is_used() {
        let place = Scratch::new();
        fs::create_dir(place.path().join("tls")).unwrap();
        fs::write(place.path().join("tls/a.pem"), "").unwrap();
        let tls = config::parse_file("").unwrap().tls;
        let list = WatchedList::of(&tls, place.path());
        let digest = Digest::new(&MemoSeed([1; 16]));
        let files =
            super::super::files(tls.place(place.path()), &tls, None, digest, Tickets::default()).unwrap();
        assert!(WatchedList::watch(list, &files).is_some());
        fs::write(place.path().join("tls/b.pem"), "").unwrap();
        assert_eq!(files.look(Rules::default(), None, 1).unwrap().bad.len(), 1, "the list from before");
        assert_eq!(files.look(Rules::default(), None, 1).unwrap().bad.len(), 2, "the list is used once");
    }
}
