//! Work at the start of the server that another thread does, while the caller continues.

use anyhow::{Context, anyhow};
use std::thread::{Builder, JoinHandle};

/// The result that another thread makes.
pub(crate) struct Begun<T>(JoinHandle<anyhow::Result<T>>);

impl<T: Send + 'static> Begun<T> {
    /// Starts a thread that makes the result. `name` is the name of the thread, with at most 15 bytes.
    pub(crate) fn new(
        name: &str,
        make: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let thread = Builder::new().name(name.into()).spawn(make);
        thread.map(Begun).with_context(|| format!("the thread `{name}` cannot be started"))
    }

    /// Waits for the result.
    pub(crate) fn finish(self) -> anyhow::Result<T> {
        self.0.join().map_err(|_| anyhow!("a thread of the start has ended with a panic"))?
    }
}
