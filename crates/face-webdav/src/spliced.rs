//! Sends the rest of a large range of a file without copying it: see [`Splices`].

use bytes::Bytes;
use enfilade_faces::{Connection, Cut, PipeSource, Splices, Trace};
use enfilade_passage::{Pipe, Reading, Refusal};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// A file that is sent through a pipe. Before every piece, the server checks that the user may still read the file.
struct Source {
    reading: Reading,
    range: Range<u64>,
    trace: Trace,
}

impl Source {
    /// Checks whether the user may still read the file.
    fn check(&mut self) -> Result<(), Refusal> {
        self.reading.check().inspect_err(|why| self.trace.refused(why))
    }
}

impl PipeSource for Source {
    fn fill(&mut self, pipe: &Pipe) -> io::Result<usize> {
        let Range { start, end } = self.range;
        let filled = self.reading.fill_pipe(start, end - start, pipe);
        let count = filled.map_err(|why| {
            self.trace.refused(&why);
            io::Error::other("the response was cut short")
        })?;
        self.range.start += count;
        self.trace.event.bytes += count;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }
}

/// Adds the range to the queue of [`Splices`]. Checks every second that the user may still read the file, until the range is sent.
pub(super) async fn send(
    reading: Reading,
    range: Range<u64>,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    (connection, splices): (&Connection, &Splices),
    trace: Trace,
) {
    let mut left = range.end - range.start;
    let source = Arc::new(Mutex::new(Source { reading, range, trace }));
    let promised: Arc<Mutex<dyn PipeSource>> = Arc::clone(&source) as _;
    let Some(done) = splices.promise(promised, left) else {
        let _ = sender.send(Err(Cut)).await;
        return;
    };
    loop {
        tokio::select! {
            () = done.notified() => return,
            () = sender.closed() => return,
            place = sender.reserve(), if left > 0 => {
                let Ok(place) = place else { return };
                let placeholder = Splices::placeholder(left);
                left -= placeholder.len() as u64;
                place.send(Ok(placeholder));
            }
            () = tokio::time::sleep(Duration::from_secs(1)) => {
                let source = Arc::clone(&source);
                let check = move || source.lock().unwrap_or_else(PoisonError::into_inner).check().is_ok();
                if !tokio::task::spawn_blocking(check).await.unwrap_or(false) {
                    // A client that does not read would never receive an error in the body. So the connection is closed.
                    return connection.cut.notify_one();
                }
            }
        }
    }
}
