//! Looks for changed files of certificates, while the server makes handshakes.

use super::listing::Listing;
use super::{CertificateFiles, is_settled, path_of};
use enfilade_sources::files::certificates::{identity_of, identity_of_whole};
use enfilade_tls::CertificateFile;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of files after which a thread that looks for changed files lets other threads run. This is about 50 µs of work.
const BETWEEN_YIELDS: usize = 32;

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
        let is_same = |name: &OsString| {
            let text = path_of(&listing.base, name);
            let Some(known) = known(&text) else { return false };
            let path = Path::new(&text);
            let has_companions = with_companions.contains(path);
            let identity = if has_companions { identity_of_whole(path) } else { identity_of(path) };
            identity
                .is_ok_and(|now| known.identity.get().map_or(is_settled(&now, looked), |known| now == *known))
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = names.len().div_ceil(cores).max(1);
        let changed_of = |names: &[OsString]| {
            let few = |few: &[OsString]| -> Vec<OsString> {
                // The server makes handshakes during this work. A handshake that waits for a core goes first.
                std::thread::yield_now();
                few.iter().filter(|name| !is_same(name)).cloned().collect()
            };
            names.chunks(BETWEEN_YIELDS).flat_map(few).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let running: Vec<_> =
                names.chunks(share).map(|names| scope.spawn(move || changed_of(names))).collect();
            running.into_iter().flat_map(|one| one.join().unwrap_or_default()).collect()
        })
    }
}
