//! The settings that all certificates share.

use enfilade_sources::files::certificates::{list_authorities, read_text};
use enfilade_tls::{Issuers, Policy, Tickets};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings that all certificates share.
#[derive(Clone, Debug)]
pub struct CertificateTerms {
    pub(super) tickets: Tickets,
    pub(super) usual: Arc<Policy>,
    pub(super) issuers: Arc<Issuers>,
    pub(super) shared: Option<PathBuf>,
}

impl CertificateTerms {
    /// Settings with the given keys of TLS session tickets. If a bundle contains only a leaf, the certificates of its issuers are added from the
    /// directory `issuers`.
    ///
    /// # Errors
    /// When the TLS library refuses its own defaults, or the directory cannot be read.
    pub fn new(tickets: Tickets, issuers: Option<&Path>) -> Result<Self, String> {
        let mut known = Issuers::default();
        if let Some(directory) = issuers {
            let said = |what: &Path, why: String| format!("`[tls] issuers`: `{}`: {why}", what.display());
            let names = list_authorities(directory).map_err(|why| said(directory, why.to_string()))?;
            for path in names.iter().map(|name| directory.join(name)) {
                let pem = read_text(&path).map_err(|why| said(&path, why.to_string()))?;
                known.add(&pem).map_err(|why| said(&path, why))?;
            }
        }
        let usual = Arc::new(Policy::usual(&tickets)?);
        Ok(CertificateTerms { tickets, usual, issuers: Arc::new(known), shared: None })
    }

    /// Adds the files of a second directory: the certificates that all members of a fleet serve. With a crt-list, the second directory is not used.
    #[must_use]
    pub fn with_shared(self, directory: Option<&Path>) -> Self {
        CertificateTerms { shared: directory.map(Path::to_owned), ..self }
    }

    /// The directory of [`Self::with_shared`], if it exists.
    pub(super) fn shared(&self) -> impl Iterator<Item = &PathBuf> {
        self.shared.iter().filter(|shared| shared.is_dir())
    }
}
