//! Inspects the bytes of an HTTP/1.1 connection for input that the HTTP library accepts, or drops without an error. A proxy in front of this server
//! may parse such input differently, which allows request smuggling. The inspected cases are:
//!
//! - a fragment in a target (RFC 9112 §3.2): the library drops the fragment, so `DELETE /a#b` would delete `/a`;
//! - a line that ends with LF without CR, in a head or in a trailer section (RFC 9112 §2.2);
//! - more than one `Content-Length`, or `Content-Length` together with `Transfer-Encoding` (RFC 9112 §6.3): the library keeps one of them.
//!
//! The library decides how a body is framed, and refuses all other malformed lines itself.

#[cfg(test)]
mod agreement;

use super::received::Malformed;
use enfilade_faces::Flaw;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Follows the bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct Heads(Mutex<Follower>);

impl Heads {
    /// Follows a new connection. When a trailer section is malformed, this follower sets `malformed`. Then the body must not be treated as complete.
    pub(super) fn new(malformed: Arc<Malformed>) -> Self {
        Heads(Mutex::new(Follower { malformed, ..Follower::default() }))
    }

    /// Processes received bytes.
    pub(super) fn came(&self, bytes: &[u8]) {
        self.follower().came(bytes);
    }

    /// This function is called when the library delivers the next request. The argument is the length of its body (`None`: chunked). Returns the flaw
    /// in the head of the request.
    pub(super) fn begins(&self, body: Option<u64>) -> Option<Flaw> {
        self.follower().begins(body)
    }

    fn follower(&self) -> MutexGuard<'_, Follower> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Follower {
    at: At,
    /// An unfinished line. The library limits its length.
    line: Vec<u8>,
    flaw: Option<Flaw>,
    has_length: bool,
    has_coding: bool,
    /// Set if a trailer section was malformed.
    malformed: Arc<Malformed>,
    /// Bytes after a head, if the library has not yet delivered the request of this head (pipelined requests).
    held: Vec<u8>,
}

/// The part of the message to which the next byte belongs.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// The request line, or an empty line before it.
    #[default]
    Target,
    /// The lines of fields, up to an empty line.
    Fields,
    /// The place after the end of a head. The library has not delivered the request yet.
    Past,
    /// A body, with the number of its remaining bytes.
    Body(u64),
    /// The line with a chunk's size, and its extension.
    Size,
    /// A chunk, with the number of its remaining bytes, including its line end.
    Chunk(u64),
    /// The trailer section, up to an empty line.
    Trailers,
}

impl Follower {
    fn begins(&mut self, body: Option<u64>) -> Option<Flaw> {
        let flaw = match self.at {
            At::Past if !self.malformed.is_so() => self.flaw,
            // No request can begin at this place, or the end of the previous request is unknown.
            _ => Some(Flaw::Boundary),
        };
        (self.flaw, self.has_length, self.has_coding) = (None, false, false);
        self.at = match body {
            Some(0) => At::Target,
            Some(bytes) => At::Body(bytes),
            None => At::Size,
        };
        let held = std::mem::take(&mut self.held);
        self.came(&held);
        flaw
    }

    fn came(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.at {
                At::Past => {
                    self.held.extend_from_slice(bytes);
                    return;
                }
                At::Body(left) => self.skip(left, bytes, At::Body, At::Target),
                At::Chunk(left) => self.skip(left, bytes, At::Chunk, At::Size),
                At::Target | At::Fields | At::Size | At::Trailers => self.lines(bytes),
            };
        }
    }

    /// Skips the rest of a body. Returns the bytes after the body.
    fn skip<'b>(&mut self, left: u64, bytes: &'b [u8], more: fn(u64) -> At, then: At) -> &'b [u8] {
        let skipped = left.min(bytes.len() as u64);
        self.at = if skipped == left { then } else { more(left - skipped) };
        bytes.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default()
    }

    /// Reads one line. An unfinished line is stored. Returns the bytes after the line.
    fn lines<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.line.extend_from_slice(bytes);
            return &[];
        };
        let (line, rest) = bytes.split_at(end + 1);
        if self.line.is_empty() {
            self.line(line);
        } else {
            let mut whole = std::mem::take(&mut self.line);
            whole.extend_from_slice(line);
            self.line(&whole);
        }
        rest
    }

    /// Reads a complete line, with its line end.
    fn line(&mut self, line: &[u8]) {
        let (text, is_bare) = match line {
            [text @ .., b'\r', b'\n'] => (text, false),
            [text @ .., _] => (text, true),
            [] => return,
        };
        self.at = match self.at {
            At::Target | At::Fields if is_bare && self.flaw.is_none() => {
                self.flaw = Some(Flaw::LineEnd);
                self.after_head_line(text)
            }
            At::Target | At::Fields => self.after_head_line(text),
            At::Trailers => {
                if is_bare {
                    self.malformed.set();
                }
                if text.is_empty() { At::Target } else { At::Trailers }
            }
            At::Size => match size(text) {
                0 => At::Trailers,
                // The two bytes CR LF follow a chunk.
                size => At::Chunk(size.saturating_add(2)),
            },
            other => other,
        };
    }

    fn after_head_line(&mut self, text: &[u8]) -> At {
        match (self.at, text) {
            (At::Target, []) => At::Target,
            (At::Target, target) => {
                if target.contains(&b'#') {
                    self.flaw = Some(Flaw::Fragment);
                }
                At::Fields
            }
            (_, []) => At::Past,
            (_, [b'c' | b'C' | b't' | b'T', ..]) => {
                let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
                let is_length = name.eq_ignore_ascii_case(b"content-length");
                let is_coding = name.eq_ignore_ascii_case(b"transfer-encoding");
                if is_length && (self.has_length || self.has_coding) || is_coding && self.has_length {
                    self.flaw = self.flaw.or(Some(Flaw::Framing));
                }
                self.has_length |= is_length;
                self.has_coding |= is_coding;
                At::Fields
            }
            _ => At::Fields,
        }
    }
}

/// The size of a chunk: the hexadecimal number at the start of its size line (RFC 9112 §7.1).
fn size(line: &[u8]) -> u64 {
    let digits = line.iter().map_while(|byte| char::from(*byte).to_digit(16));
    digits.fold(0_u64, |size, digit| size.saturating_mul(16).saturating_add(u64::from(digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each item is a request: its head, the length of its body, its body, and its flaw.
    const REQUESTS: [(&str, Option<u64>, &str, Option<Flaw>); 16] = [
        ("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", Some(0), "", None),
        ("\r\nGET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", Some(0), "", Some(Flaw::Fragment)),
        ("PUT /a HTTP/1.1\r\nX: #\r\n\r\n", Some(9), "#\n\n\n#\n\n#\n", None),
        ("PUT /a#b HTTP/1.1\r\n\r\n", Some(3), "abc", Some(Flaw::Fragment)),
        (
            "PUT /a HTTP/1.1\nHost: x\n\n",
            None,
            "2;#=#\r\n#\n\r\nA\r\n\r\n\r\n456789\r\n0\r\nx: #\r\n\r\n",
            Some(Flaw::LineEnd),
        ),
        ("PUT /# HTTP/1.1\r\n\r\n", None, "0\r\n\r\n", Some(Flaw::Fragment)),
        (
            "\n\r\nPUT /a HTTP/1.1\r\n\r\n",
            None,
            "0010\r\n0123456789abcde#\r\n000\r\n\r\n",
            Some(Flaw::LineEnd),
        ),
        ("GET /a HTTP/1.1\r\nHost: x\n\r\n", Some(0), "", Some(Flaw::LineEnd)),
        ("GET /a HTTP/1.1\r\nHost: x\r\n\n", Some(0), "", Some(Flaw::LineEnd)),
        ("PUT /a HTTP/1.1\r\ncontent-LENGTH: 3\r\n\r\n", Some(3), "abc", None),
        (
            "PUT /a HTTP/1.1\r\nContent-Length: 3\r\nX: y\r\nContent-Length: 3\r\n\r\n",
            Some(3),
            "abc",
            Some(Flaw::Framing),
        ),
        (
            "PUT /a HTTP/1.1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
            None,
            "0\r\n\r\n",
            Some(Flaw::Framing),
        ),
        (
            "PUT /a HTTP/1.1\r\ntransfer-encoding:chunked\r\ncontent-length:9\r\n\r\n",
            None,
            "0\r\n\r\n",
            Some(Flaw::Framing),
        ),
        ("PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTE: x\r\n\r\n", None, "0\r\n\r\n", None),
        ("GET /a?x#y HTTP/1.0\r\n\r\n", Some(0), "", Some(Flaw::Fragment)),
        ("GET /a HTTP/1.1\r\nContent-Type: x\r\nContent-Type: y\r\n\r\n", Some(0), "", None),
    ];

    #[test]
    fn flaws_are_found_however_the_bytes_come() {
        let all: String = REQUESTS.iter().flat_map(|(head, _, body, _)| [*head, *body]).collect();
        for piece in 1..=all.len() {
            let (heads, mut given, mut handed) = (Heads::default(), 0, 0);
            let mut end = 0;
            let mut found = Vec::new();
            for bytes in all.as_bytes().chunks(piece) {
                heads.came(bytes);
                given += bytes.len();
                // The library delivers a request when its head is complete and the previous request has ended.
                while let Some((head, body, text, _)) = REQUESTS.get(handed)
                    && given >= end + head.len()
                {
                    found.push(heads.begins(*body));
                    end += head.len() + text.len();
                    handed += 1;
                }
            }
            let expected: Vec<Option<Flaw>> = REQUESTS.iter().map(|request| request.3).collect();
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_request_where_none_can_begin_is_not_trusted() {
        let heads = Heads::default();
        heads.came(b"GET /a HT");
        assert_eq!(heads.begins(Some(0)), Some(Flaw::Boundary));
    }

    #[test]
    fn trailers_whose_lines_end_with_lf_alone_are_found() {
        let head = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (body, is_bad) in [
            ("1\r\n\n\r\n0\r\nx: y\r\n\r\n", false),
            ("0\r\nx: y\n\r\n", true),
            ("0\r\n\n", true),
            // Another parser treats the bytes after the empty line as a request. The library treats these bytes as further trailers.
            ("0\r\nx: y\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n", true),
        ] {
            for piece in 1..=body.len() {
                let malformed = Arc::<Malformed>::default();
                let heads = Heads::new(Arc::clone(&malformed));
                // With pieces of 1 byte, the body arrives together with the head. With larger pieces, it arrives after the library has delivered the
                // request.
                let (with_head, later) = body.split_at(if piece == 1 { body.len() } else { 0 });
                heads.came([head, with_head].concat().as_bytes());
                assert_eq!(heads.begins(None), None);
                later.as_bytes().chunks(piece).for_each(|piece| heads.came(piece));
                assert_eq!(malformed.is_so(), is_bad, "{body:?} in pieces of {piece}");
                let after = b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n";
                heads.came(after);
                assert_eq!(heads.begins(Some(0)).is_some(), is_bad, "{body:?} in pieces of {piece}");
            }
        }
    }
}
