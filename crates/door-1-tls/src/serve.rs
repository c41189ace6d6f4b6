//! What a handshake goes on with, or ends with.

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
    /// The configuration to go on with. Whoever came for a name gets no certificate without it: the file may have been changed since it
    /// was looked at.
    ///
    /// # Errors
    /// [`Refusal::Unusable`].
    pub fn config(&self, permit: &TlsPermit) -> Result<Arc<ServerConfig>, Refusal> {
        let unusable = |why: String| Refusal::Unusable { file: permit.certificate().to_owned(), why };
        // Names a list gives are not the certificate's.
        let name = permit.name().filter(|_| !permit.is_default && !permit.file.is_named());
        match (self, name) {
            (Ready::Unusable(why), _) => Err(unusable(why.to_string())),
            (Ready::Serves { names, .. }, Some(name)) if !has(names, name) => {
                Err(unusable(format!("it has no longer the name `{name}`")))
            }
            (Ready::Serves { config, .. }, _) => Ok(Arc::clone(config)),
        }
    }
}

/// What is sent before a connection is closed that nobody has the name for: a fatal `unrecognized_name` (RFC 6066 §3, RFC 8446 §6),
/// the same whatever we hold.
pub const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
