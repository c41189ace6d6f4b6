//! The list of issued sessions, only for display. Whether a token is valid depends on the stored facts, not on the list of issued sessions.
//!
//! A slot contains these fields, each with its length in bytes or its type:
//!
//! ```text
//! audit id 16 | audit id of the chain 16 | user 48 | scope 1 + 16 | lent 1 + 16 | methods u64 | issued i64 | expires i64 | checksum u64
//! ```
//! The field `lent` identifies the application credential, trust or OAuth access token of the session. In an older version of the file, the field for
//! the user was shorter. A slot of this older form is read as empty. A session is stored in one of four slots that its audit id selects. If all four
//! are in use, the session that expires first is overwritten.

use super::slots::Slots;
use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::vocabulary::UserId;
use std::io;
use std::path::Path;

/// The size of a slot, in bytes. If every slot is used, the file has 37 MiB.
const SLOT_BYTES: usize = 146;

/// The size of the field of the user: the longest stored form of an id.
const USER_BYTES: usize = 48;

/// The file of issued sessions.
pub struct IssuedSessions {
    slots: Slots<SLOT_BYTES>,
}

/// The scope of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssuedFor {
    /// No scope (unscoped).
    Nothing,
    /// A project.
    Project([u8; 16]),
    /// A domain.
    Domain([u8; 16]),
    /// The whole system.
    System,
}

/// The application credential, trust or OAuth access token for which the session was issued, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssuedBy {
    /// None of these: the user logged in without a lent credential, or used an EC2 key that was created without a lent credential.
    Nothing,
    /// An application credential.
    Credential([u8; 16]),
    /// A trust.
    Trust([u8; 16]),
    /// An OAuth access token.
    AccessToken([u8; 16]),
}

/// An issued session, with all data of its token's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedSession {
    /// The audit id of the token.
    pub own: [u8; 16],
    /// The audit id of the first token in the token's audit chain.
    pub chain: [u8; 16],
    /// The user of the session.
    pub user: UserId,
    /// The scope of the session.
    pub scope: IssuedFor,
    /// The application credential, trust or OAuth access token for which the session was issued, if any.
    pub lent: IssuedBy,
    /// The methods with which the user authenticated, encoded as in the token.
    pub methods: u64,
    /// The second at which the token was issued, since the epoch.
    pub issued_at: i64,
    /// The second at which the token expires, since the epoch. A revocation can end the session earlier.
    pub expires_at: i64,
}

impl IssuedSessions {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// When the file cannot be opened or created.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(IssuedSessions { slots: Slots::open(path, "issued sessions")? })
    }

    /// Records a session.
    pub fn note(&self, session: &IssuedSession) {
        // Audit ids are random, so their first two bytes distribute the sessions evenly.
        let [a, b, ..] = session.own;
        let place = u16::from_be_bytes([a, b]);
        let ways = self.slots.set(place).into_iter().enumerate();
        let ends = |slot: &Option<[u8; SLOT_BYTES]>| {
            slot.and_then(|slot| decode(&slot)).map_or(i64::MIN, |session| session.expires_at)
        };
        if let Some((way, _)) = ways.min_by_key(|(_, slot)| ends(slot)) {
            self.slots.put(place, way, &encode(session));
        }
    }

    /// The sessions that have not expired, the newest first.
    pub fn live(&self, now: i64) -> Vec<IssuedSession> {
        let mut live: Vec<_> = self.slots.all().iter().filter_map(decode).collect();
        live.retain(|session| now < session.expires_at);
        live.sort_by_key(|session| std::cmp::Reverse((session.issued_at, session.own)));
        live
    }
}

fn encode(session: &IssuedSession) -> Vec<u8> {
    let (scope, scope_id) = match session.scope {
        IssuedFor::Nothing => (0, [0; 16]),
        IssuedFor::Project(id) => (1, id),
        IssuedFor::Domain(id) => (2, id),
        IssuedFor::System => (3, [0; 16]),
    };
    let (lent, lent_id) = match session.lent {
        IssuedBy::Nothing => (0, [0; 16]),
        IssuedBy::Credential(id) => (1, id),
        IssuedBy::Trust(id) => (2, id),
        IssuedBy::AccessToken(id) => (3, id),
    };
    let mut to = Writer::default();
    to.fixed(&session.own).fixed(&session.chain).fixed(&session.user.stored().padded());
    to.u8(scope).fixed(&scope_id).u8(lent).fixed(&lent_id).u64(session.methods);
    to.i64(session.issued_at).i64(session.expires_at);
    to.into_bytes()
}

fn decode(slot: &[u8; SLOT_BYTES]) -> Option<IssuedSession> {
    let mut from = Reader::new(slot);
    let (own, chain, user) = (from.fixed()?, from.fixed()?, from.take(USER_BYTES)?);
    let user = UserId::read(&mut Reader::new(user))?;
    let scope = match (from.u8()?, from.fixed()?) {
        (0, _) => IssuedFor::Nothing,
        (1, id) => IssuedFor::Project(id),
        (2, id) => IssuedFor::Domain(id),
        (3, _) => IssuedFor::System,
        _ => return None,
    };
    let lent = match (from.u8()?, from.fixed()?) {
        (0, _) => IssuedBy::Nothing,
        (1, id) => IssuedBy::Credential(id),
        (2, id) => IssuedBy::Trust(id),
        (3, id) => IssuedBy::AccessToken(id),
        _ => return None,
    };
    let methods = from.u64()?;
    let (issued_at, expires_at) = (from.i64()?, from.i64()?);
    Some(IssuedSession { own, chain, user, scope, lent, methods, issued_at, expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn session(n: u8, expires_at: i64) -> IssuedSession {
        // The first two bytes are equal, so all sessions use the same four slots.
        let mut own = [7; 16];
        own[15] = n;
        let (chain, user, scope) = ([n; 16], UserId::from_bytes([3; 16]), IssuedFor::Project([n; 16]));
        let (lent, methods) = (IssuedBy::Nothing, u64::from(n));
        IssuedSession { own, chain, user, scope, lent, methods, issued_at: i64::from(n), expires_at }
    }

    #[test]
    fn what_was_given_out_is_listed_by_every_process_until_it_ends() {
        let scratch = Scratch::new();
        let path = scratch.path().join("sessions");
        let (one, other) = (IssuedSessions::open(&path).unwrap(), IssuedSessions::open(&path).unwrap());
        assert_eq!(other.live(0), []);
        let all = [session(1, 100), session(2, 50), session(3, 70), session(4, 80)];
        all.iter().for_each(|session| one.note(session));
        assert_eq!(other.live(10), [all[3], all[2], all[1], all[0]]);
        assert_eq!(other.live(70), [all[3], all[0]]);
        // A fifth session in the same four slots overwrites the session that expires first.
        one.note(&session(5, 90));
        assert_eq!(other.live(10), [session(5, 90), all[3], all[2], all[0]]);
        for scope in [IssuedFor::Nothing, IssuedFor::Domain([9; 16]), IssuedFor::System] {
            let session = IssuedSession { scope, own: [1; 16], ..all[0] };
            one.note(&session);
            assert!(other.live(10).contains(&session));
        }
        let all_lent =
            [IssuedBy::Credential([6; 16]), IssuedBy::Trust([8; 16]), IssuedBy::AccessToken([9; 16])];
        for lent in all_lent {
            let session = IssuedSession { lent, own: [1; 16], ..all[0] };
            one.note(&session);
            assert!(other.live(10).contains(&session));
        }
    }
}
