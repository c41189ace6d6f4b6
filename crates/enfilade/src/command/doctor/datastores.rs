//! Checks of datastores: their directories, and entries in them that clients do not see.

use super::{Finding, error, names, warning, well};
use crate::home::Installation;
use crate::owner;
use crate::{control, fleet};
use enfilade_admin::{DatastoreWarning, Reserved, ReservedPaths, real_path};
use enfilade_facts::tables::{Datastore, DatastoreProfile};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{Read as _, View};
use enfilade_sources::lmdb::Lmdb;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Findings about each datastore.
pub(super) fn check(installation: &Installation, lmdb: &Lmdb) -> Vec<Finding> {
    let openable = control::openable(&installation.data);
    let reserved = ReservedPaths::new(Reserved { openable, ..installation.reserved() });
    let both = |view: &View<'_>| Ok((view.list::<Datastore>(&[])?, view.list::<DatastoreProfile>(&[])?));
    let (rows, profiles) = match lmdb.read(both) {
        Ok(Ok(both)) => both,
        Ok(Err(why)) | Err(why) => return vec![error("datastores", why.to_string())],
    };
    let profiles: BTreeMap<_, _> = profiles.into_iter().collect();
    let mounts = enfilade_sources::mounts::now().unwrap_or_default();
    let mut amiss: BTreeMap<DatastoreName, Vec<DatastoreWarning>> = BTreeMap::new();
    let place = fleet::place(&installation.config, lmdb);
    match enfilade_admin::datastore_warnings(lmdb, &mounts, &reserved, &place) {
        Ok(warnings) => {
            warnings.into_iter().for_each(|found| amiss.entry(found.name.clone()).or_default().push(found));
        }
        Err(why) => return vec![error("datastores", why.to_string())],
    }
    let mut findings = Vec::new();
    let data = real_path(&installation.data);
    for (name, row) in rows {
        let what = format!("datastore {name}");
        let of_it = profiles.get(&name).and_then(|profile| profile.home.as_ref());
        if let Some(member) = place.elsewhere(of_it) {
            findings.push(well(&what, format!("served by member `{member}`")));
            continue;
        }
        let foreign = foreign_house(&real_path(row.root(&name).as_ref()), &data);
        findings.extend(foreign.map(|house| warning(&what, of_other_server(&row.root(&name), &house))));
        findings
            .extend(names::not_shown(row.root(&name).as_ref()).into_iter().map(|says| warning(&what, says)));
        let maintenance = row.maintenance.as_ref().map(|maintenance| maintenance.mode.name());
        match (amiss.remove(&name), maintenance) {
            (None, Some(mode)) => findings.push(warning(&what, format!("in maintenance mode {mode}"))),
            (None, None) => findings.push(well(&what, row.root(&name))),
            (Some(found), _) => {
                // The directory that this process cannot open. This is the directory of the datastore, or a directory above it.
                let barrier = owner::barrier(row.root(&name).as_ref());
                let barrier = barrier.map(|says| format!(": {says}")).unwrap_or_default();
                findings.extend(found.into_iter().map(|found| match found.is_shut {
                    true => error(&what, found.says + &barrier),
                    false => warning(&what, found.says),
                }));
            }
        }
    }
    findings
}

/// The data directory of another server, if `root` is that data directory, or lies in it.
fn foreign_house(root: &Path, own: &Path) -> Option<PathBuf> {
    let mut above = root.ancestors().take_while(|place| *place != own);
    above.find(|place| place.join("facts/data.mdb").exists()).map(Path::to_owned)
}

/// The warning about a directory in the data directory of another server. One cause is a restore: the restored configuration contains the paths
/// of the server that was backed up.
fn of_other_server(root: &str, house: &Path) -> String {
    format!(
        "`{root}` is in the data directory of another server, `{}`. If both servers use this directory, each server permits requests that the other \
         server refuses, and does not see the locks of the other server. If the other server continues to run, copy the content, and set the \
         directory of the copy as `path` in datastore.cfg. If this server replaces the other server, move the content out of the data directory of \
         the other server, and set the new directory as `path`",
        house.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_the_data_directory_of_another_server_is_found() {
        let scratch = enfilade_testkit::Scratch::new();
        let (own, other) = (scratch.path().join("own"), scratch.path().join("other"));
        for house in [&own, &other] {
            std::fs::create_dir_all(house.join("facts")).unwrap();
            std::fs::create_dir_all(house.join("datastores/main")).unwrap();
            std::fs::write(house.join("facts/data.mdb"), "").unwrap();
        }
        let found = |root: PathBuf| foreign_house(&root, &own);
        assert_eq!(found(own.join("datastores/main")), None);
        assert_eq!(found(scratch.path().join("elsewhere")), None);
        assert_eq!(found(other.join("datastores/main")), Some(other.clone()));
        assert_eq!(found(other.clone()), Some(other.clone()));
        let said = of_other_server("/o/datastores/main", &other);
        assert!(said.contains("is in the data directory of another server"), "{said}");
    }
}
