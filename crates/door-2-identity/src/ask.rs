//! The credential that a client presents. A face parses the credential. So this door receives each kind of credential in only one form.

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
    /// A link with which somebody shares a file or folder.
    Link(&'a LinkAsk),
}

/// A name and a secret: a user's password, or the secret of an API token.
#[derive(Clone, Debug)]
pub struct SecretAsk {
    /// The user or API token.
    pub authid: Authid,
    /// The secret.
    pub secret: Secret,
}

/// The token of a session, as the client sent it. The token is a secret until it expires.
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

/// A link that a guest presents.
#[derive(Clone, Debug)]
pub struct LinkAsk {
    /// The text in the URL.
    pub text: Secret,
    /// The proof that the guest presents in addition to the URL.
    pub proof: LinkProof,
}

/// The proof that a guest knows the password of a link.
#[derive(Clone, Debug)]
pub enum LinkProof {
    /// The guest presents only the URL.
    Nothing,
    /// The password.
    Password(Secret),
    /// The pass: a text that the guest got after entering the password (`link.rs`).
    Pass(Secret),
}

/// A client certificate. In the TLS handshake the client proved that it has the key of the certificate, and the server checked the authority that
/// signed the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateAsk {
    /// The SHA-256 fingerprint of the certificate.
    pub fingerprint: [u8; 32],
}
