//! A client of the decision listener that acts like a proxy: it keeps its connection open, and asks one question after another.

use crate::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The headers of a subrequest about a public path.
pub(crate) const SUBREQUEST: [&str; 6] = [
    "X-Forwarded-Method: GET",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: wiki.example.com",
    "X-Forwarded-Uri: /static/a",
    "X-Forwarded-For: 192.0.2.7",
    "X-Enfilade-Application: wiki",
];

/// Asks questions with `enfilade decide`. Each question consists of an authid and a request. Returns whether each question was permitted.
pub(crate) fn decide(server: &Server, questions: impl Iterator<Item = (String, String)>) -> Vec<bool> {
    let line = |(authid, request)| format!("{}\n", json!({ "auth_id": authid, "request": request }));
    let lines: Vec<String> = questions.map(line).collect();
    let output = String::from_utf8(server.cli_output(&["decide"], &lines.concat()).stdout).unwrap();
    let value = |line: &str| serde_json::from_str::<Value>(line).unwrap()["decision"] == true;
    let decided: Vec<bool> = output.lines().map(value).collect();
    assert_eq!(decided.len(), lines.len());
    decided
}

/// A connection.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

pub(crate) struct Asker {
    stream: BufReader<Box<dyn Stream>>,
    /// The prefix of the path of each AuthZEN call.
    before: String,
}

/// A response: its status, its headers in lower case, and its body.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Asker {
    pub(crate) fn connect(socket: &Path) -> Self {
        let stream: Box<dyn Stream> = Box::new(UnixStream::connect(socket).unwrap());
        Asker { stream: BufReader::new(stream), before: String::new() }
    }

    /// Connects to another service that answers AuthZEN calls below a path.
    pub(crate) fn connect_to(address: &str, before: String) -> Self {
        let stream: Box<dyn Stream> = Box::new(TcpStream::connect(address).unwrap());
        Asker { stream: BufReader::new(stream), before }
    }

    /// Sends a request with these lines of its head.
    pub(crate) fn send(&mut self, first: &str, lines: &[&str], body: &str) -> Told {
        let mut head = format!("{first} HTTP/1.1\r\nHost: pdp.example.com\r\n");
        lines.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let stream = self.stream.get_mut();
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut first = String::new();
        self.stream.read_line(&mut first).unwrap();
        let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("{first:?}")).parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).unwrap();
        Told { status, headers, body: String::from_utf8(body).unwrap() }
    }

    /// Asks about a request of a visitor with this API token, as the printed configurations do.
    pub(crate) fn visit(&mut self, login: &str, method: &str, host: &str, target: &str) -> Told {
        let lines = [
            format!("X-Forwarded-Method: {method}"),
            "X-Forwarded-Proto: https".to_owned(),
            format!("X-Forwarded-Host: {host}"),
            format!("X-Forwarded-Uri: {target}"),
            "X-Forwarded-For: 192.0.2.7".to_owned(),
            "X-Enfilade-Application: wiki".to_owned(),
            format!("Authorization: PBSAPIToken={login}"),
        ];
        let count = if login.is_empty() { 6 } else { 7 };
        let lines: Vec<&str> = lines.iter().take(count).map(String::as_str).collect();
        self.send("GET /decide/caddy", &lines, "")
    }

    /// Asks questions in batches by AuthZEN. Returns whether each question was permitted.
    pub(crate) fn evaluations(&mut self, questions: &[Value]) -> Vec<bool> {
        let mut judged = Vec::new();
        for part in questions.chunks(400) {
            let told = self.question("evaluations", &json!({ "evaluations": part }).to_string());
            let value: Value = serde_json::from_str(&told.body).unwrap();
            let part = value["evaluations"].as_array().unwrap_or_else(|| panic!("{value}"));
            judged.extend(part.iter().map(|one| one["decision"] == true));
        }
        assert_eq!(judged.len(), questions.len());
        judged
    }

    /// Sends a question to a call of AuthZEN, such as `evaluation`.
    pub(crate) fn question(&mut self, call: &str, body: &str) -> Told {
        self.send(
            &format!("POST {}/access/v1/{call}", self.before),
            &["Content-Type: application/json"],
            body,
        )
    }
}
