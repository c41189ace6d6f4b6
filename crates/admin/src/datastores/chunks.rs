//! Recognises chunk stores: directories into which a Proxmox Backup Server writes deduplicated backups.

use crate::error::Error;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{Read, Source};
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

/// The datastores that are chunk stores and have no maintenance mode. Clients with a write role can change the backups in such a datastore.
///
/// # Errors
/// When the facts cannot be read.
pub fn writable_chunk_stores(source: &dyn Source) -> Result<Vec<DatastoreName>, Error> {
    let stores = source.read(|view| view.list::<Datastore>(&[]))??;
    let is_one = |(name, row): &(DatastoreName, Datastore)| {
        row.maintenance.is_none() && is_chunk_store(Path::new(&row.root(name))).unwrap_or(false)
    };
    Ok(stores.into_iter().filter(is_one).map(|(name, _)| name).collect())
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
