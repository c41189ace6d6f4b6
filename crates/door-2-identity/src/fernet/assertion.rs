//! Assertions: short-lived JSON Web Tokens (RFC 7519) with which an application learns who the visitor is. They are signed with Ed25519 (RFC 8037).
//!
//! The key of assertions is derived from a Fernet key. So the key of assertions changes with each rotation of the Fernet keys, and all servers with
//! the same Fernet keys make the same signatures. The public key that belongs to the staged key is also published. So an application has this public
//! key before the first assertion is signed with the matching private key.

use aws_lc_rs::digest;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A key that signs assertions.
pub(super) struct AssertionKey {
    pair: Ed25519KeyPair,
    public: AssertionPublicKey,
}

/// The public part of a key, with which an application checks assertions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssertionPublicKey {
    /// The id of the key: its thumbprint (RFC 7638).
    pub id: String,
    /// The 32 bytes of the key, in base64url.
    pub x: String,
}

impl AssertionKey {
    /// The key with this seed. `None` if the library refuses the seed.
    pub(super) fn of(seed: &[u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, members.as_bytes()));
        Some(AssertionKey { pair, public: AssertionPublicKey { id, x } })
    }

    /// Signs an assertion. `payload` is a JSON object.
    pub(super) fn sign(&self, payload: &str) -> String {
        let head = format!(r#"{{"alg":"EdDSA","typ":"JWT","kid":"{}"}}"#, self.public.id);
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(payload));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// The public part.
    pub(super) fn public(&self) -> &AssertionPublicKey {
        &self.public
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyRing;
    use super::*;
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

    #[test]
    fn an_assertion_is_signed_with_the_primary_key_and_checked_with_a_published_one() {
        let ring = KeyRing::new(&[(0, &[7; 32]), (3, &[3; 32])]).unwrap();
        let token = ring.sign_assertion(r#"{"sub":"alice@local"}"#).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let decoded = |at: usize| URL_SAFE_NO_PAD.decode(parts[at]).unwrap();
        let keys = ring.assertion_keys();
        assert_eq!(keys.len(), 2, "the staged key is published, too");
        assert!(String::from_utf8(decoded(0)).unwrap().contains(&keys[0].id));
        assert_eq!(decoded(1), br#"{"sub":"alice@local"}"#);
        let check = |key: &AssertionPublicKey, text: &str| {
            let public = UnparsedPublicKey::new(&ED25519, URL_SAFE_NO_PAD.decode(&key.x).unwrap());
            public.verify(text.as_bytes(), &decoded(2)).is_ok()
        };
        let signed = format!("{}.{}", parts[0], parts[1]);
        assert!(check(&keys[0], &signed) && !check(&keys[1], &signed) && !check(&keys[0], &token));
        // After a rotation, the earlier key is still published.
        let rotated = KeyRing::new(&[(0, &[9; 32]), (3, &[3; 32]), (4, &[7; 32])]).unwrap();
        assert_eq!(rotated.assertion_keys()[0], keys[1]);
        assert!(rotated.assertion_keys().contains(&keys[0]));
    }

    #[test]
    fn the_thumbprint_is_that_of_rfc_8037() {
        // RFC 8037, appendix A.3, gives the thumbprint of the key in appendix A.1.
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, members.as_bytes()));
        assert_eq!(id, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }
}
