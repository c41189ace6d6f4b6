//! Returns the TLS configuration for the rest of a handshake, and defines the alert that refuses a handshake.

use crate::permit::TlsPermit;
use crate::ready::Ready;
use crate::refuse::Refusal;
use rustls::ServerConfig;
use std::sync::Arc;

fn has(names: &[String], name: &str) -> bool {
    let is = |wanted: &str| names.iter().any(|known| known == wanted);
    is(name) || name.split_once('.').is_some_and(|(_, parent)| is(&format!("*.{parent}")))
}

impl Ready {
    /// The TLS configuration for the rest of the handshake. The certificate must contain the server name of the permit, unless the file is the
    /// default certificate or a crt-list lists the names of the file. This function checks the name, because the file may have changed after its
    /// names were read.
    ///
    /// # Errors
    /// [`Refusal::Unusable`], if the file cannot be served, or its certificate no longer contains the name.
    pub fn config(&self, permit: &TlsPermit) -> Result<Arc<ServerConfig>, Refusal> {
        let unusable = |why: String| Refusal::Unusable { file: permit.certificate().to_owned(), why };
        // If a line of a crt-list lists the names of the file, the certificate need not contain these names.
        let name = permit.name().filter(|_| !permit.is_default && !permit.file.is_named());
        match (self, name) {
            (Ready::Unusable(why), _) => Err(unusable(why.to_string())),
            (Ready::Serves { names, .. }, Some(name)) if !has(names, name) => Err(unusable(format!(
                "the file changed, and its certificate no longer has the name `{name}`"
            ))),
            (Ready::Serves { config, .. }, _) => Ok(Arc::clone(config)),
        }
    }
}

/// The alert that is sent before a connection for an unknown name is closed: a fatal `unrecognized_name` (RFC 6066 §3, RFC 8446 §6). The bytes are
/// always the same, so they reveal nothing about the certificates.
pub const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
