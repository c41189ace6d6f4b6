//! Work that another thread does, while the caller continues.

use anyhow::{Context, anyhow};
use std::thread::{Builder, JoinHandle};

/// The result that another thread makes.
pub(crate) struct Begun<T> {
    name: &'static str,
    thread: JoinHandle<anyhow::Result<T>>,
}

impl<T: Send + 'static> Begun<T> {
    /// Starts a thread that makes the result. `name` is the name of the thread, with at most 15 bytes.
    pub(crate) fn new(
        name: &'static str,
        make: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let thread = Builder::new().name(name.into()).spawn(make);
        let thread = thread.with_context(|| format!("the thread `{name}` cannot be started"))?;
        Ok(Begun { name, thread })
    }

    /// Waits until the thread has ended, and returns its result.
    pub(crate) fn finish(self) -> anyhow::Result<T> {
        self.thread
            .join()
            .map_err(|_| anyhow!("internal error: the thread `{}` has ended with a panic", self.name))?
    }
}
