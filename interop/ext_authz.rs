//! Asks the decision listener over gRPC as Envoy does (`envoy.service.auth.v3.Authorization/Check`). This module builds the frames of HTTP/2 and the
//! messages.

use crate::http2::{DATA, GOAWAY, HEADERS};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Types of frames (RFC 9113 §6).
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// A field of a message: its number and its bytes (Protocol Buffers, "Length-Delimited Records").
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut found = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        found.push((length & 127) as u8 | 128);
        length >>= 7;
    }
    found.push(length as u8);
    found.extend_from_slice(bytes);
    found
}

/// The first field of a message: its number, its bytes, and the rest of the message. If the field is a varint, its bytes are the bytes of the varint.
fn first_field(message: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = message.split_first()?;
    let varint = |bytes: &[u8]| {
        let last = bytes.iter().position(|byte| byte & 128 == 0).unwrap();
        (bytes[..=last].iter().rev().fold(0, |all, byte| all << 7 | usize::from(byte & 127)), last + 1)
    };
    let (number, size) = varint(rest);
    match tag & 7 {
        0 => Some((tag >> 3, &rest[..size], &rest[size..])),
        _ => Some((tag >> 3, &rest[size..size + number], &rest[size + number..])),
    }
}

/// The request of a visitor with an API token, as `CheckRequest` with the prefix of gRPC.
fn check_request(login: &str, method: &str, host: &str, target: &str, application: &str) -> Vec<u8> {
    let header =
        |name: &str, value: &str| field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
    let headers = [
        header("x-enfilade-application", application),
        header("authorization", &format!("PBSAPIToken={login}")),
    ];
    let http = [
        field(2, method.as_bytes()),
        field(4, target.as_bytes()),
        field(5, host.as_bytes()),
        field(6, b"https"),
        field(13, &headers.concat()),
    ];
    let source = field(1, &field(1, &field(1, &field(2, b"192.0.2.7"))));
    let message = field(1, &[source, field(4, &field(2, &http.concat()))].concat());
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), &message].concat()
}

/// Whether a `CheckResponse` permits the request: the response has no status, or a status with the code 0.
fn permits(mut message: &[u8]) -> bool {
    let mut code = 0;
    while let Some((number, bytes, rest)) = first_field(message) {
        if number == 1 {
            code = first_field(bytes).map_or(0, |(_, code, _)| code[0]);
        }
        message = rest;
    }
    code == 0
}

/// A connection of HTTP/2 to the decision listener. Questions are sent one after another. The connection is opened again after the server ends it
/// (RFC 9113 §6.8).
pub(crate) struct Asker {
    socket: PathBuf,
    stream: UnixStream,
    /// The number of the next stream (§5.1.1).
    next: u32,
    ends: bool,
}

impl Asker {
    pub(crate) fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Asker { socket: socket.to_owned(), stream, next: 1, ends: false }
    }

    /// Whether a request of a visitor with an API token to an application is permitted.
    pub(crate) fn permits(
        &mut self,
        login: &str,
        method: &str,
        host: &str,
        target: &str,
        application: &str,
    ) -> bool {
        if self.ends {
            *self = Asker::connect(&self.socket);
        }
        let stream = self.next;
        self.next += 2;
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "enfilade"),
            (":path", "/envoy.service.auth.v3.Authorization/Check"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        let fields = fields.map(|(name, value)| [vec![0], text(name), text(value)].concat()).concat();
        let message = check_request(login, method, host, target, application);
        let frames =
            [frame(HEADERS, END_HEADERS, stream, &fields), frame(DATA, END_STREAM, stream, &message)];
        self.stream.write_all(&frames.concat()).unwrap();
        let mut told = Vec::new();
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).unwrap();
            let [a, b, c, kind, flags, ..] = head;
            let mut content = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.stream.read_exact(&mut content).unwrap();
            match kind {
                SETTINGS if flags & ACK == 0 => self.stream.write_all(&frame(SETTINGS, ACK, 0, &[])).unwrap(),
                PING => self.stream.write_all(&frame(PING, ACK, 0, &content)).unwrap(),
                GOAWAY => self.ends = true,
                DATA if !content.is_empty() => {
                    let window = u32::try_from(content.len()).unwrap().to_be_bytes();
                    self.stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &window)).unwrap();
                    told.extend(content);
                }
                DATA | HEADERS | SETTINGS | WINDOW_UPDATE => {}
                other => panic!("a frame of type {other}"),
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                // One byte (whether the message is compressed) and the length in four bytes precede the message.
                return permits(&told[5..]);
            }
        }
    }
}

/// Flags of frames (RFC 9113 §6).
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}
