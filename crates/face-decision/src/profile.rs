//! The differences between the proxies: the statuses that each proxy passes on, and the proxies that need the cookies of the application.

use enfilade_faces::credential::cookies_for_application;
use enfilade_faces::{Aim, Answer, Failure, Form, failed};
use hyper::StatusCode;
use hyper::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};

/// The header with the code of a refusal. The header is set only for a [`Failure::Request`], because the operator of the proxy needs the code in this
/// case. The codes of doors would tell the visitor too much.
const CODE: HeaderName = HeaderName::from_static("x-enfilade-code");

/// Returns the function that changes the responses of the route `path`, so that the proxy can pass them on. HAProxy, Traefik (`forwardAuth`), Caddy
/// (`forward_auth`) and Envoy (`ext_authz`) pass on every refusal, so the function for these proxies changes nothing.
pub fn form(path: &str) -> Form {
    if path == "/decide/nginx" { of_nginx } else { |_| {} }
}

/// For Traefik and Envoy, adds a header with the cookies that the application gets. These proxies cannot remove the cookies of this server
/// themselves. They replace the visitor's header `Cookie` by the header that this function adds.
pub(crate) fn with_cookies(mut answer: Answer, path: &str, headers: &HeaderMap) -> Answer {
    if path == "/decide/traefik" || path.starts_with("/decide/envoy") {
        let cookies = cookies_for_application(headers);
        answer.headers_mut().extend(cookies.map(|cookies| (COOKIE, cookies)));
    }
    answer
}

/// nginx (`auth_request`) passes on 401 and 403, and replaces any other refusal by 500. The printed configuration turns a 401 with `Location` into a
/// redirect.
fn of_nginx(answer: &mut Answer) {
    *answer.status_mut() = match answer.status() {
        StatusCode::OK => StatusCode::OK,
        StatusCode::UNAUTHORIZED | StatusCode::SEE_OTHER => StatusCode::UNAUTHORIZED,
        _ => StatusCode::FORBIDDEN,
    };
}

/// The response to a refused subrequest.
pub(crate) fn refused(failure: &Failure) -> Answer {
    let mut answer = failed(failure, Aim::Target);
    let status = answer.status();
    // If the status of a refusal would permit the request, this program has a bug. In this case the status is replaced by 403.
    if status.is_success() || status.is_redirection() || status.is_informational() {
        *answer.status_mut() = StatusCode::FORBIDDEN;
    }
    if let Failure::Request(error) = failure {
        answer.headers_mut().insert(CODE, HeaderValue::from_static(error.code()));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_faces::RequestError;

    #[test]
    fn each_proxy_gets_a_status_that_it_passes_on() {
        for (path, error, expected) in [
            ("/decide/nginx", RequestError::Subrequest("x"), 403),
            ("/decide/nginx", RequestError::UnknownMethod, 403),
            ("/decide/caddy", RequestError::UnknownMethod, 501),
            ("/decide/envoy/a", RequestError::Subrequest("x"), 403),
        ] {
            let mut answer = refused(&error.into());
            form(path)(&mut answer);
            assert_eq!(answer.status().as_u16(), expected, "{path}");
            assert_eq!(answer.headers()[CODE], error.code());
        }
    }
}
