//! The proof that door 1 was passed.

/// The connection is encrypted and came for this name.
#[derive(Clone, Debug)]
pub struct TlsPermit {
    pub(crate) name: Option<String>,
    pub(crate) certificate: String,
}

impl TlsPermit {
    /// The name the client came for, in lower case, if it gave one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The file of the certificate that answered.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }
}
