//! Sends the traces of requests to an OpenTelemetry collector (`[traces]`), over OTLP/HTTP with JSON. A request never waits for the collector: finished
//! requests wait in a queue of limited size, and this module sends them in batches.

mod otlp;

use crate::config::{CollectorUrl, Config};
use crate::output;
use anyhow::Context as _;
use bytes::Bytes;
use enfilade_faces::{Faces, RequestSpans, TraceQueue};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The maximum number of requests in one batch.
const BATCH_MAX: usize = 512;
/// How long a batch waits for further requests after its first request.
const GATHER: Duration = Duration::from_secs(1);
/// The maximum time for the collector's answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The longest pause between two attempts to send a batch. The first pause is as long as [`GATHER`], and each further pause is twice as long as the
/// previous one.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The maximum time for the last batches when the server stops.
const LAST_MAX: Duration = Duration::from_secs(1);
/// The maximum size of the body of an answer, in bytes.
const BODY_MAX: usize = 64 * 1024;

/// The queue of traces; `None` if the configuration does not ask for traces.
pub(crate) fn queue(config: &Config) -> Option<Arc<TraceQueue>> {
    config.traces.otlp.as_ref().map(|_| TraceQueue::new(config.traces.one_in.0 as u64))
}

/// Sends traces until the server stops.
pub(crate) fn follow(config: &Config, faces: &Faces) {
    if let Some(exporter) = Exporter::new(config, faces) {
        tokio::spawn(exporter.run());
    }
}

/// Sends the traces that still wait when the server stops.
pub(crate) async fn finish(config: &Config, faces: &Faces) {
    if let Some(exporter) = Exporter::new(config, faces) {
        let _ = tokio::time::timeout(LAST_MAX, exporter.send_rest()).await;
    }
}

struct Exporter {
    url: CollectorUrl,
    queue: Arc<TraceQueue>,
    /// The name of this machine in its fleet; empty without a fleet.
    member: String,
}

/// The reason why the collector did not take a batch.
enum Unsent {
    /// A later attempt may succeed.
    Later(anyhow::Error),
    /// The collector refused the batch.
    Refused(String),
}

impl Exporter {
    fn new(config: &Config, faces: &Faces) -> Option<Self> {
        let (url, queue) = (config.traces.otlp.clone()?, Arc::clone(faces.traces()?));
        let member = config.fleet.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default();
        Some(Exporter { url, queue, member })
    }

    async fn run(self) {
        let mut is_failing = false;
        loop {
            self.queue.begun().await;
            tokio::time::sleep(GATHER).await;
            let batch = self.queue.take(BATCH_MAX);
            let body = otlp::body(&batch, &self.member);
            let mut pause = GATHER;
            while let Err(Unsent::Later(why)) = self.send(batch.len(), &body).await {
                if !std::mem::replace(&mut is_failing, true) {
                    output::note(&format!(
                        "warning: traces cannot be sent to {}: {why:#}; while the collector does not answer, the newest traces are lost",
                        self.url.as_str()
                    ));
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            if std::mem::replace(&mut is_failing, false) {
                output::note(&format!("traces are sent to {} again", self.url.as_str()));
            }
        }
    }

    async fn send_rest(self) {
        loop {
            let batch = self.queue.take(BATCH_MAX);
            if batch.is_empty() || self.send(batch.len(), &otlp::body(&batch, &self.member)).await.is_err() {
                return;
            }
        }
    }

    /// Sends a batch of `requests` requests.
    async fn send(&self, requests: usize, body: &Bytes) -> Result<(), Unsent> {
        let sent = match tokio::time::timeout(ANSWER_MAX, self.post(body.clone())).await {
            Ok(sent) => sent,
            Err(_) => Err(Unsent::Later(anyhow::anyhow!("no answer within {} s", ANSWER_MAX.as_secs()))),
        };
        match &sent {
            Ok(()) => self.queue.count_sent(requests),
            Err(Unsent::Refused(why)) => {
                self.queue.count_lost(requests);
                output::note(&format!("warning: {} refused traces: {why}", self.url.as_str()));
            }
            Err(Unsent::Later(_)) => {}
        }
        sent
    }

    async fn post(&self, body: Bytes) -> Result<(), Unsent> {
        let (status, text) = self.exchange(body).await.map_err(Unsent::Later)?;
        match status {
            status if status.is_success() => Ok(()),
            // The statuses after which a client sends the batch again (OTLP specification, "OTLP/HTTP Response").
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                Err(Unsent::Later(anyhow::anyhow!("status {}", status.as_u16())))
            }
            status => Err(Unsent::Refused(format!("status {}, {text}", status.as_u16()))),
        }
    }

    async fn exchange(&self, body: Bytes) -> anyhow::Result<(StatusCode, String)> {
        let url = &self.url;
        let stream = TcpStream::connect((url.host.as_str(), url.port)).await.context("connecting failed")?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driven = tokio::spawn(connection);
        let request = Request::post(url.path.as_str())
            .header(HOST, url.authority.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("enfilade/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
        driven.abort();
        let text =
            body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
        // Some hundred characters are enough to find the cause.
        Ok((status, text.chars().take(300).collect()))
    }
}
