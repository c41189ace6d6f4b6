//! Metrics about the fleet of which this server is a member.

use super::{
    FLEET_ACKNOWLEDGED, FLEET_ACKNOWLEDGED_TIME, FLEET_BEHIND, FLEET_PROOF_AGE, FLEET_REFUSED, Metrics,
    Seconds, alone,
};

/// The state of a member of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetState {
    /// The age of the present proof, in milliseconds: the time since this server asked etcd for the newest change. `None` if there is no proof.
    pub proof_millis: Option<u64>,
    /// The number of changes that this server had not applied when it last asked etcd for the newest change.
    pub behind: u64,
    /// The number of reads of facts that were refused because there was no proof.
    pub refused: u64,
    /// The number of changes by this server that were acknowledged: no member grants any more what these changes forbid.
    pub acknowledged: u64,
    /// The sum of the times from the start of each acknowledged change to its acknowledgement, in milliseconds.
    pub acknowledged_millis: u64,
}

/// A function that returns the state of this member. The function is called for each answer of `/metrics`.
pub(super) type Ask = Box<dyn Fn() -> FleetState + Send + Sync>;

impl Metrics {
    /// From now on, the metrics contain the state of the member that `ask` returns.
    pub fn set_fleet(&self, ask: impl Fn() -> FleetState + Send + Sync + 'static) {
        let _ = self.fleet.set(Box::new(ask));
    }

    pub(super) fn render_fleet(&self, text: &mut String) {
        let state = self.fleet.get().map(|ask| ask());
        let seconds = |millis: u64| (Vec::new(), Seconds(millis * 1_000));
        FLEET_PROOF_AGE.write(text, state.and_then(|state| state.proof_millis).map(seconds));
        FLEET_BEHIND.write(text, state.map(|state| alone(state.behind)));
        FLEET_REFUSED.write(text, state.map(|state| alone(state.refused)));
        FLEET_ACKNOWLEDGED.write(text, state.map(|state| alone(state.acknowledged)));
        FLEET_ACKNOWLEDGED_TIME.write(text, state.map(|state| seconds(state.acknowledged_millis)));
    }
}
