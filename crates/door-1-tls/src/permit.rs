//! The proof that door 1 was passed.

use crate::ask::Ask;
use crate::policy::Policy;
use crate::view::CertificateFile;
use std::sync::Arc;

/// The connection came for this name, and this file answers it.
#[derive(Clone, Debug)]
pub struct TlsPermit {
    pub(crate) ask: Ask,
    pub(crate) file: Arc<CertificateFile>,
    pub(crate) is_default: bool,
}

impl TlsPermit {
    /// The name the client came for, in lower case, if it gave one.
    pub fn name(&self) -> Option<&str> {
        self.ask.name.as_deref()
    }

    /// Whether that is the one that answers for names nobody has.
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// What is agreed on with whoever comes for it.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.file.policy
    }

    /// The file of the certificate that answers.
    pub fn certificate(&self) -> &str {
        &self.file.path
    }
}
