//! A loop that does only the work that every server must do: it decrypts a request, reads the file, encrypts the response, and sends it. The loop
//! parses no header field, judges nothing, and writes no log.

use super::http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, OK, PREFACE, SETTINGS};
use super::servers::Measured;
use crate::Failure;
use crate::loop_process::LoopProcess;
use crate::peers::self_signed;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// The largest payload of a frame, if the client permits no larger one (RFC 9113 §6.5.2).
const FRAME: usize = 16_384;

/// The running loop, ended when dropped.
pub(super) struct Floor {
    pub(super) measured: Measured,
    _process: LoopProcess,
}

impl Floor {
    /// Starts the loop in a process of its own. It answers each request with the content of `file`.
    pub(super) fn start(scratch: &Path, file: &Path) -> Result<Self, Failure> {
        let place = scratch.join("floor");
        std::fs::create_dir(&place)?;
        let certificate = place.join("cert.pem");
        self_signed(&place.join("key.pem"), &certificate)?;
        let process = LoopProcess::start("connections-floor", [place.as_path(), file])?;
        Ok(Floor {
            measured: Measured { peer: process.peer(), certificate: Some(certificate) },
            _process: process,
        })
    }
}

/// Runs the loop, with a thread for each connection.
pub(crate) fn serve(address: SocketAddr, place: &Path, file: &Path) -> Result<(), Failure> {
    let chain = CertificateDer::pem_file_iter(place.join("cert.pem"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(place.join("key.pem"))?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    for stream in TcpListener::bind(address)?.incoming() {
        let (stream, config, file) = (stream?, Arc::clone(&config), file.to_owned());
        // A connection without a handshake comes from the check whether the loop listens.
        std::thread::spawn(move || drop(connection(stream, config, &file)));
    }
    Ok(())
}

fn connection(stream: TcpStream, config: Arc<ServerConfig>, file: &Path) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let mut tls = StreamOwned::new(ServerConnection::new(config)?, stream);
    let mut preface = [0; PREFACE.len()];
    tls.read_exact(&mut preface)?;
    let mut settings = Vec::new();
    http2::write_frame(&mut settings, SETTINGS, 0, 0, &[]);
    tls.write_all(&settings)?;
    let (mut buffer, mut pending) = (vec![0; FRAME], Vec::new());
    loop {
        let count = tls.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        pending.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let mut rest = pending.as_slice();
        while let Some((frame, after)) = http2::split(rest) {
            if frame.kind == HEADERS {
                tls.write_all(&response(frame.stream, &std::fs::read(file)?))?;
            }
            rest = after;
        }
        pending = rest.to_vec();
    }
}

/// The frames of a response with this body.
fn response(stream: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 64);
    http2::write_frame(&mut bytes, HEADERS, END_HEADERS, stream, &[OK]);
    let mut parts = body.chunks(FRAME).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_none() { END_STREAM } else { 0 };
        http2::write_frame(&mut bytes, DATA, flags, stream, part);
    }
    bytes
}
