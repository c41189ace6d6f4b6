//! The reason why the door granted no permit: a refusal, a login that needs further methods, or work that must be done before the decision. The work
//! is a slow hash. The gate computes the hash outside the async workers. If the secret matches, the passage stores the match in the memo. Then the
//! door judges the credential again, on the current facts.

use crate::crypt;
use crate::permit::Unfinished;
use crate::refuse::Refusal;
use enfilade_facts::MemoKey;
use enfilade_facts::vocabulary::Secret;

/// Why the door granted no permit.
#[derive(Debug)]
pub enum Closed {
    /// The door refuses.
    Refused(Refusal),
    /// A slow hash has to be computed first. Then the door is asked again.
    NeedsWork(Box<Work>),
    /// The password is correct, and the user needs further methods.
    Unfinished(Unfinished),
}

impl Closed {
    /// Returns the refusal. If work must be done first, returns the refusal for a secret that does not match.
    pub fn refuse(self) -> Refusal {
        match self {
            Closed::Refused(refusal) => refusal,
            Closed::NeedsWork(work) => work.refuse(),
            Closed::Unfinished(unfinished) => unfinished.refuse(),
        }
    }
}

impl<R: Into<Refusal>> From<R> for Closed {
    fn from(refusal: R) -> Self {
        Closed::Refused(refusal.into())
    }
}

/// Slow hashes. The gate computes one hash after the other, until the secret matches a hash. The hashes are the stored hash of the present secret
/// and, during a grace period, the stored hash of the previous secret. For a refusal that does not depend on the secret, the only hash is a decoy.
#[derive(Clone)]
pub struct Work {
    pub(crate) secret: Secret,
    /// Each hash, with the memo key of its match; never empty.
    pub(crate) hashes: Vec<(String, MemoKey)>,
    /// The refusal if no hash matches.
    pub(crate) refusal: Refusal,
}

/// The result of computing the hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The secret matches a hash. The value is the memo key of this match.
    Matches(MemoKey),
    /// The secret matches no hash.
    Differs,
}

impl Work {
    /// The key of the work. If several requests wait for work with the same key, the hashes are computed only once.
    pub fn key(&self) -> MemoKey {
        self.hashes.iter().map(|(_, key)| *key).reduce(MemoKey::and).unwrap_or_default()
    }

    /// Computes the hashes. A usual hash takes 2 to 200 milliseconds of one core, and a hash with the highest allowed cost takes longer. Never call
    /// this function on an async worker.
    pub fn run(&self) -> Outcome {
        let found = self.hashes.iter().find(|(hash, _)| crypt::matches(&self.secret, hash));
        found.map_or(Outcome::Differs, |(_, key)| Outcome::Matches(*key))
    }

    /// The refusal if no hash matches.
    pub fn refuse(self) -> Refusal {
        self.refusal
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}
