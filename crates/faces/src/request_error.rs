//! The reasons why a request fails. Some reasons are errors of the request itself. The code of a protocol (a face) finds these errors, not a door.

use enfilade_facts::{Fault, RefusalRow};
use enfilade_passage::Refusal;

/// The reason why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// One of the five doors refused the request.
    Refused(Refusal),
    /// A face (the code of one protocol) refused the request, for example because the request is malformed or too large.
    Request(RequestError),
}

/// An error of the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No route has the path.
    #[error("no route has this path")]
    NoRoute,
    /// The path is not allowed, or is not in canonical form.
    #[error("{0}")]
    Path(enfilade_facts::vocabulary::PathRefused),
    /// The path does not support this method.
    #[error("the path does not support this method")]
    Method,
    /// The request target is longer than the limit. The number is the limit in bytes.
    #[error("the request target is longer than {0} bytes (limit `uri_bytes`)")]
    TargetTooLong(u64),
    /// A header field is longer than the limit. The number is the limit in bytes.
    #[error("a header field is longer than {0} bytes (limit `header_bytes`)")]
    HeaderTooLong(u64),
    /// The header fields together are longer than the limit. The number is the limit in bytes.
    #[error("the header fields are longer than {0} bytes in total (limit `head_bytes`)")]
    HeadTooLong(u64),
    /// The request has more header fields than the limit allows. The number is the limit.
    #[error("the request has more than {0} header fields (limit `headers`)")]
    TooManyHeaders(u64),
    /// The body is longer than the limit. The number is the value of the limit in bytes, and the text is the name of the limit.
    #[error("the request body is longer than {0} bytes (limit `{1}`)")]
    BodyTooLong(u64, &'static str),
    /// The body is incomplete, or its framing is malformed.
    #[error("the request body ended early, or its framing (Content-Length or chunks) is malformed")]
    BodyBroken,
    /// The end of the request, or of one of its lines, is ambiguous.
    #[error("the request is malformed: {0}")]
    Framing(&'static str),
    /// A header field that is not a list came more than once.
    #[error("the {0} header came more than once: send one")]
    Twice(&'static str),
    /// The server does not know the method.
    #[error("the method is not known")]
    UnknownMethod,
    /// The body arrived too slowly.
    #[error("the request body arrived too slowly (limits `body_seconds` and `upload_bytes_per_second`)")]
    BodySlow,
    /// The XML is refused.
    #[error("{0}")]
    Xml(&'static str),
    /// The value of `Depth` is not supported for this request.
    #[error("Depth: infinity is not served; use 0 or 1")]
    Depth,
    /// The value of a header is malformed.
    #[error("the {0} header cannot be read")]
    Header(&'static str),
    /// The request has a body, but its method does not allow a body.
    #[error("this method takes no body")]
    UnexpectedBody,
    /// A condition of the request is not true.
    #[error("a condition of the request is not true")]
    Condition,
    /// The range is not in the file. The number is the size of the file in bytes.
    #[error("the range is not in the file")]
    Range(u64),
    /// A parameter is missing or invalid, or the request breaks another rule of its protocol: for example, the body is not a form.
    #[error("invalid parameter: {0}")]
    Parameter(&'static str),
    /// A page of another site requests a change with the credentials of the browser.
    #[error("a page of another site may not request a change")]
    CrossSite,
    /// The host of the request has another TLS policy than this connection.
    #[error("this connection was opened for another host: open a new connection for this host")]
    Misdirected,
    /// The destination is on another server, or in another datastore.
    #[error(
        "the destination is on another server or in another datastore: let the client read the source and write the destination"
    )]
    Elsewhere,
    /// The content does not match the digest in the request.
    #[error("the content does not match its digest: send it again")]
    Digest,
    /// Objects and lists are nested too deeply, or the JSON has too many values.
    #[error("the JSON is nested too deeply, or has too many values (limits `json_depth` and `json_values`)")]
    JsonDepth,
    /// The request target is malformed.
    #[error("the request target is refused: {0}")]
    Target(&'static str),
    /// The host of the request is missing, malformed or ambiguous.
    #[error("the Host is refused: {0}")]
    Host(&'static str),
    /// The transfer coding is unknown.
    #[error("unsupported Transfer-Encoding: only `chunked` is supported")]
    UnknownCoding,
    /// A value begins or ends with a blank, in HTTP/2.
    #[error("a header value begins or ends with a space or a tab")]
    Blanks,
    /// A trusted proxy describes the client in headers that cannot be used.
    #[error("the headers with which a trusted proxy describes the client are refused: {0}")]
    Forwarded(&'static str),
    /// The subrequest of a proxy does not describe the request of the visitor.
    #[error("the subrequest of the proxy is refused: {0}")]
    Subrequest(&'static str),
    /// A request has a header that could make the application serve another request than the request that was judged.
    #[error(
        "a header {0} is refused: some applications take the path, the method or the user from it. Do not send it"
    )]
    Misleading(&'static str),
    /// The header `Upgrade` of a request names a protocol other than WebSocket.
    #[error(
        "a header `upgrade` with a value other than `websocket` is refused: the server could not check requests over the new protocol. Do not send it"
    )]
    Upgrade,
    /// The names of the visitor's groups are longer in total than the limit. The number is the limit in bytes.
    #[error(
        "the names of the user's groups have more than {0} bytes in total. Remove the user from some groups, or run `enfilade application set NAME \
         --send-groups no`: after that, the application gets no names of groups, for any user"
    )]
    GroupsTooLong(usize),
    /// The member of the fleet that must answer the request does not answer. Or too many requests already wait: requests of this user, or requests to
    /// this member.
    #[error(
        "the member of the fleet that must answer the request does not answer, or too many requests already wait (requests of this user, or requests to this member): try again"
    )]
    NotPassed,
    /// A thread of the server panicked.
    #[error("internal error: a worker thread of the server failed")]
    Worker,
}

/// Every error of a request itself, in the order of the codes. The refusal codes of doors are in other tables.
#[rustfmt::skip]
pub const CODES: [RefusalRow; 33] = [
    RefusalRow::new("HT01", Fault::Client, "no route has this path", "check the URL: a file's path has no slash at its end"),
    RefusalRow::new("HT02", Fault::Client, "the path is not allowed, or is not in canonical form", "the answer contains the reason; a file has exactly one URL"),
    RefusalRow::new("HT03", Fault::Client, "the path does not support this method", "use another method"),
    RefusalRow::new("HT04", Fault::Client, "the request target is too long", "shorten the URL, or raise the limit `uri_bytes`"),
    RefusalRow::new("HT05", Fault::Client, "a header field is too long, or there are too many", "send fewer or shorter header fields, or raise a limit: `header_bytes`, `head_bytes` or `headers`"),
    RefusalRow::new("HT06", Fault::Client, "the body is too long", "send a shorter body, or raise a limit: `json_bytes` or `xml_bytes`"),
    RefusalRow::new("HT07", Fault::Client, "the request body ended early, or its framing is malformed", "repeat the request; if there is a proxy between the client and this server, check it"),
    RefusalRow::new("HT08", Fault::Client, "the XML body is refused", "the answer contains the reason"),
    RefusalRow::new("HT09", Fault::Client, "`Depth: infinity` is not served", "use `Depth: 0` or `1`, or set `deep_listing_entries`"),
    RefusalRow::new("HT10", Fault::Client, "a header cannot be read", "the answer contains the name of the header"),
    RefusalRow::new("HT11", Fault::Client, "this method takes no body", "send no body"),
    RefusalRow::new("HT12", Fault::Client, "a condition of the request is not true", "read the file again and repeat the request"),
    RefusalRow::new("HT13", Fault::Client, "the range is not in the file", "`Content-Range` of the answer has the size of the file"),
    RefusalRow::new("HT14", Fault::Source, "an internal error: a worker thread failed", "report it, with the lines of the log"),
    RefusalRow::new("HT15", Fault::Client, "a parameter or change is not valid", "the answer contains the reason"),
    RefusalRow::new("HT16", Fault::Client, "a page of another site requested a change", "send the request from a program other than a browser, or from a page of this server"),
    RefusalRow::new("HT17", Fault::Client, "the connection was opened for a host with other TLS options", "open a new connection"),
    RefusalRow::new("HT18", Fault::Client, "the destination is on another server or in another datastore", "let the client read the source and write the destination; a proxy must not change `Host`"),
    RefusalRow::new("HT19", Fault::Client, "the content does not match the digest in the request", "send it again"),
    RefusalRow::new("HT20", Fault::Client, "the JSON is nested too deeply, or has too many values", "send less; the limits are `json_depth` and `json_values`"),
    RefusalRow::new("HT21", Fault::Client, "the request target is refused", "the answer contains the reason"),
    RefusalRow::new("HT22", Fault::Client, "the `Host` is refused", "the answer contains the reason"),
    RefusalRow::new("HT23", Fault::Client, "the Transfer-Encoding is not supported", "send `chunked`, or a Content-Length"),
    RefusalRow::new("HT24", Fault::Client, "a header value begins or ends with a space or a tab", "remove spaces and tabs from both ends of the value"),
    RefusalRow::new("HT25", Fault::Client, "the request body arrived too slowly", "use a faster connection, or change a limit: raise `body_seconds` or lower `upload_bytes_per_second`"),
    RefusalRow::new("HT26", Fault::Client, "the request is malformed", "the answer contains the reason; if there is a proxy between the client and this server, check it"),
    RefusalRow::new("HT27", Fault::Client, "a header field that is not a list was sent more than once", "send it once"),
    RefusalRow::new("HT28", Fault::Client, "the method is not known", "use another method"),
    RefusalRow::new("HT29", Fault::Operator, "a trusted proxy describes the client in headers that cannot be used", "the answer contains the reason; correct the proxy, or `[http] trusted_proxies`"),
    RefusalRow::new("HT30", Fault::Operator, "the proxy's subrequest does not describe the visitor's request, or the proxy is not allowed to ask for decisions", "`reason` in the log says what to do; use the configuration that `enfilade integrate` prints"),
    RefusalRow::new("HT31", Fault::Client, "because of a header, the application could serve a request other than the one that Enfilade checked", "the answer says which header; do not send it"),
    RefusalRow::new("HT32", Fault::Operator, "the names of the user's groups are together too long for a header", "`enfilade application set NAME --send-groups no`: the application then gets no group names of any user"),
    RefusalRow::new("HT33", Fault::Source, "the member of the fleet that must answer the request does not answer, or too many requests already wait: requests of the user, or requests to this member", "`reason` in the log says why; look at the server of that member (`enfilade fleet status`)"),
];

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

/// The row with this code, in the table above or in a table of doors 2 to 5.
pub fn refusal_row(code: &str) -> Option<&'static RefusalRow> {
    CODES.iter().find(|row| row.code == code).or_else(|| Refusal::row_of(code))
}

impl RequestError {
    /// The stable code of the error in the log.
    pub fn code(self) -> &'static str {
        match self {
            RequestError::NoRoute => "HT01",
            RequestError::Path(_) => "HT02",
            RequestError::Method => "HT03",
            RequestError::TargetTooLong(_) => "HT04",
            RequestError::HeaderTooLong(_)
            | RequestError::HeadTooLong(_)
            | RequestError::TooManyHeaders(_) => "HT05",
            RequestError::BodyTooLong(..) => "HT06",
            RequestError::BodyBroken => "HT07",
            RequestError::Xml(_) => "HT08",
            RequestError::Depth => "HT09",
            RequestError::Header(_) => "HT10",
            RequestError::UnexpectedBody => "HT11",
            RequestError::Condition => "HT12",
            RequestError::Range(_) => "HT13",
            RequestError::Worker => "HT14",
            RequestError::Parameter(_) => "HT15",
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
            RequestError::Forwarded(_) => "HT29",
            RequestError::Subrequest(_) => "HT30",
            RequestError::Misleading(_) | RequestError::Upgrade => "HT31",
            RequestError::GroupsTooLong(_) => "HT32",
            RequestError::NotPassed => "HT33",
        }
    }

    /// The side that must act on the error.
    pub(crate) fn fault(self) -> Fault {
        RefusalRow::fault_of(&CODES, self.code())
    }

    /// Whether the start of the next request on the connection is ambiguous.
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
