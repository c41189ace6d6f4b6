//! The additional work of a server in a fleet.

use crate::home::Home;
use crate::listen::{self, Admission, Door};
use crate::passing::{self, Others, Peers};
use enfilade_faces::{Faces, FleetState, ProveFirst, Router};
use enfilade_facts::{Source as _, SourceError};
use enfilade_fleet::Numbers;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Starts the listeners for other members of the fleet. Returns the counter of their connections.
pub(super) fn serve_members(
    home: &Home,
    listeners: Vec<TcpListener>,
    peers: Option<&watch::Receiver<Peers>>,
    router: &Router,
    door: &Door,
) -> anyhow::Result<Arc<Admission>> {
    // Connections of members are counted separately. So they do not take slots of clients.
    let admission = Arc::new(Admission::new(door.limits));
    let (Some(tls), Some(peers), Some(server)) = (&home.facts.tls, peers, &home.facts.server) else {
        return Ok(admission);
    };
    let door = Door { admission: Arc::clone(&admission), ..door.without_proxies() };
    let tls = tls.server().map_err(anyhow::Error::msg)?;
    for listener in listeners {
        let (tls, peers, server) = (Arc::clone(&tls), peers.clone(), Arc::clone(server));
        tokio::spawn(listen::members(listener, tls, peers, server, router.clone(), door.clone()));
    }
    Ok(admission)
}

/// Starts the task that asks etcd for the other members of the fleet. `None` if this server is not in a fleet, or has no listener for other members.
pub(super) fn peers(home: &Home) -> anyhow::Result<Option<watch::Receiver<Peers>>> {
    let Some((tls, server)) = home.facts.tls.as_ref().zip(home.facts.server.clone()) else { return Ok(None) };
    passing::follow(&home.config, home.store.at().store, tls, server).map(Some)
}

/// Gives the faces of a server the metrics of the fleet and the connections to other members. If `[fleet] strict` is set, also gives them the check
/// before each request. If the server is not in a fleet, this function changes nothing.
pub(super) fn connect(home: &Home, peers: Option<&watch::Receiver<Peers>>, faces: Faces) -> Faces {
    let Some(server) = home.facts.server.clone() else { return faces };
    let of_metrics = Arc::clone(&server);
    faces.metrics().set_fleet(move || {
        let Numbers { proof_millis, behind, refused, acknowledged, acknowledged_millis } =
            of_metrics.numbers();
        FleetState { proof_millis, behind, refused, acknowledged, acknowledged_millis }
    });
    let prove = move || -> Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>> {
        let server = Arc::clone(&server);
        Box::pin(async move { server.prove_anew().await })
    };
    let prove = home.config.fleet.strict.then(|| Arc::new(prove) as ProveFirst);
    let faces = faces.with_proof_first(prove);
    match home.facts.tls.as_ref().zip(peers) {
        Some((tls, peers)) => faces.with_others(Some(Arc::new(Others::new(Arc::clone(tls), peers.clone())))),
        None => faces,
    }
}
