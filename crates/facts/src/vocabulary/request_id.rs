//! The id of a request.

use core::fmt::{self, Display, Formatter};

/// The number of a request, in the form of Keystone's request ids: `req-` and a UUID of version 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestId(pub u128);

impl RequestId {
    /// The UUID of version 4 (RFC 9562 §5.4) in the text of the id.
    pub fn uuid(self) -> u128 {
        self.0 & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    }
}

impl Display for RequestId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = self.uuid();
        let (a, b, c) = (id >> 96, (id >> 80) & 0xffff, (id >> 64) & 0xffff);
        let (d, e) = ((id >> 48) & 0xffff, id & 0xffff_ffff_ffff);
        write!(f, "req-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}
