//! Where audit events go: one JSON line each, on standard error. Nothing in it is a secret, and `serde_json` escapes
//! whatever a client put into a path, so that a line stays a line.

use enfilade_facts::Now;
use enfilade_facts::vocabulary::CredentialId;
use enfilade_passage::{Audit, Claim, Event, Scope};
use enfilade_sources::files::issued::{IssuedFor, IssuedSession, IssuedSessions};
use enfilade_sources::files::last_used::LastUsed;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// How many lines may wait for the writer.
const LINES_MAX: usize = 16_384;

/// Hands events to a thread that writes them, so that a slow terminal holds no request up, and what is written of a request
/// does not show in how long it takes.
pub(crate) struct AccessLog {
    last_used: LastUsed,
    sessions: IssuedSessions,
    lines: SyncSender<(Event, u64)>,
    lost: AtomicU64,
}

impl AccessLog {
    /// Starts the writer.
    pub(crate) fn start(last_used: LastUsed, sessions: IssuedSessions) -> std::io::Result<Self> {
        let (lines, queue) = sync_channel::<(Event, u64)>(LINES_MAX);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            while let Ok(first) = queue.recv() {
                let time = crate::clock::now().unix_seconds;
                let mut text = Vec::with_capacity(512);
                // Everything that waits goes out in one write.
                for (event, lost) in std::iter::once(first).chain(queue.try_iter()) {
                    line(&mut text, time, &event, lost);
                }
                let _ = std::io::stderr().write_all(&text);
            }
        })?;
        Ok(AccessLog { last_used, sessions, lines, lost: AtomicU64::new(0) })
    }
}

impl Audit for AccessLog {
    fn used(&self, token: &CredentialId, from: IpAddr, now: Now) {
        self.last_used.note(token, from, now);
    }

    fn issued(&self, claim: &Claim) {
        let scope = match claim.scope {
            Scope::Unscoped => IssuedFor::Nothing,
            Scope::Project(id) => IssuedFor::Project(*id.bytes()),
            Scope::Domain(id) => IssuedFor::Domain(*id.bytes()),
            Scope::System => IssuedFor::System,
        };
        let Claim { user, issued_at, expires_at, .. } = *claim;
        let (own, chain) = (claim.audit.own, claim.chain());
        self.sessions.note(&IssuedSession { own, chain, user, scope, issued_at, expires_at });
    }

    fn record(&self, event: Event) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.lines.try_send((event, lost))
        {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

/// Puts a line together by hand: this is done for every request, and a tree of values first costs as much as all doors.
fn line(line: &mut Vec<u8>, time: i64, event: &Event, lost_before: u64) {
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
        let _ = serde_json::to_writer(&mut *line, text);
    }
    let Event { revision, status, bytes, millis, .. } = event;
    let _ = write!(line, r#","revision":{revision},"status":{status},"bytes":{bytes},"millis":{millis}"#);
    let _ = writeln!(line, r#","lost_before":{lost_before}}}"#);
}

/// For commands that ask the doors without serving anybody.
pub(crate) struct NoLog;

impl Audit for NoLog {
    fn record(&self, _: Event) {}
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
        let mut bytes = Vec::new();
        line(&mut bytes, 1_800_000_000, &event, 3);
        let line = String::from_utf8(bytes).unwrap();
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
