//! TLS between the members of a fleet. Each process makes a key and a certificate when it starts, and registers the fingerprint of the certificate in
//! the fleet. No authority signs these certificates. Instead, a process compares the fingerprint of the other process's certificate with the
//! registered fingerprint. The handshake proves that the other process has the key.

use crate::fingerprint::of as fingerprint_of;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// The fingerprint of a certificate: the SHA-256 of its DER.
pub type Fingerprint = [u8; 32];

/// The purpose of a connection between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberProtocol {
    /// Requests of clients, as HTTP/1.1.
    Requests,
    /// Reports of applied changes.
    Reports,
}

impl MemberProtocol {
    /// The name in the handshake (ALPN, RFC 7301).
    pub fn name(self) -> &'static [u8] {
        match self {
            MemberProtocol::Requests => b"http/1.1",
            MemberProtocol::Reports => b"enfilade-reports/1",
        }
    }
}

/// The key and the certificate of a process.
pub struct MemberTls {
    provider: Arc<CryptoProvider>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl MemberTls {
    /// A certificate, in DER, and its private key, as PKCS #8 in DER.
    ///
    /// # Errors
    /// When the key cannot be read.
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Result<Self, String> {
        Ok(MemberTls {
            provider: Arc::new(aws_lc_rs::default_provider()),
            certificate: certificate.into(),
            key: PrivateKeyDer::try_from(key).map_err(str::to_owned)?,
        })
    }

    /// The fingerprint of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(&self.certificate)
    }

    /// The TLS configuration of a listener for members. The listener accepts any certificate. After the handshake, the caller must compute the
    /// fingerprint of the client's certificate ([`fingerprint_of`]), and compare it with the registered fingerprints.
    ///
    /// # Errors
    /// When the TLS library refuses the key.
    pub fn server(&self) -> Result<Arc<ServerConfig>, String> {
        let algorithms = self.provider.signature_verification_algorithms;
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|why| why.to_string())?
            .with_client_cert_verifier(Arc::new(Peer { algorithms, fingerprint: None }))
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .map_err(|why| why.to_string())?;
        // Every new connection needs a full handshake, because it is possible that the other process is no longer a member.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let protocols = [MemberProtocol::Requests, MemberProtocol::Reports];
        config.alpn_protocols = protocols.map(|protocol| protocol.name().to_vec()).to_vec();
        Ok(Arc::new(config))
    }

    /// The TLS configuration of a connection to the process with this fingerprint. Any other process is refused.
    ///
    /// # Errors
    /// When the TLS library refuses the key.
    pub fn client(&self, peer: Fingerprint, protocol: MemberProtocol) -> Result<Arc<ClientConfig>, String> {
        let algorithms = self.provider.signature_verification_algorithms;
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|why| why.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Peer { algorithms, fingerprint: Some(peer) }))
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())
            .map_err(|why| why.to_string())?;
        config.alpn_protocols = vec![protocol.name().to_vec()];
        Ok(Arc::new(config))
    }
}

/// Verifies that the other process has the key of its certificate and, if `fingerprint` is given, that the certificate has this fingerprint.
#[derive(Debug)]
struct Peer {
    algorithms: WebPkiSupportedAlgorithms,
    fingerprint: Option<Fingerprint>,
}

impl Peer {
    fn is_expected(&self, certificate: &CertificateDer<'_>) -> bool {
        self.fingerprint.is_some_and(|fingerprint| fingerprint == fingerprint_of(certificate))
    }
}

/// The error for a signature of TLS 1.2. Both sides offer only TLS 1.3, so this error never occurs.
fn no_tls12() -> Error {
    Error::General("members use TLS 1.3".to_owned())
}

impl ClientCertVerifier for Peer {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Peer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.is_expected(certificate) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConnection, ServerConnection};
    use std::io;

    fn made() -> MemberTls {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        MemberTls::new(made.cert.der().to_vec(), made.signing_key.serialize_der()).unwrap()
    }

    /// The fingerprint of the client as the server sees it, or the error of the side that refuses the connection.
    fn check(server: &MemberTls, client: &MemberTls, expected: Fingerprint) -> Result<Fingerprint, String> {
        let name = ServerName::try_from("member").unwrap();
        let config = client.client(expected, MemberProtocol::Reports).unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        let mut server = ServerConnection::new(server.server().unwrap()).unwrap();
        let failed = |why: &dyn std::fmt::Display| why.to_string();
        for _ in 0..4 {
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            client.write_tls(&mut to_server).unwrap();
            server.read_tls(&mut io::Cursor::new(to_server)).unwrap();
            server.process_new_packets().map_err(|why| failed(&why))?;
            server.write_tls(&mut to_client).unwrap();
            client.read_tls(&mut io::Cursor::new(to_client)).unwrap();
            client.process_new_packets().map_err(|why| failed(&why))?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        assert_eq!(server.alpn_protocol(), Some(MemberProtocol::Reports.name()));
        Ok(fingerprint_of(server.peer_certificates().and_then(<[_]>::first).unwrap()))
    }

    #[test]
    fn only_the_process_with_the_key_of_the_fingerprint_is_taken() {
        let (server, client) = (made(), made());
        assert_eq!(check(&server, &client, server.fingerprint()), Ok(client.fingerprint()));
        assert!(check(&server, &client, client.fingerprint()).is_err(), "another server");
        // This process presents the certificate of another process, without having the key of that certificate.
        let thief = MemberTls {
            provider: Arc::clone(&client.provider),
            certificate: client.certificate.clone(),
            key: made().key,
        };
        assert!(
            thief.client(server.fingerprint(), MemberProtocol::Reports).is_err()
                || check(&server, &thief, server.fingerprint()).is_err(),
            "the key must be that of the certificate"
        );
    }
}
