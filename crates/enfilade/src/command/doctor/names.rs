//! Finds entries that no client sees: entries with names that the server cannot show, and unfinished uploads and copies. The processes that began
//! these uploads and copies have ended.

use std::path::Path;

/// The maximum number of entries that are examined in one datastore. The number is limited because `enfilade doctor` must end soon.
const LOOKED_AT_MAX: usize = 100_000;

/// Warnings about entries below this directory; empty if clients can see all of them.
pub(super) fn not_shown(root: &Path) -> Vec<String> {
    let (mut looked_at, mut count, mut first) = (0, 0, None);
    let (mut unfinished, mut first_unfinished) = (0, None);
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        // Unreadable directories are reported by other checks.
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX {
                left.clear();
                break;
            }
            if enfilade_content::is_abandoned(&entry.path()) {
                unfinished += 1;
                first_unfinished.get_or_insert_with(|| entry.path());
            } else if !enfilade_content::can_be_shown(entry.file_name().as_encoded_bytes()) {
                count += 1;
                first.get_or_insert_with(|| entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
        }
    }
    let among = if looked_at > LOOKED_AT_MAX { " (only the first 100,000 entries were checked)" } else { "" };
    let not_shown = first.map(|first| {
        format!(
            "{count} names cannot be shown to clients{among}, for example {first:?}: they are not UTF-8, contain a backslash or a control character, or begin with `.enfilade-`; rename these files"
        )
    });
    let left_behind = first_unfinished.map(|first| {
        format!(
            "{unfinished} uploads or copies were never finished{among}, for example {first:?}: the process that wrote them has ended; the server \
             removes them at its next start or daily cleanup"
        )
    });
    not_shown.into_iter().chain(left_behind).collect()
}
