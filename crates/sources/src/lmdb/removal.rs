//! Removes a store that a command has made, and in which nothing was changed since.

use super::high_water::HighWater;
use super::{Lmdb, OpenError, place};
use enfilade_facts::Revision;
use std::path::Path;

impl Lmdb {
    /// Removes a new store, unless a change after the revision `at_most` was acknowledged in it. Returns whether the store was removed.
    ///
    /// # Errors
    /// When another process has the store open, or a file cannot be removed.
    pub fn remove_unused(path: &Path, at_most: Revision) -> Result<bool, OpenError> {
        let _alone = place::alone(path)?;
        // A store whose mark cannot be read has acknowledged no change yet.
        if HighWater::read(&path.join(place::HIGH_WATER)).is_ok_and(|newest| at_most < newest) {
            return Ok(false);
        }
        std::fs::remove_dir_all(path).map_err(|why| OpenError::io(path, &why))?;
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
        assert!(Lmdb::remove_unused(&path, at.revision).unwrap() && !path.exists());
    }
}
