//! How many connections there may be, in all and from one address.

use enfilade_facts::limits::Limits;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts connections.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    open: Mutex<HashMap<IpAddr, usize>>,
    limits: Limits,
}

/// One counted connection; dropping it makes room.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    address: IpAddr,
}

impl Admission {
    /// With as many as these say.
    pub(crate) fn new(limits: Limits) -> Self {
        Admission { open: Mutex::default(), limits }
    }

    /// Counts a connection in, unless there are too many.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let address = network(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = open.values().sum();
        let from_here = open.entry(address).or_default();
        let is_full = |count: usize, most: u64| count as u64 >= most;
        if is_full(total, self.limits.connections) || is_full(*from_here, self.limits.connections_per_address)
        {
            return None;
        }
        *from_here += 1;
        Some(Admitted { admission: Arc::clone(self), address })
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

/// Whoever has one IPv6 address has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.admission.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all() {
        let admission = Arc::new(Admission::default());
        let here: IpAddr = "2001:db8::1".parse().unwrap();
        let same_network: IpAddr = "2001:db8::2".parse().unwrap();
        let held: Vec<_> =
            (0..Limits::default().connections_per_address).map(|_| admission.admit(here).unwrap()).collect();
        assert!(admission.admit(same_network).is_none());
        assert!(admission.admit("127.0.0.1".parse().unwrap()).is_some());
        drop(held);
        assert_eq!(admission.count(), 0);
        assert!(admission.admit(same_network).is_some());
    }
}
