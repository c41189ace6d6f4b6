//! Recognises chunk stores: directories into which a Proxmox Backup Server writes deduplicated backups.

use std::io::{self, ErrorKind};
use std::path::Path;

/// The directory of chunks in a chunk store.
const CHUNKS: &str = ".chunks";

/// Whether an existing directory is a chunk store.
///
/// # Errors
/// When the directory does not exist or cannot be examined.
pub(crate) fn is_chunk_store(root: &Path) -> io::Result<bool> {
    match std::fs::metadata(root.join(CHUNKS)) {
        Ok(_) => Ok(true),
        Err(why) if why.kind() == ErrorKind::NotFound && root.is_dir() => Ok(false),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_existing_directory_is_known_to_be_none() {
        let root = std::env::temp_dir().join(format!("enfilade-chunks-{}", std::process::id()));
        assert!(is_chunk_store(&root).is_err());
        std::fs::create_dir_all(&root).unwrap();
        assert!(!is_chunk_store(&root).unwrap());
        std::fs::create_dir(root.join(CHUNKS)).unwrap();
        assert!(is_chunk_store(&root).unwrap());
        std::fs::remove_dir_all(&root).unwrap();
        std::fs::write(&root, b"").unwrap();
        assert!(is_chunk_store(&root).is_err());
        std::fs::remove_file(&root).unwrap();
    }
}
