//! Tickets with which a client goes on where it was, without showing and checking certificates again (RFC 8446 §4.6.1, RFC 5077).
//!
//! A ticket is good under the very policy it was given under and no other: the key it is sealed with is made of the policy. So one of
//! a name that asks for little opens nothing at a name that asks for more, and none is good any longer once a policy changes.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use rustls::server::ProducesTickets;
use std::sync::{Arc, PoisonError, RwLock};
use zeroize::Zeroizing;

/// What tells keys apart.
pub type TicketKeyId = [u8; 8];

/// How long a ticket is good, in seconds.
pub const TICKET_SECONDS: u32 = 12 * 60 * 60;

/// A key all processes of a machine have in common.
#[derive(Clone)]
pub struct TicketKey {
    /// Which it is; it stands before each ticket.
    id: TicketKeyId,
    /// What the policies' keys are made of.
    secret: Zeroizing<[u8; 32]>,
}

impl TicketKey {
    /// Of these bytes; it is known by what it is, wherever it lies.
    pub fn new(secret: &[u8; 32]) -> Self {
        let digest = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"which ticket key");
        let id = digest.as_ref().first_chunk().copied().unwrap_or_default();
        TicketKey { id, secret: Zeroizing::new(*secret) }
    }

    /// Which it is.
    pub fn id(&self) -> TicketKeyId {
        self.id
    }
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey")
    }
}

/// The keys there are; exchanged as a whole while handshakes go on. Without any, no tickets are given.
#[derive(Clone, Debug, Default)]
pub struct Tickets(Arc<RwLock<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    /// With which tickets are sealed.
    current: Option<TicketKeyId>,
    keys: Vec<TicketKey>,
}

impl Tickets {
    /// From now on these are there, and tickets are sealed with this one.
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

    /// Tickets under one policy.
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
    fn a_ticket_is_good_with_its_key_and_under_its_policy() {
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
        // Another process with the same keys.
        assert_eq!(there.under([1; 32]).decrypt(&ticket).as_deref(), Some(b"state".as_slice()));
        // The next key seals, and the one before still opens; when it is gone, it does not.
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
