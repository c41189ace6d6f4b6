//! How many connections there may be, in all and from one address.

use super::connection::Drain;
use enfilade_faces::Stranger;
use enfilade_facts::limits::Limits;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Counts connections.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    open: Mutex<Open>,
    limits: Limits,
}

#[derive(Debug, Default)]
struct Open {
    count: u64,
    from: HashMap<IpAddr, Here>,
}

/// Those from one address.
#[derive(Debug)]
struct Here {
    count: u64,
    /// Places for those on which nobody was let in yet.
    places: Arc<Semaphore>,
}

/// One counted connection; dropping it makes room.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    address: IpAddr,
    places: Arc<Semaphore>,
}

impl Admission {
    /// With as many as these say.
    pub(crate) fn new(limits: Limits) -> Self {
        Admission { open: Mutex::default(), limits }
    }

    /// Counts a connection in, unless there are too many.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let Limits { connections, connections_per_address, unauthenticated_per_address, .. } = self.limits;
        let address = network(address);
        let mut open = self.open();
        if open.count >= connections {
            return None;
        }
        let here = open.from.entry(address).or_insert_with(|| {
            let places = usize::try_from(unauthenticated_per_address).unwrap_or(Semaphore::MAX_PERMITS);
            Here { count: 0, places: Arc::new(Semaphore::new(places)) }
        });
        if here.count >= connections_per_address {
            return None;
        }
        here.count += 1;
        let places = Arc::clone(&here.places);
        open.count += 1;
        Some(Admitted { admission: Arc::clone(self), address, places })
    }

    /// How many are open.
    pub(crate) fn count(&self) -> u64 {
        self.open().count
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// Waits until there is a place for it and the client has said something; not for long, and not while draining.
    pub(crate) async fn turn(&self, stream: &TcpStream, drain: &mut Drain) -> Option<Stranger> {
        let begins = async {
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            // That it is readable is also said of one that is not.
            let is_gone = stream.peek(&mut [0]).await.ok()? == 0;
            (!is_gone).then(|| Stranger::new(place))
        };
        let limit = Duration::from_secs(self.admission.limits.first_byte_seconds);
        tokio::select! {
            begun = tokio::time::timeout(limit, begins) => begun.ok().flatten(),
            _ = drain.wait_for(|drain| *drain) => None,
        }
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
        let mut open = self.admission.open();
        open.count -= 1;
        if let Some(here) = open.from.get_mut(&self.address) {
            here.count -= 1;
            if here.count == 0 {
                open.from.remove(&self.address);
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
