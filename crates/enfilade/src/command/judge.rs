//! Judges which sessions and credentials a server accepts at this moment. The list of issued sessions contains only the newest sessions, about
//! 260,000. So each number of sessions that a command shows is only a lower bound.

use crate::clock;
use crate::home::{Home, seed};
use crate::issued::claim_of;
use enfilade_facts::Read as _;
use enfilade_identity::{Context, HashKey, IdentityMemo, Refusal, SessionState, check_session};
use enfilade_sources::files::issued::IssuedSession;

/// The listed sessions that have not expired. Returns an empty list if no server has created the list of sessions yet.
pub(super) fn known_sessions(home: &Home) -> anyhow::Result<Vec<IssuedSession>> {
    match home.data.join("sessions").try_exists()? {
        true => Ok(home.sessions()?.live(clock::now().unix_seconds)),
        false => Ok(Vec::new()),
    }
}

/// Judges sessions and credentials with the current facts, as a server does.
pub(super) struct Judge {
    hash_key: HashKey,
    sessions: SessionState,
    memo: IdentityMemo,
}

/// The size of the memo for identity checks during one command, in bytes.
const MEMO_BYTES: usize = 1 << 20;

impl Judge {
    pub(super) fn new(home: &Home) -> anyhow::Result<Self> {
        let (hash_key, memo) = (home.hash_key_to_ask(), IdentityMemo::new(seed()?, MEMO_BYTES));
        Ok(Judge { hash_key, memo, sessions: SessionState::default() })
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context { hash_key: &self.hash_key, sessions: &self.sessions, memo: &self.memo }
    }

    /// The known sessions that are valid, the newest first.
    pub(super) fn valid_sessions(&self, home: &Home) -> anyhow::Result<Vec<IssuedSession>> {
        self.still_valid(home, known_sessions(home)?)
    }

    /// Returns the given sessions that are still valid.
    pub(super) fn still_valid(
        &self,
        home: &Home,
        sessions: Vec<IssuedSession>,
    ) -> anyhow::Result<Vec<IssuedSession>> {
        let (now, context) = (clock::now(), self.context());
        home.source().read(|view| {
            let mut valid = Vec::new();
            for session in sessions {
                match check_session(view, now, &claim_of(&session), &context) {
                    Ok(()) => valid.push(session),
                    Err(Refusal::Facts(why)) => return Err(why.into()),
                    Err(_) => {}
                }
            }
            Ok(valid)
        })?
    }
}
