//! Determines on which paths roles of a Proxmox Backup Server would give more rights on this server than in the source, and where the files of a
//! namespace are.

use super::stores::Stores;
use enfilade_facts::tables::Assignment;
use enfilade_facts::vocabulary::{Role, RolePath, Userid};
use enfilade_sources::files::acl_cfg::Roles;

/// Why roles on this path would give rights here that they do not give in the source; `None` if they would give no such rights. `other` is a user
/// of this server that is not in the source.
pub(super) fn gives_more(
    (stores, is_same_source): (&Stores, bool),
    other: Option<&Userid>,
    path: &RolePath,
) -> Option<String> {
    let users = || {
        let other = other.filter(|_| !path.as_str().starts_with("/datastore"))?;
        Some(format!(
            "the path is not a datastore path, so the roles would also give rights on users that are only on this server, such as {other}"
        ))
    };
    stores.gives_more(path, is_same_source).or_else(users)
}

pub(super) fn in_doubt() -> String {
    "acl.cfg has an invalid line about this user, token or group; that line may remove these rights; correct the line, then import \
     again".to_owned()
}

/// The text for a NoAccess of the source that was left out, because the user or token already has other roles on the path here. These roles stay,
/// although the source takes the rights away.
pub(super) fn still_has(named: &str, path: &RolePath, before: &Assignment) -> String {
    let roles: Vec<&str> = before.roles.iter().map(|(role, _)| role.name()).collect();
    format!(
        "the source removes all rights on {path}, but on this server the {named} still has {} on this path: remove these roles with `enfilade role \
         remove`, and assign NoAccess",
        roles.join(", ")
    )
}

/// Whether the roles only take rights away.
pub(super) fn only_takes_away(roles: &Roles) -> bool {
    roles.keys().all(|role| *role == Role::NoAccess)
}

/// A note if roles on a datastore give more rights here than in Proxmox Backup Server.
pub(super) fn reads_all(roles: &Roles) -> Option<String> {
    const OF_OWN_BACKUPS: [Role; 2] = [Role::DatastoreBackup, Role::DatastorePowerUser];
    let role = roles.keys().find(|role| OF_OWN_BACKUPS.contains(role))?;
    Some(format!(
        "on this server, {} gives access to all files below the path; on Proxmox Backup Server, this role gives access only to the user's own backups",
        role.name()
    ))
}

/// Converts the path of a Proxmox namespace to the path of its files; `None` if `path` is not the path of a namespace. The files of each namespace
/// are in the directory `ns` of the namespace above.
pub(super) fn files_of_namespace(path: &RolePath) -> Option<RolePath> {
    let (store, namespace) = path.as_str().strip_prefix("/datastore/")?.split_once('/')?;
    let below: String = namespace.split('/').map(|name| format!("/ns/{name}")).collect();
    format!("/datastore/{store}{below}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_in_the_directory_ns_of_the_one_above() {
        for (path, expected) in [
            ("/datastore/tank/a/b", Some("/datastore/tank/ns/a/ns/b")),
            ("/datastore/tank", None),
            ("/datastore", None),
            ("/access/users", None),
        ] {
            let found = files_of_namespace(&path.parse().unwrap());
            assert_eq!(found.as_ref().map(RolePath::as_str), expected, "{path}");
        }
    }
}
