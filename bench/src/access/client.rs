//! A client that lists directories by PROPFIND.

use super::trees::Acls;
use crate::Failure;
use crate::served::Server;
use crate::stores::{self, TOKENS_EACH};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection with or without TLS.
trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A client that lists directories on one connection.
pub(super) struct Client {
    stream: Box<dyn Stream>,
    authorization: String,
    pub(super) body: &'static str,
}

/// The password of all users that have one.
pub(super) const PASSWORD: &str = "a password of a benchmark";

pub(super) const BODY: &str = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:displayname/><D:getlastmodified/>\
                    <D:getcontentlength/><D:resourcetype/></D:prop></D:propfind>";

impl Client {
    pub(super) fn new(address: SocketAddr, user: usize) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self::on(Box::new(stream), user))
    }

    /// A client over TLS. By default a server listens only with TLS.
    pub(super) fn over_tls(server: &Server, user: usize) -> Result<Self, Failure> {
        Ok(Self::on(Box::new(server.https.stream()?), user))
    }

    /// A client without TLS that sends this header `Authorization`.
    pub(super) fn with(address: SocketAddr, authorization: String) -> Result<Self, Failure> {
        Ok(Client { authorization, ..Self::new(address, 0)? })
    }

    fn on(stream: Box<dyn Stream>, user: usize) -> Self {
        Client { stream, authorization: by_token(user), body: BODY }
    }

    /// The entries of a directory: paths below the datastore, directories with a slash at the end.
    pub(super) fn list(&mut self, acls: Acls, path: &str) -> Result<Vec<String>, Failure> {
        let base = format!("/dav/{}/", acls.name());
        let request = format!(
            "PROPFIND {base}{path} HTTP/1.1\r\nHost: localhost\r\nDepth: 1\r\nAuthorization: {}\r\n\
             Content-Type: application/xml\r\nContent-Length: {}\r\n\r\n{}",
            self.authorization,
            self.body.len(),
            self.body
        );
        let (answer, body) = self.ask(&request)?;
        if !answer.starts_with(b"HTTP/1.1 207 ") {
            return Err(format!("`{path}` is answered with {}", String::from_utf8_lossy(&answer)).into());
        }
        let text = String::from_utf8(body)?;
        let hrefs = text.split("<D:href>").skip(2).filter_map(|rest| rest.split_once('<'));
        Ok(hrefs.filter_map(|(href, _)| href.strip_prefix(&*base)).map(str::to_owned).collect())
    }

    /// Sends a request without a body for a path that begins with the name of the datastore. Returns the status of the response.
    pub(super) fn status(&mut self, method: &str, path: &str, fields: &str) -> Result<u16, Failure> {
        let request = format!(
            "{method} /dav/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n{fields}\r\n",
            self.authorization
        );
        let (answer, _) = self.ask(&request)?;
        let status = answer.get(9..12).and_then(|status| std::str::from_utf8(status).ok());
        Ok(status.ok_or("no status")?.parse()?)
    }

    /// Sends a request. Returns the whole response, and its body.
    fn ask(&mut self, request: &str) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        self.stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        loop {
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            answer.extend_from_slice(piece.get(..count).unwrap_or_default());
            if let Some(body) = body_of(&answer) {
                return Ok((answer, body));
            }
        }
    }

    /// The number of visible files in a tree.
    pub(super) fn tree(&mut self, acls: Acls, tree: &str) -> Result<u64, Failure> {
        let (mut files, mut paths) = (0, vec![tree.to_owned()]);
        while let Some(path) = paths.pop() {
            for entry in self.list(acls, &path)? {
                match entry.strip_suffix('/') {
                    Some(directory) => paths.push(directory.to_owned()),
                    None => files += 1,
                }
            }
        }
        Ok(files)
    }
}

/// The header `Authorization` with the first token of a user.
pub(super) fn by_token(user: usize) -> String {
    let secret = stores::secret_of(user as u64 * TOKENS_EACH);
    format!("PBSAPIToken=user{user}@local!t0:{secret}")
}

/// The header `Authorization` with a user's password.
pub(super) fn by_password(user: usize) -> String {
    format!("Basic {}", base64(&format!("user{user}@local:{PASSWORD}")))
}

/// Base64 with padding (RFC 4648 §4).
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(DIGITS.get(bits as usize & 63).copied().unwrap_or(b'A'));
    let mut encoded = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        encoded.extend((0..=three.len()).map(|at| digit(bits >> (18 - 6 * at))));
        encoded.extend((three.len()..3).map(|_| '='));
    }
    encoded
}

/// The body of a complete response, by Content-Length or in chunks (RFC 9112 §7.1); `None` if it is not complete yet.
fn body_of(answer: &[u8]) -> Option<Vec<u8>> {
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(answer.get(..start)?).ok()?.to_ascii_lowercase();
    let mut rest = answer.get(start..)?;
    if head.starts_with("http/1.1 204") {
        return Some(Vec::new());
    }
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length:")) {
        return rest.get(..length.trim().parse().ok()?).map(<[u8]>::to_vec);
    }
    if !rest.ends_with(b"\r\n0\r\n\r\n") {
        return None;
    }
    let mut body = Vec::with_capacity(rest.len());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(rest.get(..end)?).ok()?, 16).ok()?;
        body.extend_from_slice(rest.get(end + 2..end + 2 + length)?);
        if length == 0 {
            return Some(body);
        }
        rest = rest.get(end + length + 4..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_vectors_of_its_standard() {
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text), encoded);
        }
        assert_eq!(base64("~~~???"), "fn5+Pz8/");
    }

    #[test]
    fn a_response_is_complete_with_its_body() {
        assert_eq!(body_of(b"HTTP/1.1 204 No Content\r\n\r\n"), Some(Vec::new()));
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"), Some(b"ab".to_vec()));
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na"), None);
        assert_eq!(body_of(b"HTTP/1.1 204 No Content\r\n"), None);
    }
}
