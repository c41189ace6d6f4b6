//! What became of one entry of a listing.

/// What became of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The visitor may see it.
    Seen,
    /// It is not there for the visitor.
    Hidden,
    /// Its ACL has to be read first.
    Unread,
}
