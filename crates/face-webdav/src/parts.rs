//! Several ranges in one response (RFC 9110 §14.6): `multipart/byteranges`.

use bytes::Bytes;
use enfilade_faces::pieces::{PIECE_BYTES, place_for, read_piece};
use enfilade_faces::{Connection, Cut, Trace, counted};
use enfilade_passage::Reading;
use std::ops::Range;
use tokio::sync::mpsc;

/// The ranges of a response. Each range has a text that is sent before the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The boundary is random. So the author of the file cannot have written the boundary into the file.
    boundary: String,
    parts: Vec<(String, Range<u64>)>,
}

impl Parts {
    pub(crate) fn of(ranges: Vec<Range<u64>>, bytes: u64, kind: &str, boundary: String) -> Self {
        let part = |range: Range<u64>| {
            let (first, last) = (range.start, range.end - 1);
            let before = format!(
                "\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {first}-{last}/{bytes}\r\n\r\n"
            );
            (before, range)
        };
        let parts = ranges.into_iter().map(part).collect();
        Parts { boundary, parts }
    }

    fn end(&self) -> String {
        format!("\r\n--{}--\r\n", self.boundary)
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// The length of the content, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|(before, range)| before.len() as u64 + range.end - range.start);
        parts.sum::<u64>() + self.end().len() as u64
    }
}

/// Sends the parts one after the other. Before each piece, the server checks that the user may still read the file, as in a response with one range.
pub(super) async fn send(
    mut reading: Reading,
    parts: Parts,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    connection: Connection,
    mut trace: Trace,
) {
    let end = parts.end();
    for (before, mut range) in parts.parts {
        let mut piece = Bytes::from(before);
        loop {
            let most = if piece.is_empty() { (range.end - range.start).min(PIECE_BYTES) as u32 } else { 0 };
            let there = place_for(reading, &sender, &connection, &mut trace, most, None);
            let Some((back, place, held)) = there.await else { return };
            reading = back;
            if piece.is_empty() {
                let buffer = Vec::with_capacity(most as usize);
                let mut bytes = match read_piece(reading, range.start, buffer).await {
                    Ok((back, bytes)) => {
                        reading = back;
                        bytes
                    }
                    Err(failure) => {
                        trace.failed(&failure);
                        return place.send(Err(Cut));
                    }
                };
                bytes.truncate(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
                if bytes.is_empty() {
                    // The file became shorter than the length that the response announced.
                    return place.send(Err(Cut));
                }
                range.start += bytes.len() as u64;
                trace.event.bytes += bytes.len() as u64;
                piece = counted(bytes, held);
            }
            place.send(Ok(std::mem::take(&mut piece)));
            if range.is_empty() {
                break;
            }
        }
    }
    if let Some((_, place, _)) = place_for(reading, &sender, &connection, &mut trace, 0, None).await {
        place.send(Ok(Bytes::from(end)));
    }
}
