//! The JSON form of OTLP traces (opentelemetry-proto, `ExportTraceServiceRequest`; OTLP specification, "JSON Protobuf Encoding": ids in hexadecimal
//! digits, 64-bit numbers as texts).

use super::RequestSpans;
use bytes::Bytes;
use enfilade_faces::DoorSpan;
use enfilade_facts::Door;
use enfilade_passage::Event;
use serde_json::{Value, json};

/// The kinds of a span: within this process, and a request that this process answers.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
/// The status of a span that failed.
const ERROR: u8 = 2;
/// The flag of a span with a parent span: whether it is known that another process has the parent span, and that another process has it.
const PARENT_IS_REMOTE: u32 = 0x300;

/// The body of a request with the spans of these requests. `member` is the name of this machine in its fleet, or empty.
pub(super) fn body(ended: &[RequestSpans], member: &str) -> Bytes {
    let spans: Vec<Value> = ended.iter().flat_map(spans).collect();
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

/// The span of a request, and the spans of the doors.
fn spans(ended: &RequestSpans) -> Vec<Value> {
    let event = &ended.event;
    let verb: &str = &event.verb;
    let mut request = json!({
        "traceId": format!("{:032x}", ended.trace_id),
        "spanId": format!("{:016x}", ended.span_id),
        "name": if event.route.is_empty() { verb.to_owned() } else { format!("{verb} {}", event.route) },
        "kind": SERVER,
        "startTimeUnixNano": ended.began_nanos.to_string(),
        "endTimeUnixNano": ended.ended_nanos.to_string(),
        "attributes": known(of_request(event)),
    });
    if let Some(parent) = ended.parent {
        request["parentSpanId"] = format!("{parent:016x}").into();
        request["flags"] = PARENT_IS_REMOTE.into();
    }
    // A refusal is an error of the client, and not of this server (semantic conventions for HTTP, "Status").
    if event.status >= 500 {
        request["status"] = json!({"code": ERROR, "message": event.reason});
    }
    let mut all = vec![request];
    all.extend(ended.doors.iter().map(|door| of_door(ended, door)));
    all
}

fn of_door(ended: &RequestSpans, span: &DoorSpan) -> Value {
    let event = &ended.event;
    let is_refusal = event.door == span.door.name();
    // Of the work of door 5, only the opening of the datastore is counted. Its span lasts until the end of the request.
    let (asked, busy) = match span.door {
        Door::Content => (0, 0),
        _ => (u64::from(span.asked), u64::try_from(span.busy.as_micros()).unwrap_or(u64::MAX)),
    };
    let attributes = [
        text("enfilade.refusal", if is_refusal { event.code } else { "" }),
        text("enfilade.reason", if is_refusal { &event.reason } else { "" }),
        number("enfilade.door.asked", asked),
        number("enfilade.door.busy_micros", busy),
    ];
    json!({
        "traceId": format!("{:032x}", ended.trace_id),
        "spanId": format!("{:016x}", span.span_id),
        "parentSpanId": format!("{:016x}", ended.span_id),
        "name": span.door.name(),
        "kind": INTERNAL,
        "startTimeUnixNano": span.began_nanos.to_string(),
        "endTimeUnixNano": span.ended_nanos.to_string(),
        "attributes": known(attributes),
    })
}

/// The attributes of a request. The names without `enfilade` are of the semantic conventions of OpenTelemetry.
fn of_request(event: &Event) -> [Option<Value>; 15] {
    let id = event.id.to_string();
    let client = event
        .peer
        .parse()
        .map_or_else(|_| event.peer.clone(), |peer: std::net::SocketAddr| peer.ip().to_string());
    [
        text("http.request.method", &event.verb),
        text("http.route", event.route),
        text("url.path", &event.path),
        number("http.response.status_code", u64::from(event.status)),
        text("client.address", &client),
        text("user.id", &event.authid),
        text("enfilade.request_id", &id),
        text("enfilade.proxy_request_id", &event.proxy_id),
        text("enfilade.face", event.face),
        text("enfilade.datastore", &event.datastore),
        text("enfilade.verdict", event.verdict),
        text("enfilade.refusal", event.code),
        text("enfilade.reason", &event.reason),
        number("enfilade.revision", event.revision),
        number("enfilade.content_bytes", event.bytes),
    ]
}

/// The attributes whose values are known.
fn known(attributes: impl IntoIterator<Item = Option<Value>>) -> Vec<Value> {
    attributes.into_iter().flatten().collect()
}

/// An attribute; `None` if the value is empty.
fn text(key: &str, value: &str) -> Option<Value> {
    (!value.is_empty()).then(|| json!({"key": key, "value": {"stringValue": value}}))
}

/// An attribute; `None` if the value is 0.
fn number(key: &str, value: u64) -> Option<Value> {
    (value != 0).then(|| json!({"key": key, "value": {"intValue": value.to_string()}}))
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
