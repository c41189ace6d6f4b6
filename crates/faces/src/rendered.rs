//! Bodies of the Identity API that are kept.

use bytes::Bytes;
use enfilade_facts::{Revision, StoreId, Weigh};

/// A rendered body. It stays valid as long as no facts except revocations change.
pub struct Rendered {
    /// Of which store of facts.
    pub store: StoreId,
    /// Of which revision.
    pub rests_on: Revision,
    /// The body.
    pub text: Bytes,
}

impl Weigh for Rendered {
    fn heap_bytes(&self) -> usize {
        self.text.len()
    }
}
