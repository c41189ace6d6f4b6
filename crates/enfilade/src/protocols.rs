//! The protocols of this program. A new protocol is a crate (`crates/face-*`) and a line in the table [`ALWAYS`].

use enfilade_faces::{Faces, Route, Router};

/// The routes of the console and of links for guests. An operator can switch off these routes (`[console] enabled`).
const CONSOLE: [&[Route]; 1] = [&enfilade_console::ROUTES];

/// The other routes of the main listener.
const ALWAYS: [&[Route]; 6] = [
    &enfilade_operations::MAIN,
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

/// The routes of the main listener. The console comes first, because its route for browsers has the path `/`, like a route of the Identity API.
pub(crate) fn main(has_console: bool) -> Vec<&'static [Route]> {
    CONSOLE.into_iter().filter(|_| has_console).chain(ALWAYS).collect()
}

/// The routes of the listener for other members of the fleet, without the console.
const MEMBERS: [&[Route]; 2] = [&enfilade_webdav::ROUTES, &enfilade_proxmox::DATASTORES];

/// The routers of the listeners.
#[derive(Clone)]
pub(crate) struct Routers {
    pub(crate) main: Router,
    pub(crate) operations: Router,
    pub(crate) decisions: Router,
    pub(crate) members: Router,
}

impl Routers {
    /// The routers. If the console is switched off, its routes do not exist.
    pub(crate) fn new(faces: &Faces, has_console: bool) -> Self {
        let console = CONSOLE.into_iter().filter(|_| has_console);
        let members: Vec<&[Route]> = MEMBERS.into_iter().chain(console).collect();
        Routers {
            main: Router::new(faces.clone(), &main(has_console)),
            operations: Router::new(faces.clone(), &OPERATIONS),
            decisions: Router::of_decisions(faces.clone(), &DECISIONS, enfilade_decision::form),
            members: Router::of_members(faces.clone(), &members),
        }
    }
}
