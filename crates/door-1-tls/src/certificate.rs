//! One PEM bundle: certificate, intermediates and key.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A certificate that can answer.
pub struct Certificate {
    file: String,
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
    key: Arc<CertifiedKey>,
}

/// A bundle that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("certificate `{file}` is left out: {why}")]
pub struct BadCertificate {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

impl Certificate {
    /// From a bundle: the leaf first, then its intermediates, and somewhere the leaf's private key.
    ///
    /// # Errors
    /// When a part is missing, cannot be parsed, or the key is not the certificate's.
    pub fn from_pem(file: String, pem: &[u8]) -> Result<Self, BadCertificate> {
        let parse = || {
            let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .map_err(|why| format!("the PEM cannot be read: {why}"))?;
            let leaf = chain
                .first()
                .ok_or("it holds no certificate; expected a leaf, its intermediates and its key")?;
            let (names, not_before, not_after) = describe(leaf)?;
            let key = PrivateKeyDer::from_pem_slice(pem)
                .map_err(|why| format!("it holds no private key that can be read: {why}"))?;
            let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
                .map_err(|why| format!("the private key cannot be used with the certificate: {why}"))?;
            Ok::<_, String>((names, not_before, not_after, Arc::new(key)))
        };
        match parse() {
            Ok((names, not_before, not_after, key)) => {
                Ok(Certificate { file, names, not_before, not_after, key })
            }
            Err(why) => Err(BadCertificate { file, why }),
        }
    }

    /// The file it came from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The names it answers, in lower case.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The first second it is valid, since the epoch.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// The last second it is valid, since the epoch.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }
}

/// DNS names, or the common name where there are none, and the first and last second of validity.
fn describe(leaf: &CertificateDer<'_>) -> Result<(Vec<String>, i64, i64), String> {
    let (_, x509) =
        X509Certificate::from_der(leaf).map_err(|why| format!("the certificate cannot be parsed: {why}"))?;
    let alternative =
        x509.subject_alternative_name().map_err(|why| format!("its names cannot be parsed: {why}"))?;
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    let common = x509.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.extend(common.map(str::to_ascii_lowercase));
    names.sort_unstable();
    names.dedup();
    let validity = x509.validity();
    Ok((names, validity.not_before.timestamp(), validity.not_after.timestamp()))
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("file", &self.file)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
