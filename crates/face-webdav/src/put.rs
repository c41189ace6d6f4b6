//! PUT: writes a hidden file, and then renames the file in one step.

use super::conditions::RequestConditions;
use super::digest::{self, Running};
use super::{Call, ResourcePath, empty, end};
use enfilade_faces::{Aim, Answer, Arriving, Failure, RequestError, Trace, blocking, blocking_failure};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, Meta, Refusal, Uploading, Visit};
use hyper::body::Body as _;
use hyper::header::{CONTENT_RANGE, ETAG, EXPECT, HeaderValue};
use hyper::{HeaderMap, StatusCode};

/// The size of the write buffer, in bytes. The buffer is large, because each write is a separate task on a blocking thread.
const PIECE_BYTES: usize = 256 * 1024;

/// The size in bytes of the largest body that is received completely before the operation in the datastore begins. For such a body, one thread does
/// all the work of the upload, and no operation waits for the client.
const WHOLE_BYTES_MAX: u64 = 64 * 1024;

/// An upload as the request describes it.
struct Asked {
    place: ResourcePath,
    conditions: RequestConditions,
    headers: HeaderMap,
    /// The size in bytes that the client announced; `None` if the client announced no size.
    expected: Option<u64>,
}

pub(crate) async fn put(call: Call) -> Answer {
    let Call { visit, place, request, mut trace, .. } = call;
    let limits = visit.limits();
    // RFC 9110 §14.4: a PUT with only a part of the content is refused. Otherwise the part would replace the whole resource.
    if request.headers().contains_key(CONTENT_RANGE) {
        return end(trace, Err(RequestError::Header("Content-Range").into()), Aim::File);
    }
    // A URL with a slash at the end names a collection. Clients create collections with MKCOL, and not with PUT (RFC 4918 §9.7.2).
    if request.uri().path().ends_with('/') {
        return end(trace, Err(RequestError::Method.into()), Aim::File);
    }
    let (head, body) = request.into_parts();
    // Some clients, such as Finder, send the body in chunks. They may declare the length of the body in `X-Expected-Entity-Length`.
    let said =
        head.headers.get("x-expected-entity-length").and_then(|value| value.to_str().ok()?.parse().ok());
    let exact = body.size_hint().exact();
    // A client that waits for `100 Continue` must get a refusal before it sends the body (RFC 9110 §10.1.1).
    let is_small = exact.is_some_and(|bytes| bytes <= WHOLE_BYTES_MAX) && !head.headers.contains_key(EXPECT);
    let outcome = async {
        let conditions = RequestConditions::of(&head)?;
        let asked = Asked { place, conditions, headers: head.headers, expected: exact.or(said) };
        let mut arriving = Arriving::new(body, &limits);
        let (replaces, made, meta) = match is_small {
            true => {
                let bytes = arriving.whole(&mut trace).await?;
                let (revision, outcome) =
                    blocking_failure(visit.share(), move || asked.at_once(visit, &bytes)).await?;
                trace.event.revision = revision;
                outcome?
            }
            false => {
                let (begun, asked) =
                    blocking_failure(visit.share(), move || Ok((asked.begin(visit)?, asked))).await?;
                trace.event.revision = begun.revision();
                let (replaces, (made, digests)) = (begun.existing().is_some(), asked.extras()?);
                let (uploading, digests, last) = receive(begun, arriving, digests, &mut trace).await?;
                let meta = blocking_failure(uploading.share(), move || {
                    asked.finish(uploading, made, digests, &last)
                });
                (replaces, made, meta.await?)
            }
        };
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

/// The result of an upload: whether it replaces a file, the modification time that the client gives, and the metadata of the new file.
type Stored = (bool, Option<i64>, Meta);

impl Asked {
    fn begin(&self, visit: Visit) -> Result<Uploading, Failure> {
        let mut stay = visit.enter(&self.place.datastore, OperationKind::Write, Blocking)?;
        let tokens = self.conditions.check(&mut stay, &self.place)?;
        let mut begun = stay.upload(self.place.path.clone(), self.expected)?;
        begun.unless_locked(tokens)?;
        Ok(begun)
    }

    /// The modification time that the client gives, and the digests that the body must have.
    fn extras(&self) -> Result<(Option<i64>, Vec<Running>), RequestError> {
        Ok((made(&self.headers)?, digest::asked(&self.headers)?))
    }

    fn finish(
        &self,
        mut uploading: Uploading,
        made: Option<i64>,
        digests: Vec<Running>,
        last: &[u8],
    ) -> Result<Meta, Failure> {
        let digests = add(digests, last);
        if !digests.into_iter().all(Running::holds) {
            return Err(RequestError::Digest.into());
        }
        uploading.write(last)?;
        made.map(|seconds| uploading.set_modified(seconds)).transpose()?;
        // The conditions are checked again, because another request may have changed the resource during the upload.
        uploading.finish_if(|stay| self.conditions.check(stay, &self.place).map(drop))
    }

    /// Does the whole upload of a body that was received completely. Returns the revision of the facts at the first decision of the doors, and the
    /// result.
    fn at_once(&self, visit: Visit, body: &[u8]) -> Result<(u64, Result<Stored, Failure>), Failure> {
        let begun = self.begin(visit)?;
        let (revision, replaces) = (begun.revision(), begun.existing().is_some());
        let stored = || {
            let (made, digests) = self.extras()?;
            Ok((replaces, made, self.finish(begun, made, digests, body)?))
        };
        Ok((revision, stored()))
    }
}

/// The modification time in the header that ownCloud's clients send.
fn made(headers: &HeaderMap) -> Result<Option<i64>, RequestError> {
    let Some(value) = headers.get("x-oc-mtime") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let seconds = text.split('.').next().unwrap_or_default().parse().ok();
    let is_possible = |seconds: &i64| (0..=253_402_300_799).contains(seconds);
    seconds.filter(is_possible).map(Some).ok_or(RequestError::Header("X-OC-Mtime"))
}

fn add(mut digests: Vec<Running>, piece: &[u8]) -> Vec<Running> {
    digests.iter_mut().for_each(|digest| digest.add(piece));
    digests
}

/// Writes the body to the file, except the last bytes. The function returns the last bytes, and the thread that finishes the upload writes them.
async fn receive(
    mut uploading: Uploading,
    mut arriving: Arriving,
    mut digests: Vec<Running>,
    trace: &mut Trace,
) -> Result<(Uploading, Vec<Running>, Vec<u8>), Failure> {
    let mut gathered = Vec::new();
    while let Some(data) = arriving.next(trace).await? {
        gathered.extend_from_slice(&data);
        if gathered.len() >= PIECE_BYTES {
            let piece = std::mem::take(&mut gathered);
            (uploading, digests) = blocking(uploading.share(), move || {
                uploading.write(&piece)?;
                Ok::<_, Refusal>((uploading, add(digests, &piece)))
            })
            .await?;
        }
    }
    Ok((uploading, digests, gathered))
}
