//! COPY and MOVE (RFC 4918 §9.8 and §9.9).

use super::conditions::{RequestConditions, resource_of};
use super::multistatus::failed_members;
use super::{Call, empty, end};
use enfilade_faces::{Aim, Answer, Failure, RequestError};
use enfilade_faces::{CancelOnDrop, blocking_failure};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, Placed, Placing};
use hyper::body::Body as _;
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};

/// COPY or MOVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// The source is kept.
    Copy,
    /// The source is removed.
    Move,
}

pub(crate) async fn transfer(call: Call, transfer: Transfer) -> Answer {
    let Call { visit, place, request, trace, .. } = call;
    let (head, body) = request.into_parts();
    if !body.is_end_stream() {
        return end(trace, Err(RequestError::UnexpectedBody.into()), Aim::Destination);
    }
    let outcome = async {
        let conditions = RequestConditions::of(&head)?;
        let goal = destination(&head, conditions.host.as_deref())?.keeping_to(&visit.limits())?;
        if goal.datastore != place.datastore {
            return Err(RequestError::Elsewhere.into());
        }
        let overwrite = overwrite(&head.headers)?;
        let is_deep = is_deep(&head.headers, transfer)?;
        // This value is dropped with the request, even if the client disconnects. When the value is dropped, the work is cancelled.
        let cancel_on_drop = CancelOnDrop::default();
        let cancel = cancel_on_drop.token();
        let from = place.clone();
        let placed = blocking_failure(visit.share(), move || {
            let mut stay = visit.enter(&from.datastore, OperationKind::Write, Blocking)?;
            let source = from.path.clone();
            let tokens = conditions.check_twice(&mut stay, from)?;
            let keep_going = move || !cancel.is_cancelled();
            let placing = Placing { overwrite, is_deep, tokens: &tokens, keep_going: &keep_going };
            Ok(match transfer {
                Transfer::Copy => stay.copy(&source, &goal.path, placing)?,
                Transfer::Move => stay.relocate(&source, &goal.path, placing)?,
            })
        })
        .await?;
        let Placed { replaced, failed } = placed;
        Ok(match failed.is_empty() {
            true if replaced => empty(StatusCode::NO_CONTENT),
            true => empty(StatusCode::CREATED),
            false => failed_members(&place, failed),
        })
    };
    let outcome: Result<Answer, Failure> = outcome.await;
    end(trace, outcome, Aim::Destination)
}

fn destination(head: &Parts, host: Option<&str>) -> Result<super::ResourcePath, RequestError> {
    let bad = RequestError::Header("Destination");
    let said = head.headers.get("destination").and_then(|value| value.to_str().ok()).ok_or(bad)?;
    if let Some((_, rest)) = said.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        if host.is_none_or(|host| !host.eq_ignore_ascii_case(authority)) {
            return Err(RequestError::Elsewhere);
        }
    }
    resource_of(said, host).ok_or(bad)
}

fn overwrite(headers: &HeaderMap) -> Result<bool, RequestError> {
    match headers.get("overwrite").map(|value| value.as_bytes()) {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(_) => Err(RequestError::Header("Overwrite")),
    }
}

fn is_deep(headers: &HeaderMap, transfer: Transfer) -> Result<bool, RequestError> {
    match headers.get("depth").map(|value| value.as_bytes()) {
        None => Ok(true),
        Some(value) if value.eq_ignore_ascii_case(b"infinity") => Ok(true),
        Some(b"0") if transfer == Transfer::Copy => Ok(false),
        Some(_) => Err(RequestError::Header("Depth")),
    }
}
