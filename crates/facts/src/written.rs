//! What was written since a revision, as the change log names it.

use crate::revision::Revision;
use crate::tables::{Keys, LogEntry, LogPiece, PieceKey, Written};
use crate::view::View;

/// The keys of the records that were written after a revision, up to that of the view: change by change, each with its revision, and those
/// of a large change in pieces. `None` in their place where the log does not say them: its entry was trimmed or is damaged, or the
/// change replaced all facts. What follows then does not make up for it.
pub fn written_since<'v>(
    view: &'v View<'_>,
    before: Revision,
) -> impl Iterator<Item = Option<(Revision, Keys)>> + 'v {
    // The numbers have no gaps: one that is not there was trimmed, or is damaged.
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
