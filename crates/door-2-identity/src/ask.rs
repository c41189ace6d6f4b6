//! What a client presents. The faces parse it, so a credential reaches this door in one form only.

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
}

/// A name and the secret that proves it: a user's password, or the secret of an API token.
#[derive(Clone, Debug)]
pub struct SecretAsk {
    /// The user or API token.
    pub authid: Authid,
    /// The secret.
    pub secret: Secret,
}

/// A session's token as it was sent. It is a secret until it expires.
#[derive(Clone, Debug)]
pub struct SessionAsk {
    /// Its text.
    pub token: Secret,
}

/// A certificate. The TLS handshake proved that the client has its key, and which authority signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateAsk {
    /// Its SHA-256 fingerprint.
    pub fingerprint: [u8; 32],
}
