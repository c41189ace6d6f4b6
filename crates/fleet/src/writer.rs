//! The source of facts for a command on the machine of a member. The source adds its changes to the log. It also works while no server runs.

use crate::log::Log;
use crate::registration::random;
use crate::replica::{Replica, ReplicaError, Reports};
use enfilade_facts::{At, Change, CommitError, Effect, Requester, Source, SourceError, View};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A source that reads the store of this machine directly, and changes it through the log.
pub struct Writer {
    store: Arc<dyn Source>,
    replica: Replica,
    runtime: Mutex<Runtime>,
}

impl Writer {
    /// A writer for this store and this log.
    ///
    /// # Errors
    /// When the system lacks the resources for the writer.
    pub fn new(store: Arc<dyn Source>, log: Log) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // `author` is a random number, and not the number of a running process. So no member has a connection to this writer. Therefore each member
        // writes its reports to etcd without a delay.
        let author = random().map(u64::from_be_bytes).map_err(io::Error::other)?;
        let replica = Replica::new(log, Arc::clone(&store), author);
        Ok(Writer { replica, store, runtime: Mutex::new(runtime) })
    }

    /// Applies all changes that were acknowledged before the call.
    ///
    /// # Errors
    /// When etcd does not answer, or the store and the log do not belong together.
    pub fn catch_up(&self) -> Result<(), ReplicaError> {
        self.wait_for(self.replica.catch_up()).map(drop)
    }

    fn wait_for<R>(&self, work: impl Future<Output = R>) -> R {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).block_on(work)
    }
}

impl Source for Writer {
    fn at(&self) -> At {
        self.store.at()
    }

    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.store.with_view(look)
    }

    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        self.wait_for(async {
            let made = self.replica.commit(change, None).await?;
            // No watch delivers the reports of the members, so the reports in etcd are read regularly.
            let (_, no_reports) = watch::channel(Reports::new());
            let at = made.at;
            self.replica.acknowledged(made, None, no_reports).await;
            Ok(at)
        })
    }

    fn has_room_for(&self, requester: Requester, effect: Effect, bytes: u64) -> Result<(), CommitError> {
        self.store.has_room_for(requester, effect, bytes)
    }
}
