//! Receives a file from the script of the console. The file gets its name when it is complete.

use crate::click::Click;
use crate::failure;
use crate::page::guarded;
use crate::place::Place;
use enfilade_faces::{
    Aim, Answer, Arriving, Body, Failure, Received, RequestError, blocking, blocking_failure,
};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, ContentRefusal, ItemId, Refusal, UploadRecord, Uploading};
use hyper::body::Body as _;
use hyper::header::{CONTENT_TYPE, HeaderValue, IF_NONE_MATCH};
use hyper::{Response, StatusCode};

/// The size of the write buffer, in bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// Ends a request of the script. The response is empty, or contains a line of text.
fn end(mut click: Click<'_>, outcome: Result<StatusCode, Failure>, aim: Aim) -> Answer {
    let answer = match outcome {
        Ok(status) => {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = status;
            guarded(answer)
        }
        Err(failure) => {
            click.trace.failed(&failure);
            failure::plain_answer(&failure, aim)
        }
    };
    click.trace.answered(&answer);
    answer
}

/// Stores a file. If the request has the header `If-None-Match: *`, an existing file is not replaced.
pub(crate) async fn put(click: Click<'_>, place: Place, body: Received) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    let outcome = store(&mut click, place, body).await;
    end(click, outcome, Aim::File)
}

async fn store(click: &mut Click<'_>, place: Place, body: Received) -> Result<StatusCode, Failure> {
    if place.is_folder {
        return Err(RequestError::Method.into());
    }
    let is_new_only = is_new_only(click);
    let expected = body.size_hint().exact();
    let visit = click.visit.clone();
    let mut arriving = Arriving::new(body, &visit.limits());
    let mut uploading = blocking_failure(visit.share(), move || {
        let stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
        let mut begun = stay.upload(place.path, expected)?;
        if is_new_only && begun.existing().is_some() {
            return Err(RequestError::Condition.into());
        }
        begun.unless_locked(Vec::new())?;
        Ok(begun)
    })
    .await?;
    let replaces = uploading.existing().is_some();
    let mut gathered = Vec::new();
    while let Some(data) = arriving.next(&mut click.trace).await? {
        gathered.extend_from_slice(&data);
        if gathered.len() >= PIECE_BYTES {
            let piece = std::mem::take(&mut gathered);
            uploading = blocking(uploading.share(), move || written(uploading, &piece)).await?;
        }
    }
    blocking(uploading.share(), move || written(uploading, &gathered)?.finish()).await?;
    Ok(if replaces { StatusCode::NO_CONTENT } else { StatusCode::CREATED })
}

fn written(mut uploading: Uploading, piece: &[u8]) -> Result<Uploading, Refusal> {
    uploading.write(piece)?;
    Ok(uploading)
}

/// The number in a field of the query.
fn number<T: std::str::FromStr>(click: &Click<'_>, name: &'static str) -> Result<T, Failure> {
    const NO_NUMBER: RequestError = RequestError::Parameter("`bytes`, `modified` or `at`: expected a number");
    click.asked(name).parse().map_err(|_| NO_NUMBER.into())
}

/// Ends a request about an upload in pieces. If another request works on the upload, the status is 503, and the script tries again.
fn end_piece(mut click: Click<'_>, outcome: Result<(StatusCode, String), Failure>) -> Answer {
    match outcome {
        Ok((status, text)) => {
            let mut answer = guarded(Response::new(Body::from(text)));
            *answer.status_mut() = status;
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            click.trace.answered(&answer);
            answer
        }
        Err(failure) => {
            let is_busy =
                matches!(&failure, Failure::Refused(Refusal::Content(ContentRefusal::Uploading(_))));
            click.trace.failed(&failure);
            let mut answer = failure::plain_answer(&failure, Aim::File);
            if is_busy {
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            click.trace.answered(&answer);
            answer
        }
    }
}

fn is_new_only(click: &Click<'_>) -> bool {
    click.head.headers.get(IF_NONE_MATCH).is_some_and(|value| value == "*")
}

/// Begins an upload in pieces, or finds the unfinished upload of the same file. The response contains the name of the upload, and the number of bytes
/// that the server has received.
pub(crate) async fn begin(click: Click<'_>, place: Place) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    let outcome = begun(&click, place).await;
    end_piece(click, outcome)
}

async fn begun(click: &Click<'_>, place: Place) -> Result<(StatusCode, String), Failure> {
    if place.is_folder {
        return Err(RequestError::Method.into());
    }
    let (visit, is_new_only) = (click.visit.clone(), is_new_only(click));
    let (bytes, modified_millis) = (number(click, "bytes")?, number(click, "modified")?);
    blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
        if stay.may_store(&place.path)? && is_new_only {
            return Err(RequestError::Condition.into());
        }
        let record = UploadRecord { path: place.path, bytes, modified_millis };
        let (id, received) = stay.keep_upload(&record)?;
        Ok((StatusCode::OK, format!("{} {received}", id.name())))
    })
    .await
}

/// Appends a piece to an unfinished upload. The response contains the number of bytes that the server has received. If the piece does not begin at
/// this number, nothing is written, and the script continues at this number.
pub(crate) async fn append(click: Click<'_>, place: Place, body: Received) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    let outcome = appended(&mut click, place, body).await;
    end_piece(click, outcome)
}

async fn appended(
    click: &mut Click<'_>,
    place: Place,
    body: Received,
) -> Result<(StatusCode, String), Failure> {
    let (visit, is_new_only, at) = (click.visit.clone(), is_new_only(click), number::<u64>(click, "at")?);
    let id = ItemId::of_name(visit.principal().user, click.asked("upload"));
    let (share, mut arriving) = (visit.share(), Arriving::new(body, &visit.limits()));
    let mut uploading = blocking_failure(visit.share(), move || {
        let stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
        Ok(stay.go_on_uploading(&place.path, id)?)
    })
    .await?;
    if uploading.received() != at {
        return Ok((StatusCode::OK, uploading.received().to_string()));
    }
    let mut gathered = Vec::new();
    loop {
        let data = arriving.next(&mut click.trace).await?;
        let is_end = data.is_none();
        gathered.extend_from_slice(&data.unwrap_or_default());
        if gathered.len() >= PIECE_BYTES || is_end {
            let piece = std::mem::take(&mut gathered);
            uploading = blocking(click.visit.share(), move || {
                uploading.write(&piece)?;
                Ok(uploading)
            })
            .await?;
        }
        if is_end {
            break;
        }
    }
    blocking_failure(share, move || {
        let received = uploading.received();
        if !uploading.is_complete() {
            uploading.pause()?;
            return Ok((StatusCode::OK, received.to_string()));
        }
        match uploading.finish(is_new_only) {
            Ok(replaced) => {
                let status = if replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
                Ok((status, String::new()))
            }
            Err(Refusal::Content(ContentRefusal::Exists(_))) => Err(RequestError::Condition.into()),
            Err(why) => Err(why.into()),
        }
    })
    .await
}

/// Makes a folder, for the upload of a folder.
pub(crate) async fn make(click: Click<'_>, place: Place) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    let made = super::change::make(&click, &place).await;
    end(click, made.map(|()| StatusCode::CREATED), Aim::Collection)
}
