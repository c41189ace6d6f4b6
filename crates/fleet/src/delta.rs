//! Δ: how long a proof is valid. A proof shows that the facts of a member are current. Δ is the same for all processes of a fleet. So the author of a
//! change knows how long it must wait for a process that sends no report (rule 5 of docs/fleet-protocol.md). Δ is stored in etcd, and a process
//! registers only if it is configured with this Δ. Another Δ can be set only while no process is registered.
//!
//! ```text
//! terms/delta    Δ in milliseconds; absent means 1 s
//! ```

use crate::etcd::{has_value, is_absent, none_exist, put, read};
use crate::log::{DELTA, DELTA_MAX, DELTA_MIN, Log, LogError, damaged};
use crate::messages::{Compare, KeyValue, Operation};
use std::time::Duration;

impl Log {
    /// Sets the Δ (how long a proof is valid) that is configured on this machine, and returns the log.
    #[must_use]
    pub fn with_delta(mut self, delta: Duration) -> Self {
        self.delta = delta;
        self
    }

    /// The Δ that is configured on this machine. It is equal to the Δ of the fleet if a process of this machine is registered.
    pub(crate) fn own_delta(&self) -> Duration {
        self.delta
    }

    /// The Δ of the fleet: how long a proof is valid.
    ///
    /// # Errors
    /// When etcd does not answer, or the stored Δ is damaged.
    pub async fn delta(&self) -> Result<Duration, LogError> {
        let found = self.etcd().read(self.delta_key(), Vec::new(), 1).await?;
        self.delta_in(&found)
    }

    /// The operation of a transaction that reads the Δ of the fleet.
    pub(crate) fn reads_delta(&self) -> Operation {
        read(self.delta_key(), Vec::new())
    }

    /// The Δ of the fleet. `rows` must contain all rows that a transaction with [`Log::reads_delta`] has read.
    pub(crate) fn delta_in<'r>(
        &self,
        rows: impl IntoIterator<Item = &'r KeyValue>,
    ) -> Result<Duration, LogError> {
        let key = self.delta_key();
        let Some(found) = rows.into_iter().find(|row| row.key == key) else { return Ok(DELTA) };
        let millis = found.value.as_slice().try_into().map(u64::from_be_bytes);
        let delta = millis.ok().map(Duration::from_millis);
        delta
            .filter(|delta| (DELTA_MIN..=DELTA_MAX).contains(delta))
            .ok_or_else(|| damaged(&key, "its value is not from 1,000 to 10,000 ms"))
    }

    /// Pairs of a condition and an operation. A process may register with the Δ of this machine if the condition of at least one pair holds. If the
    /// pair has an operation, the registration also carries out the operation.
    pub(crate) fn agreements(&self) -> Vec<(Compare, Option<Operation>)> {
        let (key, own) = (self.delta_key(), millis(self.delta).to_be_bytes().to_vec());
        let unset = (self.delta == DELTA).then(|| (is_absent(key.clone()), None));
        let nobody = none_exist(self.key("node", ""), self.after_all("node"));
        let agreed = has_value(key.clone(), own.clone());
        [(agreed, None)].into_iter().chain(unset).chain([(nobody, Some(put(key, own)))]).collect()
    }

    /// The error that the Δ of this machine differs from the Δ of the fleet, so that no process of this machine can register; `None` if they are
    /// equal.
    pub(crate) async fn disagrees(&self) -> Result<Option<LogError>, LogError> {
        let fleet = self.delta().await?;
        let why = LogError::OtherDelta { fleet: millis(fleet), own: millis(self.delta) };
        Ok((fleet != self.delta).then_some(why))
    }

    /// The Δ of the fleet, or the largest possible Δ if etcd does not answer.
    pub(crate) async fn delta_or_most(&self) -> Duration {
        self.delta().await.unwrap_or(DELTA_MAX)
    }

    fn delta_key(&self) -> Vec<u8> {
        self.key("terms", "delta")
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
