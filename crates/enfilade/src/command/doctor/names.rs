//! Files that no client sees: those whose names no URL means, and what uploads and copies left behind whose process ended.

use std::path::Path;

/// Entries looked at in one datastore: somebody waits for the doctor.
const LOOKED_AT_MAX: usize = 100_000;

/// What there is to say of the names beneath a directory; nothing where all can be shown.
pub(super) fn not_shown(root: &Path) -> Vec<String> {
    let (mut looked_at, mut count, mut first) = (0, 0, None);
    let (mut unfinished, mut first_unfinished) = (0, None);
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        // What cannot be read is told by others.
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
    let among = if looked_at > LOOKED_AT_MAX { " among the first 100,000" } else { "" };
    let not_shown = first.map(|first| {
        format!(
            "{count} names{among} cannot be shown to clients, such as {first:?}: they are not UTF-8, have a backslash or a control character, or begin with `.enfilade-`; rename them"
        )
    });
    let left_behind = first_unfinished.map(|first| {
        format!(
            "{unfinished} uploads or copies were never finished{among}, such as {first:?}: their process ended; a server that is started removes them"
        )
    });
    not_shown.into_iter().chain(left_behind).collect()
}
