//! HTTP/1.1 on one connection.

use super::exchange::Exchange;
use crate::content::client::request;
use crate::content::peer::Peer;

/// The requests of one connection, and the response that is being received.
pub(super) struct Http1 {
    request: Vec<u8>,
    /// The length that the body of each response must have.
    bytes: usize,
    /// The part of a response head that was received.
    head: Vec<u8>,
    /// The number of missing bytes of the body; `None` while the head is not complete.
    left: Option<usize>,
}

impl Http1 {
    pub(super) fn new(peer: &Peer, path: &str, bytes: usize) -> Self {
        Http1 { request: request(peer, "GET", path, "", 0), bytes, head: Vec::new(), left: None }
    }

    /// Takes a piece of the head. Returns the number of bytes after the head, if it is complete.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        self.head.extend_from_slice(bytes);
        let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let head = String::from_utf8_lossy(self.head.get(..end).unwrap_or_default()).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        if !head.starts_with("http/1.1 200") || length != Some(self.bytes) {
            return Err(format!("unexpected answer: {head}"));
        }
        let after = self.head.len() - end - 4;
        self.head.clear();
        Ok(Some(after))
    }
}

impl Exchange for Http1 {
    fn ask(&mut self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.request);
    }

    fn came(&mut self, bytes: &[u8], _: &mut Vec<u8>) -> Result<bool, String> {
        let (left, came) = match self.left {
            Some(left) => (left, bytes.len()),
            None => match self.head(bytes)? {
                Some(after) => (self.bytes, after),
                None => return Ok(false),
            },
        };
        let left = left.checked_sub(came).ok_or("an answer is longer than it says")?;
        self.left = (left > 0).then_some(left);
        Ok(left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Http1 {
        Http1 { request: Vec::new(), bytes: 5, head: Vec::new(), left: None }
    }

    #[test]
    fn responses_are_found_however_they_come() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for piece in 1..=response.len() {
            let mut client = client();
            for _ in 0..3 {
                let complete: Vec<bool> = response
                    .chunks(piece)
                    .map(|bytes| client.came(bytes, &mut Vec::new()).unwrap())
                    .collect();
                let (last, others) = complete.split_last().unwrap();
                assert!(*last && !others.contains(&true), "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn another_answer_is_an_error() {
        for answer in ["404 Not Found\r\nContent-Length: 5", "200 OK\r\nContent-Length: 6", "200 OK\r\nA: b"]
        {
            let answer = format!("HTTP/1.1 {answer}\r\n\r\n");
            assert!(client().came(answer.as_bytes(), &mut Vec::new()).is_err(), "{answer}");
        }
        let long = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!";
        assert!(client().came(long, &mut Vec::new()).is_err());
    }
}
