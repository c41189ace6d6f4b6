//! The proof that door 1 found a certificate.

use crate::ask::Ask;
use crate::policy::Policy;
use crate::view::CertificateFile;
use std::sync::Arc;

/// The proof that door 1 chose this certificate file for a connection to this name.
#[derive(Clone, Debug)]
pub struct TlsPermit {
    pub(crate) ask: Ask,
    pub(crate) file: Arc<CertificateFile>,
    pub(crate) is_default: bool,
}

impl TlsPermit {
    /// The server name of the ClientHello, in lower case, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.ask.name.as_deref()
    }

    /// Whether the file is the default certificate, which was chosen because no certificate has the name.
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// The policy of the connection.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.file.policy
    }

    /// The number of the crt-list line that contains the path of the certificate; `None` if there is no crt-list.
    pub fn line(&self) -> Option<u32> {
        Some(self.file.place().0).filter(|line| *line > 0)
    }

    /// The path of the certificate.
    pub fn certificate(&self) -> &str {
        &self.file.path
    }
}
