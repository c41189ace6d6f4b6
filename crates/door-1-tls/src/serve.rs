//! What a handshake goes on with: the TLS library's configuration, with one certificate and nothing to choose.

use crate::bundle::Bundle;
use crate::permit::TlsPermit;
use crate::refuse::Refusal;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The one there is.
#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// None at all; it is put in the place of.
#[derive(Debug)]
pub(crate) struct Nothing;

impl ResolvesServerCert for Nothing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// A file that was read whole.
#[derive(Clone, Debug)]
pub enum Ready {
    /// It answers.
    Serves {
        /// With this.
        config: Arc<ServerConfig>,
        /// To these names.
        names: Arc<[String]>,
        /// The last second what is stapled to it is good, since the epoch; after that it has to be read again.
        good_until: i64,
    },
    /// It does not, and why.
    Unusable(Arc<str>),
}

fn has(names: &[String], name: &str) -> bool {
    let is = |wanted: &str| names.iter().any(|known| known == wanted);
    is(name) || name.split_once('.').is_some_and(|(_, parent)| is(&format!("*.{parent}")))
}

impl Ready {
    pub(crate) fn with(terms: &ServerConfig, bundle: Result<Bundle, String>) -> Ready {
        match bundle {
            Ok(Bundle { leaf, key, stapled_until, .. }) => {
                let mut config = terms.clone();
                config.cert_resolver = Arc::new(Only(Arc::new(key)));
                let (config, names) = (Arc::new(config), leaf.names.into());
                Ready::Serves { config, names, good_until: stapled_until.unwrap_or(i64::MAX) }
            }
            Err(why) => Ready::Unusable(why.into()),
        }
    }

    /// Whether it is still what would come of the file.
    pub fn is_good(&self, now: i64) -> bool {
        match self {
            Ready::Serves { good_until, .. } => now <= *good_until,
            Ready::Unusable(_) => true,
        }
    }

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
