//! What this door remembers.
//!
//! - The whole verdict, under the credential and the revision of the facts: at the same revision nothing can have changed.
//! - That a secret matches a hash, under both: whoever's hash changes has another entry.
//!
//! Only successes are remembered, so that junk pushes nothing out.

use crate::permit::IdentityPermit;
use crate::principal::Sets;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::{Memo, MemoKey, MemoSeed, Now};

/// The memos of door 2.
pub struct IdentityMemo {
    pub(crate) verdicts: Memo<Remembered>,
    matches: Memo<u64>,
    pub(crate) sets: Sets,
}

/// A permit, and the tick until which it may be given again without looking at the secret.
#[derive(Clone)]
pub(crate) struct Remembered {
    pub(crate) permit: IdentityPermit,
    pub(crate) until_tick: u64,
}

impl IdentityMemo {
    /// Room for about `entries` live credentials.
    pub fn new(seed: MemoSeed, entries: usize) -> Self {
        IdentityMemo {
            verdicts: Memo::new(seed, entries),
            matches: Memo::new(seed, entries),
            sets: Sets::default(),
        }
    }

    /// A key of this process for the step called `step`.
    pub(crate) fn key(&self, step: &'static str) -> KeyMaker {
        self.matches.key(step)
    }

    /// Remembers that the secret of a work matched.
    pub fn remember_match(&self, work: MemoKey, now: Now) {
        self.matches.put(work, now.tick_millis);
    }

    /// When it was found to match, if it is remembered.
    pub(crate) fn matched_at(&self, work: MemoKey) -> Option<u64> {
        self.matches.get(work)
    }
}
