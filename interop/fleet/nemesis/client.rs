//! A client of one member, which sends many requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

/// A client of one member. The client connects again after the connection ends.
pub(super) struct Client<'a> {
    address: &'a Mutex<String>,
    stream: Option<(String, BufReader<TcpStream>)>,
}

impl<'a> Client<'a> {
    /// A client of the member with this address. The address may change.
    pub(super) fn new(address: &'a Mutex<String>) -> Self {
        Client { address, stream: None }
    }

    /// Sends a request. Returns the status, and the body of the answer or the token of a new session. Returns `None` if no answer comes: then it is
    /// not known whether the server executed the request.
    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        credential: &str,
        body: &str,
    ) -> Option<(u16, String)> {
        let answer = self.try_ask(method, path, credential, body);
        if answer.is_none() {
            self.stream = None;
        }
        answer
    }

    fn try_ask(&mut self, method: &str, path: &str, credential: &str, body: &str) -> Option<(u16, String)> {
        let address = self.address.lock().unwrap().clone();
        if self.stream.as_ref().is_none_or(|(of, _)| *of != address) {
            let stream = TcpStream::connect(&address).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
            stream.set_nodelay(true).ok()?;
            self.stream = Some((address, BufReader::new(stream)));
        }
        let (address, stream) = self.stream.as_mut()?;
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{credential}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.get_mut().write_all(text.as_bytes()).ok()?;
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let (mut length, mut session) = (0, None);
        while line.trim_end() != "" {
            line.clear();
            stream.read_line(&mut line).ok()?;
            if let Some(("content-length", value)) = line.to_ascii_lowercase().trim_end().split_once(": ") {
                length = value.parse().ok()?;
            }
            session =
                session.or_else(|| line.trim_end().strip_prefix("x-subject-token: ").map(str::to_owned));
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        Some((status, session.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned())))
    }
}
