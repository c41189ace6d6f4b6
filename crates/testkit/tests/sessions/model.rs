//! What the model knows of what was given and taken.

use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{CredentialId, TrustId};
use std::collections::BTreeSet;

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % sides
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Where {
    Project(usize),
    Domain(usize),
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    User(usize),
    /// There is one group.
    Group,
}

/// Something that was revoked, with the second up to which.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) mark: Revoked,
    pub(crate) before: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) user: usize,
    pub(crate) scope: Option<Where>,
    pub(crate) credential: Option<usize>,
    pub(crate) trust: Option<usize>,
    /// Whether it came of a token.
    pub(crate) is_child: bool,
    pub(crate) issued_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) own: [u8; 16],
    pub(crate) chain: [u8; 16],
    pub(crate) key: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Delegation {
    pub(crate) id: CredentialId,
    pub(crate) secret: String,
    pub(crate) user: usize,
    pub(crate) project: usize,
    pub(crate) roles: BTreeSet<usize>,
    pub(crate) is_there: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) id: TrustId,
    pub(crate) trustor: usize,
    pub(crate) trustee: usize,
    pub(crate) project: usize,
    pub(crate) roles: BTreeSet<usize>,
    /// 0 is for ever.
    pub(crate) expires: i64,
    pub(crate) is_there: bool,
}
