//! Describes in plain words why a TLS connection to another server failed. The TLS library reports most problems of a certificate only as names of
//! its error variants.

use std::io;
use tokio_rustls::rustls::{CertificateError, Error};

/// The reason why a handshake with another server failed.
pub(crate) fn explained(why: &io::Error) -> String {
    match why.get_ref().and_then(|why| why.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(fault)) => {
            of_certificate(fault).map_or_else(|| why.to_string(), str::to_owned)
        }
        _ => why.to_string(),
    }
}

fn of_certificate(fault: &CertificateError) -> Option<&'static str> {
    match fault {
        CertificateError::UnknownIssuer => Some("no trusted CA signed the certificate of the server"),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some("the certificate of the server has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Some(
            "the certificate of the server is not valid yet: check the clocks of this machine and of the server",
        ),
        CertificateError::BadEncoding => Some("the certificate of the server cannot be parsed"),
        CertificateError::BadSignature => Some(
            "the certificate of the server names the trusted CA as its issuer, but was not signed with the key of that CA. If the CA \
             has a new key, install its current certificate from a source that you trust; otherwise this may not be the right server",
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Some(
            "the certificate of the server is not for servers: its extended key usage lacks TLS server authentication (`serverAuth`)",
        ),
        // The TLS library has no error variants for these problems. For these problems it returns the name of an error of webpki, a library that it
        // uses.
        CertificateError::Other(other) => match other.0.to_string().as_str() {
            "CaUsedAsEndEntity" => Some(
                "the server sends the certificate of a CA (basicConstraints CA:TRUE) as its own certificate, and TLS libraries refuse this: give the \
                 server a certificate with CA:FALSE, \
                 signed by this CA or by itself (`openssl req -x509 -addext basicConstraints=critical,CA:FALSE`)",
            ),
            "EndEntityUsedAsCa" => Some(
                "the certificate that is trusted as CA, or an intermediate one, is not the certificate of a CA (basicConstraints CA:TRUE): trust \
                 the certificate of the CA that signed the certificate of the server",
            ),
            "UnsupportedCertVersion" => {
                Some("the certificate of the server has X.509 version 1 or 2, which TLS libraries refuse")
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
    use std::sync::Arc;
    use tokio_rustls::rustls::crypto::aws_lc_rs;
    use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// The reason why a client refuses a server with a self-signed certificate. If `is_trusted`, the client trusts only this certificate. Otherwise
    /// the client trusts only another certificate.
    async fn refused(is_ca: IsCa, expired: bool, is_trusted: bool) -> String {
        let mut params = CertificateParams::new(vec!["k.example".to_owned()]).unwrap();
        // The library uses this name to find the certificate of the signer.
        params.distinguished_name.push(DnType::CommonName, "k");
        params.is_ca = is_ca;
        if expired {
            params.not_after = rcgen::date_time_ymd(2000, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["other.example".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(if is_trusted { own.der().clone() } else { other.cert.der().clone() }).unwrap();
        let provider = || Arc::new(aws_lc_rs::default_provider());
        let client = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let server = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let server = server.unwrap().with_no_client_auth();
        let server = server.with_single_cert(vec![own.der().clone()], key.into()).unwrap();
        let (here, there) = tokio::io::duplex(1 << 16);
        let name = ServerName::try_from("k.example").unwrap();
        let (shaken, _) = tokio::join!(
            TlsConnector::from(Arc::new(client)).connect(name, here),
            TlsAcceptor::from(Arc::new(server)).accept(there)
        );
        explained(&shaken.err().unwrap())
    }

    #[tokio::test]
    async fn problems_of_a_certificate_are_plain_words() {
        let of_ca = || IsCa::Ca(BasicConstraints::Unconstrained);
        for (said, expected) in [
            (refused(of_ca(), false, true).await, "sends the certificate of a CA (basicConstraints CA:TRUE)"),
            (refused(IsCa::ExplicitNoCa, false, false).await, "no trusted CA signed"),
            (refused(IsCa::ExplicitNoCa, true, true).await, "has expired"),
        ] {
            assert!(said.contains(expected), "{said}");
        }
        let other = io::Error::other("connection reset");
        assert_eq!(explained(&other), "connection reset");
    }
}
