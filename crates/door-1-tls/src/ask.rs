//! The parts of a ClientHello that door 1 needs: the server name, and the kinds of keys that the client accepts.

use core::net::IpAddr;
use rustls::SignatureScheme;
use rustls::server::ClientHello;

/// The question to door 1: the fields of a ClientHello that door 1 needs, and the address to which the client connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub(crate) name: Option<String>,
    /// The address to which the client connected; `None` if the client sent a name. A client sends no name if the host of its URL is an IP address.
    pub(crate) address: Option<String>,
    pub(crate) takes_ecdsa: bool,
    pub(crate) takes_rsa: bool,
}

impl Ask {
    /// Asks about the server name `name`, for a client that accepts every kind of key. Names are compared in lower case, without a final dot.
    pub fn new(name: Option<&str>) -> Self {
        let name = name.map(|name| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase());
        Ask { name, address: None, takes_ecdsa: true, takes_rsa: true }
    }

    /// Reads the question from a ClientHello.
    pub fn of(hello: &ClientHello<'_>) -> Self {
        let schemes = hello.signature_schemes();
        let takes_ecdsa = schemes.iter().any(|scheme| {
            matches!(
                scheme,
                SignatureScheme::ECDSA_NISTP256_SHA256
                    | SignatureScheme::ECDSA_NISTP384_SHA384
                    | SignatureScheme::ECDSA_NISTP521_SHA512
                    | SignatureScheme::ECDSA_SHA1_Legacy
            )
        });
        let takes_rsa = schemes.iter().any(|scheme| {
            matches!(
                scheme,
                SignatureScheme::RSA_PSS_SHA256
                    | SignatureScheme::RSA_PSS_SHA384
                    | SignatureScheme::RSA_PSS_SHA512
                    | SignatureScheme::RSA_PKCS1_SHA256
                    | SignatureScheme::RSA_PKCS1_SHA384
                    | SignatureScheme::RSA_PKCS1_SHA512
                    | SignatureScheme::RSA_PKCS1_SHA1
            )
        });
        Ask::new(hello.server_name()).taking(takes_ecdsa, takes_rsa)
    }

    /// Adds the address to which the client connected. The address is used only if the client sent no name.
    #[must_use]
    pub fn at(self, address: IpAddr) -> Self {
        let address = self.name.is_none().then(|| address.to_canonical().to_string());
        Ask { address, ..self }
    }

    /// Sets which kinds of keys the client accepts.
    #[must_use]
    pub fn taking(self, ecdsa: bool, rsa: bool) -> Self {
        Ask { takes_ecdsa: ecdsa, takes_rsa: rsa, ..self }
    }
}
