//! The mount points of the machine. The crate `sources` reads the mount points from the kernel, and door 3 checks whether a path is a mount point.

use std::collections::HashSet;

/// The mount points of this machine at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    points: HashSet<String>,
}

impl Mounts {
    /// The mount points with these paths. The paths are those in `/proc/self/mountinfo`, but without octal escapes.
    pub fn new(points: impl IntoIterator<Item = String>) -> Self {
        Mounts { points: points.into_iter().collect() }
    }

    /// Whether `path` itself is a mount point.
    pub fn is_mount_point(&self, path: &str) -> bool {
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        self.points.contains(path)
    }
}
