//! Response bodies of the Identity API that the server remembers.

use bytes::Bytes;
use enfilade_facts::{Revision, StoreId, Weigh};

/// A rendered response body. The body stays valid until stored facts other than revocations change.
pub struct Rendered {
    /// The id of the store. The body was made from the facts in this store.
    pub store: StoreId,
    /// The revision of the last change of the stored facts before the body was rendered. Changes of revocations do not count.
    pub rests_on: Revision,
    /// The body.
    pub text: Bytes,
}

impl Weigh for Rendered {
    fn heap_bytes(&self) -> usize {
        self.text.len()
    }
}
