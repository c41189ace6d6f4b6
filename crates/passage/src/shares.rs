//! Each user's share of the threads that wait for file systems, and of pages, which hold every name of a directory until they are sent, and
//! of the memory that answers take until the client has them. Who asks for more waits for their own work to end; other users do not wait.

use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::UserId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The users whose work is done or waits.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<UserId, Arc<Places>>>);

#[derive(Debug)]
struct Places {
    threads: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    /// A permit is a byte.
    answers: Arc<Semaphore>,
}

/// A user's share.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    user: UserId,
    places: Arc<Places>,
}

/// A place in it, until this is dropped: the work that runs there holds it.
#[derive(Debug)]
#[expect(dead_code, reason = "held so that the place is taken, and so that the share is known while it is")]
pub struct Turn(Option<OwnedSemaphorePermit>, Share);

impl Shares {
    pub(crate) fn of(self: &Arc<Self>, user: UserId, limits: &Limits) -> Share {
        let room =
            |count: u64| Arc::new(Semaphore::new(usize::try_from(count).unwrap_or(Semaphore::MAX_PERMITS)));
        let new = || {
            Arc::new(Places {
                threads: room(limits.threads_per_user),
                pages: room(limits.pages_per_user),
                answers: room(limits.answer_bytes_per_user),
            })
        };
        let places = Arc::clone(self.all().entry(user).or_insert_with(new));
        Share { shares: Arc::clone(self), user, places }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<UserId, Arc<Places>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Waits for a thread of it.
    pub async fn turn(self) -> Turn {
        // It is closed nowhere.
        let place = Arc::clone(&self.places.threads).acquire_owned().await.ok();
        Turn(place, self)
    }

    /// Waits for a page of it.
    pub async fn page(self) -> Turn {
        let place = Arc::clone(&self.places.pages).acquire_owned().await.ok();
        Turn(place, self)
    }

    /// Waits until so many bytes of an answer may be held; at most the least that `answer_bytes_per_user` may be, 1 MiB.
    pub async fn answer(self, bytes: u32) -> Turn {
        let place = Arc::clone(&self.places.answers).acquire_many_owned(bytes).await.ok();
        Turn(place, self)
    }

    /// The same without waiting; the share again where it would have to.
    pub fn answer_now(self, bytes: u32) -> Result<Turn, Share> {
        match Arc::clone(&self.places.answers).try_acquire_many_owned(bytes) {
            Ok(place) => Ok(Turn(Some(place), self)),
            Err(_) => Err(self),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut all = self.shares.all();
        // The one in the map, and this one: nobody else waits or works.
        if Arc::strong_count(&self.places) == 2 {
            all.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_user_waits_for_themselves_alone() {
        let shares = Arc::<Shares>::default();
        let limits = Limits {
            threads_per_user: 2,
            pages_per_user: 1,
            answer_bytes_per_user: 1 << 20,
            ..Limits::default()
        };
        let [alice, bob] = [1, 2].map(|n| UserId::from_bytes([n; 16]));
        let (one, two) = (shares.of(alice, &limits).turn().await, shares.of(alice, &limits).turn().await);
        let third = tokio::spawn(shares.of(alice, &limits).turn());
        let (of_bob, page) = (shares.of(bob, &limits).turn().await, shares.of(alice, &limits).page().await);
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        let held = shares.of(alice, &limits).answer_now(3 << 18).unwrap();
        assert!(shares.of(alice, &limits).answer_now(1 << 19).is_err());
        assert!(shares.of(bob, &limits).answer_now(1 << 20).is_ok());
        drop(held);
        drop(shares.of(alice, &limits).answer(1 << 20).await);
        drop(one);
        drop((third.await.unwrap(), two, of_bob, page));
        assert!(shares.all().is_empty());
    }
}
