//! One connection of the client.

use super::ServedFile;
use super::exchange::Exchange;
use super::http1::Http1;
use super::http2::Http2;
use super::servers::Measured;
use crate::Failure;
use crate::samples::Samples;
use crate::served::socket;
use crate::stopwatch::now;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// The number of addresses from which clients connect. Enfilade limits connections by address, and an address has few ports.
const ADDRESSES: usize = 64;

/// The protocol between the clients and the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/2 over TLS.
    Http2,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2 over TLS",
        }
    }

    /// The name of the directory for the servers with this protocol.
    pub(super) fn place(self) -> &'static str {
        match self {
            Protocol::Http1 => "http1",
            Protocol::Http2 => "http2",
        }
    }
}

/// An open connection. It has at most one unanswered request. Further requests wait until the response has arrived.
pub(super) struct Line {
    wire: Wire,
    exchange: Box<dyn Exchange>,
    /// The planned times of the unanswered request and of the requests that wait.
    due: VecDeque<Instant>,
}

/// Opens `count` connections, one after the other. On each connection, the client waits for the response to a first request.
pub(super) fn open(
    server: &Measured,
    protocol: Protocol,
    file: ServedFile,
    count: usize,
) -> Result<Vec<Line>, Failure> {
    let trust = trust(server)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut one = |n: usize| -> Result<Line, Failure> {
        let from = Ipv4Addr::new(127, 0, 3, 1 + (n % ADDRESSES) as u8);
        let mut line = Line::connect(server, protocol, file, &trust, from)?;
        line.first(&mut buffer)?;
        Ok(line)
    };
    let name = server.peer.name;
    (0..count).map(|n| one(n).map_err(|why| format!("{name}, connection {n}: {why}").into())).collect()
}

fn trust(server: &Measured) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    if let Some(certificate) = &server.certificate {
        roots.add(CertificateDer::from_pem_file(certificate)?)?;
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

impl Line {
    fn connect(
        server: &Measured,
        protocol: Protocol,
        file: ServedFile,
        trust: &Arc<ClientConfig>,
        from: Ipv4Addr,
    ) -> Result<Self, Failure> {
        let peer = &server.peer;
        let (wire, exchange): (Wire, Box<dyn Exchange>) = match protocol {
            Protocol::Http1 => {
                (Wire::Plain(socket(peer.address, from)?), Box::new(Http1::new(peer, file.path, file.bytes)))
            }
            Protocol::Http2 => {
                let tls = ClientConnection::new(Arc::clone(trust), ServerName::try_from("localhost")?)?;
                let stream = StreamOwned::new(tls, socket(peer.tls, from)?);
                (Wire::Tls(Box::new(stream)), Box::new(Http2::new(peer, file.path, file.bytes)))
            }
        };
        Ok(Line { wire, exchange, due: VecDeque::new() })
    }

    /// Sends the first request and waits for its response. After this call, reads and writes of the connection do not wait.
    fn first(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        self.send()?;
        loop {
            let count = self.wire.read(buffer)?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            if self.take(buffer.get(..count).unwrap_or_default())? {
                return Ok(self.wire.socket().set_nonblocking(true)?);
            }
        }
    }

    /// Plans a request for this time, and sends it as soon as no other request is unanswered.
    pub(super) fn plan(&mut self, due: Instant) -> Result<(), Failure> {
        self.due.push_back(due);
        if self.due.len() == 1 { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(512);
        self.exchange.ask(&mut bytes);
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.wire.write_all(bytes)?;
        Ok(self.wire.flush()?)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let mut owed = Vec::new();
        let is_complete = self.exchange.came(bytes, &mut owed)?;
        if !owed.is_empty() {
            self.write(&owed)?;
        }
        Ok(is_complete)
    }

    /// Reads the received bytes. Adds the milliseconds from the planned time of a request to its response.
    pub(super) fn receive(&mut self, buffer: &mut [u8], samples: &mut Samples) -> Result<(), Failure> {
        loop {
            let count = match self.wire.read(buffer) {
                Ok(0) => return Err("the server hung up".into()),
                Ok(count) => count,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(why) => return Err(why.into()),
            };
            if self.take(buffer.get(..count).unwrap_or_default())? {
                let due = self.due.pop_front().ok_or("a response to no request")?;
                samples.push(now().duration_since(due).as_secs_f64() * 1e3);
                if !self.due.is_empty() {
                    self.send()?;
                }
            }
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.socket().as_fd()
    }
}

/// A connection without or with TLS.
enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn socket(&self) -> &TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Wire {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(to),
            Wire::Tls(stream) => stream.read(to),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(from),
            Wire::Tls(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}
