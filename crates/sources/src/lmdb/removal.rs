//! Removes a store that a command has made, if nothing was changed in the store after that.

use super::high_water::HighWater;
use super::{Lmdb, OpenError, place};
use enfilade_facts::Revision;
use std::io::ErrorKind;
use std::path::Path;

impl Lmdb {
    /// Removes a new store, unless a change after the revision `at_most` was acknowledged in it. Returns whether the store was removed.
    ///
    /// # Errors
    /// When another process has the store open, when its newest revision cannot be read, or when a file cannot be removed.
    pub fn remove_unused(path: &Path, at_most: Revision) -> Result<bool, OpenError> {
        let _alone = place::alone(path)?;
        let failed = |why| OpenError::io(path, &why);
        match Self::acknowledged(path) {
            Ok(newest) if at_most < newest.revision => return Ok(false),
            Ok(_) => {}
            // Before a store has a high-water mark, no change of the store is acknowledged.
            Err(why) if why.kind() == ErrorKind::NotFound => {}
            Err(_) if HighWater::is_new(&path.join(place::HIGH_WATER)) => {}
            Err(why) => return Err(failed(why)),
        }
        std::fs::remove_dir_all(path).map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn only_a_store_without_acknowledged_changes_is_removed() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let lmdb = Lmdb::open(&path).unwrap();
        let at = crate::conformance::put_something(&lmdb);
        assert!(matches!(Lmdb::remove_unused(&path, at.revision), Err(OpenError::InUse(_))));
        drop(lmdb);
        assert!(!Lmdb::remove_unused(&path, Revision(at.revision.0 - 1)).unwrap());
        crate::conformance::something_is_there(&Lmdb::open(&path).unwrap());
        // If the mark is damaged, it is unknown whether a change was acknowledged.
        let mark = path.join(place::HIGH_WATER);
        let whole = std::fs::read(&mark).unwrap();
        std::fs::write(&mark, &whole[1..]).unwrap();
        assert!(matches!(Lmdb::remove_unused(&path, at.revision), Err(OpenError::Io { .. })));
        assert!(path.join("data.mdb").exists());
        std::fs::write(&mark, whole).unwrap();
        assert!(Lmdb::remove_unused(&path, at.revision).unwrap() && !path.exists());
        // Simulates that the opening of a new store failed before the store had a high-water mark. The file of the mark is missing, or is new.
        for is_there in [false, true] {
            drop(Lmdb::open(&path).unwrap());
            std::fs::remove_file(&mark).unwrap();
            let new = is_there.then(|| HighWater::open(&mark).unwrap());
            assert!(Lmdb::remove_unused(&path, Revision(0)).unwrap() && !path.exists());
            drop(new);
        }
    }
}
