//! Encodes a change as bytes, so that it can be sent to another machine, and decodes these bytes. The decoded change makes the same writes as the
//! original change, if both machines have the same records before the change.
//!
//! ```text
//! who | what | unix seconds | request | requester | expectations | writes | marks | horizon
//! ```
//!
//! [`Writer`] defines the form of each field. Writes and marks are in key order, so a change has exactly one form.

use super::{Change, Ending, Expect, Expected};
use crate::audit::{AuditRecord, Requester};
use crate::codec::{Reader, Writer};
use crate::revision::Revision;
use crate::table::Table;
use crate::tables::{Key, Revocation, Revoked, Row};
use crate::vocabulary::RequestId;
use std::collections::BTreeMap;

const REQUESTERS: [Requester; 3] = [Requester::User, Requester::Administrator, Requester::File];

impl Change {
    /// Writes the change.
    pub fn encode(&self, to: &mut Writer) {
        let AuditRecord { who, what, unix_seconds, request } = &self.audit;
        to.text(who).text(what).i64(*unix_seconds);
        to.option(*request, |to, request| {
            to.fixed(&request.0.to_be_bytes());
        });
        to.u8(self.requester as u8);
        to.list(&self.expects, |to, Expect { table, key, expected }| {
            to.u8(*table as u8).bytes(key);
            match expected {
                Expected::Absent => to.u8(0),
                Expected::Present => to.u8(1),
                Expected::Value(value) => to.u8(2).bytes(value),
                Expected::Revision(revision) => to.u8(3).u64(revision.0),
            };
        });
        let writes: Vec<_> = self.writes.iter().collect();
        to.list(&writes, |to, ((table, key), value)| {
            to.u8(*table as u8).bytes(key).option(value.as_deref(), |to, value| {
                to.bytes(value);
            });
        });
        let marks: Vec<_> = self.marks.iter().collect();
        to.list(&marks, |to, (mark, ending)| {
            to.bytes(&mark.bytes());
            match ending {
                Ending::Now => {
                    to.u8(0);
                }
                Ending::Until(end) => {
                    to.u8(1).i64(*end);
                }
                Ending::AsOf(ended) => {
                    to.u8(2);
                    ended.encode(to);
                }
            }
        });
        to.option(self.horizon, |to, second| {
            to.i64(second);
        });
    }

    /// Reads a change. `None` if the bytes do not have the form of a change, or if the writes or marks are not in key order.
    pub fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let audit = AuditRecord {
            who: from.text()?,
            what: from.text()?,
            unix_seconds: from.i64()?,
            request: from.option(|from| Some(RequestId(u128::from_be_bytes(from.fixed()?))))?,
        };
        let requester = from.u8()?;
        let requester = REQUESTERS.into_iter().find(|known| *known as u8 == requester)?;
        let expects = from.list(|from| {
            let (table, key) = record(from)?;
            let expected = match from.u8()? {
                0 => Expected::Absent,
                1 => Expected::Present,
                2 => Expected::Value(from.bytes()?.to_vec()),
                3 => Expected::Revision(Revision(from.u64()?)),
                _ => return None,
            };
            Some(Expect { table, key, expected })
        })?;
        let writes =
            from.list(|from| Some((record(from)?, from.option(|from| Some(from.bytes()?.to_vec()))?)))?;
        let marks = from.list(|from| {
            let mark = Revoked::from_bytes(from.bytes()?)?;
            let ending = match from.u8()? {
                0 => Ending::Now,
                1 => Ending::Until(from.i64()?),
                2 => Ending::AsOf(Revocation::decode(&mut Reader::new(from.take(REVOCATION_BYTES)?))?),
                _ => return None,
            };
            Some((mark, ending))
        })?;
        let horizon = from.option(Reader::i64)?;
        Some(Change {
            audit,
            requester,
            expects,
            writes: in_order(writes)?,
            marks: in_order(marks)?,
            horizon,
            after: None,
            absent_members: Vec::new(),
        })
    }
}

/// The number of bytes of an encoded [`Revocation`]: three numbers of eight bytes.
const REVOCATION_BYTES: usize = 24;

fn record(from: &mut Reader<'_>) -> Option<(Table, Vec<u8>)> {
    let number = from.u8()?;
    let table = Table::ALL.into_iter().find(|table| *table as u8 == number)?;
    Some((table, from.bytes()?.to_vec()))
}

/// The map of these pairs; `None` if the keys are not in order, or a key occurs twice.
fn in_order<K: Ord, V>(pairs: Vec<(K, V)>) -> Option<BTreeMap<K, V>> {
    pairs.is_sorted_by(|(one, _), (other, _)| one < other).then(|| pairs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Domain, User};
    use crate::vocabulary::{DomainId, UserId};

    fn written(change: &Change) -> Vec<u8> {
        let mut to = Writer::default();
        change.encode(&mut to);
        to.into_bytes()
    }

    fn changes() -> Vec<Change> {
        let audit =
            |request| AuditRecord { who: "alice@local".into(), what: "x".into(), unix_seconds: -7, request };
        let (user, domain) = (UserId::from_bytes([1; 16]), DomainId::from_bytes([2; 16]));
        let row = Domain::new("local".parse().unwrap());
        let mut all = vec![Change::new(audit(None))];
        let mut many = Change::requested_by(Requester::File, audit(Some(RequestId(9))));
        many.expect_absent::<User>(&user)
            .expect_present::<Domain>(&domain)
            .expect_same(&domain, &row)
            .expect_revision::<Domain>(&domain, Revision(77))
            .put(&domain, &row)
            .delete::<User>(&user)
            .end(Revoked::User(user))
            .end_until(Revoked::Token([3; 16]), 1_000)
            .allow_issue(50);
        many.remove_as_of::<Domain>(&domain, Some(&Revocation::of_time(1, 2, 3)));
        all.push(many);
        all
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        for change in changes() {
            let bytes = written(&change);
            let mut from = Reader::new(&bytes);
            assert_eq!((Change::decode(&mut from), from.is_empty()), (Some(change), true));
        }
    }

    /// Some damaged bytes can be decoded as a change. The encoding of this change is then exactly the damaged bytes. So no two sequences of bytes
    /// mean the same change.
    #[test]
    fn damaged_bytes_are_refused_or_are_another_change() {
        for change in changes() {
            let bytes = written(&change);
            for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let mut from = Reader::new(&damaged);
                if let Some(read) = Change::decode(&mut from).filter(|_| from.is_empty()) {
                    assert_ne!(read, change, "byte {at}, bit {bit}");
                    assert_eq!(written(&read), damaged, "byte {at}, bit {bit}");
                }
            }
            for end in 0..bytes.len() {
                let mut from = Reader::new(&bytes[..end]);
                assert!(Change::decode(&mut from).is_none(), "{end} bytes of {}", bytes.len());
            }
        }
    }
}
