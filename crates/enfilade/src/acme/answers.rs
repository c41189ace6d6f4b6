//! The answers to the challenges of an ACME authority. The answers are files in the data directory, so that every server with this data directory can
//! send the answers.

use super::place;
use crate::{output, self_made};
use enfilade_sources::files::challenges;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::server::ClientHello;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};

/// The ALPN protocol of a handshake that validates a name (RFC 8737 §6.2).
const PROTOCOL: &[u8] = b"acme-tls/1";

/// The directories of answers.
pub(crate) struct Answers {
    data: PathBuf,
    http: PathBuf,
    tls: PathBuf,
}

/// The path of a file that contains one answer. The file is removed when this value is dropped.
pub(super) struct Answer(PathBuf);

impl Drop for Answer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Answers {
    pub(crate) fn new(data: &Path) -> Arc<Self> {
        let place = place(data);
        Arc::new(Answers {
            data: data.to_owned(),
            // Names that begin with a dot are left out of backups.
            http: place.join(".http-01"),
            tls: place.join(".tls-alpn-01"),
        })
    }

    /// Makes the directories of answers.
    pub(super) fn make(&self, data: &Path) -> anyhow::Result<()> {
        [&place(data), &self.http, &self.tls].iter().try_for_each(|path| self_made::make_place(data, path))
    }

    /// Stores the answer to HTTP requests for this token (RFC 8555 §8.3). The servers send it until the returned value is dropped.
    pub(super) fn put_http(&self, token: &str, key_authorization: &str) -> anyhow::Result<Answer> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_word = !token.is_empty() && token.bytes().all(is_letter);
        anyhow::ensure!(
            is_word,
            "the authority sent an invalid challenge token: expected only letters, digits, `-` and `_`"
        );
        self.put(self.http.join(token), key_authorization.as_bytes())
    }

    /// Stores the digest for handshakes that validate this name (RFC 8737 §3). The servers answer with it until the returned value is dropped.
    pub(super) fn put_tls(&self, name: &str, digest: &[u8]) -> anyhow::Result<Answer> {
        self.put(self.tls.join(name), digest)
    }

    fn put(&self, path: PathBuf, bytes: &[u8]) -> anyhow::Result<Answer> {
        self_made::write_for_owner(&self.data, &path, bytes, 0o600)?;
        Ok(Answer(path))
    }

    /// The answer to an HTTP request for this token, if there is one.
    pub(crate) fn http(&self, token: &str) -> Option<Vec<u8>> {
        challenges::of_token(&self.http, token)
    }

    /// The name that an authority validates with this handshake; `None` for every other handshake.
    pub(crate) fn validated(hello: &ClientHello<'_>) -> Option<String> {
        let mut protocols = hello.alpn()?;
        let is_validation = protocols.next() == Some(PROTOCOL) && protocols.next().is_none();
        is_validation.then(|| hello.server_name()).flatten().and_then(|name| self_made::name(name).ok())
    }

    /// The TLS configuration for a handshake that validates this name, if there is an answer for the name.
    pub(crate) fn tls(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let digest = challenges::of_host(&self.tls, name)?;
        proof(name, &digest)
            .map(Arc::new)
            .inspect_err(|why| {
                output::note(&format!("warning: the certificate for the TLS-ALPN-01 validation of `{name}` cannot be made, so the validation fails: {why:#}"));
            })
            .ok()
    }
}

/// A TLS configuration that serves only one certificate: for this name, with the digest of the key authorization (RFC 8737 §3).
fn proof(name: &str, digest: &[u8]) -> anyhow::Result<ServerConfig> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key = provider.key_provider.load_private_key(key.into())?;
    // The certificate has a critical extension that rustls does not know, so its check of certificate and key would fail. `SingleCertAndKey::from`
    // makes no such check.
    let certified = SingleCertAndKey::from(CertifiedKey::new(vec![certificate.der().clone()], key));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certified));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
