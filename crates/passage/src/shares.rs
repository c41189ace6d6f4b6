//! Each user has a share of each of four resources: threads that wait for file systems, directory pages, memory for unsent answers, and requests that
//! another member of the fleet answers. All guests of one link together have one such share. A directory page holds all names of a directory in
//! memory until the names are sent. If a share of threads, pages or memory is used up, further work of the same user waits until other work of this
//! user ends. If the share of requests to other members is used up, a further request is refused. Other users do not wait.

use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::UserId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of one user's requests that wait at the same time for the head of a response from another member. This number is much smaller
/// than the number of requests that may wait for one member (1,024). So one user, or the guests of one link, cannot take all these places with slow
/// uploads.
const PASSED_MAX: usize = 128;

/// The users with running or waiting work.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<UserId, Arc<Places>>>);

#[derive(Debug)]
struct Places {
    threads: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    /// Each permit of the semaphore stands for one byte.
    answers: Arc<Semaphore>,
    passed: Arc<Semaphore>,
}

/// A user's share.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    user: UserId,
    places: Arc<Places>,
}

/// A place in a share. The work that uses the place holds this value, and frees the place when it drops the value.
#[derive(Debug)]
#[expect(dead_code, reason = "held so that the place stays taken, and the user's share stays in the map")]
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
                passed: Arc::new(Semaphore::new(PASSED_MAX)),
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
    /// Waits until the user's share has a free thread.
    pub async fn turn(self) -> Turn {
        // The semaphore is never closed, so this call never fails.
        let place = Arc::clone(&self.places.threads).acquire_owned().await.ok();
        Turn(place, self)
    }

    /// Waits until the user's share has space for a further directory page.
    pub async fn page(self) -> Turn {
        let place = Arc::clone(&self.places.pages).acquire_owned().await.ok();
        Turn(place, self)
    }

    /// A place for a request that another member answers; `None` if the user's share has no free place.
    pub fn passed(self) -> Option<Turn> {
        let place = Arc::clone(&self.places.passed).try_acquire_owned().ok()?;
        Some(Turn(Some(place), self))
    }

    /// Waits until `bytes` bytes of an answer may be kept in memory. `bytes` is at most 1 MiB, the smallest value of `answer_bytes_per_user`.
    pub async fn answer(self, bytes: u32) -> Turn {
        let place = Arc::clone(&self.places.answers).acquire_many_owned(bytes).await.ok();
        Turn(place, self)
    }

    /// Like [`Share::answer`], but never waits. If the call would have to wait, it returns the share unchanged.
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
        // If there are only two references, the map has one, and this share has the other. So no other work of the user runs or waits.
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
        let passed: Vec<_> = (0..PASSED_MAX).map(|_| shares.of(alice, &limits).passed().unwrap()).collect();
        assert!(shares.of(alice, &limits).passed().is_none() && shares.of(bob, &limits).passed().is_some());
        drop(passed);
        drop(one);
        drop((third.await.unwrap(), two, of_bob, page));
        assert!(shares.all().is_empty());
    }
}
