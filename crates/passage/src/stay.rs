//! Short functions of [`Visit`] and [`Stay`] for the other modules and the faces: properties of the visitor, conditions of a request, and the space
//! of a datastore.

use crate::refuse::Refusal;
use crate::shares::Share;
use crate::walk::{Stay, Visit};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{DatastoreName, UserId};
use enfilade_facts::{Clocks, Read, Revision};
use enfilade_identity::{IdentityPermit, Principal};
use std::sync::Arc;

impl Visit {
    /// The visitor's share of the threads. The guests of a link have a share of their own, so they do not use the share of the user who made the
    /// link.
    pub fn share(&self) -> Share {
        let principal = self.principal();
        let of_guests = principal.link.as_ref().and(self.identity.token());
        let user = of_guests.map_or(principal.user, |link| UserId::from_bytes(*link.bytes()));
        self.house.shares.of(user, &self.limits())
    }

    /// The principal.
    pub fn principal(&self) -> &Principal {
        self.identity.principal()
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.house.limits()
    }

    /// The permit of door 2.
    pub fn identity(&self) -> &IdentityPermit {
        &self.identity
    }

    /// The datastores in which the visitor has a role, by name.
    ///
    /// # Errors
    /// When the facts cannot be read, or door 2 no longer admits the visitor.
    pub fn stores(mut self) -> Result<Vec<DatastoreName>, Refusal> {
        let house = Arc::clone(&self.house);
        let names = house.datastores().into_iter().map(|state| state.name);
        house.parts.source.read(|view| {
            self.ask_again(view)?;
            let (now, memo) = (house.now(), &house.parts.access_memo);
            let principal = self.identity.principal();
            let is_there =
                |name: &DatastoreName| enfilade_access::admits(view, now, principal, name, memo).is_ok();
            Ok(names.filter(is_there).collect())
        })?
    }
}

impl Stay {
    /// The visitor's share of the threads.
    pub fn share(&self) -> Share {
        self.visit.share()
    }

    /// Sets the condition of the request. `still` is called at the first change of a name, of properties or of a lock. During this call no other
    /// thread can change a name. Exception: if the request refreshes a lock, other threads can change names during the call. After a successful call,
    /// `still` is not called again, because the request itself then changes the state that `still` checks.
    pub fn only_if(&mut self, still: impl FnMut(&mut Stay) -> Result<(), Refusal> + Send + 'static) {
        self.still = Some(Box::new(still));
    }

    /// Checks the condition of [`Stay::only_if`], unless an earlier check succeeded.
    ///
    /// # Errors
    /// The refusal of the condition. Then the request must change nothing. The next call checks the condition again.
    pub(crate) fn if_still(&mut self) -> Result<(), Refusal> {
        let Some(mut still) = self.still.take() else { return Ok(()) };
        let holds = still(self);
        self.still = holds.is_err().then_some(still);
        holds
    }

    /// Whether the last answers of the doors are still valid: the facts did not change, and the permits did not expire. This check takes a few
    /// nanoseconds.
    pub(crate) fn unchanged(&self) -> bool {
        let house = &self.visit.house;
        self.visit.identity.validity().holds(house.parts.source.at(), house.now())
            && !self.datastore.is_elsewhere(house.place())
    }

    /// The revision of the facts on which the doors judged last.
    pub fn revision(&self) -> Revision {
        self.datastore.at().revision
    }

    /// The principal.
    pub fn principal(&self) -> &Principal {
        self.visit.principal()
    }

    /// The time.
    pub fn now(&self) -> Clocks {
        self.visit.house.now()
    }

    /// The free and the used bytes of the datastore. If the datastore has a quota, the used bytes are those of the datastore, and the free bytes are
    /// not more than the rest of the quota. Otherwise both numbers are about the whole file system.
    ///
    /// # Errors
    /// When the file system does not answer the question.
    pub fn quota(&self) -> Result<(u64, u64), Refusal> {
        let disk = self.root.usage()?;
        Ok(match self.datastore.quota() {
            None => (disk.available, disk.used),
            Some(quota) => {
                let used = self.fill.used(&self.root)?;
                (disk.available.min(quota.saturating_sub(used)), used)
            }
        })
    }
}
