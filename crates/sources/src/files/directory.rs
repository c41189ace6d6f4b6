//! Making directories that are still there after a power cut.

use super::atomic::sync_directory;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Makes a directory that only its owner can enter, and those above it that are missing, and syncs the directory above each new one. Each one
/// that was made is added to `made`, outermost first, also when a later step fails.
///
/// # Errors
/// When one cannot be made or synced.
pub fn make(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let mut missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    while let Some(directory) = missing.pop() {
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => made.push(directory.to_owned()),
            // Another process made it just now.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(why) => return Err(why),
        }
        sync_directory(directory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn makes_what_is_missing_and_tells_of_it() {
        let scratch = Scratch::new();
        let (outer, inner) = (scratch.path().join("a"), scratch.path().join("a/b"));
        let mut made = Vec::new();
        make(&inner, &mut made).unwrap();
        make(&inner, &mut made).unwrap();
        assert_eq!(made, [outer, inner.clone()]);
        std::fs::write(inner.join("file"), "").unwrap();
        assert!(make(&inner.join("file/c"), &mut made).is_err());
    }
}
