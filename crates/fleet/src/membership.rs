//! The members of a fleet: which machines may register, how a machine becomes a member, and how it leaves the fleet.
//!
//! ```text
//! member/<name>     the second at which the member joined
//! invitation/<id>   the name of the machine that may join with it, for 24 h
//! files/member      the name of the files member
//! ```

use crate::etcd::{delete, exists, has_value, is_absent, put, put_leased};
use crate::log::{Head, Log, LogError};
use crate::messages::KeyValue;
use crate::registration::{About, KeysDigest, random};
use enfilade_facts::Revision;
use std::collections::BTreeSet;

/// How long an invitation can be used, in seconds.
pub const INVITATION_SECONDS: i64 = 24 * 3_600;

/// A member and its running processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name of the member.
    pub name: String,
    /// When the member joined, in seconds since the epoch.
    pub joined: i64,
    /// Whether the fleet follows the edited files of this member.
    pub has_files: bool,
    /// The registered processes of the member.
    pub processes: Vec<Running>,
}

/// A registered process of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The id of the process.
    pub id: String,
    /// The data that the process has reported about itself; `None` if the process has no beat (a record in etcd that a running process renews).
    pub about: Option<About>,
    /// The last change that the process has applied; `None` if the process has no beat.
    pub applied: Option<Revision>,
    /// The newest format that the process reads. `None` if the process has no beat, or if its program is so old that it does not report this format.
    pub reads: Option<u32>,
    /// A digest of the keys of sessions that the process uses. `None` if the process has no beat or no keys, or has not reported its keys yet.
    pub keys: Option<KeysDigest>,
}

impl Running {
    /// Whether the process has renewed its beat in etcd within the last 2 seconds.
    pub fn has_beat(&self) -> bool {
        self.applied.is_some()
    }
}

impl Log {
    /// Whether the fleet has a member of this name.
    pub(crate) async fn is_member(&self, name: &str) -> Result<bool, LogError> {
        Ok(!self.etcd().read(self.key("member", name), Vec::new(), 1).await?.is_empty())
    }

    /// Makes the first member of a new log. This member becomes the files member.
    ///
    /// # Errors
    /// [`LogError::NotMember`] if another machine became the first member; or when etcd does not answer.
    pub async fn admit_first(&self, name: &str, joined: i64) -> Result<(), LogError> {
        let files = self.files_key();
        let operations = vec![
            put(self.key("member", name), joined.to_be_bytes().to_vec()),
            put(files.clone(), name.as_bytes().to_vec()),
        ];
        for condition in [is_absent(files.clone()), has_value(files, name.as_bytes().to_vec())] {
            if self.etcd().transact(vec![condition], operations.clone()).await?.is_some() {
                return Ok(());
            }
        }
        Err(LogError::NotMember { name: name.to_owned() })
    }

    /// Makes an invitation for a machine of this name. Returns the id of the invitation, which can be used once.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn invite(&self, name: &str) -> Result<String, LogError> {
        let id = format!("{:032x}", u128::from_be_bytes(random()?));
        let lease = self.etcd().lease(INVITATION_SECONDS).await?;
        let operation = put_leased(self.key("invitation", &id), name.as_bytes().to_vec(), lease);
        self.etcd().transact(Vec::new(), vec![operation]).await?;
        Ok(id)
    }

    /// Makes the invited machine a member. After that, the invitation cannot be used again.
    ///
    /// # Errors
    /// [`LogError::InvitationUsed`], or when etcd does not answer.
    pub async fn accept(&self, invitation: &str, name: &str, joined: i64) -> Result<(), LogError> {
        let key = self.key("invitation", invitation);
        let operations = vec![
            delete(key.clone(), Vec::new()),
            put(self.key("member", name), joined.to_be_bytes().to_vec()),
        ];
        let done = self.etcd().transact(vec![has_value(key, name.as_bytes().to_vec())], operations).await?;
        done.map(drop).ok_or(LogError::InvitationUsed)
    }

    /// The head of the log, and all members in the order of their names.
    ///
    /// # Errors
    /// When etcd does not answer, or there is no log.
    pub async fn status(&self) -> Result<(Head, Vec<Member>), LogError> {
        let head = self.head().await?;
        let [members, nodes, applied, about, reads, keys, files] =
            self.read_all(["member", "node", "applied", "about", "reads", "keys", "files"]).await?;
        let value = |rows: &[(String, Vec<u8>)], id: &str| {
            rows.iter().find(|(of, _)| of == id).map(|(_, value)| value.clone())
        };
        let has_files = value(&files, "member");
        let member = |(name, joined): (String, Vec<u8>)| {
            let of_it =
                |(id, _): &&(String, Vec<u8>)| id.rsplit_once('.').is_some_and(|(member, _)| member == name);
            let running = |(id, _): &(String, Vec<u8>)| Running {
                id: id.clone(),
                about: value(&about, id).and_then(|bytes| About::read(&bytes)),
                applied: value(&applied, id)
                    .and_then(|bytes| Some(Revision(u64::from_be_bytes(bytes.try_into().ok()?)))),
                reads: value(&reads, id).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes),
                keys: value(&keys, id).and_then(|bytes| bytes.try_into().ok()),
            };
            Member {
                processes: nodes.iter().filter(of_it).map(running).collect(),
                joined: joined.try_into().map_or(0, i64::from_be_bytes),
                has_files: has_files.as_deref() == Some(name.as_bytes()),
                name,
            }
        };
        Ok((head, members.into_iter().map(member).collect()))
    }

    /// Raises the format of the log to the newest format that this program reads, if all registered processes can read this format. Returns the
    /// previous format. If a process with an older program registers at the same time, the older program gets no proof after the format was raised.
    ///
    /// # Errors
    /// [`LogError::OldPrograms`], [`LogError::NotMember`], or when etcd does not answer.
    pub async fn upgrade(&self) -> Result<u32, LogError> {
        let format = self.reads();
        loop {
            let head = self.head().await?;
            if head.format == format {
                return Ok(format);
            }
            let [nodes, reads] = self.read_all(["node", "reads"]).await?;
            let says = format.to_be_bytes().to_vec();
            let reads_it = |id: &String| {
                reads.iter().any(|(of, reads)| of == id && reads.len() == says.len() && *reads >= says)
            };
            let (new, old): (Vec<String>, Vec<String>) =
                nodes.into_iter().map(|(id, _)| id).partition(reads_it);
            if !old.is_empty() {
                let name =
                    |id: String| id.rsplit_once('.').map_or(id.clone(), |(member, _)| member.to_owned());
                let members = old.into_iter().map(name).collect::<BTreeSet<_>>().into_iter().collect();
                return Err(LogError::OldPrograms { format, members });
            }
            let mut conditions = vec![has_value(self.head_key(), head.bytes())];
            conditions.extend(self.member().map(|member| exists(self.key("member", member))));
            conditions.extend(new.iter().map(|id| exists(self.key("reads", id))));
            let operations = vec![put(self.head_key(), Head { format, ..head }.bytes())];
            if self.etcd().transact(conditions, operations).await?.is_some() {
                return Ok(head.format);
            }
            if let Some(name) = self.member()
                && !self.is_member(name).await?
            {
                return Err(LogError::NotMember { name: name.to_owned() });
            }
        }
    }

    /// The name of the files member: the member with the edited files that the fleet follows.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn files_member(&self) -> Result<Option<String>, LogError> {
        let found = self.etcd().read(self.files_key(), Vec::new(), 1).await?;
        Ok(found.first().and_then(KeyValue::name))
    }

    /// Makes the member `name` the files member instead of `before`. `None` means no member. To make another member the files member, the caller
    /// first sets `None`, then waits, and then sets the other member. The wait is 1.1 times as long as a proof is valid ([`Log::delta`]). After the
    /// wait, no earlier proof is valid any more.
    ///
    /// # Errors
    /// [`LogError::NotMember`] if the fleet has no member `name`, [`LogError::FilesMoved`] if `before` is not the files member, or when etcd does not
    /// answer.
    pub async fn move_files(&self, before: Option<&str>, name: Option<&str>) -> Result<(), LogError> {
        let value = |name: Option<&str>| name.unwrap_or_default().as_bytes().to_vec();
        let mut conditions = vec![has_value(self.files_key(), value(before))];
        conditions.extend(name.map(|name| exists(self.key("member", name))));
        let operations = vec![put(self.files_key(), value(name))];
        let done = self.etcd().transact(conditions, operations).await?;
        match (done, name) {
            (Some(_), _) => Ok(()),
            (None, Some(name)) if !self.is_member(name).await? => {
                Err(LogError::NotMember { name: name.to_owned() })
            }
            (None, _) => Err(LogError::FilesMoved),
        }
    }

    /// Ends the right of a member to register processes. From now on, the processes of the member get no new proof. Other members delete the
    /// registrations of these processes, as for all processes without a beat (rules 7 and 8). Until a registration is deleted, the acknowledgement of
    /// a change still waits for its process, but at most as long as a proof is valid (rule 5 of docs/fleet-protocol.md).
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn expel(&self, name: &str) -> Result<(), LogError> {
        let beats = self.key("beat", &format!("{name}."));
        // `/` follows `.` in ASCII.
        let after = self.key("beat", &format!("{name}/"));
        let operations = vec![delete(self.key("member", name), Vec::new()), delete(beats, after)];
        self.etcd().transact(Vec::new(), operations).await?;
        Ok(())
    }

    /// Deletes everything of the fleet in etcd: the log, the members, the shared keys and the shared certificates.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn end(&self) -> Result<(), LogError> {
        let all = self.key("", "");
        let begin = all.strip_suffix(b"/").unwrap_or(&all).to_vec();
        let mut end = begin.clone();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        self.etcd().transact(Vec::new(), vec![delete(begin, end)]).await?;
        Ok(())
    }

    /// The key of the record with the name of the files member. The value is empty while there is no files member.
    pub(crate) fn files_key(&self) -> Vec<u8> {
        self.key("files", "member")
    }
}
