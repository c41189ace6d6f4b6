//! Connections to the other members of the fleet. Requests for datastores are passed on to the member that serves the datastore, and applied changes
//! are reported to all members. The connections use TLS with the certificates that the processes make at their start. etcd stores the fingerprint of
//! the certificate of each registered process.

mod asked;

use crate::config::Config;
use crate::fleet_log::log;
use anyhow::{Context as _, anyhow};
use asked::{AskedBody, held};
use bytes::Bytes;
use enfilade_faces::{BoxError, PassOn, PassedBody, Passing, Received};
use enfilade_facts::StoreId;
use enfilade_fleet::{Connect, Connection, Log, Member, Reach, Running, Server};
use enfilade_tls::{Fingerprint, MemberProtocol, MemberTls};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// The interval at which etcd is asked for the other members.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum time to open a connection to another member.
const CONNECT: Duration = Duration::from_secs(2);
/// The maximum number of connections that are kept for later requests.
const IDLE_MAX: usize = 64;
/// How long a connection is kept. This time is shorter than the time after which the other member closes the connection.
const IDLE: Duration = Duration::from_secs(5);
/// The maximum number of requests to one member that wait for the head of their response.
const REQUESTS_MAX: usize = 1_024;
/// The maximum time in which the other machine must acknowledge sent bytes, or a probe of a silent connection.
const SILENT: Duration = Duration::from_secs(6);
/// The maximum size of the head of another member's response, in bytes. The read buffer has the same size.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The name in the certificates of members. No process checks this name.
const NAME: &str = "member.invalid";

/// A key and a certificate for this process.
///
/// # Errors
/// When the library cannot make them.
pub(crate) fn make_tls() -> anyhow::Result<MemberTls> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])
        .context("the certificate for other members cannot be made")?;
    MemberTls::new(made.cert.der().to_vec(), made.signing_key.serialize_der()).map_err(|why| anyhow!(why))
}

/// The processes of the other members, as they were registered when etcd was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// The registered processes with a listener for members, by their certificates.
    processes: BTreeMap<Fingerprint, String>,
    /// The members with a registered process, and the address of one of the processes. The address is `None` if the processes have no listener for
    /// members.
    members: BTreeMap<String, Option<Reach>>,
}

/// A process with a listener for members, and its address.
fn reached(running: &Running) -> Option<(&str, &Reach)> {
    Some((&running.id, running.about.as_ref()?.reach.as_ref()?))
}

impl Peers {
    fn of(members: &[Member]) -> Self {
        let is_running = |member: &&Member| member.processes.iter().any(|running| running.about.is_some());
        let first = |member: &Member| {
            let reach = member.processes.iter().find_map(reached).map(|(_, reach)| reach.clone());
            (member.name.clone(), reach)
        };
        let processes = members.iter().flat_map(|member| &member.processes).filter_map(reached);
        Peers {
            processes: processes.map(|(id, reach)| (reach.certificate, id.to_owned())).collect(),
            members: members.iter().filter(is_running).map(first).collect(),
        }
    }

    /// Whether a registered process has this certificate.
    pub(crate) fn hold(&self, certificate: &Fingerprint) -> bool {
        self.processes.contains_key(certificate)
    }

    /// The id of the registered process that has this certificate.
    pub(crate) fn process(&self, certificate: &Fingerprint) -> Option<String> {
        self.processes.get(certificate).cloned()
    }
}

/// Asks etcd for the other members again and again, and lets the server send reports directly to them. While etcd does not answer, the last result
/// stays in use. This is safe, because a member refuses requests while it cannot prove that its facts are current.
pub(crate) fn follow(
    config: &Config,
    store: StoreId,
    tls: &Arc<MemberTls>,
    server: Arc<Server>,
) -> anyhow::Result<watch::Receiver<Peers>> {
    let log: Log = log(config, store)?;
    let (said, peers) = watch::channel(Peers::default());
    let connect = connects(Arc::clone(tls));
    tokio::spawn(async move {
        while !said.is_closed() {
            if let Ok((_, members)) = log.status().await {
                let found = Peers::of(&members);
                let all = members.iter().flat_map(|member| &member.processes).filter_map(reached);
                let all = all.map(|(id, reach)| (id.to_owned(), reach.clone())).collect();
                server.report_to(all, &connect);
                said.send_if_modified(|peers| {
                    let is_new = *peers != found;
                    *peers = found;
                    is_new
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    Ok(peers)
}

/// The other members, to which requests are passed on.
pub(crate) struct Others {
    tls: Arc<MemberTls>,
    peers: watch::Receiver<Peers>,
    idle: Arc<Mutex<Vec<Idle>>>,
    /// For each member, the places for waiting requests. The places are separate, because a slow member must not take the places of other members.
    places: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A connection that has no running request.
struct Idle {
    peer: Fingerprint,
    since: Instant,
    sender: SendRequest<AskedBody>,
}

impl Others {
    pub(crate) fn new(tls: Arc<MemberTls>, peers: watch::Receiver<Peers>) -> Self {
        Others { tls, peers, idle: Arc::default(), places: Mutex::default() }
    }

    /// A kept connection to a process.
    fn kept(&self, peer: &Fingerprint) -> Option<SendRequest<AskedBody>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < IDLE);
        let at = idle.iter().rposition(|idle| idle.peer == *peer)?;
        Some(idle.swap_remove(at).sender)
    }

    async fn connect(&self, reach: &Reach) -> Result<SendRequest<AskedBody>, String> {
        let stream = connect(&self.tls, reach, MemberProtocol::Requests).await?;
        let shaken = Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|why| no_connection(reach, &why))?;
        // The task ends when the sender is dropped. It also ends after an error, and the request gets the error.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    /// Sends a request to a process. If a kept connection was closed in the meantime, another connection is used.
    async fn send(&self, reach: &Reach, request: Request<Received>) -> Result<Response<PassedBody>, String> {
        let (mut request, _until_answered) = held(request);
        loop {
            let kept = self.kept(&reach.certificate);
            let is_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect(reach).await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(reach.certificate, sender);
                    let gone = Box::pin(gone(self.peers.clone(), reach.certificate));
                    return Ok(response.map(|body| UntilGone { body, gone }.boxed_unsync()));
                }
                Err(mut failed) => match failed.take_message().filter(|_| is_kept) {
                    Some(unsent) => request = unsent,
                    None => {
                        return Err(format!(
                            "the connection to {} ended: {}",
                            reach.address,
                            failed.into_error()
                        ));
                    }
                },
            }
        }
    }

    /// Keeps a connection for the next request, as soon as the response on the connection has ended.
    fn keep(&self, peer: Fingerprint, mut sender: SendRequest<AskedBody>) {
        let idle = Arc::clone(&self.idle);
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.retain(|idle| idle.since.elapsed() < IDLE);
                if idle.len() < IDLE_MAX {
                    idle.push(Idle { peer, since: Instant::now(), sender });
                }
            }
        });
    }
}

/// Connects to a process. The process proves that it has the key of its certificate.
async fn connect(
    tls: &MemberTls,
    reach: &Reach,
    protocol: MemberProtocol,
) -> Result<TlsStream<TcpStream>, String> {
    let config = tls.client(reach.certificate, protocol)?;
    let connecting = async {
        let stream = TcpStream::connect(reach.address).await?;
        stream.set_nodelay(true)?;
        end_when_silent(&stream)?;
        let name = ServerName::try_from(NAME).map_err(std::io::Error::other)?;
        TlsConnector::from(config).connect(name, stream).await
    };
    tokio::time::timeout(CONNECT, connecting)
        .await
        .map_err(|_| no_connection(reach, &format!("no answer within {} s", CONNECT.as_secs())))?
        .map_err(|why| no_connection(reach, &why))
}

fn no_connection(reach: &Reach, why: &dyn std::fmt::Display) -> String {
    format!("no connection to {}: {why}", reach.address)
}

/// Opens connections for reports. A process that runs an older version of the program does not accept such connections. Such a process gets the
/// reports from etcd.
fn connects(tls: Arc<MemberTls>) -> Connect {
    Arc::new(move |reach| {
        let tls = Arc::clone(&tls);
        Box::pin(async move {
            let stream = connect(&tls, &reach, MemberProtocol::Reports).await?;
            match stream.get_ref().1.alpn_protocol() == Some(MemberProtocol::Reports.name()) {
                true => Ok(Box::new(stream) as Box<dyn Connection>),
                false => Err(no_connection(&reach, &"it accepts no reports")),
            }
        })
    })
}

impl PassOn for Others {
    fn has_no_listener(&self, member: &str) -> bool {
        self.peers.borrow().members.get(member).is_some_and(Option::is_none)
    }

    fn pass(&self, member: String, request: Request<Received>) -> Passing<'_> {
        Box::pin(async move {
            let reach = self.peers.borrow().members.get(&member).cloned().flatten();
            let reach = reach.ok_or_else(|| format!("no server of member `{member}` is registered"))?;
            let places = {
                let mut all = self.places.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(
                    all.entry(member.clone()).or_insert_with(|| Arc::new(Semaphore::new(REQUESTS_MAX))),
                )
            };
            let _place = places
                .try_acquire()
                .map_err(|_| format!("{REQUESTS_MAX} requests wait for member `{member}` already"))?;
            tokio::select! {
                answer = self.send(&reach, request) => answer,
                () = gone(self.peers.clone(), reach.certificate) => {
                    Err(format!("the server of member `{member}` stopped"))
                }
            }
        })
    }
}

/// Ends a connection when the other machine cannot be reached any more, for example after a power cut.
///
/// # Errors
/// When the kernel refuses an option.
pub(crate) fn end_when_silent(stream: &TcpStream) -> std::io::Result<()> {
    let seconds = SILENT.as_secs() / 3;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(seconds))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(seconds))?;
    sockopt::set_tcp_keepcnt(stream, 2)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(SILENT.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Waits until no registered process has this certificate.
pub(crate) async fn gone(mut peers: watch::Receiver<Peers>, certificate: Fingerprint) {
    let this_server_ends = peers.wait_for(|peers| !peers.hold(&certificate)).await.is_err();
    if this_server_ends {
        std::future::pending::<()>().await;
    }
}

/// The body of another process's response. The body ends with an error when that process is not registered any more. The reason: a process that hangs
/// sends nothing, and does not end the connection.
struct UntilGone<B> {
    body: B,
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for UntilGone<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
            Poll::Pending => {
                let gone = this.gone.as_mut().poll(cx);
                gone.map(|()| Some(Err("the server of the other member stopped".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
