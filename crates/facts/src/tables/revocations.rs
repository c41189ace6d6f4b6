//! Revocations. Each subject that can be revoked (token, user, project, …) has at most one record. So a later revocation of a subject changes the
//! record of the earlier one, and a lookup reads only a few keys.

use super::{GrantKey, GrantScope, Grantee, Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::limits::TOKEN_SECONDS_MAX;
use crate::vocabulary::{
    AccessTokenId, ConsumerId, CredentialId, DomainId, GroupId, Id, ProjectId, RoleId, TrustId, UserId,
};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

/// The subject of a revocation: the sessions that a mark ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Revoked {
    /// One token, by its audit id.
    Token(#[serde(with = "super::names::as_hex")] [u8; 16]),
    /// All tokens of one login: the first token, and all tokens that were later issued in exchange for an earlier one. The chain has the audit id of
    /// the first token.
    Chain(#[serde(with = "super::names::as_hex")] [u8; 16]),
    /// All sessions of a user.
    User(UserId),
    /// All sessions for a project.
    Project(ProjectId),
    /// All sessions of the users of a domain, and all sessions for the domain or for one of its projects.
    Domain(DomainId),
    /// All sessions that were issued for a trust.
    Trust(TrustId),
    /// All sessions that were issued for an OAuth 1.0a consumer.
    Consumer(ConsumerId),
    /// All sessions that were issued for an API token or application credential.
    Credential(CredentialId),
    /// All sessions that were issued for an OAuth 1.0a access token.
    AccessToken(AccessTokenId),
    /// All sessions of the members of a group, and of the members of the groups in it.
    Group(GroupId),
    /// All sessions that depend on a role: the role is among the roles of the session, or implies one of them.
    Role(RoleId),
    /// A subject that is stored as a digest. [`Revoked::roles_on`] and [`Revoked::groups_of`] define such subjects.
    Link(#[serde(with = "super::names::as_hex")] [u8; 16]),
    /// A stored time, not a revocation: the latest issue time that a session of this server can have at present ([`Horizon`](crate::Horizon)).
    Horizon,
    /// A stored time, not a revocation: the purge time ([`Passed`](crate::Passed)).
    Passed,
    /// A stored time, not a revocation: the latest second of issue that any mark covers ([`LastMarks`](crate::LastMarks)).
    Last,
}

impl Revoked {
    /// The sessions of a user or of the members of a group for a scope, and for the projects below the scope. Grantee and scope have no common id, so
    /// the key of the mark contains a digest of both.
    pub fn roles_on(who: &Grantee, scope: &GrantScope) -> Self {
        Self::link_of(Table::Grants as u8, &GrantKey::of_on(who, scope))
    }

    /// All sessions that depend on the groups or roles of a domain. [`Revoked::Domain`] is the mark for the users of the domain.
    pub fn groups_of(domain: &DomainId) -> Self {
        Self::link_of(Table::Domains as u8, domain.bytes())
    }

    fn link_of(kind: u8, key: &[u8]) -> Self {
        Revoked::Link(digest_of(&[kind], key))
    }

    /// Whether a mark on the subject ends all sessions of the subject, with any issue times. This is true for a token, a chain, a trust,
    /// an OAuth consumer and an OAuth access token. No later session can belong to such a subject. Exception: all sessions of an EC2 key have the
    /// same audit chain, also after the key gets a new secret. So for a session of an EC2 key, door 2 compares the issue time with the last second
    /// that the mark on the chain covers.
    pub fn is_timeless(&self) -> bool {
        use Revoked::{AccessToken, Chain, Consumer, Token, Trust};
        matches!(self, Token(_) | Chain(_) | Trust(_) | Consumer(_) | AccessToken(_))
    }

    /// Whether the record ends sessions. The records `Horizon`, `Passed` and `Last` hold times: see [`Revocation`].
    pub fn is_mark(&self) -> bool {
        !matches!(self, Revoked::Horizon | Revoked::Passed | Revoked::Last)
    }

    /// The number in the key that stands for the kind of subject, and the id of the subject.
    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Revoked::Token(id) => (1, id),
            Revoked::Chain(id) => (2, id),
            Revoked::User(id) => (3, id.bytes()),
            Revoked::Project(id) => (4, id.bytes()),
            Revoked::Domain(id) => (5, id.bytes()),
            Revoked::Trust(id) => (6, id.bytes()),
            Revoked::Consumer(id) => (7, id.bytes()),
            Revoked::Credential(id) => (8, id.bytes()),
            Revoked::Group(id) => (9, id.bytes()),
            Revoked::Role(id) => (10, id.bytes()),
            Revoked::Link(id) => (11, id),
            Revoked::Horizon => (12, &NO_ID),
            Revoked::Passed => (13, &NO_ID),
            Revoked::Last => (14, &NO_ID),
            Revoked::AccessToken(id) => (15, id.bytes()),
        }
    }

    /// The kind and the id for an index in memory. The long id of a user or group becomes a digest of 16 bytes.
    pub fn short(&self) -> [u8; 17] {
        let (kind, id) = self.parts();
        let (tag, id) = match id.try_into() {
            Ok(id) => (2 * kind, id),
            Err(_) => (2 * kind + 1, digest_of(&[kind], id)),
        };
        let mut short = [tag; 17];
        if let Some(to) = short.last_chunk_mut::<16>() {
            *to = id;
        }
        short
    }
}

const NO_ID: [u8; 16] = [0; 16];

fn digest_of(kind: &[u8], key: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(b"enfilade  links1");
    hasher.write(kind);
    hasher.write(key);
    hasher.finish128().as_bytes()
}

impl Key for Revoked {
    fn bytes(&self) -> Vec<u8> {
        let (kind, id) = self.parts();
        [&[kind], id].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, id) = bytes.split_first()?;
        match kind {
            1 => id.try_into().ok().map(Revoked::Token),
            2 => id.try_into().ok().map(Revoked::Chain),
            3 => Id::from_stored(id).map(Revoked::User),
            4 => Id::from_stored(id).map(Revoked::Project),
            5 => Id::from_stored(id).map(Revoked::Domain),
            6 => Id::from_stored(id).map(Revoked::Trust),
            7 => Id::from_stored(id).map(Revoked::Consumer),
            8 => Id::from_stored(id).map(Revoked::Credential),
            9 => Id::from_stored(id).map(Revoked::Group),
            10 => Id::from_stored(id).map(Revoked::Role),
            11 => id.try_into().ok().map(Revoked::Link),
            12 if id == NO_ID => Some(Revoked::Horizon),
            13 if id == NO_ID => Some(Revoked::Passed),
            14 if id == NO_ID => Some(Revoked::Last),
            15 => Id::from_stored(id).map(Revoked::AccessToken),
            _ => None,
        }
    }
}

/// A revocation ends all sessions of a subject that were issued up to a given second. The record also contains the time until which the record itself
/// is needed. Only the commit of a [`Change`](crate::Change) creates a revocation ([`Change::end`]), so no other code can choose the last
/// second that the revocation covers.
///
/// Three records of this table end no session ([`Revoked::is_mark`]). In these three records, the fields have other meanings. `facts/src/horizon.rs`
/// reads and writes these records:
///
/// | record | `issued_before` | `revoked_at` | `until` |
/// |---|---|---|---|
/// | [`Horizon`](crate::Horizon) | the horizon | the wall clock when the horizon was moved | the horizon |
/// | [`Passed`](crate::Passed) | a second: a purge may have deleted a mark if all tokens that the mark covers expire in this second or earlier | the time since the start of the machine | the purge time |
/// | [`LastMarks`](crate::LastMarks) | the latest second that a mark covers, without the timeless marks | the latest second that any mark covers | 1 if both seconds include all marks, otherwise 0 |
///
/// [`Change::end`]: crate::Change::end
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Dumped")]
#[non_exhaustive]
pub struct Revocation {
    /// Sessions that were issued in this second or earlier have ended. In seconds since the epoch.
    pub issued_before: i64,
    /// When the subject was revoked, in seconds since the epoch, by the clock of the machine that revoked it.
    pub revoked_at: i64,
    /// When the last token that the record covers expires, in seconds since the epoch. Later changes of settings do not move this second.
    pub until: i64,
}

impl Revocation {
    /// A record that covers everything that was issued up to the second `issued_before`. The record is needed for [`TOKEN_SECONDS_MAX`] seconds,
    /// because no token is valid for longer.
    pub(crate) fn of(revoked_at: i64, issued_before: i64) -> Self {
        Self::without_end(issued_before, revoked_at)
    }

    /// A record that ends no session: see [`Revoked::is_mark`].
    pub(crate) fn of_time(issued_before: i64, revoked_at: i64, until: i64) -> Self {
        Revocation { issued_before, revoked_at, until }
    }

    /// Returns this record with `until` set to `end`: the second at which the token, or the last token of the chain, expires.
    #[must_use]
    pub(crate) fn ending(self, end: i64) -> Self {
        Revocation { until: end, ..self }
    }

    /// Combines this record with the previous record of the subject. The previous record can cover later seconds, if the clock was ahead when the
    /// previous record was made. The result covers every second that at least one of the two records covers.
    #[must_use]
    pub(crate) fn and(self, before: Revocation) -> Self {
        Revocation {
            issued_before: self.issued_before.max(before.issued_before),
            until: self.until.max(before.until),
            ..self
        }
    }

    /// A record for which the expiry of the last token is not known. The latest possible expiry is [`TOKEN_SECONDS_MAX`] seconds after the later of
    /// the two times.
    fn without_end(issued_before: i64, revoked_at: i64) -> Self {
        let until = issued_before.max(revoked_at).saturating_add(TOKEN_SECONDS_MAX);
        Revocation { issued_before, revoked_at, until }
    }
}

/// The form of the record in a dump. An older dump does not contain `until`.
#[derive(Deserialize)]
struct Dumped {
    issued_before: i64,
    revoked_at: i64,
    until: Option<i64>,
}

impl From<Dumped> for Revocation {
    fn from(Dumped { issued_before, revoked_at, until }: Dumped) -> Self {
        let revocation = Revocation::without_end(issued_before, revoked_at);
        Revocation { until: until.unwrap_or(revocation.until), ..revocation }
    }
}

impl Row for Revocation {
    const TABLE: Table = Table::Revocations;
    type Key = Revoked;

    fn encode(&self, to: &mut Writer) {
        to.i64(self.issued_before).i64(self.revoked_at).i64(self.until);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let revocation = Revocation::without_end(from.i64()?, from.i64()?);
        match from.is_empty() {
            true => Some(revocation),
            false => Some(Revocation { until: from.i64()?, ..revocation }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_from_before_they_knew_an_end_are_read() {
        let mut old = Writer::default();
        old.i64(1_000).i64(2_000);
        let read = Revocation::decode(&mut Reader::new(&old.into_bytes())).unwrap();
        let expected =
            Revocation { issued_before: 1_000, revoked_at: 2_000, until: 2_000 + TOKEN_SECONDS_MAX };
        assert_eq!(read, expected);
        assert_eq!(
            Revocation::from(Dumped { issued_before: 1_000, revoked_at: 2_000, until: None }),
            expected
        );
        let mut new = Writer::default();
        Revocation { until: 7, ..expected }.encode(&mut new);
        assert_eq!(Revocation::decode(&mut Reader::new(&new.into_bytes())).unwrap().until, 7);
    }

    #[test]
    fn every_kind_of_mark_is_read_back() {
        let short = (1..=11).chain([15]).map(|kind| [&[kind], [kind; 16].as_slice()].concat());
        let long = [3, 9].map(|kind| [&[kind], [0xff; 16].as_slice(), &[kind; 32]].concat());
        for bytes in short.chain(long) {
            assert_eq!(Revoked::from_bytes(&bytes).unwrap().bytes(), bytes);
        }
        let [one, other] = ["ab", "ac"].map(|end| Revoked::User(("ab".repeat(31) + end).parse().unwrap()));
        assert!(one.short() != other.short() && one.short()[0] == 7 && one.short()[1..] != [0xab; 16]);
        assert_eq!(Revoked::User(UserId::from_bytes([5; 16])).short()[1..], [5; 16]);
        for of_time in [Revoked::Horizon, Revoked::Passed, Revoked::Last] {
            assert_eq!(Revoked::from_bytes(&of_time.bytes()), Some(of_time));
        }
        assert_eq!([Revoked::from_bytes(&[12; 17]), Revoked::from_bytes(&[16; 17])], [None, None]);
    }
}
