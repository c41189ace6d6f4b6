//! A bar for whatever takes more than a moment, where somebody is looking.

use crate::clock;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How far something is.
pub(crate) struct Progress {
    what: &'static str,
    /// When it was last drawn; `None` where nobody looks.
    drawn: Option<u64>,
    has_drawn: bool,
}

/// Milliseconds between two drawings; what is done sooner draws nothing.
const STEP: u64 = 200;
const WIDTH: u64 = 30;

impl Progress {
    pub(crate) fn start(what: &'static str) -> Self {
        let drawn = std::io::stderr().is_terminal().then(|| clock::now().tick_millis);
        Progress { what, drawn, has_drawn: false }
    }

    /// So many of so many are done.
    pub(crate) fn show(&mut self, done: u64, all: u64) {
        // Asking for the time costs more than most records do.
        if done.is_multiple_of(1024) {
            self.at(done, all);
        }
    }

    /// The same, for whoever does not ask often.
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

/// Does something, and shows meanwhile how much of it is done.
pub(crate) fn beside<R>(what: &'static str, all: usize, work: impl FnOnce(&AtomicUsize) -> R) -> R {
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

/// Whatever becomes of the work, nobody goes on drawing.
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
