//! Envoy's `ext_authz` over gRPC: `envoy.service.auth.v3.Authorization/Check` (envoy/service/auth/v3/external_auth.proto, attribute_context.proto).
//!
//! Only the used fields are declared here. The library skips all other fields. A message has a prefix of five bytes: a flag for compression, and the
//! length (gRPC over HTTP/2, "Length-Prefixed-Message").

use crate::browser::redirect_to_start;
use crate::identity;
use crate::profile::refused;
use crate::{judge, knows_proxy};
use enfilade_faces::credential::cookies_for_application;
use enfilade_faces::{
    Answer, Body, Faces, Failure, Received, Reply, RequestContext, RequestError, Trace, collect_message,
};
use enfilade_passage::Decision;
use hyper::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use prost::Message;

/// The protocol buffer messages that this module uses. The attribute of each field contains the type of the field, in the notation of the library,
/// and the number of the field.
mod messages {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct CheckRequest {
        #[prost(message, optional, tag = "1")]
        pub(super) attributes: Option<Attributes>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Attributes {
        #[prost(message, optional, tag = "1")]
        pub(super) source: Option<Peer>,
        #[prost(message, optional, tag = "4")]
        pub(super) request: Option<RequestOfVisitor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Peer {
        #[prost(message, optional, tag = "1")]
        pub(super) address: Option<Address>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Address {
        #[prost(message, optional, tag = "1")]
        pub(super) socket_address: Option<SocketAddress>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct SocketAddress {
        #[prost(string, tag = "2")]
        pub(super) address: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct RequestOfVisitor {
        #[prost(message, optional, tag = "2")]
        pub(super) http: Option<HttpRequest>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct HttpRequest {
        #[prost(string, tag = "2")]
        pub(super) method: String,
        #[prost(string, tag = "4")]
        pub(super) path: String,
        #[prost(string, tag = "5")]
        pub(super) host: String,
        #[prost(string, tag = "6")]
        pub(super) scheme: String,
        #[prost(message, optional, tag = "13")]
        pub(super) header_map: Option<Headers>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Headers {
        #[prost(message, repeated, tag = "1")]
        pub(super) headers: Vec<Header>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Header {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(string, tag = "2")]
        pub(super) value: String,
        #[prost(bytes = "vec", tag = "3")]
        pub(super) raw_value: Vec<u8>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct CheckResponse {
        #[prost(message, optional, tag = "1")]
        pub(super) status: Option<Status>,
        #[prost(message, optional, tag = "2")]
        pub(super) denied: Option<Denied>,
        #[prost(message, optional, tag = "3")]
        pub(super) ok: Option<Permitted>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Status {
        #[prost(int32, tag = "1")]
        pub(super) code: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Denied {
        #[prost(message, optional, tag = "1")]
        pub(super) status: Option<HttpStatus>,
        #[prost(message, repeated, tag = "2")]
        pub(super) headers: Vec<HeaderOption>,
        #[prost(string, tag = "3")]
        pub(super) body: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct HttpStatus {
        #[prost(int32, tag = "1")]
        pub(super) code: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Permitted {
        #[prost(message, repeated, tag = "2")]
        pub(super) headers: Vec<HeaderOption>,
        #[prost(string, repeated, tag = "5")]
        pub(super) headers_to_remove: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct HeaderOption {
        #[prost(message, optional, tag = "1")]
        pub(super) header: Option<Header>,
        /// With the value 2, Envoy overwrites the header if the header exists, and adds it otherwise.
        #[prost(int32, tag = "3")]
        pub(super) append_action: i32,
        #[prost(bool, tag = "4")]
        pub(super) keep_empty_value: bool,
    }
}

use messages::{
    CheckRequest, CheckResponse, Denied, Header, HeaderOption, HttpRequest, HttpStatus, Permitted, Status,
};

const OVERWRITE: i32 = 2;
/// Codes of gRPC (google.rpc.Code).
const OK: i32 = 0;
const PERMISSION_DENIED: i32 = 7;

/// The names of headers that describe the request. This server ignores these headers, because Envoy has separate fields for the same information.
const DESCRIBING: [&str; 5] =
    ["x-forwarded-method", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-uri", "x-forwarded-for"];

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

const BAD_MESSAGE: RequestError = RequestError::Subrequest("the message of Envoy cannot be read");
const NO_HEADERS: RequestError = RequestError::Subrequest(
    "Envoy did not send `header_map`: set `encode_raw_headers: true` in its filter `ext_authz`. Without this setting, Envoy joins headers of the same name",
);
const NO_SOURCE: RequestError = RequestError::Subrequest("the address of the visitor is missing");
const BAD_HEADER: RequestError = RequestError::Subrequest("a header of the visitor cannot be read");

pub(crate) fn check(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, mut connection, request, mut trace } = context;
        trace.event.face = "ext_authz";
        trace.event.path = request.uri().path().to_owned();
        let known = match knows_proxy(faces, &mut connection).await {
            Ok(()) => described(request, faces).await,
            Err(failure) => Err(failure),
        };
        let (visitor, decided) = match known {
            Ok(headers) => {
                let decided = judge(faces, &mut connection, &headers, &mut trace).await;
                (headers, decided)
            }
            Err(failure) => (HeaderMap::new(), Err(failure)),
        };
        let response = match decided.and_then(|decision| permitted(faces, &decision, &visitor, &trace)) {
            Ok(permitted) => {
                CheckResponse { status: Some(Status { code: OK }), denied: None, ok: Some(permitted) }
            }
            Err(failure) => {
                trace.failed(&failure);
                let to_start = redirect_to_start(faces, &visitor, &failure);
                denied(&to_start.unwrap_or_else(|| refused(&failure)))
            }
        };
        let answer = framed(&response);
        // The log contains the status that the visitor gets.
        let status = response.denied.and_then(|denied| denied.status).map_or(200, |status| status.code);
        trace.answered(&answer);
        trace.event.status = u16::try_from(status).unwrap_or(0);
        answer
    })
}

/// The headers of the visitor's request, and additional headers that describe this request.
async fn described(request: Request<Received>, faces: &Faces) -> Result<HeaderMap, Failure> {
    let body = collect_message(request.into_body(), &faces.limits()).await?;
    let (prefix, message) = body.split_first_chunk::<5>().ok_or(BAD_MESSAGE)?;
    let [is_compressed, length @ ..] = *prefix;
    if is_compressed != 0 || usize::try_from(u32::from_be_bytes(length)) != Ok(message.len()) {
        return Err(BAD_MESSAGE.into());
    }
    let attributes =
        CheckRequest::decode(message).ok().and_then(|check| check.attributes).ok_or(BAD_MESSAGE)?;
    let source = attributes.source.and_then(|peer| peer.address?.socket_address).ok_or(NO_SOURCE)?.address;
    let http = attributes.request.and_then(|request| request.http).ok_or(BAD_MESSAGE)?;
    let HttpRequest { method, path, host, scheme, header_map } = http;
    let mut headers = HeaderMap::new();
    for Header { key, value, raw_value } in header_map.ok_or(NO_HEADERS)?.headers {
        // Envoy has separate fields for the pseudo-headers of HTTP/2. Headers with which the visitor describes its own request are ignored.
        if key.starts_with(':') || DESCRIBING.contains(&key.as_str()) {
            continue;
        }
        let name = HeaderName::from_bytes(key.as_bytes()).map_err(|_| BAD_HEADER)?;
        let bytes = if raw_value.is_empty() { value.into_bytes() } else { raw_value };
        let value = HeaderValue::from_bytes(&bytes).map_err(|_| BAD_HEADER)?;
        headers.try_append(name, value).map_err(|_| BAD_HEADER)?;
    }
    for (name, value) in [
        ("x-forwarded-method", method),
        ("x-forwarded-proto", scheme),
        ("x-forwarded-host", host),
        ("x-forwarded-uri", path),
        ("x-forwarded-for", source),
    ] {
        headers.insert(name, HeaderValue::from_str(&value).map_err(|_| BAD_HEADER)?);
    }
    Ok(headers)
}

/// The headers that Envoy sets or removes before it passes the permitted request on to the application.
fn permitted(
    faces: &Faces,
    decision: &Decision,
    visitor: &HeaderMap,
    trace: &Trace,
) -> Result<Permitted, Failure> {
    let mut headers = HeaderMap::new();
    identity::insert(&mut headers, faces, decision, trace)?;
    // The application must not get the cookies of this server.
    let mut headers_to_remove = Vec::new();
    match cookies_for_application(visitor) {
        Some(cookies) if cookies.is_empty() => headers_to_remove.push(COOKIE.as_str().to_owned()),
        Some(cookies) => headers.extend([(COOKIE, cookies)]),
        None => {}
    }
    Ok(Permitted { headers: options(&headers), headers_to_remove })
}

fn denied(answer: &Answer) -> CheckResponse {
    let headers = options(answer.headers());
    let text = match answer.body() {
        Body::Whole(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let code = i32::from(answer.status().as_u16());
    CheckResponse {
        status: Some(Status { code: PERMISSION_DENIED }),
        denied: Some(Denied { status: Some(HttpStatus { code }), headers, body: text }),
        ok: None,
    }
}

/// Headers that Envoy sets. They replace headers of the same name.
fn options(headers: &HeaderMap) -> Vec<HeaderOption> {
    let option = |(name, value): (&HeaderName, &HeaderValue)| HeaderOption {
        header: Some(Header {
            key: name.as_str().to_owned(),
            value: value.to_str().unwrap_or_default().to_owned(),
            raw_value: Vec::new(),
        }),
        append_action: OVERWRITE,
        keep_empty_value: true,
    };
    headers.iter().map(option).collect()
}

/// The response with one message. The status of the call is sent after the message.
fn framed(response: &CheckResponse) -> Answer {
    let message = response.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let bytes = [&[0], length.to_be_bytes().as_slice(), &message].concat();
    let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
    let mut answer = Response::new(Body::WithTrailers(Some(bytes.into()), Some(Box::new(trailers))));
    *answer.status_mut() = StatusCode::OK;
    answer.headers_mut().insert(CONTENT_TYPE, GRPC);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_as_it_was_written() {
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static("remote-user"), HeaderValue::from_static(""))]);
        let response = CheckResponse {
            status: Some(Status { code: OK }),
            denied: None,
            ok: Some(Permitted { headers: options(&headers), headers_to_remove: vec!["cookie".into()] }),
        };
        let Body::WithTrailers(Some(bytes), Some(trailers)) = framed(&response).into_body() else { panic!() };
        assert_eq!(trailers[GRPC_STATUS], "0");
        assert_eq!(bytes[..5], [0, 0, 0, 0, u8::try_from(bytes.len() - 5).unwrap()]);
        assert_eq!(CheckResponse::decode(&bytes[5..]).unwrap(), response);
    }
}
