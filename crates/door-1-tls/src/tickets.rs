//! TLS session tickets (RFC 8446 §4.6.1, RFC 5077). With a ticket a client resumes a TLS session, and the server does not send a certificate again.
//!
//! A ticket is valid only under the policy under which it was issued, because the key that seals the ticket is derived from the policy. So a ticket
//! that was issued under a weak policy cannot be used for a name with a stronger policy. When a policy changes, its earlier tickets become invalid.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use rustls::server::ProducesTickets;
use std::sync::{Arc, PoisonError, RwLock};
use zeroize::Zeroizing;

/// The id of a ticket key.
pub type TicketKeyId = [u8; 8];

/// How long a ticket is valid, in seconds.
pub const TICKET_SECONDS: u32 = 12 * 60 * 60;

/// A ticket key, which all server processes with the same data directory share.
#[derive(Clone)]
pub struct TicketKey {
    /// The id of the key. Each ticket begins with the id of the key that sealed it.
    id: TicketKeyId,
    /// The secret from which the key of each policy is derived.
    secret: Zeroizing<[u8; 32]>,
}

impl TicketKey {
    /// A key with this secret. The id is derived from the secret, so all processes have the same id for the same secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        let digest = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"which ticket key");
        let id = digest.as_ref().first_chunk().copied().unwrap_or_default();
        TicketKey { id, secret: Zeroizing::new(*secret) }
    }

    /// The id of the key.
    pub fn id(&self) -> TicketKeyId {
        self.id
    }
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey")
    }
}

/// All ticket keys. The whole set of keys can be replaced while handshakes are in progress. If there is no key, no tickets are issued.
#[derive(Clone, Debug, Default)]
pub struct Tickets(Arc<RwLock<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    /// The key that seals new tickets.
    current: Option<TicketKeyId>,
    keys: Vec<TicketKey>,
}

impl Tickets {
    /// Replaces the keys. New tickets are sealed with `current`.
    pub fn set(&self, keys: Vec<TicketKey>, current: TicketKeyId) {
        let mut ring = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *ring = Ring { current: Some(current), keys };
    }

    fn key(&self, id: Option<TicketKeyId>, policy: &[u8; 32]) -> Option<(TicketKeyId, LessSafeKey)> {
        let ring = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let id = id.or(ring.current)?;
        let key = ring.keys.iter().find(|key| key.id == id)?;
        let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &*key.secret), policy);
        Some((id, LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).ok()?)))
    }

    /// Returns the object that encrypts and decrypts the TLS session tickets of one policy.
    pub(crate) fn under(&self, policy: [u8; 32]) -> Arc<dyn ProducesTickets> {
        Arc::new(UnderPolicy { tickets: self.clone(), policy })
    }
}

struct UnderPolicy {
    tickets: Tickets,
    policy: [u8; 32],
}

impl ProducesTickets for UnderPolicy {
    fn enabled(&self) -> bool {
        self.tickets.0.read().unwrap_or_else(PoisonError::into_inner).current.is_some()
    }

    fn lifetime(&self) -> u32 {
        TICKET_SECONDS
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let (id, key) = self.tickets.key(None, &self.policy)?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(id), &mut sealed).ok()?;
        Some([&id[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (id, rest) = ticket.split_first_chunk()?;
        let (nonce, sealed) = rest.split_first_chunk()?;
        let (id, key) = self.tickets.key(Some(*id), &self.policy)?;
        let mut sealed = sealed.to_vec();
        let plain = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(id), &mut sealed);
        plain.ok().map(|plain| plain.to_vec())
    }
}

impl std::fmt::Debug for UnderPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnderPolicy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> TicketKey {
        TicketKey::new(&[n; 32])
    }

    #[test]
    fn a_ticket_is_valid_with_its_key_and_under_its_policy() {
        let (here, there) = (Tickets::default(), Tickets::default());
        let (one, other) = (here.under([1; 32]), here.under([2; 32]));
        assert!(!one.enabled() && one.encrypt(b"state").is_none());
        here.set(vec![key(1), key(2)], key(1).id());
        there.set(vec![key(1)], key(1).id());
        let ticket = one.encrypt(b"state").unwrap();
        assert!(one.enabled());
        assert_ne!(ticket, one.encrypt(b"state").unwrap());
        assert_eq!(one.decrypt(&ticket).as_deref(), Some(b"state".as_slice()));
        assert_eq!(other.decrypt(&ticket), None);
        // Another process that has the key `key(1)` also opens the ticket.
        assert_eq!(there.under([1; 32]).decrypt(&ticket).as_deref(), Some(b"state".as_slice()));
        // The next key seals new tickets. Until the previous key is removed, it still opens the tickets that were sealed with it.
        here.set(vec![key(1), key(2)], key(2).id());
        assert!(one.decrypt(&ticket).is_some());
        assert!(one.encrypt(b"state").unwrap().starts_with(&key(2).id()));
        here.set(vec![key(2)], key(2).id());
        assert_eq!(one.decrypt(&ticket), None);
        for at in 0..ticket.len() {
            let mut bent = ticket.clone();
            bent[at] ^= 1;
            assert_eq!(there.under([1; 32]).decrypt(&bent), None, "{at}");
            assert_eq!(there.under([1; 32]).decrypt(&ticket[..at]), None, "{at}");
        }
    }
}
