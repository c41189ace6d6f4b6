//! What a listing shows of one entry.

/// What a listing shows of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The visitor may see it.
    Seen,
    /// It looks absent to the visitor.
    Hidden,
    /// Its ACL has to be read first.
    Unread,
}
