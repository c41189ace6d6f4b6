//! GET and HEAD.

use super::range::{Asked, asked};
use super::{Call, blocking, end};
use crate::body::{Body, Cut};
use crate::respond::{Aim, Answer, Failure, Wire};
use crate::serve::{Connection, Incoming};
use crate::trace::Trace;
use bytes::Bytes;
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Reading, Refusal};
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, IF_RANGE,
    LAST_MODIFIED, RANGE,
};
use hyper::{HeaderMap, Response, StatusCode};
use std::ops::Range;
use std::time::Duration;
use tokio::sync::mpsc;

/// How much is read at once, in bytes.
const PIECE_BYTES: u64 = 256 * 1024;

/// Whether the bytes go out, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// GET.
    Sent,
    /// HEAD.
    Left,
}

pub(crate) async fn get<B: Incoming>(call: Call<B>, content: Content) -> Answer {
    let Call { visit, connection, place, request, mut trace } = call;
    let opened = blocking(move || visit.enter(&place.datastore, OperationKind::Read)?.read(place.path)).await;
    let reading = match opened {
        Ok(reading) => reading,
        Err(failure) => return end(trace, Err(failure), Aim::Target),
    };
    trace.event.revision = reading.revision();
    let (mut answer, range) = match head(&reading, request.headers()) {
        Ok(head) => head,
        Err(failure) => return end(trace, Err(failure), Aim::Target),
    };
    trace.answered(&answer);
    let Some(range) = range.filter(|range| content == Content::Sent && !range.is_empty()) else {
        return answer;
    };
    // A file that fits into one piece needs no task.
    let end_of_first = range.end.min(range.start + PIECE_BYTES);
    match read_piece(reading, range.start..end_of_first).await {
        Ok((reading, piece)) => {
            trace.event.bytes = piece.len() as u64;
            if end_of_first == range.end {
                *answer.body_mut() = Body::from(piece);
                return answer;
            }
            let (sender, pieces) = mpsc::channel(1);
            *answer.body_mut() = Body::Stream(pieces);
            tokio::spawn(send(reading, piece, end_of_first..range.end, sender, connection, trace));
            answer
        }
        Err(failure) => end(trace, Err(failure), Aim::Target),
    }
}

/// Status and headers, and which bytes are to follow.
fn head(reading: &Reading, headers: &HeaderMap) -> Result<(Answer, Option<Range<u64>>), Failure> {
    let meta = reading.meta();
    let etag = format!("\"{}\"", meta.validator());
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let mut answer = Response::new(Body::empty());
    let put = |answer: &mut Answer, name, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.headers_mut().insert(name, value);
        }
    };
    put(&mut answer, ETAG, etag.clone());
    put(&mut answer, LAST_MODIFIED, super::multistatus::http_date(meta.modified.0));
    answer.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if text(IF_NONE_MATCH)
        .is_some_and(|tags| tags.trim() == "*" || tags.split(',').any(|tag| weak(tag) == etag))
    {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok((answer, None));
    }
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // A range of another version of the file would be glued to the wrong bytes.
    let range = text(RANGE).filter(|_| text(IF_RANGE).is_none_or(|tag| tag.trim() == etag));
    let range = match asked(range, meta.bytes) {
        Asked::Whole => 0..meta.bytes,
        Asked::Outside => return Err(Wire::Range(meta.bytes).into()),
        Asked::Part(range) => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, meta.bytes);
            put(&mut answer, CONTENT_RANGE, value);
            range
        }
    };
    put(&mut answer, CONTENT_LENGTH, (range.end - range.start).to_string());
    Ok((answer, Some(range)))
}

/// Weak comparison (RFC 9110 §8.8.3.2) ignores the mark.
fn weak(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/")
}

async fn read_piece(mut reading: Reading, range: Range<u64>) -> Result<(Reading, Bytes), Failure> {
    blocking(move || {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match reading.read_at(range.start + filled as u64, rest)? {
                0 => break,
                read => filled += read,
            }
        }
        buffer.truncate(filled);
        Ok((reading, Bytes::from(buffer)))
    })
    .await
}

/// Sends the first piece and reads on, asking the doors again before every piece, and every second while the client is
/// slow to take one.
async fn send(
    mut reading: Reading,
    mut piece: Bytes,
    mut range: Range<u64>,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    connection: Connection,
    mut trace: Trace,
) {
    loop {
        reading = match hand_over(reading, piece, &sender, &mut trace).await {
            Ok(reading) => reading,
            Err(NotTaken::Gone) => return,
            Err(NotTaken::Refused) => {
                // The client does not read, so an error in the body would never reach it.
                connection.cut.notify_one();
                return;
            }
        };
        if range.is_empty() {
            return;
        }
        let end = range.end.min(range.start + PIECE_BYTES);
        match read_piece(reading, range.start..end).await {
            Ok((back, bytes)) if !bytes.is_empty() => {
                range.start += bytes.len() as u64;
                trace.event.bytes += bytes.len() as u64;
                (reading, piece) = (back, bytes);
            }
            Ok(_) => {
                // The file got shorter than the length that was promised.
                let _ = sender.send(Err(Cut)).await;
                return;
            }
            Err(failure) => {
                trace.failed(&failure);
                let _ = sender.send(Err(Cut)).await;
                return;
            }
        }
    }
}

/// Why a piece was not taken.
enum NotTaken {
    /// The client went away.
    Gone,
    /// The visitor may no longer read.
    Refused,
}

async fn hand_over(
    mut reading: Reading,
    piece: Bytes,
    sender: &mpsc::Sender<Result<Bytes, Cut>>,
    trace: &mut Trace,
) -> Result<Reading, NotTaken> {
    loop {
        match tokio::time::timeout(Duration::from_secs(1), sender.reserve()).await {
            Ok(Ok(place)) => {
                place.send(Ok(piece));
                return Ok(reading);
            }
            Ok(Err(_)) => return Err(NotTaken::Gone),
            Err(_) => {
                let checked = blocking(move || {
                    let still = reading.check();
                    Ok::<_, Refusal>((reading, still))
                });
                match checked.await {
                    Ok((back, Ok(()))) => reading = back,
                    Ok((_, Err(refusal))) => {
                        trace.refused(&refusal);
                        return Err(NotTaken::Refused);
                    }
                    Err(failure) => {
                        trace.failed(&failure);
                        return Err(NotTaken::Refused);
                    }
                }
            }
        }
    }
}
