//! Requests that another member of the fleet answers. A request for a datastore goes to the member that serves the datastore, if the user has a role
//! in the datastore. The request of a user without a role is not passed on, because the time of the answer would reveal whether the datastore exists.
//! Changes of `datastore.cfg` go to the files member. The doors of the other member judge the request again, with the credential and the address of
//! the client.

use crate::answered_by::AnsweredBy;
use crate::body::Body;
use crate::connection::Connection;
use crate::forwarded::{X_FOR, X_HOST, X_PORT, X_PROTO};
use crate::parent_span::{ParentSpan, TRACEPARENT};
use crate::passed::{Passed, PassedBody};
use crate::request_error::{Failure, RequestError};
use crate::respond::{Answer, fail};
use crate::trace::Trace;
use crate::unread::Received;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::{CertificateAsk, Share, UNKNOWN, Visit};
use hyper::header::{
    CONNECTION, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, Uri, Version};
use std::net::SocketAddr;
use std::pin::Pin;

/// The fingerprint of the client's certificate, in hexadecimal digits. Only the listener for members reads this header.
const CERTIFICATE: HeaderName = HeaderName::from_static("x-enfilade-client-certificate");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// With this value of `Expect`, a client says that it sends the body only after the server asked for the body.
const CONTINUE: &str = "100-continue";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header in which programs that take part in a trace store data of their own (W3C Trace Context §3.3).
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Headers that are not passed on: headers about one connection, and headers with which only this server may describe the client.
const NOT_PASSED: [HeaderName; 17] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
    FORWARDED,
    X_FOR,
    X_PROTO,
    X_HOST,
    X_PORT,
    CERTIFICATE,
    REQUEST_ID,
    TRACEPARENT,
    TRACESTATE,
];

/// The other members of the fleet, to which requests are passed on.
pub trait PassOn: Send + Sync {
    /// True if the member with this name has no listener for members. In this case, no request can be passed on to the member.
    fn has_no_listener(&self, member: &str) -> bool;

    /// Sends a request to a member, and returns the head of its response.
    fn pass(&self, member: String, request: Request<Received>) -> Passing<'_>;
}

/// The response of another member, or the reason why there is no response.
pub type Passing<'p> = Pin<Box<dyn Future<Output = Result<Response<PassedBody>, String>> + Send + 'p>>;

/// Another member of the fleet, which answers a request.
pub struct Elsewhere<'f> {
    others: &'f dyn PassOn,
    member: String,
    /// The visitor's share of the slots for requests that wait for other members.
    share: Share,
}

/// The other member of the fleet that serves a datastore; `None` if this member serves it, if the request cannot be passed on, or if the visitor has
/// no role in the datastore.
pub(crate) fn home_elsewhere<'f>(
    others: &'f dyn PassOn,
    visit: &mut Visit,
    name: &DatastoreName,
) -> Option<Elsewhere<'f>> {
    let member = visit.home_elsewhere(name)?;
    reachable(others, member, visit)
}

fn reachable<'f>(others: &'f dyn PassOn, member: String, visit: &Visit) -> Option<Elsewhere<'f>> {
    let is_reachable = member != UNKNOWN && !others.has_no_listener(&member);
    is_reachable.then(|| Elsewhere { others, member, share: visit.share() })
}

/// The other member of the fleet that answers a request of a route with this path; `None` if this server itself answers the request.
pub(crate) fn member_for<'f>(
    others: &'f dyn PassOn,
    visit: &mut Visit,
    (answered_by, route): (AnsweredBy, &str),
    request: &Request<Received>,
) -> Option<Elsewhere<'f>> {
    let member = match answered_by {
        AnsweredBy::Any => return None,
        AnsweredBy::HomeOfDatastore => {
            // After the path of the route, the path of the request continues with the name of the datastore.
            let name = request.uri().path().strip_prefix(route)?.split('/').next()?.parse().ok()?;
            return home_elsewhere(others, visit, &name);
        }
        AnsweredBy::FilesMember if matches!(*request.method(), Method::GET | Method::HEAD) => return None,
        // If the files member is not known, this server itself answers. Its answer tells the client what to do.
        AnsweredBy::FilesMember => visit.files_elsewhere()?,
    };
    reachable(others, member, visit)
}

impl Elsewhere<'_> {
    /// Passes a request on to the other member, and the response back to the client. Before this call, the caller must set the path in `trace.event`.
    /// This function does not copy the path from the URL, because the URL can contain a secret.
    pub async fn answer(self, connection: Connection, request: Request<Received>, trace: Trace) -> Answer {
        match self.pass(connection, request, trace).await {
            Ok(answer) => answer,
            Err(refused) => {
                let (failure, trace) = *refused;
                fail(failure, trace)
            }
        }
    }

    /// Passes a request on like [`Elsewhere::answer`]. If this fails, returns the failure, so that the caller can show its own page.
    ///
    /// # Errors
    /// When the request names no host, the other member does not answer, or the visitor has too many waiting requests. The log gets the reason from
    /// `trace`.
    pub async fn pass(
        self,
        connection: Connection,
        mut request: Request<Received>,
        mut trace: Trace,
    ) -> Result<Answer, Box<(Failure, Trace)>> {
        if describe(&connection, &mut request, &trace).is_none() {
            return Err(Box::new((RequestError::Host("it is missing").into(), trace)));
        }
        let passed = match self.share.passed() {
            Some(_place) => self.others.pass(self.member, request).await,
            None => Err("too many requests of this user wait for other members".to_owned()),
        };
        let response = match passed {
            Ok(response) => response,
            Err(why) => {
                trace.cause = why;
                return Err(Box::new((RequestError::NotPassed.into(), trace)));
            }
        };
        let (mut head, body) = response.into_parts();
        strip(&mut head.headers);
        trace.event.status = head.status.as_u16();
        trace.event.verdict = "passed";
        let body = match Passed::new(body, trace) {
            Some(passed) => Body::Passed(Box::new(passed)),
            None => Body::empty(),
        };
        Ok(Response::from_parts(head, body))
    }
}

/// Writes the request in the form in which one server sends it to another, and adds the data that this server has about the client.
fn describe(connection: &Connection, request: &mut Request<Received>, trace: &Trace) -> Option<()> {
    // In HTTP/2 the target contains the host. If the target and `Host` both contain a host, the target counts (RFC 9112 §3.2.2).
    let host = match request.uri().authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok()?,
        None => request.headers().get(HOST)?.clone(),
    };
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    let is_continue = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(CONTINUE.as_bytes());
    let waits = headers.get_all(EXPECT).iter().any(is_continue);
    strip(headers);
    if waits {
        // The other member asks for the body before this server sends it (`passing/asked.rs`).
        headers.insert(EXPECT, HeaderValue::from_static(CONTINUE));
    }
    headers.insert(HOST, host);
    headers.insert(FORWARDED, forwarded(connection.peer, connection.is_https)?);
    headers.insert(REQUEST_ID, HeaderValue::from_str(&trace.event.id.to_string()).ok()?);
    if let Some(value) = trace.onward.and_then(ParentSpan::header) {
        headers.insert(TRACEPARENT, value);
    }
    if let Some(CertificateAsk { fingerprint }) = &connection.certificate {
        let digits: String = fingerprint.iter().map(|byte| format!("{byte:02x}")).collect();
        headers.insert(CERTIFICATE, HeaderValue::from_str(&digits).ok()?);
    }
    Some(())
}

/// The value of `Forwarded` for a client (RFC 7239 §4 to §6).
fn forwarded(client: SocketAddr, is_https: bool) -> Option<HeaderValue> {
    let scheme = if is_https { "https" } else { "http" };
    HeaderValue::from_str(&format!("for=\"{client}\";proto={scheme}")).ok()
}

/// Removes the headers about one connection (RFC 9110 §7.6.1), and the headers that only a server may set.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&NOT_PASSED) {
        headers.remove(name);
    }
}

/// The certificate of the client. The member that passed on the request sends the fingerprint of this certificate in a header.
pub(crate) fn certificate(headers: &HeaderMap) -> Option<CertificateAsk> {
    let digits = headers.get(CERTIFICATE)?.to_str().ok().filter(|digits| digits.len() == 64)?;
    let mut fingerprint = [0; 32];
    for (at, byte) in fingerprint.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(CertificateAsk { fingerprint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let row = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        headers.iter().map(row).collect()
    }

    #[test]
    fn headers_of_the_connection_and_of_servers_are_not_passed_on() {
        let mut headers = map(&[
            ("authorization", "Basic x"),
            ("destination", "https://files.example.com/dav/main/b"),
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("transfer-encoding", "chunked"),
            ("expect", "100-continue"),
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-enfilade-client-certificate", "00"),
            ("x-request-id", "mine"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("tracestate", "a=b"),
        ]);
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "destination"]);
    }

    #[test]
    fn the_client_is_described() {
        for (client, is_https, value) in [
            ("192.0.2.1:443", true, "for=\"192.0.2.1:443\";proto=https"),
            ("[2001:db8::1]:80", false, "for=\"[2001:db8::1]:80\";proto=http"),
        ] {
            assert_eq!(forwarded(client.parse().unwrap(), is_https).unwrap(), value);
        }
    }

    #[test]
    fn a_certificate_has_32_bytes() {
        let read = |digits: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CERTIFICATE, HeaderValue::from_str(digits).unwrap());
            certificate(&headers).map(|ask| ask.fingerprint[31])
        };
        assert_eq!(read(&"0a".repeat(32)), Some(10));
        for wrong in ["", "0a", &"0".repeat(63), &"0g".repeat(32), &"0a".repeat(33)] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(certificate(&HeaderMap::new()).is_none());
    }
}
