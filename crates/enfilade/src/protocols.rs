//! The protocols of this program. A new protocol is a crate (`crates/face-*`) and a line in the table [`MAIN`].

use enfilade_faces::{Faces, Route, Router};

/// The routes of the main listener.
pub(crate) const MAIN: [&[Route]; 7] = [
    &enfilade_operations::MAIN,
    &enfilade_console::ROUTES,
    &enfilade_decision::MAIN,
    &enfilade_webdav::ROUTES,
    &enfilade_proxmox::DATASTORES,
    &enfilade_proxmox::ROUTES,
    &enfilade_keystone::ROUTES,
];

/// The routes of the listener for metrics and health.
pub(crate) const OPERATIONS: [&[Route]; 1] = [&enfilade_operations::OPERATIONS];

/// The routes of the listener for proxies that ask for decisions.
pub(crate) const DECISIONS: [&[Route]; 1] = [&enfilade_decision::ROUTES];

/// The routes of the listener for other members of the fleet.
pub(crate) const MEMBERS: [&[Route]; 2] = [&enfilade_webdav::ROUTES, &enfilade_proxmox::DATASTORES];

/// The routers of the listeners.
#[derive(Clone)]
pub(crate) struct Routers {
    pub(crate) main: Router,
    pub(crate) operations: Router,
    pub(crate) decisions: Router,
    pub(crate) members: Router,
}

impl Routers {
    /// The routers. Without the console, its routes do not exist.
    pub(crate) fn new(faces: &Faces, has_console: bool) -> Self {
        let is_console =
            |routes: &[Route]| routes.iter().any(|route| route.described().first() == Some(&"/console/"));
        let is_served = |routes: &&[Route]| has_console || !is_console(routes);
        let main: Vec<&[Route]> = MAIN.into_iter().filter(is_served).collect();
        Routers {
            main: Router::new(faces.clone(), &main),
            operations: Router::new(faces.clone(), &OPERATIONS),
            decisions: Router::of_decisions(faces.clone(), &DECISIONS, enfilade_decision::form),
            members: Router::of_members(faces.clone(), &MEMBERS),
        }
    }
}
