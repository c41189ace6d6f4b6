//! The body of an upload. The total time of an upload is not limited, but the client must send at the lowest accepted speed or faster.

use crate::request_error::{Failure, RequestError};
use crate::trace::Trace;
use crate::unread::Received;
use bytes::Bytes;
use enfilade_facts::limits::Limits;
use http_body_util::BodyExt as _;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// The lowest accepted speed of an upload: the client must send at least `least` bytes in each window of time.
#[derive(Clone, Copy)]
struct Pace {
    window: Duration,
    least: u64,
}

/// A body that the client sends.
pub struct Arriving {
    body: Received,
    pace: Pace,
    /// The bytes received in the present window of time.
    lately: u64,
    window: Pin<Box<Sleep>>,
}

impl Arriving {
    /// A body that must arrive at the lowest accepted speed or faster.
    pub fn new(body: Received, limits: &Limits) -> Self {
        let Limits { upload_bytes_per_second, progress_seconds, .. } = limits;
        let window = Duration::from_secs(*progress_seconds);
        let pace = Pace { window, least: upload_bytes_per_second * progress_seconds };
        Arriving { body, pace, lately: 0, window: Box::pin(sleep(window)) }
    }

    /// The next bytes; `None` after the end.
    ///
    /// # Errors
    /// When the body ends early, or arrives too slowly.
    pub async fn next(&mut self, trace: &mut Trace) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = &mut self.window => {
                    if self.lately < self.pace.least {
                        return Err(RequestError::BodySlow.into());
                    }
                    self.lately = 0;
                    self.window.set(sleep(self.pace.window));
                    continue;
                }
            };
            match frame {
                None => return Ok(None),
                // The upload fails, so the caller discards the bytes that it received before.
                Some(Err(_)) => return Err(RequestError::BodyBroken.into()),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    trace.event.bytes += data.len() as u64;
                    self.lately += data.len() as u64;
                    return Ok(Some(data));
                }
            }
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// The errors of [`Arriving::next`].
    pub async fn whole(&mut self, trace: &mut Trace) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(data) = self.next(trace).await? {
            whole.extend_from_slice(&data);
        }
        Ok(whole)
    }
}

impl std::fmt::Debug for Arriving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Arriving")
    }
}
