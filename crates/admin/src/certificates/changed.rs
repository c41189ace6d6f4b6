//! Looks for changed files of certificates, while the server makes handshakes.

use super::listing::Listing;
use super::{CertificateFiles, is_settled, path_of};
use enfilade_sources::files::certificates::{OpenDirectory, identity_of_whole};
use enfilade_tls::CertificateFile;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl CertificateFiles {
    /// Files that may have changed since they were verified or last read.
    pub(super) fn changed<'c>(
        &self,
        listing: &Listing,
        names: &[OsString],
        known: impl Fn(&str) -> Option<&'c Arc<CertificateFile>> + Sync,
    ) -> Vec<OsString> {
        let with_companions = listing.with_companions();
        let looked = self.looked.load(Ordering::Relaxed);
        // If the directory cannot be opened, every file counts as changed, and the attempt to read a file gives the error.
        let Ok(directory) = OpenDirectory::open(&listing.base) else { return names.to_vec() };
        let is_same = |name: &OsString| {
            let text = path_of(&listing.base, name);
            let Some(known) = known(&text) else { return false };
            let path = Path::new(&text);
            let has_companions = with_companions.contains(path);
            let identity = if has_companions { identity_of_whole(path) } else { directory.identity_of(name) };
            identity
                .is_ok_and(|now| known.identity.get().map_or(is_settled(&now, looked), |known| now == *known))
        };
        // The server makes handshakes during this work, so one core does not take part.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = names.len().div_ceil(cores.saturating_sub(1).max(1)).max(1);
        std::thread::scope(|scope| {
            let of =
                |names: &[OsString]| names.iter().filter(|name| !is_same(name)).cloned().collect::<Vec<_>>();
            let running: Vec<_> = names.chunks(share).map(|names| scope.spawn(move || of(names))).collect();
            running.into_iter().flat_map(|one| one.join().unwrap_or_default()).collect()
        })
    }
}
