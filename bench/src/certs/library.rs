//! The lowest cost of a handshake (its floor): the library rustls with AWS-LC makes handshakes in memory, without a socket and without a server.

use crate::Failure;
use crate::stopwatch::thread_nanos;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection, SideData};
use std::path::Path;
use std::sync::Arc;

/// The CPU of the server's side of each of `count` full handshakes with this certificate, in microseconds. The server sends no session tickets.
pub(super) fn handshake(
    client: &Arc<ClientConfig>,
    bundle: &Path,
    name: &str,
    count: usize,
) -> Result<f64, Failure> {
    let chain = CertificateDer::pem_file_iter(bundle)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(bundle)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.send_tls13_tickets = 0;
    let config = Arc::new(config);
    let mut nanos = 0.0;
    for _ in 0..count {
        let mut asking = ClientConnection::new(Arc::clone(client), ServerName::try_from(name.to_owned())?)?;
        let asked = receive(&mut asking, &[])?;
        let began = thread_nanos();
        let mut answering = ServerConnection::new(Arc::clone(&config))?;
        let mut answer = receive(&mut answering, &asked)?;
        nanos += thread_nanos() - began;
        let finished = receive(&mut asking, &answer)?;
        let began = thread_nanos();
        answer = receive(&mut answering, &finished)?;
        nanos += thread_nanos() - began;
        if answering.is_handshaking() || asking.is_handshaking() || !answer.is_empty() {
            return Err("a handshake in memory did not end".into());
        }
    }
    Ok(nanos / count as f64 / 1e3)
}

/// Lets one side receive these bytes. Returns its answer.
fn receive<D: SideData>(side: &mut ConnectionCommon<D>, mut bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    while !bytes.is_empty() {
        side.read_tls(&mut bytes)?;
        side.process_new_packets()?;
    }
    let mut answer = Vec::new();
    while side.wants_write() {
        side.write_tls(&mut answer)?;
    }
    Ok(answer)
}
