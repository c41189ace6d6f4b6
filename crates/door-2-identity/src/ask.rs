//! What the visitor brings.

use enfilade_facts::vocabulary::{Authid, Secret};

/// A claim and what is to prove it: a token's secret, or a user's password.
/// Taken apart at the edge; two spellings of one credential cannot reach this door.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who they say they are.
    pub authid: Authid,
    /// What is to prove it.
    pub secret: Secret,
}
