//! A progress bar for long work, if standard error is a terminal.

use crate::clock;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The progress bar of one task.
pub(crate) struct Progress {
    what: &'static str,
    /// The time at which the bar was last drawn, in milliseconds since the boot of the machine; `None` without a terminal.
    drawn: Option<u64>,
    has_drawn: bool,
}

/// Milliseconds between two drawings of the bar. If the work takes less time, no bar is drawn.
const STEP: u64 = 200;
const WIDTH: u64 = 30;

impl Progress {
    pub(crate) fn start(what: &'static str) -> Self {
        let drawn = std::io::stderr().is_terminal().then(|| clock::now().tick_millis);
        Progress { what, drawn, has_drawn: false }
    }

    /// Shows the progress: `done` of `all`.
    pub(crate) fn show(&mut self, done: u64, all: u64) {
        // Reading the clock takes longer than processing most records. So the clock is read only for every 1,024th record.
        if done.is_multiple_of(1024) {
            self.at(done, all);
        }
    }

    /// Like [`Progress::show`], for callers that report rarely.
    pub(crate) fn at(&mut self, done: u64, all: u64) {
        let now = clock::now().tick_millis;
        match self.drawn {
            Some(drawn) if drawn + STEP <= now => self.drawn = Some(now),
            _ => return,
        }
        self.has_drawn = true;
        let filled = (done * WIDTH).checked_div(all).unwrap_or(0).min(WIDTH) as usize;
        let bar = "#".repeat(filled) + &".".repeat(WIDTH as usize - filled);
        let _ = write!(std::io::stderr(), "\r{} [{bar}] {done} of {all}", self.what);
    }
}

/// Runs the work, and shows its progress in the meantime.
pub(crate) fn shown<R>(what: &'static str, all: usize, work: impl FnOnce(&AtomicUsize) -> R) -> R {
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut progress = Progress::start(what);
            while !is_over.load(Ordering::Relaxed) {
                progress.at(done.load(Ordering::Relaxed) as u64, all as u64);
                std::thread::park_timeout(Duration::from_millis(STEP / 2));
            }
        });
        let _ends = Ends(&is_over);
        work(&done)
    })
}

/// Stops the thread that draws the bar when this value is dropped. So the thread also stops if the work panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.has_drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
