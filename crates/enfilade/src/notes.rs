//! Queue of a server's log lines to standard error: a thread that logs never waits for the reader.
//!
//! A bounded number of lines waits in memory for one thread that writes them. Lines that do not fit are counted, and the log shows the
//! count in their place.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most lines in the queue.
const LINES_MAX: usize = 4_096;
/// The longest line in the queue, in bytes; a longer one is truncated.
const LINE_BYTES_MAX: usize = 4_096;

/// The queue of this process, once it serves.
static NOTES: OnceLock<Notes> = OnceLock::new();

#[derive(Default)]
struct Notes {
    waiting: Mutex<Waiting>,
    /// Signals the first line in an empty queue.
    begun: Condvar,
    /// Held by the thread that writes, so that lines stay in order.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    /// The number of dropped lines since the last queued one.
    lost: u64,
}

impl Waiting {
    fn push(&mut self, line: &str) {
        if self.lines.len() >= LINES_MAX {
            self.lost += 1;
            return;
        }
        let end = line.floor_char_boundary(LINE_BYTES_MAX);
        self.lines.push_back(format!("{}\n", line.get(..end).unwrap_or_default()));
    }

    /// Empties the queue into one text.
    fn take(&mut self) -> String {
        let mut text: String = self.lines.drain(..).collect();
        match std::mem::take(&mut self.lost) {
            0 => {}
            lost => text.push_str(&format!(
                "warning: {lost} log lines were dropped: standard error was not read fast enough; check the log collector\n"
            )),
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
        let text = self.waiting().take();
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// Starts the writer thread.
pub(crate) fn hand_over() -> std::io::Result<()> {
    let notes = NOTES.get_or_init(Notes::default);
    std::thread::Builder::new().name("notes".into()).spawn(move || {
        loop {
            drop(notes.begun.wait_while(notes.waiting(), |waiting| waiting.lines.is_empty()));
            notes.write();
        }
    })?;
    Ok(())
}

/// Writes the whole queue; this call waits for the reader.
pub(crate) fn write() {
    NOTES.get().into_iter().for_each(Notes::write);
}

/// Writes a line that is not the result of a command to standard error; a server queues it.
pub(crate) fn note(text: &str) {
    let Some(notes) = NOTES.get() else {
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    };
    notes.waiting().push(text);
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
            waiting.push(&n.to_string());
        }
        let text = waiting.take();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[LINES_MAX - 1]), (LINES_MAX + 1, "0", "4095"));
        assert!(lines[LINES_MAX].starts_with("warning: 3 log lines were dropped"), "{}", lines[LINES_MAX]);
        // The count is logged once, and the queue has room again.
        waiting.push(&"é".repeat(LINE_BYTES_MAX));
        assert_eq!(waiting.take().len(), LINE_BYTES_MAX + 1);
    }
}
