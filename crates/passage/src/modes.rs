//! The modes of a walk through the doors. A mode is the purpose of a walk. The doors and their order are the same in every mode. A mode determines
//! which principal the doors judge, whether the ledger counts the operation, and which value the walk holds during the operation.
//!
//! The ledger counts the operations of all modes except explanations and reviews. An explanation or a review cannot act, because a [`crate::Stay`]
//! needs an operation that the ledger counts.

use crate::door_times::DoorTimer;
use crate::handles::Handle;
use crate::house::House;
use crate::refuse::Refusal;
use enfilade_datastore::{Ask, OperationGuard};
use enfilade_facts::{Clocks, View};
use enfilade_identity::Principal;
use std::sync::Arc;

/// The properties in which the modes differ.
pub(crate) trait Mode {
    /// The value that the walk keeps during its operation in the datastore.
    type Operation;
    /// Whether door 4 is asked about a principal. This question needs a view. A mode without a principal can use the index of datastores instead of a
    /// view, if the index has the newest revision.
    const HAS_PRINCIPAL: bool = false;

    /// Enters the operation into the ledger, if operations of this mode are counted. Returns `None` if the datastore does not exist.
    fn count(house: &House, ask: &Ask<'_>, now: Clocks) -> Result<Option<Self::Operation>, Refusal>;

    /// Measures how long the doors take, if the trace of the request is exported.
    fn timer(&self) -> DoorTimer {
        DoorTimer::default()
    }

    /// The principal that is judged, if the mode has a principal. A request asks door 2 again on this view if the facts changed.
    fn principal(&mut self, _: &View<'_>) -> Result<Option<&Principal>, Refusal> {
        Ok(None)
    }
}

/// An operation that the ledger counts, and the handle of its datastore.
pub(crate) type LedgerEntry = (OperationGuard, Arc<Handle>);

/// The mode of an explanation. The caller chooses the principal, and no credential was presented.
pub(crate) struct Explain<'p>(pub(crate) &'p Principal);

impl Mode for Explain<'_> {
    type Operation = ();
    const HAS_PRINCIPAL: bool = true;

    fn count(_: &House, _: &Ask<'_>, _: Clocks) -> Result<Option<()>, Refusal> {
        Ok(Some(()))
    }

    fn principal(&mut self, _: &View<'_>) -> Result<Option<&Principal>, Refusal> {
        Ok(Some(self.0))
    }
}

/// The mode of a review. A review asks door 4 about the rights of many principals on each object, but not about the datastore itself.
pub(crate) struct Review;

impl Mode for Review {
    type Operation = ();

    fn count(_: &House, _: &Ask<'_>, _: Clocks) -> Result<Option<()>, Refusal> {
        Ok(Some(()))
    }
}

/// The mode of a task of the server itself, or of a task for which an administrator has a permit.
pub(crate) struct Housekeeping;

impl Mode for Housekeeping {
    type Operation = LedgerEntry;

    fn count(house: &House, ask: &Ask<'_>, now: Clocks) -> Result<Option<LedgerEntry>, Refusal> {
        house.count_in(ask, now, Arc::clone)
    }
}

/// Like [`Housekeeping`], but the walk does not keep the handle of the datastore. So threads that only look up a datastore do not write to the shared
/// reference count of the handle.
pub(crate) struct LookUp;

impl Mode for LookUp {
    type Operation = OperationGuard;

    fn count(house: &House, ask: &Ask<'_>, now: Clocks) -> Result<Option<OperationGuard>, Refusal> {
        Ok(house.count_in(ask, now, |_| ())?.map(|(guard, ())| guard))
    }
}
