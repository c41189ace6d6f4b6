//! Response bodies of the Identity API that are remembered.

use bytes::Bytes;
use enfilade_facts::{Revision, StoreId, Weigh};

/// A rendered body. It stays valid as long as no facts except revocations change.
pub struct Rendered {
    /// The store of the facts in the body.
    pub store: StoreId,
    /// The revision of the last change of those facts, not counting revocations.
    pub rests_on: Revision,
    /// The body.
    pub text: Bytes,
}

impl Weigh for Rendered {
    fn heap_bytes(&self) -> usize {
        self.text.len()
    }
}
