//! The measured servers. All serve the same files, and write a log line for each request.

use super::nginx::Nginx;
use super::{IDLE_SECONDS, PAGE, SMALL_FILE};
use crate::Failure;
use crate::content::apache::{Apache, MODULES};
use crate::content::files::{self, Maker, content};
use crate::content::peer::{self, Peer};
use crate::loop_process::LoopProcess;
use crate::report::Report;
use crate::served::Server;
use std::path::{Path, PathBuf};

/// A measured server, and the file of its certificate. `None` if the server does not speak TLS.
pub(super) struct Measured {
    pub(super) peer: Peer,
    pub(super) certificate: Option<PathBuf>,
}

/// The running servers, ended when dropped.
pub(super) struct Servers {
    /// Enfilade first, then the other servers that are installed, and then the loop without a server, if it is measured, too.
    pub(super) measured: Vec<Measured>,
    _floor: Option<LoopProcess>,
    _enfilade: Server,
    _apache: Option<Apache>,
    _nginx: Option<Nginx>,
}

impl Servers {
    pub(super) fn start(report: &mut Report, has_loop: bool, place: &Path) -> Result<Self, Failure> {
        let files = place.join("files");
        let maker = Maker::new()?;
        maker.directory(&files, 0o755)?;
        for file in [SMALL_FILE, PAGE] {
            maker.file(&file.below(&files), &content(file.bytes))?;
        }
        let data = place.join("data");
        let (tokenid, secret) = files::prepare(&data, &files)?;
        let enfilade = enfilade(&data)?;
        let apache = Apache::start_with(place, &files, &many_connections())?;
        let nginx = Nginx::start(report, place, &files)?;
        let mut certificates = vec![data.join("tls/localhost.crt")];
        certificates.extend(apache.as_ref().map(|apache| apache.certificate.clone()));
        let mut peers = peer::both(report, &enfilade, apache.as_ref(), (&tokenid, &secret), &files);
        if let Some(nginx) = &nginx {
            peers.push(nginx.peer(&files));
            certificates.push(nginx.certificate.clone());
        }
        enfilade.settle()?;
        let measured = peers.into_iter().zip(certificates);
        let mut measured: Vec<_> =
            measured.map(|(peer, certificate)| Measured { peer, certificate: Some(certificate) }).collect();
        let floor = has_loop.then(|| LoopProcess::plain(&SMALL_FILE.below(&files)));
        let floor = floor.transpose()?;
        measured.extend(floor.iter().map(|it| Measured { peer: it.peer(), certificate: None }));
        Ok(Servers { measured, _floor: floor, _enfilade: enfilade, _apache: apache, _nginx: nginx })
    }
}

/// Starts Enfilade with higher limits: by default it has at most 10,000 connections, and ends idle connections earlier.
fn enfilade(data: &Path) -> Result<Server, Failure> {
    let idle = IDLE_SECONDS.to_string();
    Server::start(
        data,
        &[
            ("ENFILADE_LIMITS__CONNECTIONS", "12000"),
            ("ENFILADE_LIMITS__HEAD_SECONDS", &idle),
            ("ENFILADE_LIMITS__IDLE_SECONDS", &idle),
        ],
    )
}

/// Apache's configuration for many connections. With its default configuration, Apache accepts too few connections, and ends idle connections while
/// all threads of a process are busy.
fn many_connections() -> String {
    format!(
        "LoadModule http2_module {MODULES}/mod_http2.so\nProtocols h2 http/1.1\nServerLimit 4\nStartServers 4\nThreadLimit 256\n\
         ThreadsPerChild 256\nMaxRequestWorkers 1024\nMinSpareThreads 256\nMaxSpareThreads 1024\nAsyncRequestWorkerFactor 16\nListenBacklog 4096\n\
         KeepAliveTimeout {IDLE_SECONDS}\n"
    )
}
