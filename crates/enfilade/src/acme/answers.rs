//! The answers to the challenges of an ACME authority. The answers are files in the data directory. So every server with this data directory can send
//! them.

use super::challenge::Challenge;
use super::place;
use crate::{output, self_made};
use anyhow::Context;
use enfilade_sources::files::challenges;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// The answers of the fleet that are in the directories; `None` until the directories were written for the first time.
    given: Mutex<Option<Vec<enfilade_fleet::Answer>>>,
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
            // Files with names that begin with a dot are left out of backups.
            http: place.join(".http-01"),
            tls: place.join(".tls-alpn-01"),
            given: Mutex::default(),
        })
    }

    /// Makes the directories of answers.
    pub(crate) fn make(&self, data: &Path) -> anyhow::Result<()> {
        [&place(data), &self.http, &self.tls].iter().try_for_each(|path| self_made::make_place(data, path))
    }

    /// Refuses a token (RFC 8555 §8.3) that is empty, or that contains a character which base64url does not use, because the token becomes the name
    /// of a file. The caller checks the names of hosts (RFC 8737 §3).
    pub(super) fn check(challenge: Challenge, of: &str) -> anyhow::Result<()> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_word = !of.is_empty() && of.bytes().all(is_letter);
        anyhow::ensure!(
            is_word || challenge != Challenge::Http,
            "the authority sent an invalid challenge token: expected only letters, digits, `-` and `_`"
        );
        Ok(())
    }

    /// Stores the answer to a challenge. The servers send the answer to HTTP requests for this token, or in handshakes that validate this name, until
    /// the returned value is dropped.
    pub(super) fn put(&self, challenge: Challenge, of: &str, value: &[u8]) -> anyhow::Result<Answer> {
        let path = self.directory(challenge).join(of);
        self_made::write_for_owner(&self.data, &path, value, 0o600)?;
        Ok(Answer(path))
    }

    fn directory(&self, challenge: Challenge) -> &Path {
        match challenge {
            Challenge::Http => &self.http,
            Challenge::TlsAlpn => &self.tls,
        }
    }

    /// Makes the servers send exactly these answers of the fleet from now on. Returns the ids of the answers; `None` if the answers are the same as
    /// before.
    pub(crate) async fn give(
        self: &Arc<Self>,
        given: Vec<enfilade_fleet::Answer>,
    ) -> anyhow::Result<Option<BTreeSet<String>>> {
        if *self.given() == Some(given.clone()) {
            return Ok(None);
        }
        let (answers, all) = (Arc::clone(self), given.clone());
        let written = tokio::task::spawn_blocking(move || answers.write_all(&all)).await??;
        *self.given() = Some(given);
        Ok(Some(written))
    }

    fn given(&self) -> MutexGuard<'_, Option<Vec<enfilade_fleet::Answer>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the answers that have a valid id, and removes all other answers. Returns the ids of the written answers.
    fn write_all(&self, given: &[enfilade_fleet::Answer]) -> anyhow::Result<BTreeSet<String>> {
        let (mut files, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for enfilade_fleet::Answer { id, value } in given {
            let mut parts = id.rsplit('/');
            let (Some(of), Some(kind)) = (parts.next(), parts.next()) else { continue };
            let challenge = match kind {
                _ if kind == Challenge::Http.directory() => Challenge::Http,
                _ if kind == Challenge::TlsAlpn.directory() => Challenge::TlsAlpn,
                _ => continue,
            };
            let is_host = self_made::name(of).is_ok_and(|name| name == *of);
            if Self::check(challenge, of).is_err() || challenge == Challenge::TlsAlpn && !is_host {
                continue;
            }
            let path = self.directory(challenge).join(of);
            self_made::write_for_owner(&self.data, &path, value, 0o600)?;
            files.insert(path);
            ids.insert(id.clone());
        }
        for directory in [&self.http, &self.tls] {
            let unread = || format!("`{}` cannot be read", directory.display());
            for entry in std::fs::read_dir(directory).with_context(unread)? {
                let path = entry.with_context(unread)?.path();
                // A name that begins with a dot is the name of a temporary file, which another process may be writing. If a file cannot be removed,
                // another process may have removed it already.
                let is_hidden =
                    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                if !is_hidden && !files.contains(&path) {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
        Ok(ids)
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
    // The certificate has a critical extension that rustls does not know. So the check of certificate and key in rustls would fail.
    // `SingleCertAndKey::from` makes no such check.
    let certified = SingleCertAndKey::from(CertifiedKey::new(vec![certificate.der().clone()], key));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certified));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
