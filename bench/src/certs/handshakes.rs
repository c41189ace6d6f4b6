//! Measures the server's CPU for a handshake. HAProxy and Enfilade have the same client and the same certificates.

use super::{haproxy, library, make};
use crate::Failure;
use crate::goals::Goal;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stopwatch::{cpu_nanos, pause};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const CERTIFICATES: usize = 500;
const EACH: usize = 400;
const ROUNDS: usize = 7;
/// The kinds of keys: the remainder of a certificate's number divided by 2, the name of the kind, the id of the goal, and the limit.
const KINDS: [(usize, &str, &str, f64); 2] = [(0, "ECDSA P-256", "ecdsa", 0.6), (1, "RSA-2048", "rsa", 0.75)];

pub(super) fn goals() -> Vec<Goal> {
    let goal = |(_, what, id, most): (usize, &str, &'static str, f64)| {
        let workload = format!(
            "Enfilade and HAProxy have the same {CERTIFICATES} certificates, and are measured alternately, {ROUNDS} times each. Each time, a client \
             makes {EACH} full TLS handshakes one after the other, for one name whose certificate has a key of {what}, with TLS 1.3 and X25519. The \
             server's CPU time counts, also for the accept and the close of each connection. The value is the mean of the {ROUNDS} ratios"
        );
        Goal::new(
            id,
            most,
            "times",
            format!(
                "CPU time of Enfilade for a full TLS handshake with {what}, divided by CPU time of HAProxy"
            ),
            workload,
        )
    };
    KINDS.map(goal).to_vec()
}

/// Accepts every certificate, because only the server is measured.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A client that offers only X25519, because Debian's HAProxy does not support the hybrid group X25519MLKEM768.
pub(super) fn client(resumes: bool) -> Result<Arc<ClientConfig>, Failure> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let builder =
        ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions()?;
    let mut config =
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth();
    if !resumes {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// Makes a handshake. Returns whether a session was resumed.
pub(super) fn shake(address: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Result<bool, Failure> {
    let connection = shaken(address, config, name)?;
    Ok(connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed))
}

/// Makes a handshake. Returns its connection, which is closed.
pub(super) fn shaken(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> Result<ClientConnection, Failure> {
    let mut connection = ClientConnection::new(Arc::clone(config), ServerName::try_from(name.to_owned())?)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    // The server sends its tickets after the handshake.
    connection.read_tls(&mut stream)?;
    connection.process_new_packets()?;
    connection.send_close_notify();
    let _ = connection.complete_io(&mut stream);
    Ok(connection)
}

pub(super) fn run(report: &mut Report, scratch: &Scratch) -> Result<(), Failure> {
    let directory = make::directory(CERTIFICATES)?;
    let place = scratch.path().join("handshakes");
    std::fs::create_dir_all(&place)?;
    let with = directory.to_string_lossy();
    let environment = [("ENFILADE_TLS__CHECK", "lazy"), ("ENFILADE_TLS__CERTIFICATES", &*with)];
    let data = place.join("data");
    drop(Server::start(&data, &[])?);
    let server = Server::start_trusting(&data, &environment, &data.join("tls/localhost.crt"))?;
    let ours = (server.https.address(), server.child.0.id());
    let peer = haproxy::version().map(|_| haproxy::start(&directory, &place)).transpose()?;
    let full = client(false)?;
    // Certificates with even numbers have ECDSA keys. First the first handshakes of many names are measured, and then a second handshake for each of
    // these names.
    let names = |kind: usize| {
        (0..CERTIFICATES / 2).map(move |n| make::names_of(2 * n + kind).pop().unwrap_or_default())
    };
    for (kind, what) in [(0, "ECDSA"), (1, "RSA")] {
        for turn in ["the first for each of 250 names", "and once more"] {
            let before = cpu(ours.1)?;
            for name in names(kind) {
                shake(ours.0, &full, &name.replace('*', "x"))?;
            }
            let each = (cpu(ours.1)? - before) / (CERTIFICATES / 2) as f64 / 1e3;
            report.once(
                &format!("ours, a full handshake, {what}, {turn}, server CPU"),
                CERTIFICATES as u64,
                each,
                "µs",
            );
        }
    }
    for (kind, what, id, _) in KINDS {
        let name = names(kind).next().unwrap_or_default();
        let mut alone = Samples::default();
        for _ in 0..ROUNDS {
            alone.push(library::handshake(&full, &directory.join(format!("{kind:07}.pem")), &name, EACH)?);
        }
        let alone = report.middle(
            &format!("a handshake, {what}, full, rustls with AWS-LC in memory, the server's side, CPU"),
            CERTIFICATES as u64,
            &alone,
            "µs",
        );
        for resumes in [false, true] {
            let measure = |(address, process): (SocketAddr, u32)| -> Result<f64, Failure> {
                // Each server gets a separate client, because a client stores tickets by server name, and both servers have the same names.
                let config = client(resumes)?;
                shake(address, &config, &name)?;
                let before = cpu(process)?;
                let mut resumed = 0;
                for _ in 0..EACH {
                    resumed += usize::from(shake(address, &config, &name)?);
                }
                if resumes && resumed * 10 < EACH * 9 {
                    return Err(format!("only {resumed} of {EACH} handshakes were resumed").into());
                }
                Ok((cpu(process)? - before) / EACH as f64 / 1e3)
            };
            let (mut own, mut theirs) = (Samples::default(), Samples::default());
            for _ in 0..ROUNDS {
                own.push(measure(ours)?);
                if let Some(peer) = &peer {
                    theirs.push(measure((peer.address, peer.process()))?);
                }
            }
            let how = if resumes { "resumed" } else { "full" };
            let what = format!("a handshake, {what}, {how}, server CPU");
            if peer.is_none() {
                report.middle(&format!("{what}, Enfilade"), CERTIFICATES as u64, &own, "µs");
                continue;
            }
            let paired = Paired {
                what,
                n: CERTIFICATES as u64,
                unit: "µs",
                ours: &own,
                peer: "HAProxy",
                theirs: &theirs,
                floor: (!resumes).then_some(alone.value),
            };
            report.compare((!resumes).then_some(id), paired);
        }
    }
    Ok(())
}

/// The CPU time of a process in nanoseconds, after a pause in which it becomes idle.
fn cpu(process: u32) -> Result<f64, Failure> {
    pause(Duration::from_millis(20));
    cpu_nanos(process)
}
