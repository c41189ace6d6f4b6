//! HTTP/2 on one connection: the part of RFC 9113 and of RFC 7541 that a client needs for one GET after the other.

use super::exchange::Exchange;
use crate::content::peer::Peer;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The types of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags of frames.
pub(super) const END_STREAM: u8 = 1;
const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
/// The client permits no push and no dynamic table. So the status of each response is encoded in the same way.
const OWN_SETTINGS: [u8; 12] = [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
/// The bytes that the server may send on the connection, in addition to 65,535.
const WINDOW: u32 = 1 << 30;
/// `:status: 200` in the static table.
pub(super) const OK: u8 = 0x88;

/// The requests of one connection, and the response that is being received.
pub(super) struct Http2 {
    /// The encoded header fields, the same in each request.
    fields: Vec<u8>,
    /// The number of the stream of the next request.
    stream: u32,
    /// Received bytes that are not yet a whole frame.
    pending: Vec<u8>,
    /// The length that the body of each response must have, and the number of bytes that were received.
    bytes: usize,
    came: usize,
}

impl Http2 {
    pub(super) fn new(peer: &Peer, path: &str, bytes: usize) -> Self {
        // The static table contains `:method: GET` and `:scheme: https`, and the names of the next two fields.
        let mut fields = vec![0x82, 0x87];
        fields.push(0x04);
        write_text(&mut fields, &format!("{}{path}", peer.base));
        fields.push(0x01);
        write_text(&mut fields, &peer.tls.to_string());
        let (name, value) = peer.header.split_once(": ").unwrap_or_default();
        fields.push(0x00);
        write_text(&mut fields, &name.to_ascii_lowercase());
        write_text(&mut fields, value);
        Http2 { fields, stream: 1, pending: Vec::new(), bytes, came: 0 }
    }

    /// Takes a whole frame. Returns whether it ends the response.
    fn frame(&mut self, frame: &Frame<'_>, owed: &mut Vec<u8>) -> Result<bool, String> {
        let ends = frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA => self.came += frame.payload.len(),
            HEADERS if !is_ok(frame.payload) => return Err("the status is not 200".to_owned()),
            HEADERS => {}
            SETTINGS if frame.flags & ACK == 0 => {
                write_frame(owed, SETTINGS, ACK, 0, &[]);
                return Ok(false);
            }
            PING if frame.flags & ACK == 0 => {
                write_frame(owed, PING, ACK, 0, frame.payload);
                return Ok(false);
            }
            RESET => return Err("the server reset a stream".to_owned()),
            GOAWAY => return Err("the server ends the connection".to_owned()),
            _ => return Ok(false),
        }
        match ends.then(|| std::mem::take(&mut self.came)) {
            None => Ok(false),
            Some(came) if came == self.bytes => Ok(true),
            Some(came) => Err(format!("a response has {came} bytes, and not the length of the file")),
        }
    }
}

impl Exchange for Http2 {
    fn ask(&mut self, to: &mut Vec<u8>) {
        if self.stream == 1 {
            to.extend_from_slice(PREFACE);
            write_frame(to, SETTINGS, 0, 0, &OWN_SETTINGS);
            write_frame(to, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        }
        write_frame(to, HEADERS, END_STREAM | END_HEADERS, self.stream, &self.fields);
        self.stream += 2;
    }

    fn came(&mut self, bytes: &[u8], owed: &mut Vec<u8>) -> Result<bool, String> {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let (mut rest, mut is_complete) = (pending.as_slice(), false);
        while let Some((frame, after)) = split(rest) {
            is_complete |= self.frame(&frame, owed)?;
            rest = after;
        }
        self.pending = rest.to_vec();
        Ok(is_complete)
    }
}

pub(super) struct Frame<'f> {
    pub(super) kind: u8,
    flags: u8,
    pub(super) stream: u32,
    payload: &'f [u8],
}

/// The first frame, and the bytes after it; `None` if it is not complete.
pub(super) fn split(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<9>()?;
    let [high, middle, low, kind, flags, stream @ ..] = *head;
    let length = u32::from_be_bytes([0, high, middle, low]);
    let (payload, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((Frame { kind, flags, stream: u32::from_be_bytes(stream), payload }, rest))
}

pub(super) fn write_frame(to: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    to.extend_from_slice(&length);
    to.extend_from_slice(&[kind, flags]);
    to.extend_from_slice(&stream.to_be_bytes());
    to.extend_from_slice(payload);
}

/// Writes a text with its length (RFC 7541 §5.2), without Huffman codes.
fn write_text(to: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        to.push(length as u8);
    } else {
        to.push(127);
        length -= 127;
        while length >= 128 {
            to.push((length % 128) as u8 | 128);
            length /= 128;
        }
        to.push(length as u8);
    }
    to.extend_from_slice(text.as_bytes());
}

/// Whether the header fields begin with status 200. Changes of the size of the dynamic table may come before the status.
fn is_ok(fields: &[u8]) -> bool {
    fields.iter().find(|byte| **byte & 0xe0 != 0x20) == Some(&OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Http2 {
        Http2 { fields: vec![0x82], stream: 1, pending: Vec::new(), bytes: 5, came: 0 }
    }

    fn response() -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, SETTINGS, 0, 0, &[]);
        write_frame(&mut bytes, HEADERS, END_HEADERS, 1, &[0x20, OK]);
        write_frame(&mut bytes, DATA, 0, 1, b"hel");
        write_frame(&mut bytes, PING, 0, 0, b"12345678");
        write_frame(&mut bytes, DATA, END_STREAM, 1, b"lo");
        bytes
    }

    #[test]
    fn responses_are_found_however_they_come() {
        let response = response();
        for piece in 1..=response.len() {
            let (mut client, mut owed) = (client(), Vec::new());
            for _ in 0..3 {
                owed.clear();
                let complete: Vec<bool> =
                    response.chunks(piece).map(|bytes| client.came(bytes, &mut owed).unwrap()).collect();
                let (last, others) = complete.split_last().unwrap();
                assert!(*last && !others.contains(&true), "in pieces of {piece}");
            }
            let mut expected = Vec::new();
            write_frame(&mut expected, SETTINGS, ACK, 0, &[]);
            write_frame(&mut expected, PING, ACK, 0, b"12345678");
            assert_eq!(owed, expected);
        }
    }

    #[test]
    fn another_answer_is_an_error() {
        let fails = |kind: u8, flags: u8, payload: &[u8]| {
            let mut bytes = Vec::new();
            write_frame(&mut bytes, kind, flags, 1, payload);
            client().came(&bytes, &mut Vec::new()).is_err()
        };
        assert!(fails(HEADERS, END_HEADERS, &[0x8d]) && fails(HEADERS, END_HEADERS | END_STREAM, &[OK]));
        assert!(
            fails(RESET, 0, &[0; 4]) && fails(GOAWAY, 0, &[0; 8]) && fails(DATA, END_STREAM, b"long text")
        );
        assert!(!fails(DATA, END_STREAM, b"hello") && !fails(WINDOW_UPDATE, 0, &[0, 0, 0, 1]));
    }

    #[test]
    fn each_request_has_the_next_odd_stream() {
        let mut client = client();
        let mut ask = || {
            let mut bytes = Vec::new();
            client.ask(&mut bytes);
            bytes
        };
        assert!(ask().starts_with(PREFACE));
        assert_eq!(ask(), [0, 0, 1, HEADERS, END_STREAM | END_HEADERS, 0, 0, 0, 3, 0x82]);
    }

    #[test]
    fn a_long_text_has_a_length_of_several_bytes() {
        let mut bytes = Vec::new();
        write_text(&mut bytes, &"x".repeat(126));
        assert_eq!((bytes[0], bytes.len()), (126, 127));
        bytes.clear();
        // The length 384 is 127 + 1 + 2 × 128, and is encoded as the bytes 127, 129 and 2 (RFC 7541 §5.1).
        write_text(&mut bytes, &"x".repeat(384));
        assert_eq!((&bytes[..3], bytes.len()), ([127, 129, 2].as_slice(), 387));
    }
}
