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

    fn on(stream: Box<dyn Stream>, user: usize) -> Self {
        let secret = stores::secret_of(user as u64 * TOKENS_EACH);
        Client { stream, authorization: format!("PBSAPIToken=user{user}@local!t0:{secret}"), body: BODY }
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
        self.stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        let body = loop {
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            answer.extend_from_slice(piece.get(..count).unwrap_or_default());
            if let Some(body) = body_of(&answer) {
                break body;
            }
        };
        if !answer.starts_with(b"HTTP/1.1 207 ") {
            return Err(format!("`{path}` is answered with {}", String::from_utf8_lossy(&answer)).into());
        }
        let text = String::from_utf8(body)?;
        let hrefs = text.split("<D:href>").skip(2).filter_map(|rest| rest.split_once('<'));
        Ok(hrefs.filter_map(|(href, _)| href.strip_prefix(&*base)).map(str::to_owned).collect())
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

/// The body of a complete response, by Content-Length or in chunks (RFC 9112 §7.1); `None` if it is not complete yet.
fn body_of(answer: &[u8]) -> Option<Vec<u8>> {
    let start = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(answer.get(..start)?).ok()?.to_ascii_lowercase();
    let mut rest = answer.get(start..)?;
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
