//! Checks the certificates of clients, with the authorities and revocation lists of a TLS policy.

use crate::leaf::pem_fault;
use crate::revocation_list::RevocationList;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertRevocationListError, RootCertStore};
use std::sync::Arc;

/// Makes the verifier of clients' certificates. `named` and `silent` are certificates of authorities, in PEM. If `names` is true, the server sends
/// clients the names of the authorities in `named`. It never sends the names of the authorities in `silent`. `revoked` is the path and the content of
/// the `crl-file`. Also returns the revocation lists in the `crl-file`.
///
/// # Errors
/// When a file cannot be used. The text names the option.
pub(crate) fn verifier(
    provider: &Arc<CryptoProvider>,
    [named, silent]: [&[u8]; 2],
    revoked: Option<(&str, &[u8])>,
    is_required: bool,
    names: bool,
) -> Result<(Arc<dyn ClientCertVerifier>, Vec<RevocationList>), String> {
    let mut roots = RootCertStore::empty();
    let mut add = |pem: &[u8]| -> Result<(), String> {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| {
                format!("the `ca-file` or `ca-verify-file` cannot be read: {}", pem_fault(&why))
            })?;
            roots.add(certificate).map_err(|why| {
                format!("a certificate in the `ca-file` or `ca-verify-file` cannot be used: {why}")
            })?;
        }
        Ok(())
    };
    add(named)?;
    add(silent)?;
    if roots.is_empty() {
        return Err("the `ca-file` or `ca-verify-file` contains no certificate of an authority".into());
    }
    let hints: Vec<_> = CertificateDer::pem_slice_iter(named).flatten().collect();
    let crls: Vec<CertificateRevocationListDer<'static>> =
        CertificateRevocationListDer::pem_slice_iter(revoked.map_or(&[][..], |(_, pem)| pem))
            .collect::<Result<_, _>>()
            .map_err(|why| format!("the `crl-file` cannot be read: {}", pem_fault(&why)))?;
    let has_crls = !crls.is_empty();
    if revoked.is_some() && !has_crls {
        return Err("the `crl-file` contains no revocation list in PEM form (`BEGIN X509 CRL`), so it cannot be used: install the list of the certification authority (convert a DER file with `openssl crl -inform DER`)".into());
    }
    let trusted: Vec<_> =
        [named, silent].into_iter().flat_map(|pem| CertificateDer::pem_slice_iter(pem).flatten()).collect();
    let lists = crls.iter().filter_map(|list| RevocationList::read(list, &trusted)).collect();
    let is_old = crls.iter().any(|list| !RevocationList::has_extensions(list));
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .with_crls(crls)
        .clear_root_hint_subjects();
    if names {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(hints);
        builder = builder.add_root_hint_subjects(store.subjects());
    }
    if !is_required {
        builder = builder.allow_unauthenticated();
    }
    if has_crls {
        // Only the leaf certificates of clients are looked up in the revocation lists. If an authority has no list in the file, or its list has
        // expired, every client certificate of this authority is refused.
        builder = builder.only_check_end_entity_revocation().enforce_revocation_expiration();
    }
    let verifier = builder.build().map_err(|why| match (why, revoked) {
        (VerifierBuilderError::InvalidCrl(why), Some((path, _))) => unusable_list(path, is_old, &why),
        (why, _) => format!("clients' certificates cannot be checked: {why}"),
    })?;
    Ok((verifier, lists))
}

/// The error for a revocation list that the TLS library does not accept.
fn unusable_list(path: &str, is_old: bool, why: &CertRevocationListError) -> String {
    let (what, next) = match why {
        _ if is_old => (
            "has X.509 version 1, or no CRL number".to_owned(),
            "set `crlnumber` in the `openssl` configuration of the CA, and make the list again with `openssl ca -gencrl`",
        ),
        CertRevocationListError::UnsupportedDeltaCrl => {
            ("contains only the changes since another list (delta)".to_owned(), "install the complete list")
        }
        CertRevocationListError::ParseError | CertRevocationListError::Other(_) => (
            "cannot be parsed".to_owned(),
            "get the list from the certification authority again, and install it",
        ),
        other => {
            (format!("is not supported ({other:?})"), "install another list from the certification authority")
        }
    };
    format!("`crl-file {path}`: a revocation list in the file {what}, so the file cannot be used; {next}")
}
