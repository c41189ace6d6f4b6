//! The request log: at most one line per audit event, written to standard error as JSON, or as plain text if standard error is a terminal. The log
//! counts the events that it cannot write. It contains no secret. Line breaks in texts are escaped. So a line never contains a line break.

use crate::issued::record_of;
use crate::log_lines::{self, Loss};
use crate::output;
use enfilade_faces::PLAIN_HTTP;
use enfilade_facts::Clocks;
use enfilade_facts::vocabulary::{CredentialId, RequestId, visible};
use enfilade_passage::{Audit, Claim, Event};
use enfilade_sources::files::issued::IssuedSessions;
use enfilade_sources::files::last_used::LastUsed;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The maximum number of events that wait for the writer.
const EVENTS_MAX: usize = 16_384;
/// How long the writer waits for further events after the first event. Waking the thread for each event would take more time than writing the event.
const GATHER: Duration = Duration::from_millis(4);

/// Passes events to a thread that writes them. So a slow terminal delays no request, and the duration of a request does not depend on its log line.
pub(crate) struct AccessLog {
    last_used: LastUsed,
    sessions: IssuedSessions,
    /// The maximum number of lines per second for failed logins. The same maximum applies separately to other events that any client can cause.
    refusals_per_second: u64,
    waiting: Mutex<Waiting>,
    /// The writer waits for this condition while the queue is empty. When the first event is put into the empty queue, the writer is notified.
    begun: Condvar,
    /// The lock is held during a write, because lines must stay in order.
    writing: Mutex<Writing>,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    /// The number of events that got no line since the last written line. An event gets no line if the queue is full, if too many events that any
    /// client can cause come in one second, or if the line cannot be written.
    lost: u64,
    /// The time of the last event that any client can cause, in full seconds, and the counts of such events within this second.
    refusals: (i64, Refusals),
}

/// Counts of events that any client can cause without a valid credential.
#[derive(Default)]
struct Refusals {
    failed_logins: u64,
    others: u64,
}

impl Waiting {
    /// The reason why the line of an event is left out; `None` if the line is written. A client needs no valid credential to send requests over plain
    /// HTTP, or to cause refusals. So the number of lines for these two kinds of events is limited. Failed logins have a separate limit, because a
    /// flood of other refusals must not hide failed logins. The delay after failed logins keeps each address far below the limit for failed logins.
    fn leaves_out(&mut self, event: &Event, per_second: u64, now: impl Fn() -> i64) -> Option<Loss> {
        if self.events.len() >= EVENTS_MAX {
            return Some(Loss::Queue);
        }
        // An event has a revision only if door 2 granted the request.
        let is_of_anybody = !event.code.is_empty() && event.revision == 0;
        if !is_of_anybody && event.face != PLAIN_HTTP {
            return None;
        }
        let now = now();
        if self.refusals.0 != now {
            self.refusals = (now, Refusals::default());
        }
        let refusals = &mut self.refusals.1;
        let count = match event.is_failed_login {
            true => &mut refusals.failed_logins,
            false => &mut refusals.others,
        };
        *count += 1;
        (*count > per_second).then_some(Loss::Limit)
    }
}

/// The buffers of the writer, which are reused for each write.
#[derive(Default)]
struct Writing {
    events: Vec<Event>,
    text: Vec<u8>,
}

impl AccessLog {
    /// Starts the writer.
    pub(crate) fn start(
        last_used: LastUsed,
        sessions: IssuedSessions,
        refusals_per_second: u64,
    ) -> std::io::Result<Arc<Self>> {
        let log = Arc::new(AccessLog {
            last_used,
            sessions,
            refusals_per_second,
            waiting: Mutex::default(),
            begun: Condvar::new(),
            writing: Mutex::default(),
        });
        let writer = Arc::clone(&log);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            loop {
                let waiting = writer.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                drop(writer.begun.wait_while(waiting, |waiting| waiting.events.is_empty()));
                std::thread::park_timeout(GATHER);
                writer.write();
            }
        })?;
        Ok(log)
    }

    /// Writes all waiting events at once.
    pub(crate) fn write(&self) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Writing { events, text } = &mut *writing;
        let before = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut waiting.events, events);
            std::mem::take(&mut waiting.lost)
        };
        let time = output::time(crate::clock::now().unix_seconds);
        let line = if output::is_for_people() { plain } else { line };
        let count = events.len() as u64;
        let mut lost = before;
        for event in events.drain(..) {
            line(text, &time, &event, std::mem::take(&mut lost));
        }
        let unwritten = log_lines::write(text);
        text.clear();
        if unwritten > 0 {
            // The first line of this write contains the number of lines that were lost before the write. If no line was written, this number must be
            // reported later.
            let before = if unwritten == count { before } else { 0 };
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).lost += unwritten + before;
        }
    }
}

impl Audit for AccessLog {
    fn used(&self, token: &CredentialId, from: IpAddr, now: Clocks) {
        self.last_used.note(token, from, now);
    }

    fn issued(&self, claim: &Claim) {
        self.sessions.note(&record_of(claim));
    }

    fn record(&self, event: Event) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = || crate::clock::now().unix_seconds;
        if let Some(loss) = waiting.leaves_out(&event, self.refusals_per_second, now) {
            waiting.lost += 1;
            log_lines::lose(loss, 1);
            return;
        }
        waiting.events.push(event);
        if waiting.events.len() == 1 {
            drop(waiting);
            self.begun.notify_one();
        }
    }
}

/// Builds the JSON line without a tree of JSON values, because a line is written for every request. Building such a tree would take as much time as
/// all five doors.
fn line(line: &mut Vec<u8>, time: &str, event: &Event, lost_before: u64) {
    let _ = write!(line, r#"{{"event":"request","time":"{time}""#);
    // An event about the server's own work has no request id.
    if event.id != RequestId::default() {
        let _ = write!(line, r#","request":"{}""#, event.id);
    }
    if !event.proxy_id.is_empty() {
        // The id from a proxy contains only letters, digits and `-._`. So it needs no escaping.
        let _ = write!(line, r#","proxy_request":"{}""#, event.proxy_id);
    }
    for (name, text) in [
        (r#","peer":"#, event.peer.as_str()),
        (r#","face":"#, event.face),
        (r#","verb":"#, &event.verb),
        (r#","authid":"#, &event.authid),
        (r#","datastore":"#, &event.datastore),
        (r#","path":"#, &event.path),
        (r#","verdict":"#, event.verdict),
        (r#","door":"#, event.door),
        (r#","code":"#, event.code),
        (r#","fault":"#, event.fault),
        (r#","reason":"#, &event.reason),
    ] {
        line.extend_from_slice(name.as_bytes());
        if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            line.push(b'"');
            line.extend_from_slice(text.as_bytes());
            line.push(b'"');
        } else {
            // Writing to memory never fails.
            let _ = serde_json::to_writer(&mut *line, text);
        }
    }
    let Event { revision, status, bytes, millis, .. } = event;
    let _ = write!(line, r#","revision":{revision},"status":{status},"bytes":{bytes},"millis":{millis}"#);
    let _ = writeln!(line, r#","lost_before":{lost_before}}}"#);
}

/// Builds the line of plain text, for a terminal.
fn plain(line: &mut Vec<u8>, time: &str, event: &Event, lost_before: u64) {
    let Event { peer, verb, authid, status, millis, bytes, .. } = event;
    let authid: &str = if authid.is_empty() { "-" } else { authid };
    let target = match event.datastore.is_empty() {
        true => event.path.clone(),
        false => format!("{}:{}", event.datastore, event.path),
    };
    let reason = match event.code.is_empty() {
        true => String::new(),
        false => format!(" {}: {}", event.code, event.reason),
    };
    let text = format!("{peer} {authid} {verb} {target} {status}{reason}");
    // A terminal obeys control characters. So control characters are escaped.
    let _ = write!(line, "{time} {} {bytes} bytes, {millis} ms", visible(&text));
    let _ = match lost_before {
        0 => writeln!(line),
        lost => writeln!(line, " ({lost} earlier lines were left out)"),
    };
}

/// An implementation of [`Audit`] that drops all events, for commands that ask the doors but serve no client.
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
            id: RequestId(5),
            authid: "a\"b\\@local".into(),
            path: "/x\n\u{1}{}\u{7f}é".into(),
            verdict: "refuse",
            status: 403,
            ..Event::default()
        };
        let mut bytes = Vec::new();
        line(&mut bytes, "2027-01-15T08:00:00Z", &event, 3);
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
        assert_eq!(value["request"], "req-00000000-0000-4000-8000-000000000005");
        assert_eq!(value.as_object().unwrap().len(), 19);
    }

    #[test]
    fn refusals_of_strangers_are_limited_and_nothing_else_is() {
        let stranger = Event { code: "ID01", ..Event::default() };
        let user = Event { code: "AC03", revision: 7, ..Event::default() };
        let granted = Event::default();
        let failed_login = Event { code: "ID05", is_failed_login: true, ..Event::default() };
        let mut waiting = Waiting::default();
        let mut written = |events: &[&Event], second| {
            events.iter().filter(|event| waiting.leaves_out(event, 2, || second).is_none()).count()
        };
        assert_eq!(written(&[&stranger; 5], 1), 2);
        assert_eq!(written(&[&failed_login; 5], 1), 2);
        assert_eq!(written(&[&user, &granted, &stranger, &user], 1), 3);
        assert_eq!(written(&[&stranger; 3], 2), 2);
        let plain_http = Event { face: PLAIN_HTTP, ..Event::default() };
        assert_eq!(written(&[&plain_http; 5], 3), 2);
    }

    #[test]
    fn a_line_for_people_has_no_control_characters() {
        let event = Event {
            peer: "192.0.2.7".into(),
            verb: "GET".into(),
            datastore: "main".into(),
            path: "/x\n\u{1b}[2J\u{202e}é\"".into(),
            code: "AC03",
            reason: "no".into(),
            status: 403,
            ..Event::default()
        };
        let mut bytes = Vec::new();
        plain(&mut bytes, "2027-01-15T08:00:00Z", &event, 0);
        let expected = "2027-01-15T08:00:00Z 192.0.2.7 - GET main:/x\\u{a}\\u{1b}[2J\\u{202e}é\" 403 AC03: no 0 bytes, 0 ms\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
