//! Answers questions about certificates: whether any of them can be used, whether another certificate may be sent instead of a given certificate, and
//! which certificate revocation lists have problems. Also accepts an earlier list of the directory.

use super::{BadCertificate, CertificateFiles};
use enfilade_sources::files::certificates::Listed;
use enfilade_tls::Certificates;
use std::path::Path;
use std::sync::PoisonError;

impl std::fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateFiles").field("place", &self.place).finish_non_exhaustive()
    }
}

impl CertificateFiles {
    /// Lets the next look use this list of the directory, so that the directory is not listed again. No name may have changed since the directory was
    /// listed.
    pub fn use_list(&self, listed: Listed) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed);
    }

    /// Reads certificates with their keys until one can be used.
    ///
    /// # Errors
    /// When no certificate can be used. The error contains the reason for each certificate.
    pub fn first_usable(&self, certificates: &Certificates) -> Result<(), Vec<BadCertificate>> {
        let mut bad = Vec::new();
        for file in certificates.files() {
            match self.is_usable(Path::new(&*file.path)) {
                Ok(()) => return Ok(()),
                Err(why) => bad.push(BadCertificate { file: file.path.to_string(), why }),
            }
        }
        bad.sort_by(|a, b| a.file.cmp(&b.file));
        bad.dedup();
        Err(bad)
    }

    /// Whether a line of the crt-list has options for this file, so that no other certificate may be sent instead of the file's certificate.
    pub fn is_bound(&self, path: &Path) -> bool {
        self.listed().is_some_and(|listing| listing.is_bound(path))
    }

    /// The problems of certificate revocation lists at this time, in nanoseconds since the epoch.
    pub fn revocations(&self, now: u64) -> Vec<BadCertificate> {
        self.listed().map(|listing| listing.revocations_at(now)).unwrap_or_default()
    }
}
