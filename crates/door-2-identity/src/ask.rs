//! What the visitor brings.

use enfilade_facts::vocabulary::{Authid, Secret};

/// A certificate the visitor showed in the TLS handshake, where it was found that they have its key and who vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateAsk {
    /// Its SHA-256 fingerprint.
    pub fingerprint: [u8; 32],
}

/// A claim and what is to prove it: a token's secret, or a user's password.
/// Taken apart at the edge; two spellings of one credential cannot reach this door.
#[derive(Clone, Debug)]
pub struct SecretAsk {
    /// Who they say they are.
    pub authid: Authid,
    /// What is to prove it.
    pub secret: Secret,
}
