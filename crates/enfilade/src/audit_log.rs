//! The audit log: one line per change, on standard error together with the request log. The store keeps each change until the audit log contains the
//! line of the change.

use crate::output;
use enfilade_facts::vocabulary::visible;
use enfilade_sources::lmdb::{Lmdb, ShippingError};
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which the thread checks for changes to write. If there are no such changes, the check reads only two atomic counters.
const EVERY: Duration = Duration::from_millis(500);

/// Starts a thread that writes each change after its commit. If the reader of standard error stops reading, only this thread waits.
pub(crate) fn follow(source: &Arc<Lmdb>) -> std::io::Result<()> {
    let source = Arc::clone(source);
    std::thread::Builder::new().name("change-log".into()).spawn(move || {
        let mut is_shipping = true;
        loop {
            match ship(&source) {
                Ok(()) => is_shipping = true,
                Err(why) if is_shipping => {
                    output::note(&format!("warning: {why}"));
                    is_shipping = false;
                }
                Err(_) => {}
            }
            std::thread::park_timeout(EVERY);
        }
    })?;
    Ok(())
}

/// Writes a line for each change that has no line yet.
fn ship(source: &Lmdb) -> Result<(), ShippingError> {
    source.ship(|entries| {
        let mut text = String::new();
        for (revision, entry) in entries {
            let (time, revision) = (output::time(entry.unix_seconds), revision.0);
            let (who, what) = (&entry.who, &entry.what);
            let request = entry.request.map(|id| id.to_string());
            let line = match output::is_for_people() {
                true => format!("{time} change {revision}: {}", visible(&format!("{what} ({who})"))),
                false => {
                    let mut line = json!({
                        "event": "change", "time": time, "revision": revision, "who": who, "what": what,
                    });
                    if let (Some(id), Some(line)) = (request, line.as_object_mut()) {
                        line.insert("request".to_owned(), id.into());
                    }
                    line.to_string()
                }
            };
            text.push_str(&line);
            text.push('\n');
        }
        std::io::stderr().lock().write_all(text.as_bytes())
    })
}
