//! Lookups in a listing: the lines, the options and the companions of a certificate file.

use super::{Listing, name_in};
use enfilade_sources::files::certificates::with_companions;
use enfilade_tls::{CertificateFile, Digest, DigestedLeaf, Line, Policy};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Listing {
    /// The lines of the list in any order, each with its policy. A directory has no lines.
    pub(in crate::certificates) fn lines(&self) -> impl Iterator<Item = &(Line, Arc<Policy>)> {
        self.lines.iter().flat_map(|lines| lines.of.values().flatten())
    }

    /// Whether the certificate files come from a crt-list, not from a directory.
    pub(in crate::certificates) fn is_of_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// The lines of the list that contain the path of a file, or the path of the bundle to which the file belongs. `None` if the certificates come
    /// from a directory.
    pub(super) fn lines_of(&self, path: &Path) -> Option<&[(Line, Arc<Policy>)]> {
        let lines = self.lines.as_ref()?;
        let bundle = || lines.of.get(&path.with_extension(""));
        Some(lines.of.get(path).or_else(bundle).map_or(&[], Vec::as_slice))
    }

    /// Whether the listing contains the file.
    pub(in crate::certificates) fn has(&self, path: &Path) -> bool {
        match self.lines_of(path) {
            Some(lines) => !lines.is_empty(),
            None => {
                let name = name_in(&self.base, path);
                self.names.binary_search_by(|known| known.as_os_str().cmp(name)).is_ok()
            }
        }
    }

    /// Whether the names in the file's certificate are needed. They are not needed if every line for the file contains names.
    pub(in crate::certificates) fn needs_names(&self, path: &Path) -> bool {
        self.lines_of(path).is_none_or(|lines| lines.iter().any(|(line, _)| line.names.is_none()))
    }

    /// The certificate of a file, with the default policy.
    pub(in crate::certificates) fn file(
        &self,
        path: &str,
        version: u64,
        leaf: DigestedLeaf,
    ) -> Arc<CertificateFile> {
        Arc::new(CertificateFile::new(path, version, leaf, Arc::clone(&self.usual)))
    }

    /// Appends the certificate of a file. For a directory, appends it once. For a crt-list, appends it once for each line that contains the path of
    /// the file or of its bundle.
    pub(in crate::certificates) fn put(
        &self,
        file: Arc<CertificateFile>,
        digest: &Digest,
        into: &mut Vec<Arc<CertificateFile>>,
    ) {
        match self.lines_of(Path::new(&*file.path)) {
            None => into.push(file),
            Some(lines) => into.extend(lines.iter().map(|(line, policy)| {
                Arc::new(digest.listed(CertificateFile::clone(&file), line, Arc::clone(policy)))
            })),
        }
    }

    /// Whether a crt-list line of the file has options that are not the default. If a line has such options, no other certificate may be sent instead
    /// of the file's certificate.
    pub(in crate::certificates) fn is_bound(&self, path: &Path) -> bool {
        let of = self.lines_of(path).unwrap_or_default();
        of.iter().any(|(_, policy)| policy.epoch() != self.usual.epoch())
    }

    /// Whether the whole listing depends on this file: the crt-list, or a file in the options of its lines.
    pub(in crate::certificates) fn rests_on(&self, path: &Path) -> bool {
        self.lines.as_ref().is_some_and(|lines| lines.read.contains(path))
    }

    /// The directories of all files that the listing depends on.
    pub(in crate::certificates) fn directories(&self) -> BTreeSet<PathBuf> {
        let parent = |path: &Path| path.parent().map(Path::to_owned);
        let of_lines = self.lines.iter().flat_map(|lines| lines.of.keys().chain(&lines.read));
        of_lines.filter_map(|path| parent(path)).chain([self.base.clone()]).collect()
    }

    /// Files that have companion files (`.key`, `.ocsp`). A change of a companion file does not change the identity of the certificate file.
    pub(in crate::certificates) fn with_companions(&self) -> Cow<'_, BTreeSet<PathBuf>> {
        match self.lines {
            None => Cow::Borrowed(&self.with_companions),
            Some(_) => Cow::Owned(with_companions(&self.directories())),
        }
    }
}
