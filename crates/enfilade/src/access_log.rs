//! Where audit events go: one JSON line each, on standard error. Nothing in it is a secret, and `serde_json` escapes
//! whatever a client put into a path, so that a line stays a line.

use enfilade_facts::Now;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_passage::{Audit, Event};
use enfilade_sources::files::last_used::LastUsed;
use serde_json::json;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// How many lines may wait for the writer.
const LINES_MAX: usize = 16_384;

/// Hands lines to a thread that writes them, so that a slow terminal holds no request up.
pub(crate) struct AccessLog {
    last_used: LastUsed,
    lines: SyncSender<String>,
    lost: AtomicU64,
}

impl AccessLog {
    /// Starts the writer.
    pub(crate) fn start(last_used: LastUsed) -> std::io::Result<Self> {
        let (lines, queue) = sync_channel::<String>(LINES_MAX);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            while let Ok(first) = queue.recv() {
                let mut text = first;
                // Everything that waits goes out in one write.
                while let Ok(more) = queue.try_recv() {
                    text.push_str(&more);
                }
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
        })?;
        Ok(AccessLog { last_used, lines, lost: AtomicU64::new(0) })
    }
}

impl Audit for AccessLog {
    fn used(&self, token: &CredentialId, from: IpAddr, now: Now) {
        self.last_used.note(token, from, now);
    }

    fn record(&self, event: &Event) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let mut line = json!({
            "event": "request",
            "time": crate::clock::now().unix_seconds,
            "peer": event.peer,
            "face": event.face,
            "verb": event.verb,
            "authid": event.authid,
            "datastore": event.datastore,
            "path": event.path,
            "verdict": event.verdict,
            "door": event.door,
            "code": event.code,
            "fault": event.fault,
            "reason": event.reason,
            "revision": event.revision,
            "status": event.status,
            "bytes": event.bytes,
            "millis": event.millis,
            "lost_before": lost,
        })
        .to_string();
        line.push('\n');
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.lines.try_send(line) {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// For commands that ask the doors without serving anybody.
pub(crate) struct NoLog;

impl Audit for NoLog {
    fn record(&self, _: &Event) {}
}
