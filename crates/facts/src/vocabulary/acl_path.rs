//! The paths on which roles are assigned: `/`, `/datastore/NAME`, directories and files of a datastore, `/application/NAME` and the paths of an
//! application, and the other trees of Proxmox Backup Server, such as `/access`.

use super::{ApplicationName, DatastoreName, Malformed, StorePath, is_safe_id};
use crate::limits;
use std::fmt;
use std::str::FromStr;

/// The other trees of Proxmox Backup Server (`check_acl_path`).
const OTHER_TREES: [&str; 4] = ["access", "remote", "system", "tape"];

/// A path on which roles are assigned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RolePath(String);

impl RolePath {
    /// The path of a file or directory in a datastore. It can be longer than any path on which a role can be assigned.
    pub fn of(datastore: &DatastoreName, path: &StorePath) -> Self {
        let separator = if path.is_root() { "" } else { "/" };
        RolePath(format!("/datastore/{datastore}{separator}{}", path.as_str()))
    }

    /// The path of a URL of an application. It can be longer than any path on which a role can be assigned.
    pub fn of_application(application: &ApplicationName, path: &StorePath) -> Self {
        let separator = if path.is_root() { "" } else { "/" };
        // Every decision builds such a path. `concat` is faster than format arguments.
        RolePath(["/application/", application.as_str(), separator, path.as_str()].concat())
    }

    /// The datastore that the path is in.
    pub fn datastore(&self) -> Option<DatastoreName> {
        self.0.strip_prefix("/datastore/")?.split('/').next()?.parse().ok()
    }

    /// The application that the path is in.
    pub fn application(&self) -> Option<ApplicationName> {
        self.0.strip_prefix("/application/")?.split('/').next()?.parse().ok()
    }

    /// Whether the path is `/application` or below it. Proxmox Backup Server has no such paths, so `acl.cfg` cannot contain them.
    pub fn is_of_applications(&self) -> bool {
        self.0.strip_prefix("/application").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a line of `acl.cfg` can contain the path. Every name in the path must have only letters, digits, `_`, `.` and `-`. The path must not
    /// be `/application` or below it.
    pub fn is_plain(&self) -> bool {
        self.0 == "/" || !self.is_of_applications() && self.0.split('/').skip(1).all(is_safe_id)
    }

    /// This path and all paths above it, outermost first: `/`, `/datastore`, `/datastore/NAME`, …
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        Self::nodes_to(&self.0)
    }

    /// A node of a path and all nodes above it, outermost first.
    pub fn nodes_to(node: &str) -> impl Iterator<Item = &str> {
        // Nodes are short, so a loop over the bytes is faster than a search.
        let slashes = node.bytes().enumerate().filter(|(_, byte)| *byte == b'/').skip(1).map(|(at, _)| at);
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
        if ["/", "/datastore", "/application"].contains(&text) {
            return Ok(RolePath(text.into()));
        }
        let mut names = text.split('/').skip(1);
        if text.starts_with('/') && names.next().is_some_and(|tree| OTHER_TREES.contains(&tree)) {
            return match names.all(is_safe_id) {
                true => Ok(RolePath(text.into())),
                false => Err(wrong("expected names of letters, digits, `_`, `.` and `-`")),
            };
        }
        let below = |tree: &str| {
            let rest = text.strip_prefix(tree)?;
            Some(rest.split_once('/').unwrap_or((rest, "")))
        };
        let checked = |path: &str| {
            StorePath::from_plain(path)
                .map_err(|_| wrong("expected a path without `.`, `..`, empty names or control characters"))
        };
        match (below("/datastore/"), below("/application/")) {
            (Some((name, path)), _) => Ok(Self::of(&name.parse()?, &checked(path)?)),
            (_, Some((name, path))) => Ok(Self::of_application(&name.parse()?, &checked(path)?)),
            (None, None) => Err(wrong(
                "expected `/`, `/datastore/NAME`, `/application/NAME`, or a path below one of them",
            )),
        }
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
        assert_eq!(nodes("/application/wiki/admin").last().unwrap(), "/application/wiki/admin");
        let of = |text: &str| text.parse::<RolePath>().unwrap();
        assert_eq!(of("/application/wiki/admin").application(), "wiki".parse().ok());
        assert!(!of("/application/wiki").is_plain() && of("/datastore/tank").is_plain());
        for text in [
            "",
            "/applications/wiki",
            "/application/wi",
            "/application/wiki/..",
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
