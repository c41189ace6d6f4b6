//! The protocols of this program. A new protocol is a crate (`crates/face-*`) and a line in the table [`MAIN`].

use enfilade_faces::{Faces, Route, Router};

/// The routes of the main listener.
pub(crate) const MAIN: [&[Route]; 4] = [
    &enfilade_operations::MAIN,
    &enfilade_webdav::ROUTES,
    &enfilade_proxmox::ROUTES,
    &enfilade_keystone::ROUTES,
];

/// The routes of the listener for metrics and health.
pub(crate) const OPERATIONS: [&[Route]; 1] = [&enfilade_operations::OPERATIONS];

/// The router for the routes of both listeners.
pub(crate) fn router(faces: &Faces) -> Router {
    Router::new(faces.clone(), &MAIN, &OPERATIONS)
}
