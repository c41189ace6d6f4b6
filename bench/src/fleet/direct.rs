//! Connects the members in this process with each other, over TLS on loopback, as servers do. Over these connections, the members report which
//! changes they have applied.

use crate::Failure;
use enfilade_fleet::{Connect, Connection, Head, Member as Status, Reach, Server as Member};
use enfilade_tls::{Fingerprint, MemberProtocol, MemberTls, fingerprint_of};
use rustls::pki_types::ServerName;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The listener of a member.
pub(super) struct Listens {
    tls: Arc<MemberTls>,
    listener: TcpListener,
    pub(super) reach: Reach,
}

impl Listens {
    pub(super) async fn new() -> Result<Self, Failure> {
        let made = rcgen::generate_simple_self_signed(["member.invalid".to_owned()])?;
        let tls = MemberTls::new(made.cert.der().to_vec(), made.signing_key.serialize_der())?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let reach = Reach { address: listener.local_addr()?, certificate: tls.fingerprint() };
        Ok(Listens { tls: Arc::new(tls), listener, reach })
    }
}

/// Connects each member to all others.
pub(super) async fn connect(
    members: &[Arc<Member>],
    listens: Vec<Listens>,
    (_, status): (Head, Vec<Status>),
) -> Result<(), Failure> {
    let running = status.into_iter().flat_map(|member| member.processes);
    let reached: Vec<(String, Reach)> =
        running.filter_map(|running| Some((running.id, running.about?.reach?))).collect();
    let ids: Arc<BTreeMap<Fingerprint, String>> =
        Arc::new(reached.iter().map(|(id, reach)| (reach.certificate, id.clone())).collect());
    for (member, Listens { tls, listener, .. }) in members.iter().zip(listens) {
        member.report_to(reached.clone(), &connects(Arc::clone(&tls)));
        let acceptor = TlsAcceptor::from(tls.server()?);
        let (member, ids) = (Arc::clone(member), Arc::clone(&ids));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                let Some(id) = shown.and_then(|shown| ids.get(&fingerprint_of(shown)).cloned()) else {
                    continue;
                };
                let member = Arc::clone(&member);
                tokio::spawn(async move { member.hear(&id, stream).await });
            }
        });
    }
    Ok(())
}

fn connects(tls: Arc<MemberTls>) -> Connect {
    Arc::new(move |reach| {
        let tls = Arc::clone(&tls);
        Box::pin(async move {
            let config = tls.client(reach.certificate, MemberProtocol::Reports)?;
            let connecting = async {
                let stream = TcpStream::connect(reach.address).await?;
                stream.set_nodelay(true)?;
                let name = ServerName::try_from("member.invalid").map_err(std::io::Error::other)?;
                TlsConnector::from(config).connect(name, stream).await
            };
            let stream = connecting.await.map_err(|why| why.to_string())?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    })
}

/// A separate runtime for the connections. As in a server, the connections do not use the threads of the members.
pub(super) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
