//! The differences between the proxies: which statuses each of them passes on.

use enfilade_faces::{Answer, Failure};
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// nginx (`auth_request`) passes 401 and 403 on, and replaces any other refusal by 500.
    Nginx,
    /// HAProxy, Traefik (`forwardAuth`), Caddy (`forward_auth`) and Envoy (`ext_authz` over HTTP) pass every refusal on.
    Other,
}

/// The code of a refusal whose cause is the subrequest itself, so that the operator of the proxy finds the cause. Other codes would tell the visitor too
/// much.
const CODE: HeaderName = HeaderName::from_static("x-enfilade-code");

impl Profile {
    /// The profile of the route with this path.
    pub(crate) fn of(path: &str) -> Self {
        if path == "/decide/nginx" { Profile::Nginx } else { Profile::Other }
    }

    /// The response to a refused subrequest, in the form that the proxy passes on as a refusal.
    pub(crate) fn refused(self, mut answer: Answer, failure: &Failure) -> Answer {
        let status = answer.status();
        if self == Profile::Nginx && status != StatusCode::UNAUTHORIZED {
            *answer.status_mut() = StatusCode::FORBIDDEN;
        }
        // A status that permits would be an error of this program. The request is refused nevertheless.
        if status.is_success() || status.is_redirection() || status.is_informational() {
            *answer.status_mut() = StatusCode::FORBIDDEN;
        }
        if let Failure::Request(error) = failure {
            answer.headers_mut().insert(CODE, HeaderValue::from_static(error.code()));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_faces::{Aim, RequestError, failed};

    #[test]
    fn each_proxy_gets_a_status_that_it_passes_on() {
        for (path, error, expected) in [
            ("/decide/nginx", RequestError::Subrequest("x"), 403),
            ("/decide/nginx", RequestError::UnknownMethod, 403),
            ("/decide/caddy", RequestError::UnknownMethod, 501),
            ("/decide/envoy/a", RequestError::Subrequest("x"), 403),
        ] {
            let failure = Failure::from(error);
            let answer = Profile::of(path).refused(failed(&failure, Aim::Target), &failure);
            assert_eq!(answer.status().as_u16(), expected, "{path}");
            assert_eq!(answer.headers()[CODE], error.code());
        }
    }
}
