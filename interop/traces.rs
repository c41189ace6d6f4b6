//! Traces of requests: a collector on loopback receives them, and the types of OpenTelemetry read them.

use crate::curl::{command, curl};
use crate::proxmox::python_path;
use crate::server::{Server, WITHOUT_PENALTIES, free_port, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Receives traces. Its answers have the status that `start` gets.
#[derive(Clone, Default)]
pub(crate) struct Collector(Arc<Mutex<Vec<String>>>);

impl Collector {
    pub(crate) fn start(status: &'static str) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (Self::answer(listener, status), url)
    }

    fn answer(listener: TcpListener, status: &'static str) -> Self {
        let collector = Collector::default();
        let received = Arc::clone(&collector.0);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let body = request(&stream);
                received.lock().unwrap().extend(body);
                let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
            }
        });
        collector
    }

    fn bodies(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Value> {
        let bodies = self.bodies();
        let bodies = bodies.iter().map(|body| serde_json::from_str::<Value>(body).unwrap());
        let of_body =
            |body: Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        bodies.flat_map(of_body).collect()
    }

    /// Waits for the span of the request for this path.
    fn span(&self, server: &Server, path: &str) -> Value {
        let find = || self.spans().into_iter().find(|span| attribute(span, "enfilade.path") == path);
        until(path, server, || find().is_some());
        find().unwrap()
    }

    /// The names of the spans below a span, in the order in which they began.
    fn below(&self, above: &Value) -> Vec<String> {
        let mut below: Vec<Value> = self.spans();
        below.retain(|span| span["parentSpanId"] == above["spanId"] && span["traceId"] == above["traceId"]);
        below.sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap().parse::<u64>().unwrap());
        below.iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// The body of a request with traces.
fn request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
    }
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    let header =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(header("content-type:"), "application/json");
    let mut body = vec![0; header("content-length:").parse().unwrap()];
    reader.read_exact(&mut body).ok()?;
    Some(String::from_utf8(body).unwrap())
}

/// The value of an attribute of a span; empty if the span has no such attribute.
pub(crate) fn attribute(span: &Value, key: &str) -> String {
    let found = span["attributes"].as_array().unwrap().iter().find(|one| one["key"] == key);
    let value = found.and_then(|one| one["value"].as_object()?.values().next()?.as_str());
    value.unwrap_or_default().to_owned()
}

/// The id of a trace that has the digits of a request id.
fn trace_of(request_id: &str) -> String {
    request_id.trim_start_matches("req-").replace('-', "")
}

/// Makes OpenTelemetry's own types read the JSON. Prints the number of spans.
const READ: &str = "import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
count = 0
for line in sys.stdin:
    request = json_format.Parse(line, ExportTraceServiceRequest())
    count += sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans)
print(count)";

const PARENT: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_trace_has_a_span_for_each_door_and_no_secret() {
    let (collector, url) = Collector::start("200 OK");
    let server = Server::start_with(&[
        ("ENFILADE_TRACES__OTLP", &url),
        ("ENFILADE_TRACES__CONTINUE_PROXIES", "true"),
        ("ENFILADE_HTTP__TRUSTED_PROXIES", "127.0.0.1"),
        WITHOUT_PENALTIES,
    ]);
    let alice = server.add_user("alice", "DatastorePowerUser");
    let secret = alice.rsplit(':').next().unwrap();
    curl(&server, &alice, "/dav/main/a", &["--upload-file", "/etc/hostname"]);
    curl(&server, &alice, "/dav/main/a?secret-query", &["--header", PARENT]);
    assert_eq!(curl(&server, &alice, "/dav/main/absent", &[]).status, 404);
    assert_eq!(curl(&server, "alice@local!test:wrong-secret", "/dav/main/b", &[]).status, 401);
    let link = server.cli(&["link", "create", "main", "/a", "--user", "alice@local"]);
    let link = link[0]["path"].as_str().unwrap();
    assert_eq!(curl(&server, "", link, &["--cookie", "__Host-console=secret-cookie"]).status, 200);
    let unsampled = PARENT.replace("-01", "-00").replace("4736", "0000");
    assert_eq!(curl(&server, &alice, "/dav/main/unsampled", &["--header", &unsampled]).status, 404);

    let doors = ["tls", "identity", "datastore", "access", "content"];
    let put = collector.span(&server, "/a");
    assert_eq!(put["name"], "PUT /dav/");
    assert_eq!(trace_of(&attribute(&put, "enfilade.request_id")), put["traceId"]);
    assert!(put["parentSpanId"].is_null());
    let of_proxy = |span: &Value| span["parentSpanId"] == "00f067aa0ba902b7";
    until("the GET", &server, || collector.spans().iter().any(of_proxy));
    let get = collector.spans().into_iter().find(of_proxy).unwrap();
    assert_eq!(
        (&get["name"], &get["traceId"]),
        (&"GET /dav/".into(), &"4bf92f3577b34da6a3ce929d0e0e4736".into())
    );
    let mut below = collector.below(&get);
    below.sort_unstable();
    let mut expected = doors;
    expected.sort_unstable();
    assert_eq!(below, expected);
    assert_eq!(attribute(&get, "user.id"), "alice@local!test");
    let absent = collector.span(&server, "/absent");
    assert_eq!(attribute(&absent, "http.response.status_code"), "404");
    assert_eq!(attribute(&absent, "enfilade.refusal"), "CT01");
    // Door 2 refused, so no later door was asked.
    let wrong = collector.span(&server, "/dav/main/b");
    assert_eq!(collector.below(&wrong), ["tls", "identity"]);

    // When the span of this last request has arrived, the earlier spans have arrived, too. The request with the flag `00` must have no span.
    curl(&server, &alice, "/dav/main/end", &[]);
    collector.span(&server, "/end");
    let bodies = collector.bodies();
    assert!(!bodies.iter().any(|body| body.contains("unsampled")));
    assert!(bodies.iter().any(|body| body.contains("\"/s/-")), "{bodies:?}");
    let of_link = link.strip_prefix("/s/").unwrap();
    for hidden in [secret, "wrong-secret", "secret-query", "secret-cookie", of_link] {
        assert!(!bodies.iter().any(|body| body.contains(hidden)), "{hidden}");
    }
    let mut python = Command::new("python3");
    python.args(["-c", READ]).env("PYTHONPATH", python_path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().unwrap();
    python.stdin.take().unwrap().write_all(bodies.join("\n").as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let count: usize = bodies.iter().map(|body| body.matches("\"spanId\":").count()).sum();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), count.to_string());
}

#[test]
fn a_sender_chooses_no_trace_without_the_setting() {
    let (collector, url) = Collector::start("200 OK");
    let proxies = ("ENFILADE_HTTP__TRUSTED_PROXIES", "127.0.0.1");
    let server = Server::start_with(&[("ENFILADE_TRACES__OTLP", &url), proxies]);
    let alice = server.add_user("alice", "DatastoreReader");
    curl(&server, &alice, "/dav/main/a", &["--header", PARENT]);
    let span = collector.span(&server, "/a");
    assert_eq!(trace_of(&attribute(&span, "enfilade.request_id")), span["traceId"]);
    assert!(span["parentSpanId"].is_null());
}

#[test]
fn requests_do_not_wait_for_a_collector_that_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let server = Server::start_with(&[("ENFILADE_TRACES__OTLP", &url)]);
    let alice = server.add_user("alice", "DatastoreReader");
    curl(&server, &alice, "/dav/main/a", &[]);
    let (_connection, _) = silent.accept().unwrap();
    // The collector has a request with a trace now, and never answers.
    let began = Instant::now();
    (0..20).for_each(|_| drop(curl(&server, &alice, "/dav/main/b", &["--max-time", "20"])));
    assert!(began.elapsed() < Duration::from_secs(60));
    until("the warning", &server, || server.log().contains("no answer within 10 s"));
}

#[test]
fn many_requests_in_a_second_keep_their_traces() {
    const REQUESTS: usize = 3_000;
    let (collector, url) = Collector::start("200 OK");
    let server = Server::start_with(&[("ENFILADE_TRACES__OTLP", &url)]);
    let alice = server.add_user("alice", "DatastoreReader");
    let many = server.url(&format!("/dav/main/n[1-{REQUESTS}]"));
    let done = command(&server, &alice).args(["--head", "--output", "/dev/null", &many]).status();
    assert!(done.unwrap().success());
    let count = || {
        let spans = collector.spans();
        let names: BTreeSet<String> = spans.iter().map(|span| attribute(span, "enfilade.path")).collect();
        names.iter().filter(|name| name.starts_with("/n")).count()
    };
    until("all traces", &server, || count() == REQUESTS);
}

#[test]
fn traces_that_the_collector_cannot_take_now_are_sent_again() {
    let (busy, url) = Collector::start("503 Service Unavailable");
    let server = Server::start_with(&[("ENFILADE_TRACES__OTLP", &url)]);
    let alice = server.add_user("alice", "DatastoreReader");
    curl(&server, &alice, "/dav/main/a", &[]);
    until("the second attempt", &server, || {
        busy.bodies().iter().filter(|body| body.contains("\"/a\"")).count() > 1
    });
    assert_eq!(server.log().matches("status 503").count(), 1, "{}", server.log());
}

#[test]
fn requests_do_not_wait_for_the_collector_and_its_traces_come_later() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let server = Server::start_with(&[("ENFILADE_TRACES__OTLP", &url)]);
    let alice = server.add_user("alice", "DatastoreReader");
    curl(&server, &alice, "/dav/main/early", &[]);
    until("the warning", &server, || server.log().contains("traces cannot be sent to"));
    curl(&server, &alice, "/dav/main/late", &[]);
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    let collector = Collector::answer(listener, "200 OK");
    collector.span(&server, "/early");
    collector.span(&server, "/late");
    until("the note", &server, || server.log().contains("traces are sent to"));
    assert_eq!(server.log().matches("traces cannot be sent").count(), 1, "{}", server.log());
}

#[test]
fn refused_traces_are_counted_and_the_last_traces_are_sent_at_the_end() {
    let (refusing, url) = Collector::start("400 Bad Request");
    let mut server = Server::start_with(&[("ENFILADE_TRACES__OTLP", &url)]);
    let alice = server.add_user("alice", "DatastoreReader");
    curl(&server, &alice, "/dav/main/a", &[]);
    refusing.span(&server, "/a");
    until("the warning", &server, || server.log().contains("refused them with status 400"));
    let metrics = format!("http://{}/metrics", server.operations);
    let metrics = command(&server, "").arg(metrics).output().unwrap().stdout;
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("enfilade_traces_total{outcome=\"lost\"} 1\n"), "{metrics}");
    assert!(metrics.contains("enfilade_traces_total{outcome=\"sent\"} 0\n"), "{metrics}");
    curl(&server, &alice, "/dav/main/last", &[]);
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().success());
    assert!(refusing.bodies().iter().any(|body| body.contains("/last")));
}
