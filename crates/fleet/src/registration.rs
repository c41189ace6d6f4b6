//! The members that are registered in etcd, their beats, and what each has applied (rules 5 to 8 of docs/fleet.md).
//!
//! ```text
//! node/<id>      the incarnation of the member
//! beat/<id>      the same, with a lease: etcd deletes it when the member does not renew the lease
//! applied/<id>   the number of the last change that the member has applied, with the same lease
//! ```

use crate::etcd::{delete, has_value, is_absent, put, put_leased, read};
use crate::log::{Head, Log, LogError};
use crate::messages::KeyValue;
use enfilade_facts::Revision;

/// How long etcd keeps a beat that is not renewed, in seconds.
const LEASE_SECONDS: i64 = 2;

/// The registration of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) incarnation: [u8; 16],
    lease: i64,
}

/// A member without a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    pub(crate) id: String,
    pub(crate) incarnation: Vec<u8>,
}

impl Log {
    /// Registers a member whose store has this revision, with a new incarnation. `before` is the last incarnation of this process.
    ///
    /// # Errors
    /// [`LogError::Taken`] if another process has a beat under this id.
    pub(crate) async fn register(
        &self,
        id: &str,
        before: Option<[u8; 16]>,
        applied: Revision,
    ) -> Result<Registration, LogError> {
        let mut incarnation = [0; 16];
        getrandom::fill(&mut incarnation).map_err(|why| LogError::NoRandom(why.to_string()))?;
        let lease = self.etcd().lease(LEASE_SECONDS).await?;
        let operations = vec![
            put(self.key("node", id), incarnation.to_vec()),
            put_leased(self.key("beat", id), incarnation.to_vec(), lease),
            put_leased(self.key("applied", id), applied.0.to_be_bytes().to_vec(), lease),
        ];
        let beat = self.key("beat", id);
        let own = before.map(|before| has_value(beat.clone(), before.to_vec()));
        for condition in [Some(is_absent(beat)), own].into_iter().flatten() {
            if self.etcd().transact(vec![condition], operations.clone()).await?.is_some() {
                return Ok(Registration { incarnation, lease });
            }
        }
        Err(LogError::Taken { id: id.to_owned() })
    }

    /// Renews the beat of a member. If the beat has vanished, the next proof finds it out.
    pub(crate) async fn renew(&self, registration: &Registration) -> Result<(), LogError> {
        self.etcd().renew(registration.lease).await?;
        Ok(())
    }

    /// Reads head, registration and beat of a member at one moment. Returns the head if the member is registered and has a beat.
    pub(crate) async fn prove(
        &self,
        id: &str,
        registration: &Registration,
    ) -> Result<Option<Head>, LogError> {
        let own = [self.key("node", id), self.key("beat", id)];
        let is_own = own.map(|key| has_value(key, registration.incarnation.to_vec())).to_vec();
        let found = self.etcd().transact(is_own, vec![read(self.head_key(), Vec::new())]).await?;
        found.map(|found| self.head_of(found.first().and_then(|found| found.first()))).transpose()
    }

    /// Says that a member has applied a change.
    pub(crate) async fn report(
        &self,
        id: &str,
        registration: &Registration,
        applied: Revision,
    ) -> Result<(), LogError> {
        let key = self.key("applied", id);
        let operations = vec![put_leased(key, applied.0.to_be_bytes().to_vec(), registration.lease)];
        // A member without a beat reports nothing: its lease has ended.
        let is_own = vec![has_value(self.key("beat", id), registration.incarnation.to_vec())];
        self.etcd().transact(is_own, operations).await?;
        Ok(())
    }

    /// Whether every registered member has applied a change that is in the log. A member that registers after this call gets the change before its first
    /// proof. A member that is not registered any more has no proof any more.
    pub(crate) async fn all_have(&self, change: Revision) -> Result<bool, LogError> {
        let [nodes, applied] = self.read_all(["node", "applied"]).await?;
        Ok(nodes.iter().all(|(id, _)| {
            let has = applied
                .iter()
                .find(|(of, _)| of == id)
                .and_then(|(_, bytes)| bytes.as_slice().try_into().ok());
            has.is_some_and(|number| u64::from_be_bytes(number) >= change.0)
        }))
    }

    /// The members that are registered and have no beat.
    pub(crate) async fn silent(&self) -> Result<Vec<Silent>, LogError> {
        let [nodes, beats] = self.read_all(["node", "beat"]).await?;
        let is_silent = |(id, _): &(String, Vec<u8>)| !beats.iter().any(|(of, _)| of == id);
        Ok(nodes.into_iter().filter(is_silent).map(|(id, incarnation)| Silent { id, incarnation }).collect())
    }

    /// Deletes the registration of a member that still has this incarnation and no beat.
    pub(crate) async fn reap(&self, silent: &Silent) -> Result<(), LogError> {
        let node = self.key("node", &silent.id);
        let conditions = vec![
            has_value(node.clone(), silent.incarnation.clone()),
            is_absent(self.key("beat", &silent.id)),
        ];
        self.etcd().transact(conditions, vec![delete(node, Vec::new())]).await?;
        Ok(())
    }

    /// The ids and values of all members in these tables, read at one moment.
    async fn read_all<const N: usize>(
        &self,
        tables: [&str; N],
    ) -> Result<[Vec<(String, Vec<u8>)>; N], LogError> {
        let reads = tables.map(|table| read(self.key(table, ""), self.after_all(table)));
        let found = self.etcd().transact(Vec::new(), reads.to_vec()).await?;
        let mut found = found.unwrap_or_default().into_iter();
        Ok(tables.map(|table| {
            let before = self.key(table, "").len();
            let row = |KeyValue { key, value }: KeyValue| {
                let id = key.get(before..).unwrap_or_default();
                (String::from_utf8_lossy(id).into_owned(), value)
            };
            found.next().unwrap_or_default().into_iter().map(row).collect()
        }))
    }
}
