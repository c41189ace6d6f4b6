//! Which requests of an HTTP/1.1 connection have a fragment in their target. A sender must not send one (RFC 9112 §3.2); the HTTP library
//! drops it without a word, so `DELETE /a#b` would delete `/a`. The bytes are followed as they come; how a body is framed the library says.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Follows the bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct Targets(Mutex<Follower>);

impl Targets {
    /// These bytes came.
    pub(super) fn came(&self, bytes: &[u8]) {
        self.follower().came(bytes);
    }

    /// The library hands on the next request, whose body has so many bytes, or comes in chunks. Whether its target has a fragment.
    pub(super) fn begins(&self, body: Option<u64>) -> bool {
        self.follower().begins(body)
    }

    fn follower(&self) -> MutexGuard<'_, Follower> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Follower {
    at: At,
    has_fragment: bool,
    /// What came after a head whose request is not yet handed on: requests that are sent all at once.
    held: Vec<u8>,
}

/// Where the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The request line, or an empty line before it.
    Target { is_empty: bool },
    /// The lines of fields, up to an empty one.
    Fields { is_empty: bool },
    /// Past a head.
    Past,
    /// A body with so many bytes to come.
    Body(u64),
    /// The line with a chunk's size, or its extension.
    Size { size: u64, is_number: bool },
    /// A chunk with so many bytes to come, its line end included.
    Chunk(u64),
    /// The trailer section, up to an empty line.
    Trailers { is_empty: bool },
}

const BEGIN: At = At::Target { is_empty: true };

impl Default for At {
    fn default() -> Self {
        BEGIN
    }
}

impl Follower {
    fn begins(&mut self, body: Option<u64>) -> bool {
        // A request where none can begin: nothing is known of its target.
        let is_lost = !matches!(self.at, At::Past);
        let had_fragment = std::mem::take(&mut self.has_fragment);
        self.at = match body {
            Some(0) => BEGIN,
            Some(bytes) => At::Body(bytes),
            None => At::Size { size: 0, is_number: true },
        };
        let held = std::mem::take(&mut self.held);
        self.came(&held);
        had_fragment || is_lost
    }

    fn came(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.at {
                At::Past => {
                    self.held.extend_from_slice(bytes);
                    return;
                }
                At::Body(left) => self.skip(left, bytes, At::Body, BEGIN),
                At::Chunk(left) => self.skip(left, bytes, At::Chunk, At::Size { size: 0, is_number: true }),
                At::Target { .. } | At::Fields { .. } | At::Size { .. } | At::Trailers { .. } => {
                    self.line(bytes)
                }
            };
        }
    }

    /// Skips what is left of a body; what comes after it.
    fn skip<'b>(&mut self, left: u64, bytes: &'b [u8], more: fn(u64) -> At, then: At) -> &'b [u8] {
        let skipped = left.min(bytes.len() as u64);
        self.at = if skipped == left { then } else { more(left - skipped) };
        bytes.get(usize::try_from(skipped).unwrap_or(usize::MAX)..).unwrap_or_default()
    }

    /// Reads to the end of a line, or as far as it came; what comes after it.
    fn line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = memchr::memchr(b'\n', bytes);
        let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
        let is_blank = line.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        self.at = match (self.at, end.is_some()) {
            (At::Target { is_empty }, is_over) => {
                self.has_fragment |= line.contains(&b'#');
                match (is_empty && is_blank, is_over) {
                    (true, _) => BEGIN,
                    (false, true) => At::Fields { is_empty: true },
                    (false, false) => At::Target { is_empty: false },
                }
            }
            (At::Fields { is_empty }, true) if is_empty && is_blank => At::Past,
            (At::Fields { .. }, true) => At::Fields { is_empty: true },
            (At::Fields { is_empty }, false) => At::Fields { is_empty: is_empty && is_blank },
            (At::Trailers { is_empty }, true) if is_empty && is_blank => BEGIN,
            (At::Trailers { .. }, true) => At::Trailers { is_empty: true },
            (At::Trailers { is_empty }, false) => At::Trailers { is_empty: is_empty && is_blank },
            (At::Size { size, is_number }, is_over) => {
                let (size, is_number) = line.iter().fold((size, is_number), number);
                match (is_over, size) {
                    (false, _) => At::Size { size, is_number },
                    (true, 0) => At::Trailers { is_empty: true },
                    // CR LF comes after a chunk.
                    (true, _) => At::Chunk(size.saturating_add(2)),
                }
            }
            (other, _) => other,
        };
        rest
    }
}

/// One more byte of a line with a chunk's size; the number ends with the first byte that is no digit (RFC 9112 §7.1).
fn number((size, is_number): (u64, bool), byte: &u8) -> (u64, bool) {
    match char::from(*byte).to_digit(16).filter(|_| is_number) {
        Some(digit) => (size.saturating_mul(16).saturating_add(u64::from(digit)), true),
        None => (size, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a parser hands on: where each head ends, how its body is framed, and whether its target has a fragment.
    const REQUESTS: [(&str, Option<u64>, &str, bool); 9] = [
        ("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", Some(0), "", false),
        ("\r\nGET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", Some(0), "", true),
        ("PUT /a HTTP/1.1\r\nX: #\r\n\r\n", Some(9), "#\r\n\r\n#\r\n#", false),
        ("PUT /a#b HTTP/1.1\r\n\r\n", Some(3), "abc", true),
        (
            "PUT /a HTTP/1.1\nHost: x\n\n",
            None,
            "2;#=#\r\n#\n\r\nA\r\n\r\n\r\n456789\r\n0\r\nx: #\r\n\r\n",
            false,
        ),
        ("PUT /# HTTP/1.1\r\n\r\n", None, "0\r\n\r\n", true),
        ("\n\r\nPUT /a HTTP/1.1\r\n\r\n", None, "0010\r\n0123456789abcde#\r\n000\r\n\r\n", false),
        ("GET /a?x#y HTTP/1.0\r\n\r\n", Some(0), "", true),
        ("GET /a HTTP/1.1\r\n\r\n", Some(0), "", false),
    ];

    #[test]
    fn fragments_are_found_however_the_bytes_come() {
        let all: String = REQUESTS.iter().flat_map(|(head, _, body, _)| [*head, *body]).collect();
        for piece in 1..=all.len() {
            let (targets, mut given, mut handed) = (Targets::default(), 0, 0);
            let mut end = 0;
            let mut found = Vec::new();
            for bytes in all.as_bytes().chunks(piece) {
                targets.came(bytes);
                given += bytes.len();
                // The library hands a request on when its head is whole and the one before is done with.
                while let Some((head, body, text, _)) = REQUESTS.get(handed)
                    && given >= end + head.len()
                {
                    found.push(targets.begins(*body));
                    end += head.len() + text.len();
                    handed += 1;
                }
            }
            let expected: Vec<bool> = REQUESTS.iter().map(|request| request.3).collect();
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_request_where_none_can_begin_is_not_trusted() {
        let targets = Targets::default();
        targets.came(b"GET /a HT");
        assert!(targets.begins(Some(0)));
    }
}
