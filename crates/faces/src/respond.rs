//! This is the only module that turns refusals into status codes. The client gets the status, and usually a standard text that is the same for every
//! refusal with this status. The operator finds the reason in the log and with `explain`.

use crate::body::Body;
use crate::request_error::{Failure, RequestError};
use crate::trace::Trace;
use enfilade_facts::Refuse;
use enfilade_passage::ContentRefusal as Content;
use enfilade_passage::DatastoreRefusal as Datastore;
use enfilade_passage::IdentityRefusal as Identity;
use enfilade_passage::{Refusal, Stands};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

/// A response.
pub type Answer = Response<Body>;

impl Trace {
    /// Records the status. If the whole answer is in memory, also records the number of its bytes.
    pub fn answered(&mut self, answer: &Answer) {
        self.event.status = answer.status().as_u16();
        // For a stream, the sender of the stream counts the bytes.
        if let Body::Whole(Some(bytes)) = answer.body() {
            self.event.bytes = self.event.bytes.max(bytes.len() as u64);
        }
    }
}

/// The purpose of a request. The status code for an absent resource depends on the purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The request uses an existing target.
    Target,
    /// The request creates a file. The status is 409 if the collection of the file does not exist (RFC 4918 §9.7.1).
    File,
    /// The request creates the destination of a COPY or MOVE. The status is 409 if the collection of the destination does not exist (RFC 4918 §9.8.5,
    /// §9.9.4).
    Destination,
    /// The request creates a collection. The status is 409 if its parent does not exist, and 405 if the target exists (RFC 4918 §9.3.1).
    Collection,
    /// A member of a tree, in a response that names the member.
    Member,
}

/// The status for a resource that is absent or hidden from the user. The status depends on the purpose of the request, and on whether the resource is
/// the target, its parent or the source.
///
/// This table ensures invariant S2. Absent resources, hidden resources and resources with a damaged ACL have the same rows, so the status cannot
/// distinguish them. If a request tries to create a name that a hidden resource already has, the status is the same as for a user who has no right to
/// create the name.
const NOT_THERE: [(Aim, Stands, StatusCode); 9] = [
    (Aim::Target, Stands::Itself, StatusCode::NOT_FOUND),
    (Aim::File, Stands::Itself, StatusCode::FORBIDDEN),
    (Aim::File, Stands::Parent, StatusCode::CONFLICT),
    (Aim::Collection, Stands::Itself, StatusCode::FORBIDDEN),
    (Aim::Collection, Stands::Parent, StatusCode::CONFLICT),
    (Aim::Destination, Stands::Source, StatusCode::NOT_FOUND),
    (Aim::Destination, Stands::Itself, StatusCode::FORBIDDEN),
    (Aim::Destination, Stands::Parent, StatusCode::CONFLICT),
    (Aim::Member, Stands::Itself, StatusCode::FORBIDDEN),
];

fn not_there(aim: Aim, stands: Stands) -> StatusCode {
    let row = NOT_THERE.iter().find(|row| (row.0, row.1) == (aim, stands));
    row.map_or(StatusCode::NOT_FOUND, |(.., status)| *status)
}

/// The response to a request that failed.
pub fn failed(failure: &Failure, aim: Aim) -> Answer {
    let (status, hint) = match failure {
        Failure::Request(error) => (status_of(failure), Some(error.to_string())),
        Failure::Refused(refusal) => (status(refusal, aim), hint(refusal)),
    };
    // The response contains a reason only if the reason discloses nothing about resources. Otherwise the response contains the standard text of the
    // status.
    let text = hint.unwrap_or_else(|| status.canonical_reason().unwrap_or("refused").to_ascii_lowercase());
    let is_locked = matches!(failure, Failure::Refused(refusal) if is_locked(refusal));
    let (body, kind) = match failure {
        Failure::Request(RequestError::Depth) => (FINITE_DEPTH.to_owned(), "application/xml; charset=utf-8"),
        Failure::Refused(_) if is_locked => (LOCKED.to_owned(), "application/xml; charset=utf-8"),
        _ => (format!("{text}\n"), "text/plain; charset=utf-8"),
    };
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    match (failure, status) {
        (_, StatusCode::UNAUTHORIZED) => {
            let basic = HeaderValue::from_static("Basic realm=\"enfilade\", charset=\"UTF-8\"");
            headers.insert(WWW_AUTHENTICATE, basic);
        }
        (
            Failure::Refused(Refusal::Identity(
                Identity::Blocked { seconds }
                | Identity::TooManySignIns { seconds }
                | Identity::LinkTooOften { seconds, .. },
            )),
            _,
        ) => {
            headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
        }
        (_, StatusCode::SERVICE_UNAVAILABLE) => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        (Failure::Request(RequestError::Range(bytes)), _) => {
            if let Ok(value) = HeaderValue::from_str(&format!("bytes */{bytes}")) {
                headers.insert(hyper::header::CONTENT_RANGE, value);
            }
        }
        _ => {}
    }
    answer
}

/// Records the failure of a request in its event, and returns the response.
pub fn fail(failure: Failure, mut trace: Trace) -> Answer {
    trace.failed(&failure);
    let answer = failed(&failure, Aim::Target);
    trace.answered(&answer);
    answer
}

/// The response body for a request with `Depth: infinity` that the server refuses (RFC 4918 §9.1).
const FINITE_DEPTH: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

/// The response body for a request without the token of a lock on the resource (RFC 4918 §16).
const LOCKED: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:lock-token-submitted/></D:error>\n";

fn is_locked(refusal: &Refusal) -> bool {
    matches!(refusal.parts().1, Refusal::Content(Content::Locked(_)))
}

/// The reason of a refusal, as the client gets it. Only a few refusals have such a reason: it must help an honest client, and must disclose nothing
/// to an attacker.
pub fn hint(refusal: &Refusal) -> Option<String> {
    match refusal.parts().1 {
        Refusal::Identity(Identity::Malformed(_)) => Some(refusal.to_string()),
        // Only a client with a correct credential gets this refusal.
        Refusal::Identity(Identity::MoreMethods { .. }) => Some(
            "this account needs multi-factor authentication, so this method alone is not accepted: use an API token".to_owned(),
        ),
        // Only a user with a role in the datastore gets this refusal, so its reason discloses nothing.
        Refusal::Datastore(Datastore::Maintenance { .. }) => Some(refusal.to_string()),
        // The text does not contain the name of the uploaded file, because the file can be hidden from the user.
        Refusal::Content(Content::Uploading(_)) => {
            Some("an upload or a copy into the directory is running: try again when it has ended".to_owned())
        }
        // The text is the same for an absent directory and for a hidden directory. The text contains only the path from the request.
        _ => match (refusal.parts().0, refusal.directory()) {
            (Stands::Parent, Some(directory)) if ABSENT.contains(&refusal.code()) => {
                Some(match directory.is_root() {
                    true => "you may not create anything here: choose one of your folders".to_owned(),
                    false => format!(
                        "there is no folder `{directory}`; create it first, or choose another name if a file has this name"
                    ),
                })
            }
            _ => None,
        },
    }
}

/// The status of a failure, for a protocol that has its own form of errors.
pub fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Request(error) => status_of_code(error.code(), Aim::Target, Stands::Itself),
        Failure::Refused(refusal) => status(refusal, Aim::Target),
    }
}

/// The status of one member of a directory tree, in a response that lists the members for which the request failed.
pub fn status_of_member(refusal: &Refusal) -> StatusCode {
    status(refusal, Aim::Member)
}

fn status(refusal: &Refusal, aim: Aim) -> StatusCode {
    let (stands, refusal) = refusal.parts();
    if let Refusal::About { why, .. } = refusal {
        return status(why, aim);
    }
    status_of_code(refusal.code(), aim, stands)
}

/// The status of every code, except the codes in [`ABSENT`].
const STATUSES: [(StatusCode, &[&str]); 21] = [
    (
        StatusCode::BAD_REQUEST,
        &[
            "ID02", "CT15", "HT02", "HT07", "HT08", "HT10", "HT15", "HT19", "HT20", "HT21", "HT22", "HT24",
            "HT26", "HT27", "HT29", "HT31",
        ],
    ),
    (
        StatusCode::UNAUTHORIZED,
        &[
            "ID01", "ID03", "ID04", "ID05", "ID06", "ID07", "ID08", "ID15", "ID16", "ID17", "ID18", "ID19",
            "ID22", "ID23", "ID24", "ID25", "ID26", "ID28", "ID29", "ID30", "ID31", "ID35", "AC13",
        ],
    ),
    (
        StatusCode::FORBIDDEN,
        &[
            "ID10", "ID11", "ID20", "AC03", "AC06", "AC07", "AC08", "AC09", "AC10", "AC11", "AC12", "CT22",
            "CT24", "HT09", "HT16", "HT30", "HT32",
        ],
    ),
    (StatusCode::NOT_FOUND, &["DS01", "AC01", "ID33", "ID34", "HT01"]),
    (StatusCode::METHOD_NOT_ALLOWED, &["CT04", "CT14", "HT03"]),
    (StatusCode::REQUEST_TIMEOUT, &["HT25"]),
    (StatusCode::CONFLICT, &["CT03", "CT05", "CT09", "CT25", "CT27"]),
    (StatusCode::PRECONDITION_FAILED, &["CT19", "CT26", "HT12"]),
    (StatusCode::PAYLOAD_TOO_LARGE, &["HT06"]),
    (StatusCode::URI_TOO_LONG, &["CT13", "HT04"]),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, &["HT11"]),
    (StatusCode::RANGE_NOT_SATISFIABLE, &["HT13"]),
    (StatusCode::MISDIRECTED_REQUEST, &["HT17", "DS08"]),
    (StatusCode::LOCKED, &["CT18"]),
    (StatusCode::TOO_MANY_REQUESTS, &["ID13", "ID32", "ID36"]),
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &["HT05"]),
    (StatusCode::INTERNAL_SERVER_ERROR, &["CT08", "CT10", "CT12", "HT14"]),
    (StatusCode::NOT_IMPLEMENTED, &["HT23", "HT28"]),
    (StatusCode::BAD_GATEWAY, &["HT18"]),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        &[
            "ID09", "ID12", "ID14", "ID21", "ID27", "DS02", "DS03", "DS04", "DS05", "DS06", "DS07", "AC05",
            "CT07", "CT21", "CT23", "CT28", "HT33",
        ],
    ),
    (StatusCode::INSUFFICIENT_STORAGE, &["CT06", "CT16", "CT17", "CT20"]),
];

/// Exceptions to [`STATUSES`]: for one purpose of a request, each of these codes has another status.
const STATUSES_OF_AIMS: [(&str, Aim, StatusCode); 3] = [
    // RFC 4918 §9.3.1.
    ("CT03", Aim::Collection, StatusCode::METHOD_NOT_ALLOWED),
    // RFC 4918 §10.6: the destination exists, and the request has the header `Overwrite: F`.
    ("CT03", Aim::Destination, StatusCode::PRECONDITION_FAILED),
    // A member of the tree has a name that is not allowed. The request itself does not contain this name, so the request is not malformed.
    ("CT15", Aim::Member, StatusCode::FORBIDDEN),
];

/// The refusal codes for resources that look absent; [`NOT_THERE`] lists the status codes. `CT02` is in the list because the server refuses a DELETE
/// below a missing directory with `CT02`.
const ABSENT: [&str; 5] = ["AC02", "AC04", "CT01", "CT02", "CT11"];

fn status_of_code(code: &str, aim: Aim, stands: Stands) -> StatusCode {
    if ABSENT.contains(&code) {
        return not_there(aim, stands);
    }
    if let Some((.., status)) = STATUSES_OF_AIMS.iter().find(|row| (row.0, row.1) == (code, aim)) {
        return *status;
    }
    let row = STATUSES.iter().find(|(_, codes)| codes.contains(&code));
    row.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(status, _)| *status)
}

/// Every HTTP status of a refusal code, with the usual status first. A refusal of door 1 (TLS) ends the handshake, so its code has no status.
pub fn statuses_of_code(code: &str) -> Vec<u16> {
    let usual = STATUSES.iter().filter(|(_, codes)| codes.contains(&code)).map(|(status, _)| *status);
    let of_aims = STATUSES_OF_AIMS.iter().filter(|row| row.0 == code).map(|row| row.2);
    let absent = NOT_THERE.iter().filter(|_| ABSENT.contains(&code)).map(|row| row.2);
    let mut statuses: Vec<u16> = Vec::new();
    for status in usual.chain(of_aims).chain(absent).map(|status| status.as_u16()) {
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    statuses
}
