//! The one place that turns refusals into status codes. The client learns the status and one sentence that is the same for every refusal of
//! that status; the operator finds the rest in the log and with `explain`.

use crate::body::Body;
use crate::request_error::{Failure, RequestError};
use crate::trace::Trace;
use enfilade_passage::AccessRefusal as Access;
use enfilade_passage::ContentRefusal as Content;
use enfilade_passage::DatastoreRefusal as Datastore;
use enfilade_passage::IdentityRefusal as Identity;
use enfilade_passage::{Refusal, Stands};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

/// A response.
pub type Answer = Response<Body>;

impl RequestError {
    fn status(self) -> StatusCode {
        match self {
            RequestError::NoRoute => StatusCode::NOT_FOUND,
            RequestError::Path(_)
            | RequestError::Xml(_)
            | RequestError::Header(_)
            | RequestError::Parameter(_)
            | RequestError::Digest
            | RequestError::JsonDepth
            | RequestError::BodyBroken
            | RequestError::Target(_)
            | RequestError::Host(_)
            | RequestError::Framing(_)
            | RequestError::Twice(_)
            | RequestError::Blanks => StatusCode::BAD_REQUEST,
            RequestError::Method => StatusCode::METHOD_NOT_ALLOWED,
            RequestError::TargetTooLong(_) => StatusCode::URI_TOO_LONG,
            RequestError::HeaderTooLong(_)
            | RequestError::HeadTooLong(_)
            | RequestError::TooManyHeaders(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            RequestError::BodyTooLong(..) => StatusCode::PAYLOAD_TOO_LARGE,
            RequestError::BodySlow => StatusCode::REQUEST_TIMEOUT,
            RequestError::UnknownCoding | RequestError::UnknownMethod => StatusCode::NOT_IMPLEMENTED,
            RequestError::Depth | RequestError::CrossSite => StatusCode::FORBIDDEN,
            RequestError::UnexpectedBody => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            RequestError::Condition => StatusCode::PRECONDITION_FAILED,
            RequestError::Range(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            RequestError::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            RequestError::Elsewhere => StatusCode::BAD_GATEWAY,
            RequestError::Worker => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Trace {
    /// Records the status, and the bytes of an answer in memory.
    pub fn answered(&mut self, answer: &Answer) {
        self.event.status = answer.status().as_u16();
        // The sender of a stream counts its bytes.
        if let Body::Whole(Some(bytes)) = answer.body() {
            self.event.bytes = self.event.bytes.max(bytes.len() as u64);
        }
    }
}

/// The purpose of a request: the status for an absent resource depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Any use of an existing target.
    Target,
    /// Creating a file: 409 if the collection does not exist (RFC 4918 §9.7.1).
    File,
    /// Creating a destination: 409 likewise (§9.8.5, §9.9.4).
    Destination,
    /// Creating a collection: 409 likewise, and 405 if the target exists (§9.3.1).
    Collection,
    /// A member of a tree, in a response that names it.
    Member,
}

/// The status for a resource that does not exist for the user, by the purpose of the request and the resource.
///
/// Invariant S2 rests on this table: hidden resources, absent ones and those with a damaged ACL are one case before it is read, so no row can
/// distinguish them. A new name that a hidden resource has is refused like a name that may not be created.
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
        Failure::Request(error) => (error.status(), Some(error.to_string())),
        Failure::Refused(refusal) => (status(refusal, aim), hint(refusal)),
    };
    // A reason is given only if it discloses nothing about resources; otherwise the text is that of the status.
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
        (Failure::Refused(Refusal::Identity(Identity::Blocked { seconds })), _) => {
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

/// Ends a request that failed before it reached its protocol.
pub fn fail(failure: Failure, mut trace: Trace) -> Answer {
    trace.failed(&failure);
    let answer = failed(&failure, Aim::Target);
    trace.answered(&answer);
    answer
}

/// The server does not list a whole tree (RFC 4918 §9.1).
const FINITE_DEPTH: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

/// The request lacks the token of a lock (RFC 4918 §16).
const LOCKED: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:lock-token-submitted/></D:error>\n";

fn is_locked(refusal: &Refusal) -> bool {
    matches!(refusal.parts().1, Refusal::Content(Content::Locked(_)))
}

/// The reason of the few refusals that may tell it: it helps an honest client and discloses nothing to an attacker.
pub fn hint(refusal: &Refusal) -> Option<String> {
    match refusal.parts().1 {
        Refusal::Identity(Identity::Malformed(_)) => Some(refusal.to_string()),
        // The user has a role in the datastore.
        Refusal::Datastore(Datastore::Maintenance { .. }) => Some(refusal.to_string()),
        // The text has no name: the uploaded file may be hidden.
        Refusal::Content(Content::Uploading(_)) => {
            Some("an upload into it is still going on: try again when it has ended".to_owned())
        }
        _ => None,
    }
}

/// The status alone, for a protocol with its own form of errors.
pub fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Request(error) => error.status(),
        Failure::Refused(refusal) => status(refusal, Aim::Target),
    }
}

/// The status of a member of a tree for which the request failed.
pub fn status_of_member(refusal: &Refusal) -> StatusCode {
    status(refusal, Aim::Member)
}

fn status(refusal: &Refusal, aim: Aim) -> StatusCode {
    let (stands, refusal) = refusal.parts();
    match refusal {
        Refusal::Identity(identity) => identity_status(identity),
        Refusal::Datastore(datastore) => datastore_status(datastore),
        Refusal::Access(access) => access_status(access, aim, stands),
        Refusal::Content(content) => content_status(content, aim, stands),
        Refusal::About { why, .. } => status(why, aim),
    }
}

fn identity_status(refusal: &Identity) -> StatusCode {
    match refusal {
        Identity::Malformed(_) => StatusCode::BAD_REQUEST,
        Identity::NoCredential
        | Identity::Revoked(_)
        | Identity::Unknown(_)
        | Identity::WrongSecret(_)
        | Identity::Disabled { .. }
        | Identity::Expired { .. }
        | Identity::NotOurs
        | Identity::TokenUnsupported(_)
        | Identity::TokenExpired { .. }
        | Identity::TokenFromFuture { .. }
        | Identity::TokenRevoked { .. }
        | Identity::SubjectDeleted
        | Identity::UnknownCertificate
        | Identity::WrongSignature
        | Identity::PasswordExpired { .. }
        | Identity::NoScope(_)
        | Identity::CsrfToken
        | Identity::BadHash { .. } => StatusCode::UNAUTHORIZED,
        Identity::Delegated(_) => StatusCode::FORBIDDEN,
        Identity::Blocked { .. } => StatusCode::TOO_MANY_REQUESTS,
        Identity::GroupsTooDeep | Identity::TooManyGroups => StatusCode::FORBIDDEN,
        Identity::Busy
        | Identity::NoKeys
        | Identity::File { .. }
        | Identity::ClockBehind { .. }
        | Identity::Facts(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn datastore_status(refusal: &Datastore) -> StatusCode {
    match refusal {
        Datastore::Unknown(_) => StatusCode::NOT_FOUND,
        Datastore::Maintenance { .. }
        | Datastore::UnknownMode { .. }
        | Datastore::NotMounted { .. }
        | Datastore::Broken { .. }
        | Datastore::LedgerFull(_)
        | Datastore::Facts(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn access_status(refusal: &Access, aim: Aim, stands: Stands) -> StatusCode {
    match refusal {
        // No role: the datastore looks absent for every purpose.
        Access::NoRole { .. } => StatusCode::NOT_FOUND,
        refusal if refusal.looks_absent() => not_there(aim, stands),
        Access::Facts(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    }
}

fn content_status(refusal: &Content, aim: Aim, stands: Stands) -> StatusCode {
    match refusal {
        // A DELETE below an absent directory finds nothing.
        Content::Absent { .. } | Content::Special { .. } | Content::ParentAbsent { .. } => {
            not_there(aim, stands)
        }
        Content::Exists { .. } if aim == Aim::Collection => StatusCode::METHOD_NOT_ALLOWED,
        // RFC 4918 §10.6: the request says not to overwrite.
        Content::Exists { .. } if aim == Aim::Destination => StatusCode::PRECONDITION_FAILED,
        Content::Exists { .. }
        | Content::NotEmpty { .. }
        | Content::ChangedMeanwhile { .. }
        | Content::NotTakenBack { .. }
        | Content::Uploading(_) => StatusCode::CONFLICT,
        Content::WrongKind { .. } | Content::IsRoot => StatusCode::METHOD_NOT_ALLOWED,
        Content::NoSpace { .. } | Content::OverQuota { .. } => StatusCode::INSUFFICIENT_STORAGE,
        Content::TooMuch(_) | Content::TooManyLocks => StatusCode::INSUFFICIENT_STORAGE,
        Content::Locked(_) => StatusCode::LOCKED,
        Content::NoSuchLock | Content::Unmet => StatusCode::PRECONDITION_FAILED,
        Content::Locks(_) => StatusCode::SERVICE_UNAVAILABLE,
        Content::WithinItself | Content::NotAll(_) => StatusCode::FORBIDDEN,
        Content::TooLong(_) => StatusCode::URI_TOO_LONG,
        // The request names another resource; this one has no URL.
        Content::BadName { .. } if aim == Aim::Member => StatusCode::FORBIDDEN,
        Content::BadName { .. } => StatusCode::BAD_REQUEST,
        Content::RootUnavailable { .. } | Content::Reserved { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Content::Io { .. } | Content::NotCovered { .. } | Content::AclNotWritable { .. } => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
