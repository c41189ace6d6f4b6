//! The checks of a change before it is written.

use crate::change::{Change, Expected};
use crate::codec;
use crate::error::CommitError;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::tables::Table;
use crate::view::View;

/// Checks the sizes of keys and values. All sources have the same limits, so a change that fits into one source fits into all. Keys of expectations
/// are checked, too.
pub(super) fn check_sizes(change: &Change) -> Result<(), CommitError> {
    let expected = change.expects().iter().map(|expect| (expect.table, expect.key.as_slice(), None));
    for (table, key, value) in expected.chain(change.writes()) {
        let value = value.map_or(0, <[u8]>::len);
        for (what, bytes, limit) in [("key", key.len(), KEY_BYTES_MAX), ("value", value, VALUE_BYTES_MAX)] {
            if limit < bytes {
                return Err(CommitError::TooLarge { table, what, bytes, limit });
            }
        }
    }
    Ok(())
}

/// Checks that a record has the state that a change expects.
pub(super) fn check_expected(
    view: &View<'_>,
    table: Table,
    key: &[u8],
    expected: &Expected,
) -> Result<(), CommitError> {
    let stored = view.value(table, key)?;
    let holds = match (expected, stored) {
        (Expected::Absent, stored) => stored.is_none(),
        (Expected::Present, stored) => stored.is_some(),
        (Expected::Value(value), stored) => stored.is_some_and(|(_, stored)| stored == value),
        (Expected::Revision(revision), stored) => stored.is_some_and(|(stored, _)| stored == *revision),
    };
    if holds { Ok(()) } else { Err(CommitError::Conflict { table, key: codec::printable(key) }) }
}
