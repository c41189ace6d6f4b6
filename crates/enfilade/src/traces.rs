//! Sends the traces of requests to an OpenTelemetry collector (`[traces]`), over OTLP/HTTP with JSON. A request never waits for the collector:
//! finished requests wait in a queue of limited size, and this module sends them in batches.

mod otlp;

use crate::config::{CollectorUrl, Config, Traces};
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
use tokio::sync::watch;

/// The maximum number of requests in one batch.
const BATCH_MAX: usize = 512;
/// How long a batch waits for further requests after its first request.
const GATHER: Duration = Duration::from_secs(1);
/// The maximum time for the collector's answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The longest pause between two attempts to send a batch. The first pause is as long as [`GATHER`], and each further pause is twice as long as the
/// previous one.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The maximum number of times that a batch is sent again. After that, its traces are lost, because the batch itself can be the reason why the
/// collector does not answer.
const AGAIN_MAX: u32 = 10;
/// The maximum time for the last batches when the server stops.
const LAST_MAX: Duration = Duration::from_secs(1);
/// The maximum size of the body of an answer, in bytes.
const BODY_MAX: usize = 64 * 1024;

/// The queue of traces; `None` if the configuration does not ask for traces.
pub(crate) fn queue(config: &Config) -> Option<Arc<TraceQueue>> {
    let Traces { otlp, one_in, continue_proxies } = &config.traces;
    otlp.as_ref().map(|_| TraceQueue::new(one_in.0 as u64, *continue_proxies))
}

/// Sends traces until the server stops.
pub(crate) fn follow(config: &Config, faces: &Faces) {
    let (Some(url), Some(queue)) = (config.traces.otlp.clone(), faces.traces()) else { return };
    let member = config.fleet.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default();
    let (queue, ending) = (Arc::clone(queue), queue.ending());
    tokio::spawn(Exporter { url, queue, ending, member, is_failing: false }.run());
}

/// Waits until the remaining traces are sent, for at most a second.
pub(crate) async fn finish(faces: &Faces) {
    if let Some(queue) = faces.traces() {
        let _ = tokio::time::timeout(LAST_MAX, queue.end()).await;
    }
}

struct Exporter {
    url: CollectorUrl,
    queue: Arc<TraceQueue>,
    /// Whether the server stops.
    ending: watch::Receiver<bool>,
    /// The name of this machine in its fleet; empty without a fleet.
    member: String,
    /// Whether the last attempt failed. Only the first failure, and the first success after failures, are logged.
    is_failing: bool,
}

/// The reason why the collector did not accept a batch.
enum Unsent {
    /// A later attempt may succeed.
    Later(anyhow::Error),
    /// The collector refused the batch.
    Refused(anyhow::Error),
}

impl Exporter {
    async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.queue.begun() => {}
                _ = self.ending.wait_for(|is_ending| *is_ending) => {}
            }
            // If the queue contains enough requests for a whole batch, the batch is sent at once, without the pause.
            let is_ending = self.queue.waiting() < BATCH_MAX && self.pause(GATHER).await;
            let batch = self.queue.take(BATCH_MAX);
            if !batch.is_empty() {
                self.deliver(&batch).await;
            } else if is_ending {
                return;
            }
        }
    }

    /// Waits for the given time, or until the server stops. Returns whether the server stops.
    async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => false,
            _ = self.ending.wait_for(|is_ending| *is_ending) => true,
        }
    }

    /// Sends a batch, again and again if the collector does not answer.
    async fn deliver(&mut self, batch: &[RequestSpans]) {
        let body = otlp::body(batch, &self.member);
        let mut wait = GATHER;
        for _ in 0..=AGAIN_MAX {
            let sent = match tokio::time::timeout(ANSWER_MAX, self.post(body.clone())).await {
                Ok(sent) => sent,
                Err(_) => Err(Unsent::Later(anyhow::anyhow!("no answer within {} s", ANSWER_MAX.as_secs()))),
            };
            match sent {
                Ok(()) => {
                    self.works();
                    return self.queue.count_sent(batch.len());
                }
                Err(Unsent::Refused(why)) => {
                    self.fails(&why);
                    break;
                }
                Err(Unsent::Later(why)) => self.fails(&why),
            }
            if self.pause(wait).await {
                break;
            }
            wait = (wait * 2).min(PAUSE_MAX);
        }
        self.queue.count_lost(batch.len());
    }

    fn works(&mut self) {
        if std::mem::replace(&mut self.is_failing, false) {
            output::note(&format!("traces are sent to {} again", self.url.as_str()));
        }
    }

    fn fails(&mut self, why: &anyhow::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            output::note(&format!(
                "warning: traces cannot be sent to {}: {why:#}; until the collector accepts traces, the traces of at most 4,096 requests wait, and other traces are lost (the metric `enfilade_traces_total` counts them)",
                self.url.as_str()
            ));
        }
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
            status => {
                let status = status.as_u16();
                Err(Unsent::Refused(anyhow::anyhow!(
                    "the collector refused them with status {status}: {text}"
                )))
            }
        }
    }

    async fn exchange(&self, body: Bytes) -> anyhow::Result<(StatusCode, String)> {
        let url = &self.url;
        let stream = TcpStream::connect((url.host.as_str(), url.port)).await.context("connecting failed")?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::post(url.path.as_str())
            .header(HOST, url.authority.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("enfilade/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
            let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
            // A few hundred characters are enough to find the cause.
            Ok((status, text.unwrap_or_default().chars().take(300).collect()))
        };
        let driven = async {
            let _ = connection.await;
            std::future::pending::<()>().await;
        };
        // The connection ends when this function ends, even if no answer arrived in time.
        tokio::select! {
            answer = exchange => answer,
            () = driven => anyhow::bail!("the connection ended"),
        }
    }
}
