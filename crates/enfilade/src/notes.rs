//! Notes of a server, on their way to standard error: nobody who has something to say waits until somebody reads it.
//!
//! Lines wait in memory, so many at most, for one thread that writes them. What finds no place is counted, and the count stands in the
//! log where the lines would stand.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many lines wait for the writer at most.
const LINES_MAX: usize = 4_096;
/// How long a line may be that waits, in bytes; the rest of a longer one is left out.
const LINE_BYTES_MAX: usize = 4_096;

/// The notes of this process, once it serves.
static NOTES: OnceLock<Notes> = OnceLock::new();

#[derive(Default)]
struct Notes {
    waiting: Mutex<Waiting>,
    /// There is a line where there was none.
    begun: Condvar,
    /// Held by the thread that writes, so that lines stay in order.
    writing: Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    /// How many found no place since the last one that did.
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

    /// Everything that waits as one text, and nothing waits after this.
    fn take(&mut self) -> String {
        let mut text: String = self.lines.drain(..).collect();
        match std::mem::take(&mut self.lost) {
            0 => {}
            lost => text.push_str(&format!(
                "warning: {lost} more notes were not written and are lost: standard error was not read fast enough; check the log collector\n"
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

/// From now on notes wait for a thread of their own.
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

/// Writes every note that waits; this does wait for the reader.
pub(crate) fn write() {
    NOTES.get().into_iter().for_each(Notes::write);
}

/// A line for people that is no result.
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
        assert!(
            lines[LINES_MAX].starts_with("warning: 3 more notes were not written"),
            "{}",
            lines[LINES_MAX]
        );
        // Said once, and there is room again.
        waiting.push(&"é".repeat(LINE_BYTES_MAX));
        assert_eq!(waiting.take().len(), LINE_BYTES_MAX + 1);
    }
}
