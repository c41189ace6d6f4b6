//! The registered processes of members in etcd, their beats, and the last change that each process has applied. The rules are in
//! docs/fleet-protocol.md (rules 5 to 8).
//!
//! ```text
//! member/<name>   a member, from its joining to its leaving (`membership.rs`)
//! node/<id>       the incarnation (random bytes of a registration) of a process of a member; the id is the name of the member, a dot, and a number
//! beat/<id>       the beat: the same incarnation with a lease; etcd deletes this record when the process does not renew the lease
//! applied/<id>    the number of the last change that the process has applied, with the same lease
//! keys/<id>       a digest of the keys of sessions that the process uses, with the same lease
//! reads/<id>      the newest format that the process reads, with the same lease
//! about/<id>      version, host, process number, and the address and certificate for other members, with the same lease
//! files/following the id of the process that follows the edited files, with the lease of this process
//! ```

use crate::entry::{Entry, Stored};
use crate::etcd::{delete, exists, has_value, is_absent, none_exist, put, put_leased, read};
use crate::log::{ENTRIES_OF_PROOF, Head, Log, LogError};
use crate::messages::{Compare, KeyValue};
use enfilade_facts::Revision;
use enfilade_facts::codec::{Reader, Writer};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

/// How long etcd keeps a beat that is not renewed, in seconds.
const LEASE_SECONDS: i64 = 2;
/// While a process applies a large change, it renews its beat at this interval, at most [`RENEWALS_MAX`] times: for one minute.
const RENEW_EVERY: Duration = Duration::from_millis(600);
const RENEWALS_MAX: u32 = 100;

/// A digest of the keys of sessions. Members with equal keys have equal digests.
pub type KeysDigest = [u8; 8];

/// The address and the certificate with which other members connect to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The address of the process's listener for members.
    pub address: SocketAddr,
    /// The fingerprint of the process's certificate: the SHA-256 of its DER.
    pub certificate: [u8; 32],
}

/// The data that a process of a member reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The version of the program.
    pub version: String,
    /// The name of the machine.
    pub host: String,
    /// The number of the process on the machine.
    pub pid: u32,
    /// The address and the certificate of the process for other members; `None` if other members cannot connect to it.
    pub reach: Option<Reach>,
}

impl About {
    fn bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.text(&self.version).text(&self.host).u32(self.pid);
        to.tail(self.reach.as_ref(), |to, reach| {
            to.text(&reach.address.to_string()).fixed(&reach.certificate);
        });
        to.into_bytes()
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (version, host, pid) = (from.text()?, from.text()?, from.u32()?);
        let reach = from
            .tail(|from| Some(Reach { address: from.text()?.parse().ok()?, certificate: from.fixed()? }))?;
        Some(About { version, host, pid, reach })
    }
}

/// A process of a member.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) member: String,
    pub(crate) id: String,
    /// The number in the id of the process.
    pub(crate) number: u64,
    pub(crate) about: About,
}

impl Process {
    /// A process with a new id, which no earlier process has had.
    pub(crate) fn new(member: &str, about: About) -> Result<Self, LogError> {
        let number = u64::from_be_bytes(random()?);
        Ok(Process { member: member.to_owned(), id: format!("{member}.{number:016x}"), number, about })
    }
}

/// The number in the id of a process.
pub(crate) fn number_of(id: &str) -> Option<u64> {
    u64::from_str_radix(id.rsplit_once('.')?.1, 16).ok()
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], LogError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| LogError::NoRandom(why.to_string()))?;
    Ok(bytes)
}

/// The registration of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Random bytes that identify this registration. If the process registers again, it gets another incarnation.
    pub(crate) incarnation: [u8; 16],
    lease: i64,
}

/// A process without a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    pub(crate) id: String,
    pub(crate) incarnation: Vec<u8>,
}

/// The answer of etcd when a process asks for a proof that its facts are current. All fields are from the same moment.
pub(crate) struct Proof {
    pub(crate) head: Head,
    /// The next entries of the log that the process has to apply.
    pub(crate) next: Vec<Entry>,
    /// Whether a process follows the edited files.
    pub(crate) files_followed: bool,
    /// The name of the files member.
    pub(crate) files_member: Option<String>,
    /// The id of the newest keys of sessions; `None` if no keys were shared yet.
    pub(crate) keys: Option<Vec<u8>>,
}

impl Log {
    /// Registers a process, with a new incarnation. `applied` is the revision of the process's store. `before` is the incarnation of the process's
    /// previous registration; `None` if this is the first one.
    ///
    /// # Errors
    /// [`LogError::NotMember`] if the process's machine is not a member of the fleet, [`LogError::OtherDelta`] if the Δ of the
    /// fleet (`delta.rs`) differs from the Δ of this machine, [`LogError::Taken`] if another process has a beat with this id.
    pub(crate) async fn register(
        &self,
        process: &Process,
        before: Option<[u8; 16]>,
        applied: Revision,
    ) -> Result<Registration, LogError> {
        let Process { member, id, about, .. } = process;
        let incarnation = random()?;
        let lease = self.etcd().lease(LEASE_SECONDS).await?;
        let operations = [
            put(self.key("node", id), incarnation.to_vec()),
            put_leased(self.key("beat", id), incarnation.to_vec(), lease),
            put_leased(self.key("applied", id), applied.0.to_be_bytes().to_vec(), lease),
            put_leased(self.key("about", id), about.bytes(), lease),
            put_leased(self.key("reads", id), self.reads().to_be_bytes().to_vec(), lease),
        ];
        let beat = self.key("beat", id);
        let own = before.map(|before| has_value(beat.clone(), before.to_vec()));
        for condition in [Some(is_absent(beat)), own].into_iter().flatten() {
            for (agreed, written) in self.agreements() {
                let conditions = vec![exists(self.key("member", member)), condition.clone(), agreed];
                let operations = operations.iter().cloned().chain(written).collect();
                if self.etcd().transact(conditions, operations).await?.is_some() {
                    return Ok(Registration { incarnation, lease });
                }
            }
        }
        match self.is_member(member).await? {
            true => Err(self.disagrees().await?.unwrap_or(LogError::Taken { id: id.clone() })),
            false => Err(self.no_member(member, applied).await),
        }
    }

    /// The error for a machine that etcd does not list as a member. `applied` is the revision of the machine's store.
    async fn no_member(&self, member: &str, applied: Revision) -> LogError {
        match self.head().await {
            // etcd has lost changes, so it is possible that etcd also lost the record of this member.
            Ok(head) if head.at.revision < applied => {
                LogError::Older { log: head.at.revision, store: applied }
            }
            Ok(_) => LogError::NotMember { name: member.to_owned() },
            Err(why) => why,
        }
    }

    /// Ends the registration of a process. The process must not grant requests any more.
    pub(crate) async fn deregister(&self, id: &str, registration: &Registration) -> Result<(), LogError> {
        let keys = ["node", "beat", "applied", "about", "reads", "keys"];
        let operations = keys.map(|table| delete(self.key(table, id), Vec::new())).to_vec();
        let is_own = has_value(self.key("node", id), registration.incarnation.to_vec());
        self.etcd().transact(vec![is_own], operations).await?;
        Ok(())
    }

    /// Renews the beat of a process. If the beat does not exist any more, this call succeeds, but the next call of [`Log::prove`] returns `None`.
    pub(crate) async fn renew(&self, registration: &Registration) -> Result<(), LogError> {
        self.etcd().renew(registration.lease).await?;
        Ok(())
    }

    /// Renews the beat of a process while it applies changes, because a large change can take longer than a beat lasts. The beat is renewed for at
    /// most a minute, because a process that makes no progress must lose its registration.
    pub(crate) async fn renew_during<T>(
        &self,
        registration: &Registration,
        applying: impl Future<Output = T>,
    ) -> T {
        let renewing = async {
            for _ in 0..RENEWALS_MAX {
                tokio::time::sleep(RENEW_EVERY).await;
                let _ = self.renew(registration).await;
            }
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            applied = applying => applied,
            never = renewing => match never {},
        }
    }

    /// Reads the head, the registration and the beat of a process at one moment, and the entries after a change. `None` if the process is not
    /// registered or has no beat.
    pub(crate) async fn prove(
        &self,
        id: &str,
        registration: &Registration,
        applied: Revision,
    ) -> Result<Option<Proof>, LogError> {
        let own = [self.key("node", id), self.key("beat", id)];
        let is_own = own.map(|key| has_value(key, registration.incarnation.to_vec())).to_vec();
        let one = |key: Vec<u8>| read(key, Vec::new());
        let reads = vec![
            one(self.head_key()),
            one(self.following_key()),
            one(self.keys_id_key()),
            one(self.files_key()),
            self.reads_after(applied, ENTRIES_OF_PROOF),
        ];
        let Some(found) = self.etcd().transact(is_own, reads).await? else { return Ok(None) };
        let mut found = found.into_iter();
        let mut next = || found.next().unwrap_or_default();
        let head = self.head_of(next().first())?;
        let files_followed = !next().is_empty();
        let keys = next().into_iter().next().map(|row| row.value);
        let files_member = next().first().and_then(KeyValue::name);
        // It is possible that another process of this machine applied later changes than this answer contains. Then `Replica::catch_up_to` reads the
        // head again.
        let next = match head.at.revision >= applied {
            true => {
                let found = self.entries(applied, head, next().into_iter())?;
                // An entry with parts is read by `Log::after`.
                found.into_iter().map_while(Stored::whole).collect()
            }
            false => Vec::new(),
        };
        Ok(Some(Proof { head, next, files_followed, files_member, keys }))
    }

    /// Reports that a process has applied a change.
    pub(crate) async fn report(
        &self,
        id: &str,
        registration: &Registration,
        applied: Revision,
    ) -> Result<(), LogError> {
        let key = self.key("applied", id);
        let operation = put_leased(key, applied.0.to_be_bytes().to_vec(), registration.lease);
        self.say(id, registration, operation).await
    }

    /// Reports whether a process follows the edited files.
    pub(crate) async fn follow_files(
        &self,
        id: &str,
        registration: &Registration,
        follows: bool,
    ) -> Result<(), LogError> {
        let key = self.following_key();
        let operation = match follows {
            true => put_leased(key, id.as_bytes().to_vec(), registration.lease),
            false => delete(key, Vec::new()),
        };
        self.say(id, registration, operation).await
    }

    /// Reports which keys of sessions a process uses; `None` if it has no keys.
    pub(crate) async fn show_keys(
        &self,
        id: &str,
        registration: &Registration,
        keys: Option<KeysDigest>,
    ) -> Result<(), LogError> {
        let key = self.key("keys", id);
        let operation = match keys {
            Some(digest) => put_leased(key, digest.to_vec(), registration.lease),
            None => delete(key, Vec::new()),
        };
        self.say(id, registration, operation).await
    }

    /// Carries out an operation of a process, if the process has a beat. A process without a beat must not report anything, because its lease has
    /// ended.
    async fn say(
        &self,
        id: &str,
        registration: &Registration,
        operation: crate::messages::Operation,
    ) -> Result<(), LogError> {
        let is_own = has_value(self.key("beat", id), registration.incarnation.to_vec());
        self.etcd().transact(vec![is_own], vec![operation]).await?;
        Ok(())
    }

    fn following_key(&self) -> Vec<u8> {
        self.key("files", "following")
    }

    /// The newest change that all registered processes have applied; `None` if a registered process has not reported any change. If no process is
    /// registered, the result is the greatest possible number.
    pub(crate) async fn applied_by_all(&self) -> Result<Option<Revision>, LogError> {
        let reports = self.reports().await?;
        Ok(reports.into_iter().map(|(_, applied)| applied).min().unwrap_or(Some(Revision(u64::MAX))))
    }

    /// The registered processes that have not reported that they applied this change of the log. The caller need not wait for any other process. A
    /// process that registers after this call gets the change before its first proof. A process that is no longer registered has no proof.
    pub(crate) async fn lacking(&self, change: Revision) -> Result<Vec<String>, LogError> {
        let reports = self.reports().await?;
        Ok(reports.into_iter().filter(|(_, applied)| *applied < Some(change)).map(|(id, _)| id).collect())
    }

    /// The registered processes, each with the last change that it reported as applied.
    async fn reports(&self) -> Result<Vec<(String, Option<Revision>)>, LogError> {
        let [nodes, applied] = self.read_all(["node", "applied"]).await?;
        let of = |(id, _): (String, Vec<u8>)| {
            let bytes = applied.iter().find(|(of, _)| *of == id).map(|(_, bytes)| bytes.as_slice());
            let number = bytes.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
            (id, number.map(Revision))
        };
        Ok(nodes.into_iter().map(of).collect())
    }

    /// The conditions that these members have no registered process. A process that registers later reads the head before it serves anything. So it
    /// first applies the changes of this transaction.
    pub(crate) fn no_processes_of(&self, members: &[String]) -> Vec<Compare> {
        // `/` follows `.` in ASCII.
        let node = |member: &str, end: char| self.key("node", &format!("{member}{end}"));
        members.iter().map(|member| none_exist(node(member, '.'), node(member, '/'))).collect()
    }

    /// The members that have a registered process.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn registered_members(&self) -> Result<BTreeSet<String>, LogError> {
        let [nodes] = self.read_all(["node"]).await?;
        Ok(nodes.iter().filter_map(|(id, _)| Some(id.rsplit_once('.')?.0.to_owned())).collect())
    }

    /// The registered processes that have no beat.
    pub(crate) async fn silent(&self) -> Result<Vec<Silent>, LogError> {
        let [nodes, beats] = self.read_all(["node", "beat"]).await?;
        let is_silent = |(id, _): &(String, Vec<u8>)| !beats.iter().any(|(of, _)| of == id);
        Ok(nodes.into_iter().filter(is_silent).map(|(id, incarnation)| Silent { id, incarnation }).collect())
    }

    /// Deletes the registration of a process, if the process still has this incarnation and has no beat.
    pub(crate) async fn reap(&self, silent: &Silent) -> Result<(), LogError> {
        let node = self.key("node", &silent.id);
        let conditions = vec![
            has_value(node.clone(), silent.incarnation.clone()),
            is_absent(self.key("beat", &silent.id)),
        ];
        self.etcd().transact(conditions, vec![delete(node, Vec::new())]).await?;
        Ok(())
    }

    /// The ids and values of all records in these tables, read at one moment.
    pub(crate) async fn read_all<const N: usize>(
        &self,
        tables: [&str; N],
    ) -> Result<[Vec<(String, Vec<u8>)>; N], LogError> {
        let reads = tables.map(|table| read(self.key(table, ""), self.after_all(table)));
        let found = self.etcd().transact(Vec::new(), reads.to_vec()).await?;
        let mut found = found.unwrap_or_default().into_iter();
        Ok(tables.map(|table| {
            let row = |row: KeyValue| Some((self.id_of(table, &row)?, row.value));
            found.next().unwrap_or_default().into_iter().filter_map(row).collect()
        }))
    }
}
