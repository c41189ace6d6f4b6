//! A certificate file in the form that the TLS library needs: a configuration with one certificate.

use crate::bundle::Bundle;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// The certificate of one configuration.
#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// The placeholder for the certificate in the configuration of a policy. [`Ready`] replaces the placeholder by [`Only`].
#[derive(Debug)]
pub(crate) struct Nothing;

impl ResolvesServerCert for Nothing {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// A certificate file that was read completely.
#[derive(Clone, Debug)]
pub enum Ready {
    /// The file can be served.
    Serves {
        /// The TLS configuration of connections that get this certificate.
        config: Arc<ServerConfig>,
        /// The names of the certificate.
        names: Arc<[String]>,
        /// The last second in which the stapled OCSP response is valid (in seconds since the epoch). After that second the file has to be read again.
        /// `i64::MAX` if no response is stapled, or the response contains no end.
        good_until: i64,
    },
    /// The file cannot be served, for this reason.
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

    /// Whether this result is still valid at the time `now`, in seconds since the epoch. If the stapled OCSP response has expired, the result is not
    /// valid, and the file has to be read again. [`Ready::Unusable`] stays valid until the file changes.
    pub fn is_good(&self, now: i64) -> bool {
        match self {
            Ready::Serves { good_until, .. } => now <= *good_until,
            Ready::Unusable(_) => true,
        }
    }
}
