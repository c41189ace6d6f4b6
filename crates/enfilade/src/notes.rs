//! The queue of a server's log lines to standard error. With the queue, a thread that logs never waits for the program that reads standard error. On
//! a terminal a line is plain text. If standard error is not a terminal, a line is JSON, like the lines about requests and changes.
//!
//! A limited number of lines waits in memory for the thread that writes them. Lines that do not fit are dropped and counted, and the log contains
//! their number instead.

use crate::clock;
use crate::log_lines::{self, Loss};
use enfilade_facts::vocabulary::{shortened, to_rfc3339, visible_lines};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The maximum number of lines in the queue.
const LINES_MAX: usize = 4_096;
/// The maximum length of a line in the queue, in bytes. A longer line is truncated.
const LINE_BYTES_MAX: usize = 4_096;

/// The queue of this process. Only a server has a queue.
static NOTES: OnceLock<Notes> = OnceLock::new();

#[derive(Default)]
struct Notes {
    waiting: Mutex<Waiting>,
    /// The thread that writes lines waits for this notification. The notification is sent when a line is added to the queue.
    begun: Condvar,
    /// A thread holds this lock while it writes lines, so that the lines stay in order.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    /// The number of lines that were dropped since the queue was last emptied.
    lost: u64,
}

impl Waiting {
    fn push(&mut self, line: String) {
        if self.lines.len() >= LINES_MAX {
            self.lost += 1;
            log_lines::lose(Loss::Queue, 1);
            return;
        }
        self.lines.push_back(line);
    }

    /// Removes all lines from the queue, and returns them as one text.
    fn take(&mut self) -> String {
        let mut text: String = self.lines.drain(..).collect();
        match std::mem::take(&mut self.lost) {
            0 => {}
            lost => text.push_str(&line(&format!(
                "warning: {lost} log lines were dropped: standard error could not be written, or was not read fast enough; check the disk of the log, and the log \
                 collector"
            ))),
        }
        text
    }
}

impl Notes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, text) = {
            let mut waiting = self.waiting();
            (waiting.lost, waiting.take())
        };
        let unwritten = log_lines::write(text.as_bytes());
        if unwritten > 0 {
            // If lines were lost before, the last line of the text is the warning about them. This warning is among the unwritten lines, but does
            // not count as a lost line.
            let last = u64::from(before > 0);
            self.waiting().lost += before + unwritten - last;
        }
    }
}

/// Whether people read the log of a server directly. This is assumed if standard error is a terminal.
pub(crate) fn is_for_people() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| std::io::stderr().is_terminal())
}

/// A line of the log of a server.
fn line(text: &str) -> String {
    let text = &shortened(text, LINE_BYTES_MAX);
    if is_for_people() {
        format!("{}\n", visible_lines(text))
    } else {
        as_json(text, clock::now().unix_seconds)
    }
}

fn as_json(text: &str, time: i64) -> String {
    let known = ["warning", "error"];
    let found =
        known.into_iter().find_map(|event| Some((event, text.strip_prefix(event)?.strip_prefix(": ")?)));
    let (event, message) = found.unwrap_or(("note", text));
    format!("{}\n", json!({ "event": event, "time": to_rfc3339(time), "message": message }))
}

/// Creates the queue. The lines of the queue wait until [`start`] or [`write`] is called.
pub(crate) fn hand_over() {
    NOTES.get_or_init(Notes::default);
}

/// Starts the thread that writes the lines of the queue.
pub(crate) fn start() -> std::io::Result<()> {
    let notes = NOTES.get_or_init(Notes::default);
    std::thread::Builder::new().name("notes".into()).spawn(move || {
        loop {
            drop(notes.begun.wait_while(notes.waiting(), |waiting| waiting.lines.is_empty()));
            notes.write();
        }
    })?;
    Ok(())
}

/// Writes the whole queue. This call waits for the program that reads standard error.
pub(crate) fn write() {
    NOTES.get().into_iter().for_each(Notes::write);
}

/// Writes a note or warning to standard error. In a server, this function only adds the text to the queue.
pub(crate) fn note(text: &str) {
    let Some(notes) = NOTES.get() else {
        let _ = writeln!(std::io::stderr(), "{}", visible_lines(text));
        return;
    };
    notes.waiting().push(line(text));
    notes.begun.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_wait_and_the_others_are_counted() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.take(), "");
        for n in 0..LINES_MAX + 3 {
            waiting.push(format!("{n}\n"));
        }
        let text = waiting.take();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[LINES_MAX - 1]), (LINES_MAX + 1, "0", "4095"));
        assert!(lines[LINES_MAX].contains("3 log lines were dropped"), "{}", lines[LINES_MAX]);
        // The number of dropped lines is logged only once. The queue is empty now, and accepts lines again.
        waiting.push(line(&"é".repeat(LINE_BYTES_MAX)));
        let text = waiting.take();
        assert!(text.contains("é…") && text.matches('é').count() == LINE_BYTES_MAX / 2, "{text}");
    }

    #[test]
    fn a_line_is_one_json_object_with_its_kind() {
        for (text, event, message) in [
            ("warning: `a` is\n\"odd\"", "warning", "`a` is\n\"odd\""),
            ("error: no", "error", "no"),
            ("reloaded: 1 certificates", "note", "reloaded: 1 certificates"),
        ] {
            let line = as_json(text, 1_800_000_000);
            assert_eq!(line.lines().count(), 1);
            let expected = json!({ "event": event, "time": "2027-01-15T08:00:00Z", "message": message });
            assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), expected);
        }
    }
}
