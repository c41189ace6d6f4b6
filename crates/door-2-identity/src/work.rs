//! Work that is missing before this door can answer: a slow hash. It is done behind the gate, off the async workers,
//! and only fills the memo; afterwards the door is asked again, against fresh facts.

use crate::crypt;
use crate::refuse::Refusal;
use enfilade_facts::MemoKey;
use enfilade_facts::vocabulary::Secret;

/// Why the door granted no permit.
#[derive(Debug)]
pub enum Closed {
    /// It refuses.
    Refused(Refusal),
    /// A slow hash has to be computed first. Then the door is asked again.
    NeedsWork(Box<Work>),
}

impl Closed {
    /// The refusal; for work, the one of a secret that does not match.
    pub fn refuse(self) -> Refusal {
        match self {
            Closed::Refused(refusal) => refusal,
            Closed::NeedsWork(work) => work.refuse(),
        }
    }
}

impl<R: Into<Refusal>> From<R> for Closed {
    fn from(refusal: R) -> Self {
        Closed::Refused(refusal.into())
    }
}

/// Slow hashes to compute, until one matches: that of a secret, and while it still works that of the secret before it.
#[derive(Clone)]
pub struct Work {
    pub(crate) secret: Secret,
    /// Each hash, and what its matching is remembered under; never empty.
    pub(crate) hashes: Vec<(String, MemoKey)>,
    /// What is said when it does not match.
    pub(crate) refusal: Refusal,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The secret is the one a hash was made of; what that is remembered under.
    Matches(MemoKey),
    /// It is that of none.
    Differs,
}

impl Work {
    /// Equal keys are the same work: it is done once however many ask.
    pub fn key(&self) -> MemoKey {
        self.hashes.iter().map(|(_, key)| *key).reduce(MemoKey::and).unwrap_or_default()
    }

    /// Does it. Takes 2 to 200 milliseconds of one core for each hash.
    pub fn run(&self) -> Outcome {
        let found = self.hashes.iter().find(|(hash, _)| crypt::matches(&self.secret, hash));
        found.map_or(Outcome::Differs, |(_, key)| Outcome::Matches(*key))
    }

    /// The answer when it does not match.
    pub fn refuse(self) -> Refusal {
        self.refusal
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}
