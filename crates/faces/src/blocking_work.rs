//! Work of a request that waits for the file system. The work runs on blocking threads. The server can cancel the work when the client disconnects.

use crate::request_error::{Failure, RequestError};
use enfilade_passage::{Refusal, Share};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs work on a blocking thread, within the user's share of threads. The work is allowed to wait for the file system.
///
/// # Errors
/// The refusal of the work, or [`RequestError::Worker`] if the work panics.
pub async fn blocking<R: Send + 'static>(
    share: Share,
    work: impl FnOnce() -> Result<R, Refusal> + Send + 'static,
) -> Result<R, Failure> {
    blocking_failure(share, move || Ok(work()?)).await
}

/// Does the same as [`blocking`], but the work can also fail because the request itself is invalid (`Failure::Request`).
///
/// # Errors
/// The failure of the work, or [`RequestError::Worker`] if the work panics.
pub async fn blocking_failure<R: Send + 'static>(
    share: Share,
    work: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let turn = share.turn().await;
    // The work occupies a thread of the user's share until the work ends, even if the client disconnects.
    let work = move || {
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
}

/// Marks the work of a request as cancelled when this value is dropped. The value is dropped together with the request. The work itself must ask its
/// [`CancelToken`], and stop.
#[derive(Debug, Default)]
pub struct CancelOnDrop(Arc<AtomicBool>);

/// With this token, the work checks whether its request was dropped.
#[derive(Clone, Debug)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelOnDrop {
    /// A token that shows whether this value was dropped.
    pub fn token(&self) -> CancelToken {
        CancelToken(Arc::clone(&self.0))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl CancelToken {
    /// Whether the request was dropped.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
