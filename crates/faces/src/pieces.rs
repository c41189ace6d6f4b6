//! Reads a file's content in pieces. A piece is read only when the channel has a slot for the piece, and only while the user may still read the file.

use crate::blocking_work::blocking;
use crate::body::Cut;
use crate::connection::Connection;
use crate::request_error::Failure;
use crate::trace::Trace;
use bytes::Bytes;
use enfilade_passage::{Reading, Refusal, Turn};
use std::time::Duration;
use tokio::sync::mpsc;

/// The size of a piece, in bytes.
pub const PIECE_BYTES: u64 = 256 * 1024;

/// A client that takes longer than this time for a piece is slow. A slow client gets no reused buffers.
const SLOW: Duration = Duration::from_millis(50);

/// Buffers that are reused after their bytes are sent. Without reuse, every piece of a large file would need a new buffer, and the allocator of this
/// program would overwrite the buffer with zeros when it is freed.
#[derive(Debug)]
pub struct Buffers {
    home: std::sync::mpsc::Sender<Vec<u8>>,
    free: std::sync::mpsc::Receiver<Vec<u8>>,
}

/// A buffer that is being sent.
#[derive(Debug)]
pub struct Lent {
    bytes: Vec<u8>,
    home: std::sync::mpsc::Sender<Vec<u8>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = self.home.send(std::mem::take(&mut self.bytes));
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers::new()
    }
}

impl Buffers {
    /// An empty set of buffers.
    pub fn new() -> Self {
        let (home, free) = std::sync::mpsc::channel();
        Buffers { home, free }
    }

    /// A buffer for reuse (its bytes were sent), or a new buffer. The buffer is empty, with space for one piece.
    pub fn take(&self) -> Vec<u8> {
        let mut buffer = self.free.try_recv().unwrap_or_default();
        buffer.clear();
        buffer.reserve_exact(PIECE_BYTES as usize);
        buffer
    }

    /// Turns a filled buffer into a buffer that is being sent.
    pub fn lend(&self, bytes: Vec<u8>) -> Lent {
        Lent { bytes, home: self.home.clone() }
    }

    /// Drops all free buffers. The buffers that are being sent now are not reused: each is dropped after it is sent. So a client that does not read
    /// keeps no free buffer in memory.
    fn forget(&mut self) {
        *self = Buffers::new();
    }
}

/// Reads the piece of a file that begins at `at`.
///
/// # Errors
/// When the file cannot be read, or the user may no longer read it.
pub async fn read_piece(
    mut reading: Reading,
    at: u64,
    mut buffer: Vec<u8>,
) -> Result<(Reading, Vec<u8>), Failure> {
    blocking(reading.share(), move || {
        reading.read_at(at, &mut buffer)?;
        Ok((reading, buffer))
    })
    .await
}

/// Returns the file if the user may still read the file.
async fn check(mut reading: Reading, trace: &mut Trace) -> Option<Reading> {
    let checked = blocking(reading.share(), move || {
        let still = reading.check();
        Ok::<_, Refusal>((reading, still))
    });
    match checked.await {
        Ok((reading, Ok(()))) => return Some(reading),
        Ok((_, Err(refusal))) => trace.refused(&refusal),
        Err(failure) => trace.failed(&failure),
    }
    None
}

/// Waits until the channel has a slot for the next piece, and the piece fits into the memory that the user's responses may use. `bytes` is the size
/// of the piece; 0 if the piece does not count. `None` if the client disconnected or the user may no longer read.
pub async fn place_for<'s>(
    mut reading: Reading,
    sender: &'s mpsc::Sender<Result<Bytes, Cut>>,
    connection: &Connection,
    trace: &mut Trace,
    bytes: u32,
    mut buffers: Option<&mut Buffers>,
) -> Option<(Reading, mpsc::Permit<'s, Result<Bytes, Cut>>, Option<Turn>)> {
    let share = (bytes > 0).then(|| reading.share());
    let place = async {
        let mut forget = || buffers.as_mut().map_or((), |buffers| buffers.forget());
        let place = match tokio::time::timeout(SLOW, sender.reserve()).await {
            Ok(place) => place.ok()?,
            Err(_) => {
                forget();
                sender.reserve().await.ok()?
            }
        };
        let held = match share.map(|share| share.answer_now(bytes)) {
            None => None,
            Some(Ok(held)) => Some(held),
            Some(Err(share)) => {
                forget();
                tokio::select! {
                    held = share.answer(bytes) => Some(held),
                    () = sender.closed() => return None,
                }
            }
        };
        Some((place, held))
    };
    let mut place = std::pin::pin!(place);
    loop {
        match tokio::time::timeout(Duration::from_secs(1), &mut place).await {
            Ok(there) => return there.map(|(place, held)| (reading, place, held)),
            Err(_) => match check(reading, trace).await {
                Some(still) => reading = still,
                None => {
                    // A client that does not read would never receive an error in the body. So the connection is closed.
                    connection.cut.notify_one();
                    return None;
                }
            },
        }
    }
}
