//! The calls of the Proxmox API, each with its handler and its class. Door 4 uses the class to decide whether a client with a lent (delegated)
//! credential may make the call. The table is used for dispatch, for the reference and for tests. The calls `ping` and `access/ticket` are not in the
//! table, because they need no credential.

use super::{Call, Outcome, acl, datastores, realms, reload, tokens, users, version};
use enfilade_faces::RequestError;
use enfilade_passage::Lending::{self, Manages, People, Reads};
use hyper::Method;

/// A call.
#[derive(Clone, Copy)]
pub struct ProxmoxRoute {
    /// The method.
    pub method: &'static str,
    /// The path below `/api2/json/`. A segment in braces matches any value.
    pub path: &'static str,
    /// The class of the call. Door 4 (access) uses the class to decide whether a client with a lent (delegated) credential may make the call. The
    /// handler asks door 4 whether the caller has the needed privilege.
    pub lending: Lending,
    /// The handler of the call.
    pub(super) answer: fn(&mut Call) -> Outcome,
    /// A text for the reference: the privileges that the call needs. If the text contains no path for a privilege, the caller needs the privilege on
    /// a path that depends on the call: `/datastore/NAME` for calls about a datastore, `/access/users` for calls about users or tokens, and
    /// `/access/acl` for calls about roles.
    pub needs: &'static str,
    /// The summary of the call in the reference.
    pub says: &'static str,
}

const fn row(
    lending: Lending,
    method: &'static str,
    path: &'static str,
    answer: fn(&mut Call) -> Outcome,
    needs: &'static str,
    says: &'static str,
) -> ProxmoxRoute {
    ProxmoxRoute { method, path, lending, answer, needs, says }
}

/// Every call except `ping` and `access/ticket`.
#[rustfmt::skip]
pub static PROXMOX: &[ProxmoxRoute] = &[
    row(Reads, "GET", "version", version, "any login", "Show version"),
    row(Reads, "GET", "config/datastore", datastores::configs, "Datastore.Audit on each listed datastore", "List configurations of datastores"),
    row(Manages, "POST", "config/datastore", datastores::create, "Datastore.Allocate on `/datastore`", "Create datastore"),
    row(Reads, "GET", "config/datastore/{name}", datastores::config, "Datastore.Audit", "Show configuration of a datastore"),
    row(Manages, "PUT", "config/datastore/{name}", datastores::change, "Datastore.Modify", "Change datastore"),
    row(Manages, "DELETE", "config/datastore/{name}", datastores::remove, "Datastore.Allocate", "Remove datastore; its content stays"),
    row(Reads, "GET", "admin/datastore", datastores::stores, "Datastore.Audit or Datastore.Backup on each listed datastore", "List datastores"),
    row(Reads, "GET", "admin/datastore/{name}/status", datastores::status, "Datastore.Audit or Datastore.Backup; with neither, the answer is the same as for a datastore that does not exist", "Show usage"),
    row(Reads, "GET", "admin/datastore/{name}/active-operations", datastores::active, "Datastore.Audit", "Show active operations; `verbose=1` lists them for each process; `wait=SECONDS` waits until no operation is left, for at most 60 s"),
    row(Reads, "GET", "status/datastore-usage", datastores::usage, "Datastore.Audit or Datastore.Backup on each listed datastore", "Show usage of all datastores; an error of a datastore is in its entry"),
    // The name of the service is used only in the path of the privilege, because this server has only one service.
    row(Manages, "POST", "nodes/{node}/services/{service}/reload", reload, "Sys.Modify on `/system/services/{service}`", "Read configuration and certificates again; the response contains the result"),
    row(Reads, "GET", "access/users", users::list, "Sys.Audit on `/access/users` to list all users; without it, only the caller is listed", "List users"),
    row(People, "POST", "access/users", users::create, "Permissions.Modify", "Create user"),
    row(Reads, "GET", "access/users/{userid}", users::show, "Sys.Audit, unless the caller is the user in the path", "Show user"),
    row(People, "PUT", "access/users/{userid}", users::change, "Permissions.Modify", "Change user"),
    row(People, "DELETE", "access/users/{userid}", users::remove, "Permissions.Modify", "Remove user"),
    row(Reads, "GET", "access/users/{userid}/token", tokens::list, "Sys.Audit, unless the caller is the user in the path", "List tokens"),
    row(Reads, "GET", "access/users/{userid}/token/{name}", tokens::show, "Sys.Audit, unless the caller is the user in the path", "Show token"),
    row(People, "POST", "access/users/{userid}/token/{name}", tokens::create, "Permissions.Modify, unless the caller is the user in the path", "Create token; the answer shows its secret once"),
    row(People, "PUT", "access/users/{userid}/token/{name}", tokens::change, "Permissions.Modify, unless the caller is the user in the path", "Change token; `regenerate=1`: replace its secret"),
    row(People, "DELETE", "access/users/{userid}/token/{name}", tokens::remove, "Permissions.Modify, unless the caller is the user in the path", "Delete token"),
    row(Reads, "GET", "access/acl", acl::list, "Sys.Audit on `/access/acl` to list all roles; without it, only the roles of the caller's own tokens are listed", "List roles on paths"),
    row(People, "PUT", "access/acl", acl::change, "Permissions.Modify, unless the role is for one of the caller's own tokens", "Assign a role on a path; `delete=1`: remove it"),
    row(Reads, "GET", "access/permissions", acl::permissions, "Sys.Audit on `/access`, except to see the privileges of the caller and of the caller's own tokens", "Show privileges"),
    row(Reads, "GET", "access/roles", acl::roles, "any login", "List roles and their privileges"),
    row(Reads, "GET", "access/domains", realms, "any login that is not limited to a project", "List realms"),
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
