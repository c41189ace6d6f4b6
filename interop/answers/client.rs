//! Sends requests and reads answers. HTTP/1.1 is written byte for byte; HTTP/2 uses a library.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

const PATIENCE: Duration = Duration::from_secs(60);

/// A request.
#[derive(Clone, Default)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Ask {
    pub(super) fn new(method: &str, target: &str) -> Self {
        Ask { method: method.to_owned(), target: target.to_owned(), ..Ask::default() }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(super) fn json(self, body: &serde_json::Value) -> Self {
        match body.is_null() {
            true => self,
            false => self.with("Content-Type", "application/json").body(body.to_string()),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The request as text, for the files that contain the answers in full.
    pub(super) fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| format!("> {name}: {value}\n"));
        let body = match (self.body.is_empty(), std::str::from_utf8(&self.body)) {
            (true, _) => String::new(),
            (false, Ok(text)) if text.len() < 4096 => format!("> \n> {}\n", text.replace('\n', "\n> ")),
            (false, _) => format!("> \n> ({} bytes)\n", self.body.len()),
        };
        format!("> {} {}\n{}{body}", self.method, self.target, fields.collect::<String>())
    }
}

/// An answer. If the connection ended without an answer, the status is 0.
#[derive(Clone, Default)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) line: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// The address and port of the client, which are the field `peer` in the log.
    pub(super) peer: String,
    pub(super) nth: usize,
}

impl Got {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A connection from a loopback address that no other connection of this process uses. The log identifies connections by address and port, and the
/// kernel assigns the same port again later.
fn connected(address: &str) -> TcpStream {
    static COUNT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let own = SocketAddr::from((Ipv4Addr::new(127, 1, high, low), 0));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &own).unwrap();
    connect(&socket, &address.parse::<SocketAddr>().unwrap()).unwrap();
    TcpStream::from(socket)
}

/// A connection of HTTP/1.1 that stays open until the server closes it.
pub(super) struct Client {
    address: String,
    stream: Option<BufReader<TcpStream>>,
    peer: String,
    asked: usize,
}

impl Client {
    pub(super) fn new(address: &str) -> Self {
        Client { address: address.to_owned(), stream: None, peer: String::new(), asked: 0 }
    }

    pub(super) fn ask(&mut self, ask: &Ask) -> Got {
        let stream = self.stream.get_or_insert_with(|| {
            let stream = connected(&self.address);
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            (self.peer, self.asked) = (stream.local_addr().unwrap().to_string(), 0);
            BufReader::new(stream)
        });
        let mut bytes = format!("{} {} HTTP/1.1\r\n", ask.method, ask.target).into_bytes();
        if !ask.has("host") {
            bytes.extend_from_slice(b"Host: house.example\r\n");
        }
        for (name, value) in &ask.fields {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        let says_length = ask.has("content-length") || ask.has("transfer-encoding");
        if !says_length && (!ask.body.is_empty() || matches!(ask.method.as_str(), "POST" | "PUT" | "PATCH")) {
            bytes.extend(format!("Content-Length: {}\r\n", ask.body.len()).bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&ask.body);
        let place = (self.peer.clone(), self.asked);
        self.asked += 1;
        // An error is ignored: the server may close the connection before it has read the whole request.
        let _ = stream.get_mut().write_all(&bytes);
        let got = answer(stream, ask.method == "HEAD");
        if got.as_ref().is_none_or(|got| got.field("connection") == Some("close")) {
            self.stream = None;
        }
        let (peer, nth) = place;
        Got { peer, nth, ..got.unwrap_or_default() }
    }
}

fn answer(stream: &mut BufReader<TcpStream>, is_of_head: bool) -> Option<Got> {
    let mut got = loop {
        let mut got = Got { line: line(stream)?, ..Got::default() };
        got.status = got.line.split(' ').nth(1)?.parse().ok()?;
        loop {
            let field = line(stream)?;
            let Some((name, value)) = field.split_once(':') else { break };
            got.fields.push((name.to_owned(), value.trim().to_owned()));
        }
        if got.status >= 200 {
            break got;
        }
    };
    if is_of_head || got.status == 204 || got.status == 304 {
        return Some(got);
    }
    match (got.field("content-length"), got.field("transfer-encoding")) {
        (Some(length), _) => {
            got.body = vec![0; length.parse().ok()?];
            stream.read_exact(&mut got.body).ok()?;
        }
        (None, Some("chunked")) => loop {
            let length = usize::from_str_radix(&line(stream)?, 16).ok()?;
            let at = got.body.len();
            got.body.resize(at + length, 0);
            stream.read_exact(&mut got.body[at..]).ok()?;
            line(stream)?;
            if length == 0 {
                break;
            }
        },
        _ => drop(stream.read_to_end(&mut got.body)),
    }
    Some(got)
}

/// A line without its end; bytes that are not UTF-8 are replaced.
fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut bytes = Vec::new();
    stream.read_until(b'\n', &mut bytes).ok().filter(|count| *count > 0)?;
    Some(String::from_utf8_lossy(bytes.strip_suffix(b"\r\n")?).into_owned())
}

/// A connection of HTTP/2 over TLS.
pub(super) struct Client2 {
    runtime: tokio::runtime::Runtime,
    sender: SendRequest<Full<Bytes>>,
    peer: String,
    asked: usize,
}

impl Client2 {
    pub(super) fn new(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, peer) = runtime.block_on(async {
            let stream = connected(address);
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let peer = stream.local_addr().unwrap().to_string();
            let name = ServerName::try_from("localhost").unwrap();
            let stream =
                TlsConnector::from(crate::wire::config_of_http2()).connect(name, stream).await.unwrap();
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            (sender, peer)
        });
        Client2 { runtime, sender, peer, asked: 0 }
    }

    pub(super) fn ask(&mut self, ask: &Ask) -> Got {
        let uri = format!("https://house.example{}", ask.target);
        let mut request = Request::builder().method(ask.method.as_str()).uri(uri);
        for (name, value) in &ask.fields {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(Bytes::from(ask.body.clone()))).unwrap();
        let nth = self.asked;
        self.asked += 1;
        let got = self.runtime.block_on(async {
            let answer =
                tokio::time::timeout(PATIENCE, self.sender.send_request(request)).await.ok()?.ok()?;
            let (head, body) = answer.into_parts();
            let text =
                |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let fields = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            let body = body.collect().await.ok()?.to_bytes().to_vec();
            let status = head.status.as_u16();
            Some(Got { status, line: format!("HTTP/2 {status}"), fields, body, ..Got::default() })
        });
        Got { peer: self.peer.clone(), nth, ..got.unwrap_or_default() }
    }
}
