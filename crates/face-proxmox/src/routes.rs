//! Every call of the Proxmox API: its handler, and whether delegated credentials may use it. Dispatch and tests use this table.

use super::{Call, Outcome, acl, datastores, realms, reload, tokens, users, version};
use enfilade_faces::RequestError;
use enfilade_passage::Lending;
use hyper::Method;

/// A call.
#[derive(Clone, Copy)]
pub struct ProxmoxRoute {
    /// The method.
    pub method: &'static str,
    /// The path below `/api2/json/`; a segment in braces matches any value.
    pub path: &'static str,
    /// What delegated credentials may do with it. The handler asks door 4 for the privilege.
    pub lending: Lending,
    /// Its handler.
    pub(super) answer: fn(&mut Call) -> Outcome,
}

const fn reads(path: &'static str, answer: fn(&mut Call) -> Outcome) -> ProxmoxRoute {
    ProxmoxRoute { method: "GET", path, lending: Lending::Reads, answer }
}

const fn manages(method: &'static str, path: &'static str, answer: fn(&mut Call) -> Outcome) -> ProxmoxRoute {
    ProxmoxRoute { method, path, lending: Lending::Manages, answer }
}

const fn people(method: &'static str, path: &'static str, answer: fn(&mut Call) -> Outcome) -> ProxmoxRoute {
    ProxmoxRoute { method, path, lending: Lending::People, answer }
}

/// Every call.
#[rustfmt::skip]
pub static PROXMOX: &[ProxmoxRoute] = &[
    reads("version", version),
    reads("config/datastore", datastores::configs),
    manages("POST", "config/datastore", datastores::create),
    reads("config/datastore/{name}", datastores::config),
    manages("PUT", "config/datastore/{name}", datastores::change),
    manages("DELETE", "config/datastore/{name}", datastores::remove),
    reads("admin/datastore", datastores::stores),
    reads("admin/datastore/{name}/status", datastores::status),
    reads("admin/datastore/{name}/active-operations", datastores::active),
    reads("status/datastore-usage", datastores::usage),
    // The name of the service is ignored: this server has one.
    manages("POST", "nodes/{node}/services/{service}/reload", reload),
    reads("access/users", users::list),
    people("POST", "access/users", users::create),
    reads("access/users/{userid}", users::show),
    people("PUT", "access/users/{userid}", users::change),
    people("DELETE", "access/users/{userid}", users::remove),
    reads("access/users/{userid}/token", tokens::list),
    reads("access/users/{userid}/token/{name}", tokens::show),
    people("POST", "access/users/{userid}/token/{name}", tokens::create),
    people("PUT", "access/users/{userid}/token/{name}", tokens::change),
    people("DELETE", "access/users/{userid}/token/{name}", tokens::remove),
    reads("access/acl", acl::list),
    people("PUT", "access/acl", acl::change),
    reads("access/permissions", acl::permissions),
    reads("access/roles", acl::roles),
    reads("access/domains", realms),
];

/// The call for a path, and the values of its segments in braces.
pub(super) fn find(
    method: &Method,
    segments: &[String],
) -> Result<(&'static ProxmoxRoute, Vec<String>), RequestError> {
    let mut of_path =
        PROXMOX.iter().filter_map(|route| Some((route, parameters(route.path, segments)?))).peekable();
    of_path.peek().ok_or(RequestError::NoRoute)?;
    of_path.find(|(route, _)| route.method == method.as_str()).ok_or(RequestError::Method)
}

fn parameters(template: &str, segments: &[String]) -> Option<Vec<String>> {
    let parts: Vec<&str> = template.split('/').collect();
    let is_it = |(part, given): (&&str, &String)| part.starts_with('{') || *part == given.as_str();
    let fits = parts.len() == segments.len() && parts.iter().zip(segments).all(is_it);
    let given = parts.iter().zip(segments).filter(|(part, _)| part.starts_with('{'));
    fits.then(|| given.map(|(_, given)| given.clone()).collect())
}
