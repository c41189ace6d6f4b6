//! What can be wrong with a request as such, and how one ends without what it asked for.

use enfilade_passage::Refusal;

/// A request that ends without what it asked for.
#[derive(Debug)]
pub enum Failure {
    /// A door said no.
    Refused(Refusal),
    /// The request is malformed, too large or not served here; no door was asked.
    Request(RequestError),
}

/// What can be wrong with a request as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing answers there.
    #[error("no route has this path")]
    NoRoute,
    /// The path is not one clean spelling of one path.
    #[error("{0}")]
    Path(enfilade_facts::vocabulary::PathRefused),
    /// This method is not known here.
    #[error("the method is not one this path has")]
    Method,
    /// The request target is too long.
    #[error("the request target is longer than 8 KiB")]
    TargetTooLong,
    /// A header field is too long, or there are too many.
    #[error("a header field is longer than 8 KiB, all are longer than 32 KiB, or there are more than 100")]
    HeadersTooLarge,
    /// The body is too long.
    #[error("the body is longer than 64 KiB")]
    BodyTooLarge,
    /// The body did not come whole, or its framing is malformed.
    #[error("the request body ended early, or its framing (Content-Length or chunks) is malformed")]
    BodyBroken,
    /// Where the request ends, or where its lines end, may be understood in two ways.
    #[error("the request is malformed: {0}")]
    Framing(&'static str),
    /// A second line of a field that is no list.
    #[error("the {0} header came more than once: send one")]
    Twice(&'static str),
    /// No path has this method.
    #[error("the method is not known here")]
    UnknownMethod,
    /// The body did not come in time.
    #[error("the request body arrived too slowly (limits `body_seconds` and `upload_bytes_per_second`)")]
    BodySlow,
    /// The XML is not what it should be.
    #[error("{0}")]
    Xml(&'static str),
    /// `Depth` is something else than 0 or 1.
    #[error("Depth: infinity is not served; use 0 or 1")]
    Depth,
    /// A header's value cannot be read.
    #[error("the {0} header cannot be read")]
    Header(&'static str),
    /// A body where none is expected.
    #[error("this method takes no body")]
    UnexpectedBody,
    /// A condition of the request does not hold.
    #[error("a condition of the request does not hold")]
    Condition,
    /// The range is not in the file.
    #[error("the range is not in the file")]
    Range(u64),
    /// A parameter or a change that makes no sense.
    #[error("the call makes no sense as it was made")]
    Call,
    /// A change that another site's page asks for in the name of whoever looks at it.
    #[error("a change cannot be asked for by another site's page")]
    CrossSite,
    /// The connection was made for a name with other terms.
    #[error("this connection was made for another host: open one for this host")]
    Misdirected,
    /// The destination is on another server, or in another datastore.
    #[error("the destination is on another server or in another datastore: copy it with the client")]
    Elsewhere,
    /// The content is not what its digest says.
    #[error("the content is not what its digest says: send it again")]
    Digest,
    /// Objects and lists within one another.
    #[error("the JSON is nested too deeply, or has too many values")]
    JsonDepth,
    /// The request's target is not one.
    #[error("the request target is refused: {0}")]
    Target(&'static str),
    /// The `Host` of the request is not one.
    #[error("the Host is refused: {0}")]
    Host(&'static str),
    /// A transfer coding that is not known.
    #[error("unsupported Transfer-Encoding: only `chunked` is supported")]
    UnknownCoding,
    /// Blanks before or after a value, in HTTP/2.
    #[error("a header value begins or ends with a space or a tab")]
    Blanks,
    /// The house is broken.
    #[error("a worker of the house died")]
    Worker,
}

impl<R: Into<Refusal>> From<R> for Failure {
    fn from(refusal: R) -> Self {
        Failure::Refused(refusal.into())
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Failure::Request(error)
    }
}

impl RequestError {
    /// Its stable code in the log.
    pub(crate) fn code(self) -> &'static str {
        match self {
            RequestError::NoRoute => "HT01",
            RequestError::Path(_) => "HT02",
            RequestError::Method => "HT03",
            RequestError::TargetTooLong => "HT04",
            RequestError::HeadersTooLarge => "HT05",
            RequestError::BodyTooLarge => "HT06",
            RequestError::BodyBroken => "HT07",
            RequestError::Xml(_) => "HT08",
            RequestError::Depth => "HT09",
            RequestError::Header(_) => "HT10",
            RequestError::UnexpectedBody => "HT11",
            RequestError::Condition => "HT12",
            RequestError::Range(_) => "HT13",
            RequestError::Worker => "HT14",
            RequestError::Call => "HT15",
            RequestError::CrossSite => "HT16",
            RequestError::Misdirected => "HT17",
            RequestError::Elsewhere => "HT18",
            RequestError::Digest => "HT19",
            RequestError::JsonDepth => "HT20",
            RequestError::Target(_) => "HT21",
            RequestError::Host(_) => "HT22",
            RequestError::UnknownCoding => "HT23",
            RequestError::Blanks => "HT24",
            RequestError::BodySlow => "HT25",
            RequestError::Framing(_) => "HT26",
            RequestError::Twice(_) => "HT27",
            RequestError::UnknownMethod => "HT28",
        }
    }

    /// Whether sender and recipient may disagree about where the next request on the connection begins.
    pub(crate) fn ends_connection(self) -> bool {
        match self {
            RequestError::Target(_)
            | RequestError::Host(_)
            | RequestError::UnknownCoding
            | RequestError::Framing(_) => true,
            RequestError::Header(name) => name == "Transfer-Encoding",
            _ => false,
        }
    }
}
