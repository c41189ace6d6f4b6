//! GET and HEAD.

use super::conditions::{Preconditions, preconditions};
use super::parts::{self, Parts};
use super::range::{Asked, asked};
use super::read_buffer::ReadBuffer;
use super::spliced;
use super::{Call, ResourcePath, content_type, digest, empty, end};
use bytes::Bytes;
use enfilade_faces::pieces::{Buffers, PIECE_BYTES, place_for, read_piece};
use enfilade_faces::{
    Aim, Answer, Body, Connection, Cut, Failure, RequestError, Trace, UNCOUNTED_BYTES, blocking_failure,
    counted,
};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, Cached, CachedOnly, ContentRefusal, Patience, Reading, Refusal, Visit};
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue,
    IF_RANGE, LAST_MODIFIED, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode, Version};
use std::ops::Range;
use tokio::sync::mpsc;

/// If more bytes than this number remain to be sent after the first piece of a range, the remaining bytes are sent through a pipe. For fewer bytes, a
/// pipe takes more time than it saves.
const PIPED_BYTES_MIN: u64 = 4 * PIECE_BYTES;

/// Whether the response has content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// The content is sent, for GET.
    Sent,
    /// The content is left out, for HEAD.
    Left,
}

pub(crate) async fn get(call: Call, content: Content) -> Answer {
    let Call { visit, connection, place, request, mut trace } = call;
    let (parts, _) = request.into_parts();
    // An HTTP/1.1 connection has only one response in memory. An HTTP/2 connection can have many responses in memory, even if the client does not
    // read them. So responses over HTTP/2 count against the user's share of memory.
    let counts = parts.version == Version::HTTP_2;
    let is_of_collection = parts.uri.path().ends_with('/');
    // If the file is in memory, this thread serves it at once, because this is faster than waking another thread.
    let begun = match begin(visit.clone(), &place, &parts.headers, (content, counts), CachedOnly) {
        Ok(Cached::Ready(begun)) => Ok(begun),
        // If the disk must be read, one blocking task opens the file and reads the first piece. So a file of one piece needs no further task.
        Ok(Cached::WouldWait) => {
            blocking_failure(visit.share(), move || {
                begin(visit, &place, &parts.headers, (content, counts), Blocking)
            })
            .await
        }
        Err(failure) => Err(failure),
    };
    let (reading, mut answer, first) = match begun {
        // The URL of a file does not end with a slash (RFC 4918 §5.2).
        Ok(_) if is_of_collection => return end(trace, Err(RequestError::NoRoute.into()), Aim::Target),
        Ok(begun) => begun,
        // Clients check with HEAD whether a directory exists. So the status for a directory is 200, and the response has no content.
        Err(Failure::Refused(Refusal::Content(ContentRefusal::WrongKind { .. })))
            if content == Content::Left =>
        {
            return end(trace, Ok(empty(StatusCode::OK)), Aim::Target);
        }
        Err(failure) => return end(trace, Err(failure), Aim::Target),
    };
    trace.event.revision = reading.revision();
    trace.answered(&answer);
    let (sender, pieces) = mpsc::channel(1);
    match first {
        Sent::Nothing => {}
        Sent::Whole(piece) => {
            trace.event.bytes = piece.len() as u64;
            *answer.body_mut() = Body::from(piece);
        }
        Sent::Begun(piece, rest) => {
            trace.event.bytes = piece.len() as u64;
            *answer.body_mut() = Body::stream(pieces);
            tokio::spawn(send(reading, piece, rest, sender, connection, trace));
        }
        Sent::Parts(parts) => {
            *answer.body_mut() = Body::stream(pieces);
            tokio::spawn(parts::send(reading, parts, sender, connection, trace));
        }
    }
    answer
}

/// A file that is being sent: its reader, the head of the response, and the content.
type Begun = (Reading, Answer, Sent);

/// The content that follows the head.
enum Sent {
    Nothing,
    /// All content.
    Whole(Bytes),
    /// The first bytes, and the range that follows.
    Begun(Bytes, Range<u64>),
    /// Several ranges.
    Parts(Parts),
}

/// The head of a response, and its first piece.
fn begin<P: Patience>(
    visit: Visit,
    place: &ResourcePath,
    headers: &HeaderMap,
    (content, counts): (Content, bool),
    patience: P,
) -> Result<P::Of<Begun>, Failure> {
    let stay = visit.enter(&place.datastore, OperationKind::Read, patience)?;
    let reading = P::and_then(stay, |stay| stay.read(&place.path, patience))?;
    P::and_then(reading, |mut reading| {
        let (mut answer, wanted) = head(&reading, headers, content)?;
        let range = match wanted {
            _ if content == Content::Left => return Ok(P::ready((reading, answer, Sent::Nothing))),
            Wanted::Part(range) if !range.is_empty() => range,
            Wanted::Part(_) | Wanted::Nothing => return Ok(P::ready((reading, answer, Sent::Nothing))),
            Wanted::Parts(parts) => return Ok(P::ready((reading, answer, Sent::Parts(parts)))),
        };
        let most = range.end.min(range.start + PIECE_BYTES);
        let wanted = usize::try_from(most - range.start).unwrap_or(0);
        let whole = reading.meta().bytes;
        // The server computes the digest only for a file of one piece, because such a file is completely in memory.
        let add_digest = |answer: &mut Answer, piece: &Bytes| {
            if piece.len() as u64 == whole
                && let Some(digest) = digest::wanted(headers, piece)
            {
                answer.headers_mut().insert("repr-digest", digest);
            }
        };
        let place = match counts && wanted > UNCOUNTED_BYTES {
            false => None,
            true => match reading.share().answer_now(PIECE_BYTES as u32) {
                // The user's share of memory is used up, because the user's clients have not read other responses yet. The piece is read now, because
                // its digest is needed now. The piece is read again when it can be sent.
                Err(_) if wanted as u64 == whole && headers.contains_key(digest::WANTED) => {
                    return P::and_then(first_piece::<P>(&mut reading, range.start, wanted)?, |piece| {
                        add_digest(&mut answer, &piece);
                        Ok(P::ready((reading, answer, Sent::Begun(Bytes::new(), range))))
                    });
                }
                Err(_) => return Ok(P::ready((reading, answer, Sent::Begun(Bytes::new(), range)))),
                Ok(place) => Some(place),
            },
        };
        P::and_then(first_piece::<P>(&mut reading, range.start, wanted)?, |piece| {
            let piece = match place {
                Some(place) => counted(piece, place),
                None => piece,
            };
            // If the file became shorter after it was opened, the response is cut short when the rest is read.
            let rest = range.start + piece.len() as u64..range.end;
            if !rest.is_empty() {
                return Ok(P::ready((reading, answer, Sent::Begun(piece, rest))));
            }
            add_digest(&mut answer, &piece);
            Ok(P::ready((reading, answer, Sent::Whole(piece))))
        })
    })
}

/// Reads up to `bytes` bytes from `offset`.
fn first_piece<P: Patience>(
    reading: &mut Reading,
    offset: u64,
    bytes: usize,
) -> Result<P::Of<Bytes>, Refusal> {
    P::choose(
        reading,
        |reading| {
            let mut piece = Vec::with_capacity(bytes);
            reading.read_at(offset, &mut piece)?;
            piece.truncate(bytes);
            Ok(piece.into())
        },
        |reading| {
            let mut buffer = ReadBuffer::of(bytes);
            Ok(match reading.read_cached(offset, buffer.get(bytes))? {
                Cached::Ready(filled) => Cached::Ready(buffer.filled(filled)),
                Cached::WouldWait => Cached::WouldWait,
            })
        },
    )
}

/// The bytes that follow a head.
enum Wanted {
    Nothing,
    Part(Range<u64>),
    Parts(Parts),
}

/// Status and headers, and the bytes that follow.
fn head(reading: &Reading, headers: &HeaderMap, content: Content) -> Result<(Answer, Wanted), Failure> {
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
    match preconditions(headers, Some((Some(&meta.validator()), Some(meta.modified.0))), true) {
        Preconditions::Hold => {}
        Preconditions::NotModified => {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok((answer, Wanted::Nothing));
        }
        Preconditions::Fail => return Err(RequestError::Condition.into()),
    }
    let kind = content_type::of(reading.name());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A user who may write a file must not be able to run scripts in the origin of this server. So these headers forbid the browser to run scripts
    // and to guess the type.
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // If the check of `If-Range` fails, the whole file is sent. Otherwise the client could combine ranges of two versions of the file.
    let is_wanted = content == Content::Sent && text(IF_RANGE).is_none_or(|tag| tag.trim() == etag);
    // Only GET has ranges (RFC 9110 §14.2).
    let range = text(RANGE).filter(|_| is_wanted);
    let range = match asked(range, meta.bytes, reading.limits().ranges) {
        Asked::Whole => 0..meta.bytes,
        Asked::Outside => return Err(RequestError::Range(meta.bytes).into()),
        Asked::Part(range) => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, meta.bytes);
            put(&mut answer, CONTENT_RANGE, value);
            range
        }
        Asked::Parts(ranges) => {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
            let parts = Parts::of(ranges, meta.bytes, kind, reading.random().ok_or(RequestError::Worker)?);
            put(&mut answer, CONTENT_TYPE, parts.content_type());
            put(&mut answer, CONTENT_LENGTH, parts.bytes().to_string());
            return Ok((answer, Wanted::Parts(parts)));
        }
    };
    put(&mut answer, CONTENT_LENGTH, (range.end - range.start).to_string());
    Ok((answer, Wanted::Part(range)))
}

/// Sends the first piece, and then reads and sends the other pieces. Before every piece, and every second while the client is slow, the server checks
/// that the user may still read the file. A piece is read only when the channel has a slot. So the server holds no further pieces in memory for a
/// client that does not read.
async fn send(
    mut reading: Reading,
    piece: Bytes,
    mut range: Range<u64>,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    connection: Connection,
    mut trace: Trace,
) {
    if !piece.is_empty() {
        let Some((back, place, _)) = place_for(reading, &sender, &connection, &mut trace, 0, None).await
        else {
            return;
        };
        place.send(Ok(piece));
        reading = back;
    }
    // Without TLS, the kernel sends the rest of the range if the rest is longer than `PIPED_BYTES_MIN`.
    if let Some(splices) = connection.splices.clone().filter(|_| range.end - range.start > PIPED_BYTES_MIN) {
        return spliced::send(reading, range, sender, (&connection, &splices), trace).await;
    }
    let mut buffers = Buffers::new();
    while !range.is_empty() {
        let there =
            place_for(reading, &sender, &connection, &mut trace, PIECE_BYTES as u32, Some(&mut buffers));
        let Some((back, place, held)) = there.await else { return };
        let piece = match read_piece(back, range.start, buffers.take()).await {
            Ok((back, mut bytes)) => {
                reading = back;
                bytes.truncate(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
                counted(buffers.lend(bytes), held)
            }
            Err(failure) => {
                trace.failed(&failure);
                return place.send(Err(Cut));
            }
        };
        if piece.is_empty() {
            // The file became shorter than the length that the response announced.
            return place.send(Err(Cut));
        }
        range.start += piece.len() as u64;
        trace.event.bytes += piece.len() as u64;
        place.send(Ok(piece));
    }
}
