//! A client that puts small files on one connection.

use super::{FILE_BYTES, Target};
use crate::Failure;
use crate::content::client::{answer, connect, request};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A connection without or with TLS.
trait Stream: Read + Write + Send {}

impl Stream for TcpStream {}
impl Stream for crate::served::Tls {}

/// A client with one connection to a server.
pub(super) struct Sender<'t> {
    target: &'t Target,
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

impl<'t> Sender<'t> {
    pub(super) fn open(target: &'t Target, by_tls: bool) -> Result<Self, Failure> {
        let stream: Box<dyn Stream> = match (&target.https, by_tls) {
            (Some(https), true) => Box::new(https.stream()?),
            (None, true) => return Err(format!("{} has no TLS", target.peer.name).into()),
            (_, false) => Box::new(connect(target.peer.address)?),
        };
        Ok(Sender { target, stream, buffer: vec![0; 16 * 1024] })
    }

    /// Puts a new file, whose name has this number, and waits for the answer.
    pub(super) fn put(&mut self, n: usize) -> Result<(), String> {
        let peer = &self.target.peer;
        // Head and body are sent together, as clients do with a small body.
        let mut message = request(peer, "PUT", &format!("/{}/f{n:07}", peer.place()), "", FILE_BYTES);
        message.resize(message.len() + FILE_BYTES, b'x');
        let sent = self.stream.write_all(&message).and_then(|()| self.stream.flush());
        sent.map_err(|why| format!("{}: {why}", peer.name))?;
        match answer(&mut self.stream, &mut self.buffer) {
            Ok((201, _)) => Ok(()),
            Ok((status, _)) => Err(format!("{}: PUT is answered with {status}", peer.name)),
            Err(why) => Err(format!("{}: {why}", peer.name)),
        }
    }
}
