//! Sends reports directly from process to process. A process reports to all other processes the number of the last change that it has applied. So the
//! acknowledgement of a change (rule 5 of docs/fleet-protocol.md) does not wait for another write to etcd. The process writes the reports to etcd a
//! little later. The reports in etcd are needed for trimming the log, and for commands and processes that have no connection.
//!
//! A report has 8 bytes: the number of the change, big-endian. A connection transports reports in one direction only.

use crate::registration::Reach;
use enfilade_facts::Revision;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The pause before the next attempt to open a connection, after the connection has ended or an attempt has failed.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);

/// A connection to a process of another member.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin> Connection for C {}

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Box<dyn Connection>, String>> + Send>>;

/// Opens a connection to a process. When the connection is open, the process at the other end has proved that it has the key of the certificate in
/// [`Reach`].
pub type Connect = Arc<dyn Fn(Reach) -> Connecting + Send + Sync>;

/// The connections from this process to the other processes.
pub(crate) struct Direct {
    applied: watch::Sender<Revision>,
    /// The connections, by the number in the id of the other process.
    links: Mutex<HashMap<u64, Link>>,
}

struct Link {
    is_open: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Direct {
    pub(crate) fn new(applied: Revision) -> Self {
        Direct { applied: watch::Sender::new(applied), links: Mutex::default() }
    }

    /// Keeps a connection to each of these processes. Ends the connections to all other processes.
    pub(crate) fn keep(&self, peers: Vec<(u64, Reach)>, connect: &Connect) {
        let mut links = self.links();
        links.retain(|number, _| peers.iter().any(|(peer, _)| peer == number));
        for (number, reach) in peers {
            links.entry(number).or_insert_with(|| {
                let is_open = Arc::<AtomicBool>::default();
                let reports = self.applied.subscribe();
                let task = tokio::spawn(keep_open(Arc::clone(connect), reach, reports, Arc::clone(&is_open)));
                Link { is_open, task: task.abort_handle() }
            });
        }
    }

    /// Reports to all connected processes that this process has applied a change.
    pub(crate) fn tell(&self, applied: Revision) {
        self.applied.send_if_modified(|told| {
            let is_newer = *told < applied;
            *told = applied.max(*told);
            is_newer
        });
    }

    /// Whether there is a connection to the process with this number. It is possible that the connection ended a moment ago.
    pub(crate) fn reaches(&self, number: u64) -> bool {
        self.links().get(&number).is_some_and(|link| link.is_open.load(Ordering::Relaxed))
    }

    /// Ends all connections.
    pub(crate) fn end(&self) {
        self.links().clear();
    }

    fn links(&self) -> MutexGuard<'_, HashMap<u64, Link>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep_open(
    connect: Connect,
    reach: Reach,
    mut reports: watch::Receiver<Revision>,
    is_open: Arc<AtomicBool>,
) {
    loop {
        if let Ok(connection) = connect(reach.clone()).await {
            is_open.store(true, Ordering::Relaxed);
            send(connection, &mut reports).await;
            is_open.store(false, Ordering::Relaxed);
        }
        tokio::time::sleep(CONNECT_AGAIN).await;
    }
}

/// Sends the reports, until the connection ends. If reports come faster than they are sent, only the newest is sent.
async fn send(connection: Box<dyn Connection>, reports: &mut watch::Receiver<Revision>) {
    let (mut from, mut to) = tokio::io::split(connection);
    let sends = async {
        loop {
            let applied = *reports.borrow_and_update();
            to.write_all(&applied.0.to_be_bytes()).await?;
            to.flush().await?;
            if reports.changed().await.is_err() {
                return Ok::<_, std::io::Error>(());
            }
        }
    };
    // The other process sends nothing, so the read ends only when the connection ends.
    let mut nothing = [0];
    tokio::select! {
        _ = sends => {}
        _ = from.read(&mut nothing) => {}
    }
}

/// Reads reports, until the connection ends.
pub(crate) async fn receive(mut connection: impl AsyncRead + Unpin, mut heard: impl FnMut(Revision)) {
    let mut number = [0; 8];
    while connection.read_exact(&mut number).await.is_ok() {
        heard(Revision(u64::from_be_bytes(number)));
    }
}
