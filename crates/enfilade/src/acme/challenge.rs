//! The kinds of challenges of an ACME authority.

use instant_acme::ChallengeType;
use serde::{Deserialize, Serialize};

/// A kind of challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Challenge {
    /// The authority requests a file over HTTP, on port 80 (RFC 8555 §8.3).
    #[serde(rename = "http-01")]
    Http,
    /// The authority makes a TLS handshake, on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn,
}

impl Challenge {
    pub(super) fn name(self) -> &'static str {
        match self {
            Challenge::Http => "HTTP-01, on port 80 of each name",
            Challenge::TlsAlpn => "TLS-ALPN-01, on port 443 of each name",
        }
    }

    /// The first part of the id that an answer has in a fleet.
    pub(super) fn directory(self) -> &'static str {
        match self {
            Challenge::Http => "http-01",
            Challenge::TlsAlpn => "tls-alpn-01",
        }
    }

    pub(super) fn kind(self) -> ChallengeType {
        match self {
            Challenge::Http => ChallengeType::Http01,
            Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
        }
    }
}
