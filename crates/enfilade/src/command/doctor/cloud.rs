//! Checks of a cloud that `enfilade bootstrap` set up.

use super::{Finding, error, warning, well};
use crate::home::Installation;
use crate::{clock, identity_endpoints, output};
use enfilade_admin::Administers;
use enfilade_sources::lmdb::Lmdb;

/// An administrator of the cloud who can log in, if there is one. A cloud needs no user with the role Admin
/// on `/`.
pub(super) fn administrator(lmdb: &Lmdb) -> Option<Finding> {
    let what = "administrators";
    let found = match enfilade_admin::administrators(lmdb, Administers::Cloud, clock::now().unix_seconds) {
        Ok(found) => found,
        Err(why) => return Some(error(what, why.to_string())),
    };
    let name = &found.iter().find(|found| found.can_log_in())?.name;
    Some(well(
        what,
        format!(
            "{name} can log in and administers the cloud. No enabled user has {}. Only this server's Proxmox API and datastores without a project \
             need this role. To assign the role: enfilade role assign --path / --auth-id {} Admin",
            Administers::Server.role(),
            output::word(&name.to_string())
        ),
    ))
}

/// Endpoints of the identity service that lead to a port on which no server listens.
pub(super) fn endpoints(installation: &Installation, lmdb: &Lmdb) -> Vec<Finding> {
    match identity_endpoints::lost(lmdb, &installation.config, &installation.data) {
        Ok(lost) => lost.into_iter().map(|says| warning("catalog", says)).collect(),
        Err(why) => vec![error("catalog", why.to_string())],
    }
}
