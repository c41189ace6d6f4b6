//! A file that was read whole, as the TLS library takes it: a configuration with one certificate and nothing to choose.

use crate::bundle::Bundle;
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
}
