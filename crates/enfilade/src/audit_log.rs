//! Where changes go: one JSON line each, on standard error beside the requests. The facts keep each until it was written.

use enfilade_sources::lmdb::{Lmdb, ShippingError};
use serde_json::json;
use std::io::Write as _;

/// Writes the changes that were not written yet.
pub(crate) fn ship(source: &Lmdb) -> Result<(), ShippingError> {
    source.ship(|entries| {
        let mut text = String::new();
        for (revision, entry) in entries {
            let line = json!({
                "event": "change",
                "time": entry.unix_seconds,
                "revision": revision.0,
                "who": entry.who,
                "what": entry.what,
            });
            text.push_str(&line.to_string());
            text.push('\n');
        }
        std::io::stderr().lock().write_all(text.as_bytes())
    })
}
