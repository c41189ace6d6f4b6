//! Limits on the number of connections: of all connections, and of the connections from one address.
//!
//! Only unauthenticated connections count toward the limit of an address. The reason: hundreds of users may share one address (NAT, load balancers).
//! After authentication, the server knows the user of the connection.

use super::client_progress::ClientProgress;
use super::sockets::Stream;
use enfilade_facts::limits::Limits;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An unauthenticated connection without progress may keep its slot for this time while another connection from the same address waits for a slot.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a waiting connection checks whether a connection without progress must give up its slot.
const LOOK: Duration = Duration::from_millis(200);

/// Counts connections, and admits a new one if no limit is reached.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    open: Mutex<Open>,
    limits: Limits,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    from: HashMap<Network, Here>,
}

/// Unauthenticated connections from one network.
#[derive(Debug)]
struct Here {
    count: u64,
    slots: Arc<Semaphore>,
    /// The connections that have a slot.
    clients: Vec<Arc<ClientProgress>>,
}

/// A counted connection. When this value is dropped, the connection no longer counts.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
}

/// Counts a connection against the limits of its address. The value is dropped when the connection is authenticated.
#[derive(Debug)]
pub(crate) struct Share {
    admission: Arc<Admission>,
    /// The networks of the address, the smallest network first. Empty if the address has no limit.
    networks: Vec<Network>,
    slots: Arc<Semaphore>,
}

/// The slot of an unauthenticated connection. Each address has a limited number of slots.
#[derive(Debug)]
pub(crate) struct Slot {
    share: Share,
    client: Arc<ClientProgress>,
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    /// Creates the counters with these limits.
    pub(crate) fn new(limits: Limits) -> Self {
        Admission { open: Mutex::default(), limits }
    }

    /// Counts a connection. Returns `None` if a limit is reached. If there is no address, only the limit of all connections applies.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<IpAddr>) -> Option<(Admitted, Share)> {
        let Limits { connections, connections_per_address, unauthenticated_per_address, .. } = self.limits;
        let networks = address.map_or_else(Vec::new, networks);
        let mut open = self.open();
        let is_full = |network: &Network| {
            let most = connections_per_address.saturating_mul(network.shares);
            open.from.get(network).is_some_and(|here| here.count >= most)
        };
        if open.count >= connections || networks.iter().any(is_full) {
            return None;
        }
        open.count += 1;
        let mut slots = None;
        for network in &networks {
            let here = open.from.entry(*network).or_insert_with(|| {
                let slots = usize::try_from(unauthenticated_per_address).unwrap_or(Semaphore::MAX_PERMITS);
                Here { count: 0, slots: Arc::new(Semaphore::new(slots)), clients: Vec::new() }
            });
            here.count += 1;
            slots.get_or_insert_with(|| Arc::clone(&here.slots));
        }
        drop(open);
        let slots = slots.unwrap_or_else(|| Arc::new(Semaphore::new(1)));
        let admitted = Admitted { admission: Arc::clone(self) };
        Some((admitted, Share { admission: Arc::clone(self), networks, slots }))
    }

    /// The number of open connections.
    pub(crate) fn count(&self) -> u64 {
        self.open().count
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.open().count -= 1;
    }
}

impl Share {
    /// Waits until the address has a free slot and the client has sent its first byte. The wait is at most `first_byte_seconds`. Returns the slot and
    /// this byte.
    pub(crate) async fn turn(self, stream: &Stream, client: Arc<ClientProgress>) -> Option<(Slot, u8)> {
        let limit = Duration::from_secs(self.admission.limits.first_byte_seconds);
        let begins = async {
            let slot = self.slot(client).await?;
            // If the client has closed the connection, `begins` returns no byte.
            Some((slot, stream.begins().await.ok()??))
        };
        tokio::time::timeout(limit, begins).await.ok().flatten()
    }

    /// Waits for a slot, in order of arrival. During the wait, this function can end another connection from the same address: the connection that
    /// has made no progress for the longest time, if that time is at least [`PATIENCE`].
    async fn slot(self, client: Arc<ClientProgress>) -> Option<Slot> {
        let slots = Arc::clone(&self.slots);
        let turn = slots.acquire_owned();
        tokio::pin!(turn);
        let permit = loop {
            tokio::select! {
                biased;
                permit = &mut turn => break permit.ok()?,
                () = tokio::time::sleep(LOOK) => self.make_room(),
            }
        };
        client.goes_on();
        if let Some(here) = self.nearest(&mut self.admission.open()) {
            here.clients.push(Arc::clone(&client));
        }
        Some(Slot { share: self, client, _permit: permit })
    }

    fn make_room(&self) {
        let mut open = self.admission.open();
        let Some(here) = self.nearest(&mut open) else { return };
        let idle = here.clients.iter().filter_map(|one| Some((one.idle_since()?, one)));
        let longest = idle.min_by_key(|(since, _)| *since);
        if let Some((_, one)) = longest.filter(|(since, _)| since.elapsed() >= PATIENCE) {
            one.cut();
        }
    }

    fn nearest<'o>(&self, open: &'o mut Open) -> Option<&'o mut Here> {
        open.from.get_mut(self.networks.first()?)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut open = self.admission.open();
        for network in &self.networks {
            if let Some(here) = open.from.get_mut(network) {
                here.count -= 1;
                if here.count == 0 {
                    open.from.remove(network);
                }
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.client.is_known.store(true, Ordering::Relaxed);
        if let Some(here) = self.share.nearest(&mut self.share.admission.open()) {
            here.clients.retain(|one| !Arc::ptr_eq(one, &self.client));
        }
    }
}

/// A network: all addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Network {
    address: IpAddr,
    bits: u8,
    /// The limit of the network, in multiples of the limit of an address.
    shares: u64,
}

/// The networks of an address that have a limit, the smallest network first. An IPv6 site has at least a /64, usually a /56, and often a /48 (RFC
/// 6177 §2). A /64 has the limit of one address, a /56 has 4 times that limit, and a /48 has 16 times that limit.
fn networks(address: IpAddr) -> Vec<Network> {
    match address.to_canonical() {
        IpAddr::V4(v4) => vec![Network { address: IpAddr::V4(v4), bits: 32, shares: 1 }],
        IpAddr::V6(v6) => [(64, 1), (56, 4), (48, 16)]
            .map(|(bits, shares)| {
                let first = v6.to_bits() & (u128::MAX << (128 - bits));
                Network { address: IpAddr::V6(Ipv6Addr::from_bits(first)), bits, shares }
            })
            .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(admission: &Arc<Admission>, address: &str) -> Vec<(Admitted, Share)> {
        std::iter::from_fn(|| admission.admit(address.parse().ok())).collect()
    }

    #[test]
    fn one_address_cannot_take_all() {
        let admission = Arc::new(Admission::default());
        let held = fill(&admission, "2001:db8::1");
        assert_eq!(held.len() as u64, Limits::default().connections_per_address);
        assert!(admission.admit("2001:db8::2".parse().ok()).is_none());
        assert!(admission.admit("127.0.0.1".parse().ok()).is_some());
        drop(held);
        assert_eq!(admission.count(), 0);
        assert!(admission.open().from.is_empty());
        assert!(admission.admit("2001:db8::2".parse().ok()).is_some());
    }

    #[test]
    fn without_an_address_only_the_limit_of_all_counts() {
        let admission = Arc::new(Admission::new(Limits { connections: 3, ..Limits::default() }));
        let held: Vec<_> = std::iter::from_fn(|| admission.admit(None)).collect();
        assert_eq!((held.len(), admission.open().from.len()), (3, 0));
        drop(held);
        assert_eq!(admission.count(), 0);
    }

    #[test]
    fn networks_of_ipv6_have_shares_of_their_own() {
        let admission = Arc::new(Admission::new(Limits { connections_per_address: 2, ..Limits::default() }));
        let mut held = Vec::new();
        let mut taken = |address: String| {
            let new = fill(&admission, &address);
            let count = new.len();
            held.extend(new);
            count
        };
        // The limits are 2 for a /64, 8 for a /56, and 32 for a /48.
        let of_56: Vec<usize> = (0..6).map(|n| taken(format!("2001:db8:0:{n:x}::1"))).collect();
        assert_eq!(of_56, [2, 2, 2, 2, 0, 0]);
        let of_48: usize = (0..64).map(|n| taken(format!("2001:db8:0:{n:x}00::1"))).sum();
        assert_eq!(of_48, 32 - 8);
        assert_eq!(taken("2001:db8:1::1".to_owned()), 2);
        assert_eq!(taken("::ffff:192.0.2.1".to_owned()), 2);
        assert_eq!(taken("192.0.2.1".to_owned()), 0);
    }

    #[test]
    fn an_address_counts_until_somebody_is_let_in() {
        let admission = Arc::new(Admission::default());
        let mut held = fill(&admission, "192.0.2.1");
        assert!(admission.admit("192.0.2.1".parse().ok()).is_none());
        let (_admitted, share) = held.pop().unwrap();
        drop(share);
        assert!(admission.admit("192.0.2.1".parse().ok()).is_some());
    }
}
