//! A client of Enfilade or of Samba on one connection, with the CPU that its server uses.

use super::client::Client;
use super::trees::{self, Acls};
use crate::Failure;
use crate::served::Server;
use crate::stopwatch::{now, pause};
use std::time::Duration;

/// A client that lists one directory, again and again on one connection.
pub(super) trait Side {
    /// Lists the directory. Returns the number of entries that are shown.
    fn list(&mut self) -> Result<u64, Failure>;

    /// The CPU of the server since just before the client connected, in milliseconds.
    fn cpu_millis(&self) -> Result<f64, Failure>;
}

/// The cost of a listing, in milliseconds.
pub(super) struct Cost {
    /// The CPU of the server.
    pub(super) cpu: f64,
    /// The time until the client had the whole answer.
    pub(super) time: f64,
}

/// The time that a server gets to finish the work after an answer.
const AFTER: Duration = Duration::from_millis(20);

/// Lists once. The CPU counts from the moment at which the server had used `before` milliseconds.
pub(super) fn cost(side: &mut impl Side, before: f64) -> Result<Cost, Failure> {
    let began = now();
    let seen = side.list()?;
    let time = began.elapsed().as_secs_f64() * 1e3;
    if seen != trees::SEEN {
        return Err(format!("{seen} entries are shown, and not {}", trees::SEEN).into());
    }
    pause(AFTER);
    Ok(Cost { cpu: side.cpu_millis()? - before, time })
}

/// A client of Enfilade without TLS, and its server.
pub(super) struct Ours<'o> {
    client: Client,
    server: Server,
    place: (Acls, &'o str),
    before: f64,
}

impl<'o> Ours<'o> {
    /// Connects a client with this header `Authorization` to a server. Before the client connects, the server finishes the work of its start. A later
    /// wait could be longer than the idle limit of a connection.
    pub(super) fn connect(
        server: Server,
        place: (Acls, &'o str),
        authorization: String,
    ) -> Result<Self, Failure> {
        server.settle()?;
        let before = server.cpu_nanos()?;
        let client = Client::with(server.plain, authorization)?;
        Ok(Ours { client, server, place, before })
    }

    /// Lists the top of the datastore, so that the login is not in the cost of the next listing.
    pub(super) fn log_in(&mut self) -> Result<(), Failure> {
        self.client.list(self.place.0, "").map(drop)
    }
}

impl Side for Ours<'_> {
    fn list(&mut self) -> Result<u64, Failure> {
        let (acls, tree) = self.place;
        Ok(self.client.list(acls, tree)?.len() as u64)
    }

    fn cpu_millis(&self) -> Result<f64, Failure> {
        Ok((self.server.cpu_nanos()? - self.before) / 1e6)
    }
}
