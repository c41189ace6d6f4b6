//! Checks of a request's head. The HTTP library does not make these checks.

use crate::methods::METHODS;
use crate::request_error::RequestError;
use crate::respond::{Aim, Answer, failed};
use enfilade_facts::limits::Limits;
use hyper::header::{
    ACCEPT, AsHeaderName, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use hyper::{Method, Request, Uri, Version};
use std::borrow::Cow;
use std::net::Ipv6Addr;

/// A flaw in the bytes of a request's head. The HTTP library accepts or drops the bytes with the flaw, without an error. The listener detects the
/// flaw and adds it to the extensions of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The target has a fragment (RFC 9112 §3.2).
    Fragment,
    /// A line ends with LF without CR (RFC 9112 §2.2).
    LineEnd,
    /// `Content-Length` is present twice, or together with `Transfer-Encoding` (RFC 9112 §6.3).
    Framing,
    /// The start of the request is ambiguous.
    Boundary,
    /// Fields of HTTP/2 are malformed (RFC 9113 §8.3).
    Fields,
}

impl From<Flaw> for RequestError {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Fragment => RequestError::Target("a fragment (`#`) is not allowed; encode `#` as %23"),
            Flaw::LineEnd => RequestError::Framing("a line ends with LF alone; end each line with CR LF"),
            Flaw::Framing => RequestError::Framing(
                "expected at most one of Content-Length and Transfer-Encoding, and each only once",
            ),
            Flaw::Boundary => RequestError::Framing(
                "the server cannot tell where the previous request on this connection ends: open a new connection",
            ),
            Flaw::Fields => RequestError::Target(
                "`:path` has a fragment (`#`), `:scheme` is empty, or trailers have a pseudo-header field",
            ),
        }
    }
}

/// Fields that this server evaluates and that are not lists. A request may have at most one line of each field (RFC 9110 §5.3; RFC 4918 §10). If a
/// request had two lines of one field, a proxy might use the first line, and this server the second line. `Host` and `Transfer-Encoding` have
/// separate checks, and `credential.rs` refuses more than one credential.
const SINGLE: [&str; 17] = [
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "CSRFPreventionToken",
    "Depth",
    "Destination",
    "If",
    "If-Modified-Since",
    "If-Range",
    "If-Unmodified-Since",
    "Lock-Token",
    "Origin",
    "Overwrite",
    "Range",
    "Sec-Fetch-Site",
    "X-Expected-Entity-Length",
    "X-OC-Mtime",
];

/// Checks a head.
///
/// # Errors
/// The first of these errors:
/// - The head exceeds a limit.
/// - The listener found a [`Flaw`].
/// - The method is unknown (RFC 9110 §9.1).
/// - The scheme is neither `http` nor `https`.
/// - The target has no path, although the method is not CONNECT (RFC 9112 §3.2.3).
/// - The `Host` violates RFC 9112 §3.2 or RFC 9113 §8.3.1.
/// - A field that is not a list has a second line (RFC 9110 §5.3).
/// - In HTTP/1, a transfer coding is not `chunked`, or `chunked` occurs twice (RFC 9112 §6.1).
/// - In HTTP/2, a value begins or ends with a blank (RFC 9113 §8.2.1).
pub(crate) fn check<B>(request: &Request<B>, limits: &Limits) -> Result<(), RequestError> {
    let (uri, headers, version) = (request.uri(), request.headers(), request.version());
    check_sizes(uri, headers, limits)?;
    if let Some(flaw) = request.extensions().get::<Flaw>() {
        return Err((*flaw).into());
    }
    let method = request.method().as_str();
    if !METHODS.contains(&method) {
        return Err(RequestError::UnknownMethod);
    }
    if uri.scheme_str().is_some_and(|scheme| scheme != "http" && scheme != "https") {
        return Err(RequestError::Target("expected the scheme http or https"));
    }
    if uri.path_and_query().is_none() && request.method() != Method::CONNECT {
        return Err(RequestError::Target("expected a path"));
    }
    check_host(uri, headers, version)?;
    check_single(headers)?;
    if version >= Version::HTTP_2 { check_values(headers) } else { check_codings(headers) }
}

/// The response to a request with a refused head. The response closes an HTTP/1 connection if the start of the next request is ambiguous.
pub(crate) fn refused(error: RequestError, version: Version) -> Answer {
    let mut answer = failed(&error.into(), Aim::Target);
    if version < Version::HTTP_2 && error.ends_connection() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Checks the limits of a head.
fn check_sizes(uri: &Uri, headers: &HeaderMap, limits: &Limits) -> Result<(), RequestError> {
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target as u64 > limits.uri_bytes {
        return Err(RequestError::TargetTooLong(limits.uri_bytes));
    }
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let (mut total, mut count) = (0, 0);
    for field in headers {
        let bytes = size(field) as u64;
        total += bytes;
        count += 1;
        if bytes > limits.header_bytes {
            return Err(RequestError::HeaderTooLong(limits.header_bytes));
        }
        if total > limits.head_bytes {
            return Err(RequestError::HeadTooLong(limits.head_bytes));
        }
        if count > limits.headers {
            return Err(RequestError::TooManyHeaders(limits.headers));
        }
    }
    Ok(())
}

fn check_single(headers: &HeaderMap) -> Result<(), RequestError> {
    // If the number of names equals the number of lines, each name occurs only once.
    if headers.keys_len() == headers.len() {
        return Ok(());
    }
    let twice = SINGLE.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some());
    twice.map_or(Ok(()), |name| Err(RequestError::Twice(name)))
}

/// The lines of a list field as one value (RFC 9110 §5.3). `None` if the field is missing, or a line is not text.
pub fn list(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Cow<'_, str>> {
    let mut lines = headers.get_all(name).iter().map(HeaderValue::to_str);
    let first = Cow::Borrowed(lines.next()?.ok()?);
    lines.try_fold(first, |all, line| Some(Cow::Owned(format!("{all},{}", line.ok()?))))
}

/// Whether the client accepts HTML, as browsers do when they open a page.
pub fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

fn check_host(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<(), RequestError> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(RequestError::Host("the request has more than one `Host`"));
    }
    let is_valid = |host: &HeaderValue| host.to_str().is_ok_and(is_host);
    if host.is_some_and(|host| !is_valid(host)) {
        return Err(RequestError::Host("expected a host name or an IP address, with an optional port"));
    }
    match (uri.authority(), host) {
        (Some(authority), _) if !is_host(authority.as_str()) => Err(RequestError::Host(
            "the authority of the request target is not a host name or an IP address with an optional port",
        )),
        // In HTTP/1.1 the authority in the request target takes precedence, and `Host` is ignored (RFC 9112 §3.2.2). In HTTP/2 the authority and
        // `Host` must be equal.
        (Some(authority), Some(host))
            if version >= Version::HTTP_2
                && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(RequestError::Host("`Host` differs from `:authority`"))
        }
        (None, None) if version >= Version::HTTP_2 => {
            Err(RequestError::Host("both Host and `:authority` are missing"))
        }
        (_, None) if version == Version::HTTP_11 => Err(RequestError::Host("the request has no `Host`")),
        _ => Ok(()),
    }
}

/// Whether the text is `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2). For http and https the host is not empty (RFC 9110 §4.2.1).
pub(crate) fn is_host(text: &str) -> bool {
    let (is_name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok(), port),
            None => return false,
        },
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (is_registered_name(name), port)
        }
    };
    let is_port = |digits: &str| {
        digits.is_empty() || digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
    };
    is_name && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Whether the text is a `reg-name` (RFC 3986 §3.2.2) with at least one character.
fn is_registered_name(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let mut encoded = name.split('%').skip(1);
    let is_encoded = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    !name.is_empty() && name.bytes().all(is_fit) && encoded.all(is_encoded)
}

/// Checks that no transfer coding except `chunked` is used, and that `chunked` is used only once. A sender must apply `chunked` only once, as the
/// last coding (RFC 9112 §6.1). This server supports no other coding.
fn check_codings(headers: &HeaderMap) -> Result<(), RequestError> {
    let mut is_chunked = false;
    for line in headers.get_all(TRANSFER_ENCODING) {
        let bad = RequestError::Header("Transfer-Encoding");
        for coding in
            line.to_str().map_err(|_| bad)?.split(',').map(|coding| coding.trim_matches([' ', '\t']))
        {
            match coding {
                "" => return Err(bad),
                _ if !coding.eq_ignore_ascii_case("chunked") => return Err(RequestError::UnknownCoding),
                _ if is_chunked => return Err(bad),
                _ => is_chunked = true,
            }
        }
    }
    Ok(())
}

/// Checks that no value begins or ends with a blank (RFC 9113 §8.2.1). In HTTP/1.1 the parser removes these blanks.
fn check_values(headers: &HeaderMap) -> Result<(), RequestError> {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_blanks = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        is_blank(bytes.first()) || is_blank(bytes.last())
    };
    if headers.values().any(has_blanks) { Err(RequestError::Blanks) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for host in ["a", "a.example:8443", "a:", "127.0.0.1:1", "[::1]", "[2001:db8::1]:443", "x_y", "%41"] {
            assert!(is_host(host), "{host}");
        }
        for host in [
            "", ":", ":80", "a b", "a/b", "u@a", "a:x", "a:+1", "a:65536", "a:1:2", "[::1", "::1", "[a]",
            "[::1]x", "a#", "a?b", "a\\b", "%4", "%zz", "é",
        ] {
            assert!(!is_host(host), "{host}");
        }
    }

    #[test]
    fn chunked_once_is_the_only_coding() {
        let check = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(TRANSFER_ENCODING, HeaderValue::from_static(line));
            }
            check_codings(&headers)
        };
        for lines in [&[][..], &["chunked"], &["CHUNKED\t"]] {
            assert_eq!(check(lines), Ok(()), "{lines:?}");
        }
        for lines in [
            &["gzip, chunked"][..],
            &["identity,chunked"],
            &["gzip", "chunked"],
            &["chunked;a=b"],
            &["\"chunked\""],
        ] {
            assert_eq!(check(lines), Err(RequestError::UnknownCoding), "{lines:?}");
        }
        for lines in [&["chunked, chunked"][..], &["chunked", "chunked"], &["chunked,"], &[",chunked"], &[""]]
        {
            assert_eq!(check(lines), Err(RequestError::Header("Transfer-Encoding")), "{lines:?}");
        }
    }
}
