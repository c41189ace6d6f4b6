//! Plain HTTP for those who typed no `https`: they are sent there. And for an authority that wants to see a file before it gives a
//! certificate (RFC 8555 §8.3, HTTP-01): certbot and lego put it into a directory, and here it is shown.

use crate::body::Body;
use crate::head;
use crate::respond::Answer;
use enfilade_facts::limits::Limits;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::{Request, Response, StatusCode};

/// What plain HTTP is for.
pub struct Redirect {
    /// The port of HTTPS, as clients see it.
    pub port: u16,
    /// What an authority is shown for a token, where anything is.
    pub challenge: Challenge,
}

/// What is to be shown for a token, which is one word.
pub type Challenge = Box<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

const CHALLENGES: &str = "/.well-known/acme-challenge/";

impl Redirect {
    /// The answer to any request. Its head is held to what the other listeners hold it to.
    pub fn answer<B>(&self, request: &Request<B>, limits: &Limits) -> Answer {
        if let Err(error) = head::check(request, limits) {
            return head::refused(error, request.version());
        }
        if let Some(token) = request.uri().path().strip_prefix(CHALLENGES) {
            return match is_word(token).then(|| (self.challenge)(token)).flatten() {
                Some(bytes) => said(StatusCode::OK, Body::from(bytes)),
                None => said(StatusCode::NOT_FOUND, Body::from("there is no such challenge\n".to_owned())),
            };
        }
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).and_then(host_of);
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let port = if self.port == 443 { String::new() } else { format!(":{}", self.port) };
        let location =
            host.and_then(|host| HeaderValue::from_str(&format!("https://{host}{port}{target}")).ok());
        let Some(location) = location.filter(|_| target.starts_with('/')) else {
            return said(StatusCode::BAD_REQUEST, Body::from("expected a Host\n".to_owned()));
        };
        // The method and what is sent stay what they are; a client that sends a secret here has sent it in the clear already.
        let mut answer = said(StatusCode::PERMANENT_REDIRECT, Body::empty());
        answer.headers_mut().insert(LOCATION, location);
        answer
    }
}

fn said(status: StatusCode, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

/// A Host without its port, if it is one.
fn host_of(host: &str) -> Option<&str> {
    let name = match host.strip_prefix('[') {
        Some(rest) => host.get(..rest.find(']')? + 2)?,
        None => host.split(':').next()?,
    };
    let is_fit =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    (!name.is_empty() && name.bytes().all(is_fit)).then_some(name)
}

/// A token is one word of base64url (RFC 8555 §8.3), and so never a path.
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
        let answer = redirect.answer(&request, &Limits::default());
        let location = answer.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location.unwrap_or_default())
    }

    #[test]
    fn whoever_comes_is_sent_to_the_same_place_over_tls() {
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
