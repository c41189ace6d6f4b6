//! Receives a file from the script of the console. The file gets its name when it is complete.

use crate::click::Click;
use crate::failure;
use crate::page::guarded;
use crate::place::Place;
use enfilade_faces::{
    Aim, Answer, Arriving, Body, Failure, Received, RequestError, blocking, blocking_failure,
};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, Refusal, Uploading};
use hyper::body::Body as _;
use hyper::header::IF_NONE_MATCH;
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

/// Stores a file. With `If-None-Match: *`, an existing file is not replaced.
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
    let is_new_only = click.head.headers.get(IF_NONE_MATCH).is_some_and(|value| value == "*");
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

/// Makes a folder, for the upload of a folder.
pub(crate) async fn make(click: Click<'_>, place: Place) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    let made = super::change::make(&click, &place).await;
    end(click, made.map(|()| StatusCode::CREATED), Aim::Collection)
}
