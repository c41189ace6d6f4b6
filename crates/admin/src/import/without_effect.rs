//! Finds lines of `acl.cfg` that have no effect on this server, because their path is the path of a namespace in Proxmox Backup Server. On this
//! server, a path below a datastore is the path of a file or folder, and the files of a namespace are in the folder `ns`.

use super::role_rules::files_of_namespace;
use super::stores::some;
use crate::datastores::roots;
use enfilade_facts::Source;
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::Role;
use enfilade_sources::files::acl_cfg::{AclCfg, by_line};
use enfilade_sources::files::file_set::FileSet;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// A warning for each line of `acl.cfg` that has no effect, because its path is the path of a namespace. A line without NoAccess gets a warning only
/// if the namespace exists. Errors of the file and of the datastores are not reported here, because there are other warnings about them.
pub fn roles_without_effect(source: &dyn Source, files: &FileSet) -> Vec<String> {
    let (Ok(Some(bytes)), Ok(roots)) = (files.read(FileName::Acl), roots(source)) else {
        return Vec::new();
    };
    let roots = roots.into_iter().map(|(name, root)| (name.as_str().to_owned(), root)).collect();
    let path = files.path(FileName::Acl);
    let lines = by_line(&bytes);
    let says = lines.iter().filter_map(|(number, line)| Some((number, of_line(line, &roots)?)));
    says.map(|(number, says)| format!("{}: line {number}: {says}", path.display())).collect()
}

/// The warning about a line; `None` if the line needs no warning.
fn of_line(line: &AclCfg, roots: &BTreeMap<String, String>) -> Option<String> {
    let ((path, _), _) = line.entries.first_key_value()?;
    let (store, below) = path.as_str().strip_prefix("/datastore/")?.split_once('/')?;
    let (root, there) = (roots.get(store)?, files_of_namespace(path)?);
    let (_, of_namespace) = there.as_str().strip_prefix("/datastore/")?.split_once('/')?;
    let denies = line.entries.values().any(|roles| roles.contains_key(&Role::NoAccess));
    let is_namespace = std::fs::symlink_metadata(Path::new(root).join(of_namespace)).is_ok();
    if !is_missing(&Path::new(root).join(below)) || !(denies || is_namespace) {
        return None;
    }
    let names = some(line.entries.keys().map(|(_, ugid)| ugid));
    let effect = match denies {
        true => format!("NoAccess of {names} on {path} has no effect (access is not blocked)"),
        false => format!("the roles of {names} on {path} have no effect"),
    };
    let next = match is_namespace {
        true => format!(
            "the files of the namespace `{below}` of Proxmox are in {there}: write this path in the line"
        ),
        false => format!(
            "if `{below}` is a namespace of Proxmox, the files of this namespace are in {there}: write this path in the line, or remove the line"
        ),
    };
    Some(format!("{effect}, because `{root}` has no file or folder `{below}`; {next}"))
}

/// Whether it is certain that no file exists at the path.
fn is_missing(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_err_and(|why| matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_on_a_namespace_is_named_with_the_path_of_its_files() {
        let place = std::env::temp_dir().join(format!("enfilade-without-effect-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let root = place.display().to_string();
        for folder in ["ns/secret/ns/deep", "folder"] {
            std::fs::create_dir_all(place.join(folder)).unwrap();
        }
        let roots = BTreeMap::from([("tank".to_owned(), root.clone())]);
        let says = |text: &str| of_line(&AclCfg::parse(text.as_bytes()), &roots);
        let missing = |below: &str| format!("because `{root}` has no file or folder `{below}`");
        assert_eq!(
            says("acl:1:/datastore/tank/secret:ann@pbs,@staff:NoAccess").unwrap(),
            format!(
                "NoAccess of ann@pbs, @staff on /datastore/tank/secret has no effect (access is not blocked), {}; the files of the namespace `secret` of \
                 Proxmox are in \
                 /datastore/tank/ns/secret: write this path in the line",
                missing("secret")
            )
        );
        assert_eq!(
            says("acl:1:/datastore/tank/secret/deep:ann@pbs:DatastoreAudit").unwrap(),
            format!(
                "the roles of ann@pbs on /datastore/tank/secret/deep have no effect, {}; the files of the namespace `secret/deep` of Proxmox are in \
                 /datastore/tank/ns/secret/ns/deep: write this path in the line",
                missing("secret/deep")
            )
        );
        let later = says("acl:1:/datastore/tank/later:ann@pbs:NoAccess").unwrap();
        assert!(later.contains("access is not blocked") && later.ends_with("or remove the line"), "{later}");
        for line in [
            "acl:1:/datastore/tank/folder:ann@pbs:NoAccess",
            "acl:1:/datastore/tank/ns/secret:ann@pbs:NoAccess",
            "acl:1:/datastore/tank/later:ann@pbs:DatastoreReader",
            "acl:1:/datastore/tank:ann@pbs:NoAccess",
            "acl:1:/datastore/other/secret:ann@pbs:NoAccess",
            "acl:1:/:ann@pbs:NoAccess",
        ] {
            assert_eq!(says(line), None, "{line}");
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
