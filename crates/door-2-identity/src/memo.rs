//! The memo of this door remembers:
//!
//! - The verdict on a credential. The memo key does not depend on the revision of the facts. The door compares the revision when it finds a verdict.
//!   So a later verdict on the same credential replaces the earlier one, and commits do not fill the memo.
//! - That a secret matches a hash. The memo key depends on the secret and on the hash, so the same secret with another hash has another entry.
//!
//! Only successes are remembered, so requests with wrong credentials do not push other entries out of the memo.

use crate::ask::{Ask, LinkProof};
use crate::permit::Granted;
use crate::principal::Sets;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::tables::{Audience, CONSOLE};
use enfilade_facts::vocabulary::Authid;
use enfilade_facts::{Clocks, Memo, MemoKey, MemoSeed, Weigh, WordMemo};

/// The memos of door 2.
pub struct IdentityMemo {
    pub(crate) verdicts: Memo<Granted>,
    matches: WordMemo<u64>,
    pub(crate) sets: Sets,
    /// Computes the memo key of a name and a secret. The next four fields compute the memo keys of the other kinds of credential; `unread` computes
    /// the memo key of a credential that is not parsed yet.
    verdict: KeyMaker,
    session: KeyMaker,
    certificate: KeyMaker,
    browser: KeyMaker,
    link: KeyMaker,
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
    /// Creates memos that use at most `bytes` bytes in total.
    pub fn new(seed: MemoSeed, bytes: usize) -> Self {
        IdentityMemo {
            // An entry of `matches` needs only a few machine words. A verdict needs a few hundred bytes, plus the memory for the groups of its
            // principal.
            verdicts: Memo::new(seed, bytes - bytes / 8),
            matches: WordMemo::new(seed, bytes / 8),
            sets: Sets::default(),
            verdict: KeyMaker::new(&seed, "verdict"),
            session: KeyMaker::new(&seed, "session"),
            certificate: KeyMaker::new(&seed, "certificate"),
            browser: KeyMaker::new(&seed, "browser session"),
            link: KeyMaker::new(&seed, "link"),
            unread: KeyMaker::new(&seed, "unread credential"),
        }
    }

    /// Returns a `KeyMaker`: the caller adds the inputs and gets a memo key. `step` is the name of a computation. The result of this computation is
    /// stored under the key. The memo key is a keyed digest, and the key of the digest is random for each process.
    pub(crate) fn key(&self, step: &'static str) -> KeyMaker {
        self.matches.key(step)
    }

    /// The key of the verdict on a credential. The revision is not part of the key.
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
            Ask::Browser(ask) => {
                // No application can have an empty name or the name of the console.
                let audience = match &ask.audience {
                    Audience::SignIn => "",
                    Audience::Application(name) => name.as_str(),
                    Audience::Console => CONSOLE,
                };
                self.browser.bytes(audience.as_bytes()).bytes(ask.cookie.reveal()).key()
            }
            Ask::Link(ask) => {
                let (kind, proof) = match &ask.proof {
                    LinkProof::Nothing => (0, [].as_slice()),
                    LinkProof::Password(password) => (1, password.reveal()),
                    LinkProof::Pass(pass) => (2, pass.reveal()),
                };
                self.link.bytes(ask.text.reveal()).number(kind).bytes(proof).key()
            }
        }
    }

    /// The key of a credential as it was sent, before anything parses it.
    #[inline]
    pub fn unread(&self, name: &[u8], value: &[u8]) -> MemoKey {
        self.unread.bytes(name).bytes(value).key()
    }

    /// Stores that a secret matched a hash. `work` is the memo key of the secret and the hash.
    pub fn remember_match(&self, work: MemoKey, now: Clocks) {
        self.matches.put(work, now.tick_millis);
    }

    /// The time of the monotonic clock, in milliseconds, at which the match with the memo key `work` was stored. `None` if the memo does not contain
    /// the match.
    pub(crate) fn matched_at(&self, work: MemoKey) -> Option<u64> {
        self.matches.get(work)
    }
}
