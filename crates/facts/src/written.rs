//! The keys that were written since a revision, from the change log.

use crate::revision::Revision;
use crate::tables::{Keys, LogEntry, LogPiece, PieceKey, Written};
use crate::view::View;

/// The keys of the records that were written after the revision `before`, up to the revision of the view. Each item has the revision of a change and
/// its keys; a large change has an item for each piece. An item is `None` if the log does not have the keys of the change. Then the entry was deleted
/// or is damaged, or the change replaced all facts, or the change was too large. The caller must then read all facts again.
pub fn written_since<'v>(
    view: &'v View<'_>,
    before: Revision,
) -> impl Iterator<Item = Option<(Revision, Keys)>> + 'v {
    // Revisions have no gaps, so a missing entry was deleted or is damaged.
    (before.0 + 1..=view.at().revision.0).map(Revision).flat_map(move |revision| {
        let entry = view.get::<LogEntry>(&revision).ok().flatten();
        let (here, pieces) = match entry.map(|entry| entry.written) {
            Some(Written::Here(keys)) => (Some(Some(keys)), 0),
            Some(Written::Pieces(count)) => (None, count),
            Some(Written::Unsaid) | None => (Some(None), 0),
        };
        let piece = move |number| {
            let piece = view.get::<LogPiece>(&PieceKey { revision, number }).ok().flatten();
            piece.map(|LogPiece(keys)| keys)
        };
        let keys = here.into_iter().chain((0..pieces).map(piece));
        keys.map(move |keys| keys.map(|keys| (revision, keys)))
    })
}
