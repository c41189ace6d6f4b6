//! New files of a backup, or of a directory that is restored from a backup.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes the file `path`, which must not exist yet, and the directories above it, and copies `from` into it.
pub(super) fn fill(path: &Path, from: &mut dyn Read) -> io::Result<()> {
    if let Some(above) = path.parent() {
        DirBuilder::new().mode(0o700).recursive(true).create(above)?;
    }
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::copy(from, &mut to)?;
    Ok(())
}

/// Syncs the file system of a directory with many new files.
pub(super) fn sync_all(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}
