//! The JSON form of OTLP traces (opentelemetry-proto, `ExportTraceServiceRequest`; OTLP specification, "JSON Protobuf Encoding": ids in hexadecimal
//! digits, 64-bit numbers as texts).

use super::RequestSpans;
use bytes::Bytes;
use enfilade_faces::{DoorSpan, METHODS};
use enfilade_facts::Door;
use enfilade_passage::Event;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;

/// The kinds of a span: `INTERNAL` is work within this process, and `SERVER` is a request that this process answers.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
/// The status of a span that failed.
const ERROR: u8 = 2;
/// The two flags of a span with a parent span in another process. One flag says that the parent span is in another process. The other flag says that
/// the first flag is valid.
const REMOTE_PARENT: u32 = 0x300;
/// The flag of a span that belongs to an exported trace (W3C Trace Context §3.2.2.5).
const SAMPLED: u32 = 1;

/// The body of a request to the collector, with the spans of the client requests in `ended`. `member` is the name of this machine in its fleet, or
/// empty.
pub(super) fn body(ended: &[RequestSpans], member: &str) -> Bytes {
    let spans: Vec<Span<'_>> = ended.iter().flat_map(spans).collect();
    let resource = [
        text("service.name", "enfilade"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", member),
    ];
    let scope = json!({"name": "enfilade", "version": env!("CARGO_PKG_VERSION")});
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": known(resource)},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    body.to_string().into()
}

/// A span (opentelemetry-proto, `Span`).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'e> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: Cow<'e, str>,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

/// The span of a request, and the spans of the doors.
fn spans(ended: &RequestSpans) -> impl Iterator<Item = Span<'_>> {
    std::iter::once(of_request(ended)).chain(ended.doors.iter().map(|door| of_door(ended, door)))
}

fn of_request(ended: &RequestSpans) -> Span<'_> {
    let event = &ended.event;
    // A client can send any method. So an unknown method is not in the name of the span, but only in an attribute (semantic conventions for HTTP,
    // "Name").
    let method = if is_known(&event.verb) { event.verb.as_str() } else { "HTTP" };
    Span {
        trace_id: format!("{:032x}", ended.trace_id),
        span_id: format!("{:016x}", ended.span_id),
        parent_span_id: ended.parent.map(|parent| format!("{parent:016x}")),
        flags: ended.parent.map_or(SAMPLED, |_| SAMPLED | REMOTE_PARENT),
        name: match event.route {
            "" => method.into(),
            route => format!("{method} {route}").into(),
        },
        kind: SERVER,
        start_time_unix_nano: ended.began_nanos.to_string(),
        end_time_unix_nano: ended.ended_nanos.to_string(),
        attributes: known(attributes(event)),
        // A refusal is an error of the client, and not of this server (semantic conventions for HTTP, "Status").
        status: (event.status >= 500).then(|| json!({"code": ERROR, "message": event.reason})),
    }
}

fn of_door<'e>(ended: &'e RequestSpans, span: &DoorSpan) -> Span<'e> {
    let event = &ended.event;
    let is_refusal = event.door == span.door.name();
    // For door 5, only the time for opening the datastore is measured. So `enfilade.door.asked` and `enfilade.door.busy_nanos` are left out for door
    // 5. The span of door 5 lasts until the end of the request.
    let is_counted = span.door != Door::Content;
    let busy = u64::try_from(span.busy.as_nanos()).unwrap_or(u64::MAX);
    let attributes = [
        text("enfilade.refusal", if is_refusal { event.code } else { "" }),
        text("enfilade.reason", if is_refusal { &event.reason } else { "" }),
        is_counted.then(|| number("enfilade.door.asked", u64::from(span.asked))),
        is_counted.then(|| number("enfilade.door.busy_nanos", busy)),
    ];
    Span {
        trace_id: format!("{:032x}", ended.trace_id),
        span_id: format!("{:016x}", span.span_id),
        parent_span_id: Some(format!("{:016x}", ended.span_id)),
        flags: SAMPLED,
        name: span.door.name().into(),
        kind: INTERNAL,
        start_time_unix_nano: span.began_nanos.to_string(),
        end_time_unix_nano: span.ended_nanos.to_string(),
        attributes: known(attributes),
        status: None,
    }
}

/// The attributes of a request. The names that do not begin with `enfilade` come from the semantic conventions of OpenTelemetry.
fn attributes(event: &Event) -> [Option<Value>; 16] {
    let id = event.id.to_string();
    let client = event
        .peer
        .parse()
        .map_or_else(|_| event.peer.clone(), |peer: std::net::SocketAddr| peer.ip().to_string());
    [
        text("http.request.method", if is_known(&event.verb) { &event.verb } else { "_OTHER" }),
        text("http.request.method_original", if is_known(&event.verb) { "" } else { &event.verb }),
        text("http.route", event.route),
        text("enfilade.path", &event.path),
        number_if_any("http.response.status_code", u64::from(event.status)),
        text("client.address", &client),
        text("user.id", &event.authid),
        text("enfilade.request_id", &id),
        text("enfilade.proxy_request_id", &event.proxy_id),
        text("enfilade.face", event.face),
        text("enfilade.datastore", &event.datastore),
        text("enfilade.verdict", event.verdict),
        text("enfilade.refusal", event.code),
        text("enfilade.reason", &event.reason),
        number_if_any("enfilade.revision", event.revision),
        number_if_any("enfilade.content_bytes", event.bytes),
    ]
}

/// The attributes with known values.
fn known(attributes: impl IntoIterator<Item = Option<Value>>) -> Vec<Value> {
    attributes.into_iter().flatten().collect()
}

/// An attribute; `None` if the value is empty.
fn text(key: &str, value: &str) -> Option<Value> {
    (!value.is_empty()).then(|| json!({"key": key, "value": {"stringValue": value}}))
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// An attribute; `None` if the value is 0.
fn number_if_any(key: &str, value: u64) -> Option<Value> {
    (value != 0).then(|| number(key, value))
}

fn is_known(method: &str) -> bool {
    METHODS.contains(&method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::vocabulary::RequestId;
    use std::time::Duration;

    fn ended() -> RequestSpans {
        let event = Event {
            id: RequestId(5),
            peer: "[2001:db8::1]:443".into(),
            route: "/dav/",
            verb: "GET".into(),
            authid: "alice@local".into(),
            datastore: "main".into(),
            path: "/a\nb".into(),
            verdict: "refuse",
            door: "access",
            code: "AC03",
            reason: "no".into(),
            status: 403,
            ..Event::default()
        };
        let door = DoorSpan {
            door: Door::Access,
            span_id: 3,
            began_nanos: 11,
            ended_nanos: 12,
            busy: Duration::from_micros(2),
            asked: 1,
        };
        RequestSpans {
            trace_id: 1,
            span_id: 2,
            parent: Some(4),
            began_nanos: 10,
            ended_nanos: 20,
            doors: vec![door],
            event,
        }
    }

    #[test]
    fn the_span_of_a_door_belongs_to_the_span_of_the_request() {
        let body: Value = serde_json::from_slice(&body(&[ended()], "a")).unwrap();
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][2],
            json!({"key": "service.instance.id", "value": {"stringValue": "a"}})
        );
        let spans = &resource["scopeSpans"][0]["spans"];
        let of = |at: usize, key: &str| spans[at][key].clone();
        assert_eq!(of(0, "traceId"), "00000000000000000000000000000001");
        assert_eq!((of(0, "parentSpanId"), of(0, "name")), ("0000000000000004".into(), "GET /dav/".into()));
        assert_eq!(
            (of(1, "parentSpanId"), of(0, "spanId")),
            ("0000000000000002".into(), "0000000000000002".into())
        );
        assert_eq!((of(1, "name"), of(1, "startTimeUnixNano")), ("access".into(), "11".into()));
        let attribute = |at: usize, key: &str| {
            let attributes = spans[at]["attributes"].as_array().unwrap();
            attributes.iter().find(|one| one["key"] == key).map(|one| one["value"].clone())
        };
        assert_eq!(attribute(0, "client.address"), Some(json!({"stringValue": "2001:db8::1"})));
        assert_eq!(attribute(0, "http.response.status_code"), Some(json!({"intValue": "403"})));
        assert_eq!(attribute(1, "enfilade.refusal"), Some(json!({"stringValue": "AC03"})));
        assert_eq!(attribute(0, "enfilade.revision"), None);
        assert_eq!(spans[0]["status"], Value::Null);
    }

    #[test]
    fn only_an_error_of_the_server_is_an_error_of_its_span() {
        let mut ended = ended();
        ended.event.status = 503;
        let body: Value = serde_json::from_slice(&body(&[ended], "")).unwrap();
        let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["status"], json!({"code": 2, "message": "no"}));
        let resource = &body["resourceSpans"][0]["resource"]["attributes"];
        assert_eq!(resource.as_array().unwrap().len(), 2);
    }
}
