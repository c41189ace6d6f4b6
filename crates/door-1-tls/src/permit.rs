//! The proof that door 1 was passed.

use crate::ask::Ask;
use crate::open::open;
use crate::policy::Policy;
use crate::view::{CertificateFile, Certificates};
use std::sync::Arc;

/// The connection came for this name, and this file answers it.
#[derive(Clone, Debug)]
pub struct TlsPermit {
    pub(crate) ask: Ask,
    pub(crate) file: Arc<CertificateFile>,
    pub(crate) is_default: bool,
}

impl TlsPermit {
    /// Whether a host may be asked for on a connection this was granted for: it has the same terms now. A client comes to one name, and
    /// may ask for another; with what it showed here it may be asked only what it would have had to show there.
    pub fn has_terms_of(&self, view: &Certificates, host: &str) -> bool {
        if let Some(only) = view.only_policy() {
            return only.epoch() == self.file.policy.epoch();
        }
        let ask = Ask { name: Ask::new(Some(host)).name, ..self.ask.clone() };
        open(view, &ask).is_ok_and(|there| there.policy().epoch() == self.file.policy.epoch())
    }

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
