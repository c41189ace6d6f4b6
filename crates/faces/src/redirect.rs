//! The listener of plain HTTP, which redirects clients to HTTPS. The listener also serves the challenge files of a certificate authority (RFC 8555
//! §8.3, HTTP-01). Programs such as certbot and lego write these files into a directory.

use crate::body::Body;
use crate::connection::Proxies;
use crate::faces::Faces;
use crate::forwarded::{Origin, origin};
use crate::head;
use crate::request_error::RequestError;
use crate::respond::Answer;
use crate::routes::logged_path;
use enfilade_facts::limits::Limits;
use enfilade_passage::Event;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::{Request, Response, StatusCode};
use std::net::SocketAddr;

/// The listener of plain HTTP.
pub struct Redirect {
    /// The port of HTTPS, as clients see it.
    pub port: u16,
    /// Reads the challenge file for a token.
    pub challenge: Challenge,
}

/// Returns the content of the challenge file for a token. The token contains only letters, digits, `-` and `_`.
pub type Challenge = Box<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

/// The error for a client that already uses HTTPS through a proxy. A redirect to HTTPS would lead back to the same proxy.
const ALREADY_HTTPS: RequestError = RequestError::Forwarded(
    "the client uses https already; let the proxy connect to `plain_listen` instead of `http_listen`",
);

const CHALLENGES: &str = "/.well-known/acme-challenge/";

impl Redirect {
    /// Answers any request. This function checks the head of the request in the same way as the other listeners. `proxies` is set if the peer is a
    /// trusted proxy.
    pub fn answer<B>(
        &self,
        request: &Request<B>,
        (peer, proxies): (SocketAddr, Option<&Proxies>),
        limits: &Limits,
    ) -> Answer {
        let checked = head::check(request, limits);
        let origin = checked
            .and_then(|()| proxies.map(|all| origin(request.headers(), (peer, false), all)).transpose());
        let seen = match origin {
            Ok(Some(Origin { is_https: Some(true), .. })) => {
                return head::refused(ALREADY_HTTPS, request.version());
            }
            Ok(origin) => origin.and_then(|origin| origin.host),
            Err(error) => return head::refused(error, request.version()),
        };
        if let Some(token) = request.uri().path().strip_prefix(CHALLENGES) {
            return match is_word(token).then(|| (self.challenge)(token)).flatten() {
                Some(bytes) => said(StatusCode::OK, Body::from(bytes)),
                None => said(StatusCode::NOT_FOUND, Body::from("the challenge does not exist\n".to_owned())),
            };
        }
        // The server does not know the HTTPS port of a proxy. So if a proxy reports the host, the redirect uses port 443.
        let port = if seen.is_some() { 443 } else { self.port };
        let host = seen.as_ref().or_else(|| request.headers().get(HOST));
        let host = host.and_then(|host| host.to_str().ok()).and_then(host_of);
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let port = if port == 443 { String::new() } else { format!(":{port}") };
        let location =
            host.and_then(|host| HeaderValue::from_str(&format!("https://{host}{port}{target}")).ok());
        let Some(location) = location.filter(|_| target.starts_with('/')) else {
            return said(
                StatusCode::BAD_REQUEST,
                Body::from("expected a valid Host header, and a path that begins with `/`\n".to_owned()),
            );
        };
        // 308 keeps the method and the body. If a request contains a secret, the redirect does not disclose the secret further: the client has
        // already sent the secret unencrypted.
        let mut answer = said(StatusCode::PERMANENT_REDIRECT, Body::empty());
        answer.headers_mut().insert(LOCATION, location);
        answer
    }
}

/// The value of `face` in log lines about requests to the listener of plain HTTP.
pub const PLAIN_HTTP: &str = "http";
/// The longest logged path of a request to the listener of plain HTTP, in bytes.
const PATH_BYTES_MAX: usize = 1_024;

impl Faces {
    /// Logs a request to the listener of plain HTTP.
    pub fn record_plain_http<B>(&self, request: &Request<B>, peer: SocketAddr, answer: &Answer) {
        let (status, path) = (answer.status(), logged_path(request.uri().path()));
        let is_refused = status.is_client_error();
        self.house.audit().record(Event {
            id: self.request_id(),
            peer: peer.to_string(),
            face: PLAIN_HTTP,
            verb: request.method().as_str().into(),
            path: path.get(..path.floor_char_boundary(PATH_BYTES_MAX)).unwrap_or_default().to_owned(),
            verdict: if is_refused { "refuse" } else { "permit" },
            door: if is_refused { "face" } else { "" },
            reason: status.canonical_reason().filter(|_| is_refused).unwrap_or_default().to_owned(),
            status: status.as_u16(),
            ..Event::default()
        });
    }
}

fn said(status: StatusCode, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

/// A valid host without its port.
fn host_of(host: &str) -> Option<&str> {
    let name = match host.strip_prefix('[') {
        Some(rest) => host.get(..rest.find(']')? + 2)?,
        None => host.split(':').next()?,
    };
    let is_fit =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    (!name.is_empty() && name.bytes().all(is_fit)).then_some(name)
}

/// Whether the text can be a token. A token contains only characters of base64url (RFC 8555 §8.3), and so no `/` and no `.`.
fn is_word(token: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !token.is_empty() && token.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(port: u16, host: &str, target: &str) -> (u16, String) {
        let redirect = Redirect { port, challenge: Box::new(|_| None) };
        let request = Request::builder().uri(target).header(HOST, host).body(()).unwrap();
        let answer = redirect.answer(&request, (([192, 0, 2, 7], 1).into(), None), &Limits::default());
        let location = answer.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location.unwrap_or_default())
    }

    #[test]
    fn requests_are_redirected_to_the_same_target_over_tls() {
        for (port, host, target, expected) in [
            (443, "a.example", "/x?y=1", "https://a.example/x?y=1"),
            (8443, "a.example:8080", "/", "https://a.example:8443/"),
            (443, "[::1]:80", "/", "https://[::1]/"),
            (443, "a.example", "//evil.example/", "https://a.example//evil.example/"),
        ] {
            assert_eq!(ask(port, host, target), (308, expected.to_owned()));
        }
        for host in ["", "a b", "a@b", "a/b", "[::1"] {
            assert_eq!(ask(443, host, "/").0, 400, "{host}");
        }
    }
}
