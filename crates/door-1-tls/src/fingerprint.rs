//! The fingerprint of a certificate: the SHA-256 of its DER, as `openssl x509 -fingerprint -sha256` prints it.

use crate::leaf::Leaf;
use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The fingerprint of the first certificate of a PEM file.
///
/// # Errors
/// When the file contains no certificate that can be read, or the certificate cannot be the leaf of a handshake ([`Leaf::of_der`]).
pub fn fingerprint(pem: &[u8]) -> Result<[u8; 32], String> {
    let certificate = CertificateDer::from_pem_slice(pem)
        .map_err(|why| format!("the file contains no readable PEM certificate: {why}"))?;
    Leaf::of_der(&certificate)?;
    Ok(of(&certificate))
}

/// The fingerprint of a certificate that was presented in a handshake.
pub fn of(certificate: &CertificateDer<'_>) -> [u8; 32] {
    digest::digest(&digest::SHA256, certificate).as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_handshake_give_the_same_fingerprint() {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        assert_eq!(fingerprint(made.cert.pem().as_bytes()), Ok(of(made.cert.der())));
        assert!(fingerprint(b"nothing").is_err());
    }
}
