//! The credential that a client presents. The faces parse each credential, so this door receives a credential in one form only.

use enfilade_facts::tables::Audience;
use enfilade_facts::vocabulary::{Authid, Secret};

/// A credential of any kind.
#[derive(Clone, Copy, Debug)]
pub enum Ask<'a> {
    /// A name and a secret.
    Secret(&'a SecretAsk),
    /// The token of a session.
    Session(&'a SessionAsk),
    /// A certificate of a TLS client.
    Certificate(&'a CertificateAsk),
    /// The cookie of a browser's session.
    Browser(&'a BrowserAsk),
}

/// A name and the secret that proves it: a user's password, or the secret of an API token.
#[derive(Clone, Debug)]
pub struct SecretAsk {
    /// The user or API token.
    pub authid: Authid,
    /// The secret.
    pub secret: Secret,
}

/// The token of a session as it was sent. It is a secret until it expires.
#[derive(Clone, Debug)]
pub struct SessionAsk {
    /// The text of the token.
    pub token: Secret,
}

/// The cookie of a browser's session.
#[derive(Clone, Debug)]
pub struct BrowserAsk {
    /// The text of the cookie.
    pub cookie: Secret,
    /// The audience for which the request needs a session. A session with another audience is refused.
    pub audience: Audience,
}

/// A client certificate. In the TLS handshake the client proved that it has the key of the certificate, and the server checked the authority that
/// signed the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateAsk {
    /// The SHA-256 fingerprint of the certificate.
    pub fingerprint: [u8; 32],
}
