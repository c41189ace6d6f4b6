//! Orders of certificates at a public authority (ACME). At most one member at a time orders a certificate: this member *has the order*. All members
//! answer the challenges of the authority.
//!
//! ```text
//! order/<name>             the member that orders the certificate with this file name, with a lease
//! order-failed/<name>      how many attempts failed, and when the next attempt may begin
//! order-about/<name>       a text about the last success
//! answer/<name>/<id>       the answer to a challenge, with the lease of the order
//! answered/<member>        the ids of the answers that the member gives, with a lease
//! ```

use crate::etcd::{delete, exists, has_value, is_absent, put, put_leased, read, read_some};
use crate::log::{Log, LogError};
use crate::messages::{Compare, KeyValue, Operation};
use crate::registration::random;
use enfilade_facts::codec::{Reader, Writer};
use std::collections::BTreeSet;

/// How long etcd keeps an order that is not renewed, in seconds.
pub const ORDER_SECONDS: i64 = 15;
/// How long etcd keeps the list of the answers of a member, in seconds.
const ANSWERED_SECONDS: i64 = 120;
/// The greatest number of answers that members give at the same time. A certificate needs one answer for each name, and an authority accepts about
/// 100 names in a certificate.
const ANSWERS_MAX: i64 = 256;
/// The greatest size of an answer, in bytes. An answer consists of at most two base64 texts.
const ANSWER_BYTES_MAX: usize = 1024;

/// The order of a certificate. This member has the order as long as it renews the order's lease.
#[derive(Clone, Debug)]
pub struct Order {
    name: String,
    holder: Vec<u8>,
    lease: i64,
}

/// The results of the last orders of a certificate, as etcd stores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastOrder {
    /// The number of attempts that failed since the last success.
    pub failures: u32,
    /// When the next attempt may begin, in seconds since the epoch.
    pub next: i64,
    /// The text about the last success.
    pub about: Option<String>,
}

/// The answer to a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The id of the answer: the file name of the certificate, a slash, and an id that the member with the order chose.
    pub id: String,
    /// The answer.
    pub value: Vec<u8>,
}

impl Log {
    /// The results of the last orders of the certificate with this file name.
    ///
    /// # Errors
    /// When etcd does not answer, or there is no log.
    pub async fn last_order(&self, name: &str) -> Result<LastOrder, LogError> {
        self.head().await?;
        let reads = ["order-failed", "order-about"].map(|table| read(self.key(table, name), Vec::new()));
        let found = self.etcd().transact(Vec::new(), reads.to_vec()).await?;
        let mut found = found.unwrap_or_default().into_iter().map(|rows| rows.into_iter().next());
        let failed = found.next().flatten().and_then(|row| {
            let mut from = Reader::new(&row.value);
            Some((from.u32()?, from.i64()?))
        });
        let (failures, next) = failed.unwrap_or_default();
        let about = found.next().flatten().and_then(|row| String::from_utf8(row.value).ok());
        Ok(LastOrder { failures, next, about })
    }

    /// Gives this member the order of the certificate with this file name; `None` if a member has the order already.
    ///
    /// # Errors
    /// [`LogError::NotMember`], or when etcd does not answer.
    pub async fn take_order(&self, name: &str) -> Result<Option<Order>, LogError> {
        let key = self.key("order", name);
        if !self.etcd().read(key.clone(), Vec::new(), 1).await?.is_empty() {
            return Ok(None);
        }
        let lease = self.etcd().lease(ORDER_SECONDS).await?;
        let member = self.member().unwrap_or_default();
        let holder = format!("{member}.{:016x}", u64::from_be_bytes(random()?)).into_bytes();
        let conditions = vec![is_absent(key.clone()), exists(self.key("member", member))];
        let operations = vec![put_leased(key, holder.clone(), lease)];
        if self.etcd().transact(conditions, operations).await?.is_some() {
            return Ok(Some(Order { name: name.to_owned(), holder, lease }));
        }
        match self.is_member(member).await? {
            true => Ok(None),
            false => Err(LogError::NotMember { name: member.to_owned() }),
        }
    }

    /// Renews an order. Returns whether this member still has the order.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn renew_order(&self, order: &Order) -> Result<bool, LogError> {
        Ok(self.etcd().renew(order.lease).await?)
    }

    /// The condition that this member still has the order.
    pub(crate) fn is_held(&self, order: &Order) -> Compare {
        has_value(self.key("order", &order.name), order.holder.clone())
    }

    /// The operations that record a success.
    pub(crate) fn succeeded(&self, order: &Order, about: &str) -> [Operation; 2] {
        [
            put(self.key("order-about", &order.name), about.as_bytes().to_vec()),
            delete(self.key("order-failed", &order.name), Vec::new()),
        ]
    }

    /// Records that an attempt failed, and when the next attempt may begin, in seconds since the epoch.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn order_failed(&self, order: &Order, failures: u32, next: i64) -> Result<(), LogError> {
        let mut to = Writer::default();
        to.u32(failures).i64(next);
        let operation = put(self.key("order-failed", &order.name), to.into_bytes());
        self.etcd().transact(vec![self.is_held(order)], vec![operation]).await?;
        Ok(())
    }

    /// Writes the answer to a challenge to etcd. All members give this answer to the authority until the order ends. Returns whether this member
    /// still has the order.
    ///
    /// # Errors
    /// [`LogError::TooLarge`], or when etcd does not answer.
    pub async fn put_answer(&self, order: &Order, id: &str, value: &[u8]) -> Result<bool, LogError> {
        if value.len() > ANSWER_BYTES_MAX || id.len() > ANSWER_BYTES_MAX {
            return Err(LogError::TooLarge { bytes: value.len(), limit: ANSWER_BYTES_MAX });
        }
        let key = self.key("answer", &format!("{}/{id}", order.name));
        let operation = put_leased(key, value.to_vec(), order.lease);
        Ok(self.etcd().transact(vec![self.is_held(order)], vec![operation]).await?.is_some())
    }

    /// Ends an order. From then on, no member gives the answers to its challenges any more.
    ///
    /// # Errors
    /// When etcd does not answer. In this case, the order ends when its lease ends.
    pub async fn end_order(&self, order: &Order) -> Result<(), LogError> {
        let answers = |end: char| self.key("answer", &format!("{}{end}", order.name));
        // `0` follows `/` in ASCII.
        let operations =
            vec![delete(self.key("order", &order.name), Vec::new()), delete(answers('/'), answers('0'))];
        self.etcd().transact(vec![self.is_held(order)], operations).await?;
        Ok(())
    }

    pub(crate) fn read_answers(&self) -> Operation {
        read_some(self.key("answer", ""), self.after_all("answer"), ANSWERS_MAX)
    }

    pub(crate) fn answers_of(&self, rows: Vec<KeyValue>) -> Vec<Answer> {
        let answer = |row: KeyValue| Some(Answer { id: self.id_of("answer", &row)?, value: row.value });
        rows.into_iter().filter(|row| row.value.len() <= ANSWER_BYTES_MAX).filter_map(answer).collect()
    }

    /// Records which answers this member gives to the authority from now on.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn say_answered(&self, ids: &BTreeSet<String>) -> Result<(), LogError> {
        let key = self.key("answered", self.member().unwrap_or_default());
        let operation = match ids.is_empty() {
            true => delete(key, Vec::new()),
            false => {
                let mut to = Writer::default();
                ids.iter().for_each(|id| {
                    to.text(id);
                });
                put_leased(key, to.into_bytes(), self.etcd().lease(ANSWERED_SECONDS).await?)
            }
        };
        self.etcd().transact(Vec::new(), vec![operation]).await?;
        Ok(())
    }

    /// The members that have a registered process, but do not give these answers to the challenges of an order yet.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn without_answers(&self, order: &Order, ids: &[String]) -> Result<Vec<String>, LogError> {
        let [nodes, answered] = self.read_all(["node", "answered"]).await?;
        let wanted: Vec<String> = ids.iter().map(|id| format!("{}/{id}", order.name)).collect();
        let gives = |member: &str| {
            let given = answered.iter().find(|(of, _)| of == member).map(|(_, given)| given.as_slice());
            let mut from = Reader::new(given.unwrap_or_default());
            let mut all = BTreeSet::new();
            while let Some(id) = from.text() {
                all.insert(id);
            }
            wanted.iter().all(|id| all.contains(id))
        };
        let members: BTreeSet<&str> =
            nodes.iter().filter_map(|(id, _)| Some(id.rsplit_once('.')?.0)).collect();
        Ok(members.into_iter().filter(|member| !gives(member)).map(str::to_owned).collect())
    }
}
