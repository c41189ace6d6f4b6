//! The parts of the map and of the disk reserve that a change must leave free for more urgent changes.

use enfilade_facts::limits::{MAP_PERCENT_MAX, MAP_PERCENT_OF_USERS_MAX};
use enfilade_facts::{Effect, Requester};

/// The part of the map that may be in use after a change, and the part of the disk reserve that must remain unused.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// The part of the map that may be in use, in percent.
    pub(super) percent: u64,
    /// The part of the disk reserve that must remain unused, in halves.
    pub(super) halves: u64,
    /// The kinds of changes that are still possible beyond this bound, for the error message.
    pub(super) rest: &'static str,
}

pub(super) const GIVING: Bound = Bound {
    percent: MAP_PERCENT_MAX,
    halves: 2,
    rest: "changes that take rights away (disable, delete, revoke)",
};
pub(super) const OF_USERS: Bound = Bound {
    percent: MAP_PERCENT_OF_USERS_MAX,
    halves: 1,
    rest: "administrators' changes that take rights away (disable, delete, revoke)",
};

/// The bound of a change; `None` if the change may use the whole map and the whole disk reserve.
pub(super) fn bound_of(effect: Effect, requester: Requester) -> Option<Bound> {
    match (effect, requester) {
        (_, Requester::File) | (Effect::Takes, Requester::Administrator) => None,
        (Effect::Takes, Requester::User) => Some(OF_USERS),
        (Effect::Gives, _) => Some(GIVING),
    }
}
