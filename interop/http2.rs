//! An HTTP/2 client that builds single frames (RFC 9113, header fields by RFC 7541 §6.2.2). The client can send frames that no library would send.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Types of frames (§6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

/// `SETTINGS_INITIAL_WINDOW_SIZE` (§6.5.2).
pub(crate) const INITIAL_WINDOW: u16 = 4;

pub(crate) struct Http2 {
    client: Child,
    input: Arc<Mutex<ChildStdin>>,
    came: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    streams: u32,
}

impl Http2 {
    pub(crate) fn connect(address: &str, settings: &[(u16, u32)]) -> Self {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-alpn", "h2", "-connect", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is needed");
        let (mut output, came) = (client.stdout.take().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let to = Arc::clone(&came);
        let input = Arc::new(Mutex::new(client.stdin.take().unwrap()));
        let answers = Arc::clone(&input);
        let reader = std::thread::spawn(move || {
            let (mut piece, mut looked) = ([0; 65_536], 0);
            while let Ok(count @ 1..) = output.read(&mut piece) {
                let mut came = to.lock().unwrap();
                came.extend_from_slice(&piece[..count]);
                // A client that reads nothing still answers pings (§6.7). Otherwise the connection ends after 50 seconds.
                while let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = &came[looked..] {
                    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                    let Some(content) = rest.get(..length) else { break };
                    if (*kind, flags & 1) == (PING, 0) {
                        let pong = [&[0, 0, 8, PING, 1, 0, 0, 0, 0], content].concat();
                        let _ = answers.lock().unwrap().write_all(&pong);
                    }
                    looked += 9 + length;
                }
            }
        });
        let mut http2 = Http2 { client, input, came, reader: Some(reader), streams: 0 };
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(key, value)| [&key.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        http2.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        http2.frame(4, 0, 0, &settings);
        http2
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) {
        let mut input = self.input.lock().unwrap();
        let _ = input.write_all(bytes).and_then(|()| input.flush());
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, content: &[u8]) {
        let [_, a, b, c] = (content.len() as u32).to_be_bytes();
        let head = [&[a, b, c, kind, flags][..], &stream.to_be_bytes()].concat();
        self.say(&[&head, content].concat());
    }

    /// Sends a request without a body. Returns its stream.
    pub(crate) fn ask(&mut self, fields: &[(&str, &str)]) -> u32 {
        let stream = self.streams * 2 + 1;
        self.streams += 1;
        let block: Vec<u8> = fields
            .iter()
            .flat_map(|(name, value)| [&[0], &text(name)[..], &text(value)[..]].concat())
            .collect();
        // The frame is HEADERS, with the flags END_STREAM and END_HEADERS.
        self.frame(1, 5, stream, &block);
        stream
    }

    /// Permits the server to send this many more bytes on a stream (§6.9). Stream 0 is the whole connection.
    pub(crate) fn open_window(&mut self, stream: u32, bytes: u32) {
        self.frame(8, 0, stream, &bytes.to_be_bytes());
    }

    /// The received frames: type, stream, length.
    pub(crate) fn frames(&self) -> Vec<(u8, u32, usize)> {
        let came = self.came.lock().unwrap();
        let (mut rest, mut frames) = (&came[..], Vec::new());
        while let [a, b, c, kind, _, w, x, y, z, ..] = *rest {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            frames.push((kind, u32::from_be_bytes([w, x, y, z]), length));
            rest = rest.get(9 + length..).unwrap_or_default();
        }
        frames
    }

    /// The number of received frames of a type.
    pub(crate) fn count(&self, kind: u8) -> usize {
        self.frames().iter().filter(|frame| frame.0 == kind).count()
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.reader.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }
}

/// A string literal without Huffman coding: its length and its bytes (RFC 7541 §5.2).
fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match text.len() {
        short @ ..127 => bytes.push(short as u8),
        long => {
            bytes.push(127);
            let mut left = long - 127;
            while left >= 128 {
                bytes.push((left % 128) as u8 | 128);
                left /= 128;
            }
            bytes.push(left as u8);
        }
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

impl Drop for Http2 {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
        self.reader.take().map(std::thread::JoinHandle::join);
    }
}
