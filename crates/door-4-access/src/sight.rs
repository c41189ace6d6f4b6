//! Whether a listing shows an entry.

/// Whether a listing shows an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The visitor may see the entry.
    Seen,
    /// The entry looks absent to the visitor.
    Hidden,
    /// The ACL of the entry has to be read first.
    Unread,
}
