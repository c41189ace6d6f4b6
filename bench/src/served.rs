//! The real server on a separate data directory, and a simple HTTP client for this server.

use crate::Failure;
use crate::machine::resident_bytes;
use crate::stopwatch::{self, Child};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A running server, ended when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) plain: SocketAddr,
    pub(crate) https: Https,
}

impl Server {
    /// Starts a server on this data directory; its log is a file next to the directory (`DATA.log`).
    pub(crate) fn start(data: &Path, environment: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::start_trusting(data, environment, &data.join("tls/localhost.crt"))
    }

    /// Like [`Server::start`], but clients trust `certificate` instead of the server's first certificate.
    pub(crate) fn start_trusting(
        data: &Path,
        environment: &[(&str, &str)],
        certificate: &Path,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe()?.with_file_name("enfilade");
        let log = data.with_extension("log");
        let mut command = Command::new(&program);
        command.args(["--json", "--data"]).arg(data);
        command.args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.env("ENFILADE_TLS__PLAIN_LISTEN", "127.0.0.1:0").envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log)?);
        let mut child =
            Child::start(&mut command).map_err(|why| format!("`{}`: {why}", program.display()))?;
        let out = child.0.stdout.take().ok_or("the server has no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let told: serde_json::Value = serde_json::from_str(&line).map_err(|_| {
            format!("the server did not start: {}", std::fs::read_to_string(&log).unwrap_or_default())
        })?;
        let address = |key: &str| told.get(key).and_then(|value| value.as_str()?.parse().ok());
        let tls = address("listen").ok_or("the server does not listen")?;
        Ok(Server {
            child,
            plain: address("plain_listen").ok_or("the server does not listen without TLS")?,
            https: Https::new(tls, certificate)?,
        })
    }

    /// The CPU that the server has used so far, in nanoseconds, including the CPU of threads that have ended.
    pub(crate) fn cpu_nanos(&self) -> Result<f64, Failure> {
        stopwatch::cpu_nanos(self.child.0.id())
    }

    /// The CPU of the server's threads that compute slow hashes, in nanoseconds. These threads live as long as the server.
    pub(crate) fn cpu_nanos_of_hashes(&self) -> Result<f64, Failure> {
        stopwatch::cpu_nanos_of_threads(self.child.0.id(), "hash")
    }

    /// Waits until the server's background work has ended: after its start a server searches its datastores for remains of uploads.
    pub(crate) fn settle(&self) -> Result<(), Failure> {
        let mut before = self.cpu_nanos()?;
        loop {
            stopwatch::pause(Duration::from_millis(300));
            let after = self.cpu_nanos()?;
            if after - before < 3e6 {
                return Ok(());
            }
            before = after;
        }
    }

    /// The resident memory of the server, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        resident_bytes(self.child.0.id())
    }

    /// Sends requests over TLS, by [`Https::load`].
    pub(crate) fn load(&self, requests: &[Vec<u8>], connections: usize, each: usize) -> Result<(), Failure> {
        self.https.load(requests, connections, each)
    }

    /// Connects without TLS, from a loopback address.
    pub(crate) fn connect(&self, from: Ipv4Addr) -> Result<Client<TcpStream>, Failure> {
        Ok(Client::new(socket(self.plain, from)?))
    }
}

/// The address of a server, and what a client needs for TLS to it.
pub(crate) struct Https {
    address: SocketAddr,
    trust: Arc<ClientConfig>,
    acknowledges_at_once: bool,
}

/// A TLS connection of a client.
pub(crate) type Tls = StreamOwned<ClientConnection, Socket>;

impl Https {
    /// The server at this address, with this certificate.
    pub(crate) fn new(address: SocketAddr, certificate: &Path) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate)?)?;
        let trust = Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
        Ok(Https { address, trust, acknowledges_at_once: false })
    }

    /// Lets the clients acknowledge each segment at once. This is for a server that sends a response in parts, and waits for the acknowledgement of
    /// each part (Nagle's algorithm, RFC 896). By default, the kernel of a client delays an acknowledgement by up to 40 ms, so the server would be
    /// idle most of the time.
    pub(crate) fn acknowledging_at_once(self) -> Self {
        Https { acknowledges_at_once: true, ..self }
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens `connections` connections, and sends `each` requests over TLS on each of them. The status of every response must be 200.
    pub(crate) fn load(&self, requests: &[Vec<u8>], connections: usize, each: usize) -> Result<(), Failure> {
        let turn =
            |connection: usize| requests.iter().cycle().skip(connection * requests.len() / connections);
        self.ask(connections, each, turn)
    }

    /// Like [`Https::load`], but each request has one connection, on which it is sent again and again.
    pub(crate) fn load_own(&self, requests: &[Vec<u8>], each: usize) -> Result<(), Failure> {
        self.ask(requests.len(), each, |connection| requests.iter().skip(connection).take(1).cycle())
    }

    fn ask<'a, R: Iterator<Item = &'a Vec<u8>>>(
        &self,
        connections: usize,
        each: usize,
        requests: impl Fn(usize) -> R + Sync,
    ) -> Result<(), Failure> {
        std::thread::scope(|scope| {
            let requests = &requests;
            let run = move |connection: usize| -> Result<(), String> {
                let mut client = self.connect().map_err(|why| why.to_string())?;
                for request in requests(connection).take(each) {
                    match client.get(request).map_err(|why| why.to_string())? {
                        200 => {}
                        status => return Err(format!("answered with {status}")),
                    }
                }
                Ok(())
            };
            let running: Vec<_> = (0..connections).map(|n| scope.spawn(move || run(n))).collect();
            for one in running {
                one.join().map_err(|_| "a client ended")??;
            }
            Ok(())
        })
    }

    pub(crate) fn connect(&self) -> Result<Client<Tls>, Failure> {
        Ok(Client::new(self.stream()?))
    }

    /// A new TLS connection as a byte stream, without the client for HTTP.
    pub(crate) fn stream(&self) -> Result<Tls, Failure> {
        let connection = ClientConnection::new(Arc::clone(&self.trust), ServerName::try_from("localhost")?)?;
        let stream = socket(self.address, Ipv4Addr::LOCALHOST)?;
        Ok(StreamOwned::new(connection, Socket { stream, acknowledges_at_once: self.acknowledges_at_once }))
    }
}

/// The socket of a client.
pub(crate) struct Socket {
    stream: TcpStream,
    acknowledges_at_once: bool,
}

impl Read for Socket {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        // The kernel switches the option off after some segments, so the option is set again.
        if self.acknowledges_at_once {
            rustix::net::sockopt::set_tcp_quickack(&self.stream, true)?;
        }
        self.stream.read(to)
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.stream.write(from)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Connects from a loopback address.
pub(crate) fn socket(to: SocketAddr, from: Ipv4Addr) -> Result<TcpStream, Failure> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&descriptor, &SocketAddr::from((from, 0)))?;
    connect(&descriptor, &to)?;
    let stream = TcpStream::from(descriptor);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

/// A client on one persistent connection.
pub(crate) struct Client<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Client { stream, buffer: Vec::with_capacity(4096) }
    }

    /// Sends a request and reads the response. Returns its status.
    pub(crate) fn get(&mut self, request: &[u8]) -> Result<u16, Failure> {
        self.stream.write_all(request)?;
        self.stream.flush()?;
        self.buffer.clear();
        let mut piece = [0; 4096];
        loop {
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err("the server hung up".into());
            }
            self.buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
            if let Some(length) = length(&self.buffer)
                && length <= self.buffer.len()
            {
                let status = self.buffer.get(9..12).and_then(|text| std::str::from_utf8(text).ok());
                return Ok(status.ok_or("no status")?.parse()?);
            }
        }
    }

    /// The whole last response.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    /// Sends a request, and does not wait for the response.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(request)?;
        Ok(self.stream.flush()?)
    }
}

/// The length of the whole response; `None` until its head is complete. For a response in chunks, `None` until the last chunk has arrived.
fn length(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return answer.ends_with(b"\r\n0\r\n\r\n").then_some(answer.len());
    }
    let body =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    Some(end + body.unwrap_or(0))
}

/// A request with a token.
pub(crate) fn request_as(path: &str, tokenid: &str, secret: &str) -> Vec<u8> {
    let credential = format!("Authorization: PBSAPIToken={tokenid}:{secret}");
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n{credential}\r\n\r\n").into_bytes()
}
