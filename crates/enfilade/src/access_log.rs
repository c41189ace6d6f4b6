//! Where audit events go: one JSON line each, on standard error. Nothing in it is a secret, and `serde_json` escapes
//! whatever a client put into a path, so that a line stays a line.

use enfilade_facts::Now;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_passage::{Audit, Event};
use enfilade_sources::files::last_used::LastUsed;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// How many lines may wait for the writer.
const LINES_MAX: usize = 16_384;

/// Hands lines to a thread that writes them, so that a slow terminal holds no request up.
pub(crate) struct AccessLog {
    last_used: LastUsed,
    lines: SyncSender<Vec<u8>>,
    lost: AtomicU64,
}

impl AccessLog {
    /// Starts the writer.
    pub(crate) fn start(last_used: LastUsed) -> std::io::Result<Self> {
        let (lines, queue) = sync_channel::<Vec<u8>>(LINES_MAX);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            while let Ok(first) = queue.recv() {
                let mut text = first;
                // Everything that waits goes out in one write.
                while let Ok(more) = queue.try_recv() {
                    text.extend(more);
                }
                let _ = std::io::stderr().write_all(&text);
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
        let line = line(event, lost);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.lines.try_send(line) {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// Put together by hand: this is done for every request, and a tree of values first costs as much as all doors.
fn line(event: &Event, lost_before: u64) -> Vec<u8> {
    let time = crate::clock::now().unix_seconds;
    let mut line = Vec::with_capacity(512);
    let _ = write!(line, r#"{{"event":"request","time":{time}"#);
    for (name, text) in [
        ("peer", event.peer.as_str()),
        ("face", event.face),
        ("verb", &event.verb),
        ("authid", &event.authid),
        ("datastore", &event.datastore),
        ("path", &event.path),
        ("verdict", event.verdict),
        ("door", event.door),
        ("code", event.code),
        ("fault", event.fault),
        ("reason", &event.reason),
    ] {
        let _ = write!(line, r#","{name}":"#);
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut line, text);
    }
    let Event { revision, status, bytes, millis, .. } = event;
    let _ = write!(line, r#","revision":{revision},"status":{status},"bytes":{bytes},"millis":{millis}"#);
    let _ = writeln!(line, r#","lost_before":{lost_before}}}"#);
    line
}

/// For commands that ask the doors without serving anybody.
pub(crate) struct NoLog;

impl Audit for NoLog {
    fn record(&self, _: &Event) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_whatever_a_client_put_into_it() {
        let event = Event {
            authid: "a\"b\\@local".into(),
            path: "/x\n\u{1}{}\u{7f}é".into(),
            verdict: "refuse",
            status: 403,
            ..Event::default()
        };
        let line = String::from_utf8(line(&event, 3)).unwrap();
        assert_eq!(line.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (value["authid"].as_str(), value["path"].as_str()),
            (Some("a\"b\\@local"), Some("/x\n\u{1}{}\u{7f}é"))
        );
        assert_eq!(
            (&value["event"], &value["status"], &value["lost_before"]),
            (&"request".into(), &403.into(), &3.into())
        );
        assert_eq!(value.as_object().unwrap().len(), 18);
    }
}
