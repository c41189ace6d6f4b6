//! What a handshake goes on with: the TLS library's configuration, with one certificate and nothing to choose.

use crate::bundle::Bundle;
use crate::permit::TlsPermit;
use crate::refuse::Refusal;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
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
struct Nothing;

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
    },
    /// It does not, and why.
    Unusable(Arc<str>),
}

/// What all handshakes have in common: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, tickets, early data off.
#[derive(Clone, Debug)]
pub struct Terms(ServerConfig);

impl Terms {
    /// The usual.
    ///
    /// # Errors
    /// When the library does not take its own default protocol versions, or has no random numbers.
    pub fn new() -> Result<Self, String> {
        // The provider is named explicitly: another library in the process may bring a default of its own.
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| format!("TLS cannot be set up: {why}"))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(Nothing));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.max_early_data_size = 0;
        // A ticket is good for the name it was given for (the library compares them), whatever becomes of the snapshot.
        config.ticketer =
            aws_lc_rs::Ticketer::new().map_err(|why| format!("TLS tickets cannot be made: {why}"))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Terms(config))
    }

    /// What comes of a file's bytes.
    pub fn ready(&self, pem: &[u8], key: Option<&[u8]>) -> Ready {
        match Bundle::read(pem, key) {
            Ok(bundle) => {
                let mut config = self.0.clone();
                config.cert_resolver = Arc::new(Only(Arc::new(bundle.key)));
                Ready::Serves { config: Arc::new(config), names: bundle.leaf.names.into() }
            }
            Err(why) => Ready::Unusable(why.into()),
        }
    }
}

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
        match (self, permit.name.as_deref().filter(|_| !permit.is_default)) {
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
