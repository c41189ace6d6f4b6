//! Work that is missing before this door can answer: a slow hash. It is done behind the gate, off the async workers,
//! and only fills the memo; afterwards the door is asked again, against fresh facts.

use crate::crypt;
use crate::refuse::Refusal;
use enfilade_facts::MemoKey;
use enfilade_facts::vocabulary::Secret;

/// One slow hash to compute.
#[derive(Clone)]
pub struct Work {
    pub(crate) secret: Secret,
    pub(crate) hash: String,
    pub(crate) key: MemoKey,
    /// What is said when it does not match.
    pub(crate) refusal: Refusal,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The secret is the one the hash was made of.
    Matches,
    /// It is not.
    Differs,
}

impl Work {
    /// Equal keys are the same work: it is done once however many ask.
    pub fn key(&self) -> MemoKey {
        self.key
    }

    /// Does it. Takes 2 to 200 milliseconds of one core.
    pub fn run(&self) -> Outcome {
        if crypt::matches(&self.secret, &self.hash) { Outcome::Matches } else { Outcome::Differs }
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
