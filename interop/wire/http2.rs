//! The cases over HTTP/2. Frames are sent as the cases describe them. Header fields are sent only as literals (RFC 7541 §6.2).

use super::{Case, PATIENCE, World, unescaped, unhex};
use crate::certificates::Witness;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

#[test]
fn every_request_of_the_corpus_over_http2() {
    let config = config();
    World::new()
        .run(include_str!("http2.cases"), 150, |world, at, case| came(world, Arc::clone(&config), at, case));
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A SETTINGS entry that permits no dynamic table. Therefore the server sends every field of an answer as a literal.
const NO_TABLE: [u8; 6] = [0, 1, 0, 0, 0, 0];
const MARK: &[u8; 8] = b"the end.";

fn came(world: &World, config: Arc<ClientConfig>, at: usize, case: &Case) -> String {
    let text = case
        .sent
        .replace("{get}", ":method=GET :scheme=https :authority=x :path={w}")
        .replace("{put}", ":method=PUT :scheme=https :authority=x :path={n} {A}")
        .replace("{A}", &format!("authorization={}", world.credential()));
    let text = world.filled(at, &text);
    let stream = TcpStream::connect(&world.server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream);
    let mut bytes = match text.starts_with("bare ; ") {
        true => Vec::new(),
        false => [PREFACE, &frame(4, 0, 0, &NO_TABLE)].concat(),
    };
    text.split(" ; ").filter(|item| *item != "bare").for_each(|item| bytes.extend(frames(item)));
    let mut seen = Seen::default();
    let wanted = case.expected.split(' ').filter(|word| word.contains('=')).count();
    let ends = !case.expected.ends_with("open");
    let _ = tls.write_all(&bytes).and_then(|()| tls.flush());
    while (ends || seen.over() < wanted) && seen.read(&mut tls) {}
    // Sends a PING. The answer arrives after all frames that the server sent earlier.
    if !seen.is_over && tls.write_all(&frame(6, 0, 0, MARK)).and_then(|()| tls.flush()).is_ok() {
        while !seen.is_marked && seen.read(&mut tls) {}
    }
    seen.tell(&case.expected)
}

/// The bytes of one item of a case, which describes one or more frames.
fn frames(item: &str) -> Vec<u8> {
    let (kind, rest) = item.split_once(' ').unwrap_or((item, ""));
    let words: Vec<&str> = rest.split(' ').filter(|word| !word.is_empty()).collect();
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    let hex = |from: usize| unhex(words[from..].concat().trim_matches('-').as_bytes());
    let flags = |of_fields: u8| {
        let has = |word: &str| u8::from(words.contains(&word));
        has("end") | if has("part") == 1 { 0 } else { of_fields }
    };
    let fields = |representation: u8, is_huffman: bool| -> Vec<u8> {
        let fields = words[1..].iter().filter(|word| **word != "end" && **word != "part");
        fields.flat_map(|field| literal(field, representation, is_huffman)).collect()
    };
    match kind {
        "headers" => frame(1, flags(4), number(0), &fields(0, false)),
        "huffman" => frame(1, flags(4), number(0), &fields(0, true)),
        "indexing" => frame(1, flags(4), number(0), &fields(0x40, false)),
        "more" => frame(9, flags(4), number(0), &fields(0, false)),
        "block" => {
            let from = if words[1] == "end" { 2 } else { 1 };
            frame(1, flags(4), number(0), &hex(from))
        }
        "data" => {
            let text = words[1..].iter().find(|word| **word != "end").copied().unwrap_or_default();
            frame(0, flags(0), number(0), &unescaped(text))
        }
        "rst" => frame(3, 0, number(0), &number(1).to_be_bytes()),
        "ping" => frame(6, 0, 0, b"any data"),
        "frame" => frame(number(0) as u8, number(1) as u8, number(2), &hex(3)),
        "bytes" => hex(0),
        "repeat" => frames(&words[1..].join(" ")).repeat(number(0) as usize),
        other => panic!("`{other}` is no frame"),
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header field `NAME=VALUE` as a literal. The name of a pseudo-header field ends at the first `=` after its colon.
fn literal(field: &str, representation: u8, is_huffman: bool) -> Vec<u8> {
    let (name, value) = field.split_once('=').unwrap();
    let (name, value) = (unescaped(name), unescaped(value));
    let value = match is_huffman {
        true => [string_head(huffman(&value).len(), 0x80), huffman(&value)].concat(),
        false => [string_head(value.len(), 0), value].concat(),
    };
    [&[representation][..], &string_head(name.len(), 0), &name, &value].concat()
}

/// The length of a string: an integer with a prefix of seven bits (RFC 7541 §5.1).
fn string_head(length: usize, flag: u8) -> Vec<u8> {
    if length < 127 {
        return vec![flag | length as u8];
    }
    let (mut bytes, mut rest) = (vec![flag | 127], length - 127);
    while rest >= 128 {
        bytes.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    bytes.push(rest as u8);
    bytes
}

/// Encodes a text by the Huffman code (RFC 7541, appendix B). Only the characters that the cases need are supported.
fn huffman(text: &[u8]) -> Vec<u8> {
    let mut bits = String::new();
    for byte in text {
        bits.push_str(&match byte {
            b'#' => "111111111010".to_owned(),
            b'-' => "010110".to_owned(),
            b'.' => "010111".to_owned(),
            b'/' => "011000".to_owned(),
            b'0'..=b'2' => format!("{:05b}", byte - b'0'),
            b'3'..=b'9' => format!("{:06b}", byte - b'3' + 0b01_1001),
            b'=' => "100000".to_owned(),
            b'!' => "1111111000".to_owned(),
            b'@' => "1111111111010".to_owned(),
            b':' => "1011100".to_owned(),
            b'A' => "100001".to_owned(),
            b'B'..=b'W' => format!("{:07b}", byte - b'B' + 0b101_1101),
            b'X' => "11111100".to_owned(),
            b'Y' => "1110011".to_owned(),
            b'Z' => "11111101".to_owned(),
            b'_' => "100010".to_owned(),
            b'a' => "00011".to_owned(),
            b'b' => "100011".to_owned(),
            b'c' => "00100".to_owned(),
            b'd' => "100100".to_owned(),
            b'e' => "00101".to_owned(),
            b'f' => "100101".to_owned(),
            b'g' => "100110".to_owned(),
            b'h' => "100111".to_owned(),
            b'i' => "00110".to_owned(),
            b'j' => "1110100".to_owned(),
            b'k' => "1110101".to_owned(),
            b'l' => "101000".to_owned(),
            b'm' => "101001".to_owned(),
            b'n' => "101010".to_owned(),
            b'o' => "00111".to_owned(),
            b'p' => "101011".to_owned(),
            b'q' => "1110110".to_owned(),
            b'r' => "101100".to_owned(),
            b's' => "01000".to_owned(),
            b't' => "01001".to_owned(),
            b'u' => "101101".to_owned(),
            b'v' => "1110111".to_owned(),
            b'w' => "1111000".to_owned(),
            b'x' => "1111001".to_owned(),
            b'y' => "1111010".to_owned(),
            b'z' => "1111011".to_owned(),
            other => panic!("{other} has no code here"),
        });
    }
    bits.extend(std::iter::repeat_n('1', (8 - bits.len() % 8) % 8));
    let byte = |at: usize| u8::from_str_radix(&bits[at..at + 8], 2).unwrap();
    (0..bits.len()).step_by(8).map(byte).collect()
}

/// The received parts of a stream.
#[derive(Default)]
struct Stream {
    status: Option<u16>,
    content: usize,
    reset: Option<u32>,
    is_over: bool,
}

#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    streams: BTreeMap<u32, Stream>,
    goaway: Option<u32>,
    is_marked: bool,
    /// Whether the connection has ended.
    is_over: bool,
}

impl Seen {
    fn over(&self) -> usize {
        self.streams.values().filter(|stream| stream.is_over).count()
    }

    /// Reads the next bytes. Returns whether more may come.
    fn read(&mut self, from: &mut impl Read) -> bool {
        let mut piece = [0; 16 * 1024];
        match from.read(&mut piece) {
            Ok(count @ 1..) => self.bytes.extend_from_slice(&piece[..count]),
            _ => {
                self.is_over = true;
                return false;
            }
        }
        while let [a, b, c, kind, flags, s @ ..] = &self.bytes[..]
            && let length = u32::from_be_bytes([0, *a, *b, *c]) as usize
            && self.bytes.len() >= 9 + length
        {
            let stream = u32::from_be_bytes([s[0], s[1], s[2], s[3]]);
            let (kind, flags, payload) = (*kind, *flags, self.bytes[9..9 + length].to_vec());
            self.bytes.drain(..9 + length);
            self.take(kind, flags, stream, &payload);
        }
        true
    }

    fn take(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            6 => self.is_marked |= payload == MARK,
            7 => self.goaway = self.goaway.max(Some(code(4))),
            0 | 1 | 3 => {
                let stream = self.streams.entry(id).or_default();
                match kind {
                    0 => stream.content += payload.len(),
                    1 => stream.status = stream.status.or(Some(status(payload))),
                    // A reset after the whole answer means only that the server does not need the rest of the request (RFC 9113 §8.1).
                    _ if stream.is_over => {}
                    _ => stream.reset = Some(code(0)),
                }
                stream.is_over |= kind == 3 || flags & 1 == 1;
            }
            _ => {}
        }
    }

    /// The result in the notation of the cases.
    fn tell(&self, expected: &str) -> String {
        let mut words: Vec<String> = Vec::new();
        for (id, stream) in &self.streams {
            let of = |mark: &str| expected.split(' ').any(|word| word.starts_with(&format!("{id}={mark}")));
            words.push(match (stream.status, stream.reset) {
                _ if of("any") => format!("{id}=any"),
                (_, Some(code)) => format!("{id}=rst{code}"),
                (Some(status), None) if expected.contains(&format!("{id}={status}/")) => {
                    format!("{id}={status}/{}", stream.content)
                }
                (Some(status), None) => format!("{id}={status}"),
                (None, None) => format!("{id}=nothing"),
            });
        }
        words.push(match self.goaway {
            Some(0) => "closed".to_owned(),
            Some(code) => format!("goaway{code}"),
            None if self.is_marked => "open".to_owned(),
            None => "cut".to_owned(),
        });
        words.join(" ")
    }
}

/// The status in the first field of an answer. The field is an entry of the static table, or its name from the table and three digits (RFC 7541,
/// appendices A and B).
fn status(block: &[u8]) -> u16 {
    match *block {
        // The block may begin with an update of the size of the dynamic table.
        [0x20..=0x3f, ref rest @ ..] => status(rest),
        [0x88, ..] => 200,
        [0x89, ..] => 204,
        [0x8a, ..] => 206,
        [0x8b, ..] => 304,
        [0x8c, ..] => 400,
        [0x8d, ..] => 404,
        [0x8e, ..] => 500,
        [name, length, ref rest @ ..] if name & 0x0f == 8 => {
            let value = &rest[..usize::from(length & 127)];
            let text = if length < 128 { String::from_utf8(value.to_vec()).unwrap() } else { digits(value) };
            text.parse().unwrap()
        }
        _ => panic!("no status: {block:x?}"),
    }
}

/// Decodes digits in the Huffman code.
fn digits(code: &[u8]) -> String {
    let bits: String = code.iter().map(|byte| format!("{byte:08b}")).collect();
    let (mut digits, mut rest) = (String::new(), bits.as_str());
    while let Some((digit, left)) = ('0'..='9').find_map(|digit| {
        let own: String = huffman(&[digit as u8]).iter().map(|byte| format!("{byte:08b}")).collect();
        let length = if digit < '3' { 5 } else { 6 };
        Some((digit, rest.strip_prefix(&own[..length])?))
    }) {
        digits.push(digit);
        rest = left;
    }
    digits
}

pub(crate) fn config() -> Arc<ClientConfig> {
    let any = Arc::new(Witness::default());
    let mut config =
        ClientConfig::builder().dangerous().with_custom_certificate_verifier(any).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}
