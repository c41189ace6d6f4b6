//! The signals that a server handles.

use enfilade_faces::Faces;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};

/// The signals that a server handles.
pub(crate) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal that stops the server. Until then, this function reloads the configuration, the certificates and the files that people
    /// edit, at each SIGHUP and each time a request asks for a reload. After each reload, checks whether a certificate must be obtained.
    pub(crate) async fn until_stopped(
        mut self,
        reload: impl Fn() -> Result<String, String>,
        faces: &Faces,
        obtain: &Notify,
    ) {
        let (ask, mut asked) = mpsc::channel(1);
        faces.set_reloads(ask);
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => drop(reload()),
                Some(reply) = asked.recv() => drop(reply.send(reload())),
            }
            obtain.notify_one();
        }
    }
}
