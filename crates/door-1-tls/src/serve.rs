//! The same decision inside the TLS library, which wants the key.

use crate::ask::Ask;
use crate::open::choose;
use crate::view::Certificates;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

#[derive(Debug)]
struct Resolver(Arc<Certificates>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        choose(&self.0, &Ask::new(hello.server_name())).map(|certificate| Arc::clone(certificate.key()))
    }
}

/// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, early data off.
///
/// # Errors
/// When the library does not take its own default protocol versions.
pub fn server_config(certificates: Arc<Certificates>) -> Result<Arc<ServerConfig>, String> {
    // The provider is named explicitly: another library in the process may bring a default of its own.
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| format!("TLS cannot be set up: {why}"))?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(Resolver(certificates)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}
