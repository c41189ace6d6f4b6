//! The memo of this door remembers:
//!
//! - The verdict on a credential. The revision is not a part of the key; it is compared when a verdict is found. So a later verdict on the same
//!   credential replaces the earlier one, and commits do not fill the memo.
//! - That a secret matches a hash. The key is made of the secret and the hash, so the secret and another hash have another entry.
//!
//! Only successes are remembered, so wrong credentials displace nothing.

use crate::ask::Ask;
use crate::permit::Granted;
use crate::principal::Sets;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::vocabulary::Authid;
use enfilade_facts::{Clocks, Memo, MemoKey, MemoSeed, Weigh, WordMemo};

/// The memos of door 2.
pub struct IdentityMemo {
    pub(crate) verdicts: Memo<Granted>,
    matches: WordMemo<u64>,
    pub(crate) sets: Sets,
    /// The beginning of the memo key of a name and a secret. The next three fields are the beginnings for the other kinds of credential.
    verdict: KeyMaker,
    session: KeyMaker,
    certificate: KeyMaker,
    unread: KeyMaker,
}

impl Weigh for Granted {
    fn heap_bytes(&self) -> usize {
        let roles = self.session.as_ref().map_or(0, |session| {
            size_of_val(&**session)
                + session.roles.iter().map(|role| size_of_val(role) + role.name.len()).sum::<usize>()
        });
        size_of_val(&*self.principal) + self.principal.heap_bytes() + roles
    }
}

impl IdentityMemo {
    /// Memos of at most `bytes` bytes together.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        IdentityMemo {
            // A match takes a few words, a verdict some hundred bytes and the groups of its principal.
            verdicts: Memo::new(seed, bytes - bytes / 8),
            matches: WordMemo::new(seed, bytes / 8),
            sets: Sets::default(),
            verdict: KeyMaker::new(&seed, "verdict"),
            session: KeyMaker::new(&seed, "session"),
            certificate: KeyMaker::new(&seed, "certificate"),
            unread: KeyMaker::new(&seed, "unread credential"),
        }
    }

    /// Starts a memo key for a named step. The key of the digest is random per process.
    pub(crate) fn key(&self, step: &'static str) -> KeyMaker {
        self.matches.key(step)
    }

    /// The key of the verdict on a credential. The revision is not part of it.
    #[inline]
    pub(crate) fn key_of(&self, ask: Ask<'_>) -> MemoKey {
        match ask {
            Ask::Secret(ask) => {
                let Authid { user, token } = &ask.authid;
                let key = self.verdict.bytes(user.name().as_bytes()).bytes(user.realm().as_str().as_bytes());
                // No token has an empty name, so the empty text means that there is no token.
                let token = token.as_ref().map_or("", |name| name.as_str());
                key.bytes(token.as_bytes()).bytes(ask.secret.reveal()).key()
            }
            Ask::Session(ask) => self.session.bytes(ask.token.reveal()).key(),
            Ask::Certificate(ask) => self.certificate.bytes(&ask.fingerprint).key(),
        }
    }

    /// The key of a credential as it was sent, before anything parses it.
    #[inline]
    pub fn unread(&self, name: &[u8], value: &[u8]) -> MemoKey {
        self.unread.bytes(name).bytes(value).key()
    }

    /// Remembers that the secret of this work matched.
    pub fn remember_match(&self, work: MemoKey, now: Clocks) {
        self.matches.put(work, now.tick_millis);
    }

    /// The tick at which the secret of this work was found to match, if that is remembered.
    pub(crate) fn matched_at(&self, work: MemoKey) -> Option<u64> {
        self.matches.get(work)
    }
}
