//! A temporary directory of a benchmark.

use std::path::{Path, PathBuf};

/// A temporary directory, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("enfilade-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// A directory on a file system in memory, if the machine has one.
    pub(crate) fn in_memory(name: &str) -> std::io::Result<Self> {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let path = base.join(format!("enfilade-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
