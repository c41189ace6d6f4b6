//! PUT: writes a hidden file, then renames it in one step.

use super::blocking_work::{blocking, blocking_failure};
use super::conditions::RequestConditions;
use super::digest::{self, Running};
use super::{Call, empty, end};
use enfilade_faces::{Aim, Answer, Failure, Received, RequestError, Trace};
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, Refusal, Uploading};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::header::{CONTENT_RANGE, ETAG, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use std::time::Duration;

/// The size of the write buffer, in bytes. The buffer is large because each write needs a thread that may block.
const PIECE_BYTES: usize = 256 * 1024;

pub(crate) async fn put(call: Call) -> Answer {
    let Call { visit, place, request, mut trace, .. } = call;
    let Limits { upload_bytes_per_second, progress_seconds, .. } = visit.limits();
    let pace = Pace {
        window: Duration::from_secs(progress_seconds),
        least: upload_bytes_per_second * progress_seconds,
    };
    // RFC 9110 §14.4: a PUT with only a part of the content is refused, because it would replace the whole resource.
    if request.headers().contains_key(CONTENT_RANGE) {
        return end(trace, Err(RequestError::Header("Content-Range").into()), Aim::File);
    }
    // A URL with a slash at the end names a collection. Collections are created with MKCOL, not with PUT (RFC 4918 §9.7.2).
    if request.uri().path().ends_with('/') {
        return end(trace, Err(RequestError::Method.into()), Aim::File);
    }
    let (head, body) = request.into_parts();
    // A client that sends the body in chunks, such as Finder, may declare the length in this header.
    let said =
        head.headers.get("x-expected-entity-length").and_then(|value| value.to_str().ok()?.parse().ok());
    let expected = body.size_hint().exact().or(said);
    let outcome = async {
        let conditions = RequestConditions::of(&head)?;
        let (begun, conditions, place) = blocking_failure(visit.share(), move || {
            let mut stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
            let tokens = conditions.check(&mut stay, &place)?;
            let mut begun = stay.upload(place.path.clone(), expected)?;
            begun.unless_locked(tokens)?;
            Ok((begun, conditions, place))
        })
        .await?;
        trace.event.revision = begun.revision();
        let replaces = begun.existing().is_some();
        let (made, digests) = (made(&head.headers)?, digest::asked(&head.headers)?);
        let (mut uploading, digests, last) = receive(begun, body, digests, pace, &mut trace).await?;
        let meta = blocking_failure(uploading.share(), move || {
            let digests = add(digests, &last);
            if !digests.into_iter().all(Running::holds) {
                return Err(RequestError::Digest.into());
            }
            uploading.write(&last)?;
            made.map(|seconds| uploading.set_modified(seconds)).transpose()?;
            // The conditions are checked again, because another request may have changed the resource during the upload.
            uploading.finish_if(|stay| conditions.check(stay, &place).map(drop))
        })
        .await?;
        let mut answer = empty(if replaces { StatusCode::NO_CONTENT } else { StatusCode::CREATED });
        if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", meta.validator())) {
            answer.headers_mut().insert(ETAG, etag);
        }
        if made.is_some() {
            answer.headers_mut().insert("x-oc-mtime", HeaderValue::from_static("accepted"));
        }
        Ok(answer)
    };
    let outcome = outcome.await;
    end(trace, outcome, Aim::File)
}

/// The modification time in the header of ownCloud's clients.
fn made(headers: &HeaderMap) -> Result<Option<i64>, RequestError> {
    let Some(value) = headers.get("x-oc-mtime") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let seconds = text.split('.').next().unwrap_or_default().parse().ok();
    let is_possible = |seconds: &i64| (0..=253_402_300_799).contains(seconds);
    seconds.filter(is_possible).map(Some).ok_or(RequestError::Header("X-OC-Mtime"))
}

/// The lowest accepted speed of an upload: the client must send at least `least` bytes in each window of time.
#[derive(Clone, Copy)]
struct Pace {
    window: Duration,
    least: u64,
}

fn add(mut digests: Vec<Running>, piece: &[u8]) -> Vec<Running> {
    digests.iter_mut().for_each(|digest| digest.add(piece));
    digests
}

/// Writes the body to the file, except the last bytes: these are returned, so that a small file needs no thread of its own to be written.
async fn receive(
    mut uploading: Uploading,
    mut body: Received,
    mut digests: Vec<Running>,
    pace: Pace,
    trace: &mut Trace,
) -> Result<(Uploading, Vec<Running>, Vec<u8>), Failure> {
    let (mut gathered, mut lately) = (Vec::new(), 0);
    let window = || tokio::time::sleep(pace.window);
    let slow = window();
    tokio::pin!(slow);
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = &mut slow => {
                if lately < pace.least {
                    return Err(RequestError::BodySlow.into());
                }
                lately = 0;
                slow.set(window());
                continue;
            }
        };
        let frame = match frame {
            Some(Ok(frame)) => Some(frame),
            None => None,
            // The received bytes are discarded with the upload.
            Some(Err(_)) => return Err(RequestError::BodyBroken.into()),
        };
        let Some(frame) = frame else { return Ok((uploading, digests, gathered)) };
        if let Ok(data) = frame.into_data() {
            trace.event.bytes += data.len() as u64;
            lately += data.len() as u64;
            gathered.extend_from_slice(&data);
        }
        if gathered.len() >= PIECE_BYTES {
            let piece = std::mem::take(&mut gathered);
            (uploading, digests) = blocking(uploading.share(), move || {
                uploading.write(&piece)?;
                Ok::<_, Refusal>((uploading, add(digests, &piece)))
            })
            .await?;
        }
    }
}
