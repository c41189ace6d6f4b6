//! The paths on which roles are assigned: `/`, `/datastore/NAME`, directories and files of a datastore, and the other trees of Proxmox Backup Server,
//! such as `/access`.

use super::{DatastoreName, Malformed, StorePath, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

/// The other trees of Proxmox Backup Server (`check_acl_path`).
const OTHER_TREES: [&str; 4] = ["access", "remote", "system", "tape"];

/// A path on which roles are assigned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RolePath(String);

impl RolePath {
    /// The path of a file or directory in a datastore. It may be longer than any path on which a role can be assigned.
    pub fn of(datastore: &DatastoreName, path: &StorePath) -> Self {
        let separator = if path.is_root() { "" } else { "/" };
        RolePath(format!("/datastore/{datastore}{separator}{}", path.as_str()))
    }

    /// The datastore that the path is in.
    pub fn datastore(&self) -> Option<DatastoreName> {
        self.0.strip_prefix("/datastore/")?.split('/').next()?.parse().ok()
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a line of `acl.cfg` can contain the path: every name in it has only letters, digits, `_`, `.` and `-`.
    pub fn is_plain(&self) -> bool {
        self.0 == "/" || self.0.split('/').skip(1).all(is_safe_id)
    }

    /// This path and all paths above it, outermost first: `/`, `/datastore`, `/datastore/NAME`, …
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        Self::nodes_to(&self.0)
    }

    /// A node of a path and all nodes above it, outermost first.
    pub fn nodes_to(node: &str) -> impl Iterator<Item = &str> {
        let slashes = node.match_indices('/').skip(1).map(|(at, _)| at);
        let inner = slashes.chain((node.len() > 1).then_some(node.len()));
        std::iter::once("/").chain(inner.filter_map(|end| node.get(..end)))
    }
}

impl FromStr for RolePath {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let wrong = |expected| Malformed::new("role path", text, expected);
        if text.len() > limits::ROLE_PATH_BYTES_MAX {
            return Err(wrong("expected at most 370 bytes"));
        }
        if text == "/" || text == "/datastore" {
            return Ok(RolePath(text.into()));
        }
        let mut names = text.split('/').skip(1);
        if text.starts_with('/') && names.next().is_some_and(|tree| OTHER_TREES.contains(&tree)) {
            return match names.all(is_safe_id) {
                true => Ok(RolePath(text.into())),
                false => Err(wrong("expected names of letters, digits, `_`, `.` and `-`")),
            };
        }
        let rest = text
            .strip_prefix("/datastore/")
            .ok_or_else(|| wrong("expected `/`, `/datastore`, `/datastore/NAME` or a path below it"))?;
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = StorePath::from_plain(path)
            .map_err(|_| wrong("expected a path without `.`, `..`, empty names or control characters"))?;
        Ok(Self::of(&name.parse()?, &path))
    }
}

impl fmt::Display for RolePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RolePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_run_from_the_root() {
        let nodes =
            |text: &str| text.parse::<RolePath>().unwrap().nodes().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(nodes("/"), ["/"]);
        assert_eq!(nodes("/datastore/tank"), ["/", "/datastore", "/datastore/tank"]);
        assert_eq!(
            nodes("/datastore/tank/a/b"),
            ["/", "/datastore", "/datastore/tank", "/datastore/tank/a", "/datastore/tank/a/b"]
        );
        assert!(
            ["/access/acl", "/system", "/tape/job/x"].iter().all(|text| text.parse::<RolePath>().is_ok())
        );
        for text in [
            "",
            "access/acl",
            "/access//acl",
            "/elsewhere",
            "datastore/x",
            "/datastores/tank",
            "/datastore/x",
            "/datastore/tank/..",
            "/datastore/tank/a//b",
        ] {
            assert!(text.parse::<RolePath>().is_err(), "{text}");
        }
    }
}
