//! Bodies of the Identity API that are kept.

use bytes::Bytes;
use enfilade_facts::{Revision, StoreId, Weigh};

/// A rendered body. It stays valid as long as no facts except revocations change.
pub(crate) struct Rendered {
    pub(crate) store: StoreId,
    pub(crate) rests_on: Revision,
    pub(crate) text: Bytes,
}

impl Weigh for Rendered {
    fn heap_bytes(&self) -> usize {
        self.text.len()
    }
}
