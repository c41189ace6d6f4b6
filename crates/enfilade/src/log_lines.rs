//! Writes lines of a server's log to standard error, and counts the lost lines for the metrics.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason why a line was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Too many lines waited.
    Queue,
    /// There were too many failed logins, or too many other events that any client can cause (refusals without a valid credential, plain HTTP).
    Limit,
    /// The write to standard error failed.
    Write,
}

/// The numbers of lines that this process lost, in the order of [`Loss`].
static LOST: [AtomicU64; CAUSES.len()] = [const { AtomicU64::new(0) }; CAUSES.len()];
/// The words for [`Loss`] in the metrics, in the order of its variants.
const CAUSES: [&str; 3] = ["queue", "limit", "write"];

/// Counts lost lines.
pub(crate) fn lose(loss: Loss, count: u64) {
    if let Some(lost) = LOST.get(loss as usize) {
        lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// The numbers of lines that this process lost until now, by cause.
pub(crate) fn lost() -> Vec<(&'static str, u64)> {
    CAUSES.into_iter().zip(LOST.iter().map(|lost| lost.load(Ordering::Relaxed))).collect()
}

/// Writes whole lines. Returns how many lines at the end of the text were not written.
pub(crate) fn write(text: &[u8]) -> u64 {
    let unwritten = write_to(&mut std::io::stderr().lock(), text);
    lose(Loss::Write, unwritten);
    unwritten
}

fn write_to(out: &mut impl Write, text: &[u8]) -> u64 {
    let mut rest = text;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(0) => break,
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // A line that was written only in part counts as lost.
    rest.split(|byte| *byte == b'\n').count() as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with space for this number of bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let count = bytes.len().min(self.0).min(2);
            self.0 -= count;
            if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_are_not_written_to_their_end_are_counted() {
        let text = b"one\ntwo\nthree\n";
        for (room, lost) in [(0, 3), (3, 3), (4, 2), (7, 2), (8, 1), (13, 1), (14, 0)] {
            assert_eq!(write_to(&mut Disk(room), text), lost, "room for {room} bytes");
        }
        assert_eq!(write_to(&mut Disk(0), b""), 0);
    }

    #[test]
    fn lost_lines_are_counted_by_their_cause() {
        let before = lost();
        lose(Loss::Queue, 1_000);
        lose(Loss::Limit, 2_000);
        lose(Loss::Write, 4_000);
        // Other tests may lose some lines at the same time.
        let more =
            lost().into_iter().zip(before).map(|((cause, now), (_, then))| (cause, (now - then) / 1_000));
        assert_eq!(more.collect::<Vec<_>>(), [("queue", 1), ("limit", 2), ("write", 4)]);
    }
}
