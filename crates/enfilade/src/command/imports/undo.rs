//! Removes the files that an import created in a new data directory, if the import imported nothing.

use enfilade_facts::Revision;
use enfilade_sources::lmdb::Lmdb;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The revision of a new store that contains only the realm `local`.
pub(in crate::command) const FIRST_REVISION: Revision = Revision(1);

/// The directories that an import creates in a data directory before it imports the first record.
const KEYS: &str = "keys";
const FACTS: &str = "facts";

/// The files that existed before an import.
pub(super) struct Before {
    data: PathBuf,
    had_data: bool,
    had_keys: bool,
    had_facts: bool,
}

impl Before {
    pub(super) fn look(data: &Path) -> Self {
        let [had_data, had_keys, had_facts] =
            [data, &data.join(KEYS), &data.join(FACTS)].map(|path| !is_missing(path));
        Before { data: data.to_owned(), had_data, had_keys, had_facts }
    }

    /// Removes the store, the keys and the data directory, if they did not exist before the import. Nothing is removed if the store existed before
    /// the import, has a change after the revision `at_most`, or is used by another process. An error is not reported, because the reason why the
    /// import failed is more important.
    pub(super) fn restore(&self, at_most: Revision) {
        let facts = self.data.join(FACTS);
        let is_gone = || is_missing(&facts) || Lmdb::remove_unused(&facts, at_most).is_ok_and(|gone| gone);
        if self.had_facts || !is_gone() {
            return;
        }
        // This process held the lock of the store during the removal. So another process uses the keys only if it has made a new store since then.
        if !self.had_keys {
            let _ = std::fs::remove_dir_all(self.data.join(KEYS));
        }
        if !self.had_data {
            // This call fails if another process has put a file into the directory.
            let _ = std::fs::remove_dir(&self.data);
        }
    }
}

/// Whether nothing exists at this path. A path that cannot be examined counts as existing.
fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|why| why.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::tables::Domain;
    use enfilade_facts::vocabulary::DomainId;
    use enfilade_facts::{AuditRecord, Change, Source as _};

    /// Makes the same files as an import before its first record: keys, and a store with one change.
    fn create(data: &Path) -> Revision {
        std::fs::create_dir_all(data.join("keys")).unwrap();
        let store = Lmdb::open(&data.join(FACTS)).unwrap();
        let audit = AuditRecord { who: "t".into(), what: "t".into(), unix_seconds: 0, request: None };
        let mut change = Change::new(audit);
        change.put(&DomainId::from_bytes([1; 16]), &Domain::new("local".parse().unwrap()));
        store.commit(&change).unwrap().revision
    }

    #[test]
    fn only_what_is_new_and_unused_is_removed() {
        let scratch = enfilade_testkit::Scratch::new();
        let data = scratch.path().join("data");
        let is_there = |name: &str| data.join(name).exists();
        let before = Before::look(&data);
        let revision = create(&data);
        // If another process uses the store, or has changed it, everything stays.
        let open = Lmdb::open(&data.join(FACTS)).unwrap();
        before.restore(revision);
        assert!(is_there("facts/data.mdb") && is_there("keys"));
        drop(open);
        before.restore(Revision(revision.0 - 1));
        assert!(is_there("facts/data.mdb") && is_there("keys"));
        before.restore(revision);
        assert!(!data.exists());
        // Files that existed before the import are not removed.
        std::fs::create_dir_all(data.join("keys")).unwrap();
        std::fs::write(data.join("user.cfg"), "").unwrap();
        let before = Before::look(&data);
        let revision = create(&data);
        before.restore(revision);
        assert!(is_there("keys") && is_there("user.cfg") && !is_there(FACTS));
        let revision = create(&data);
        Before::look(&data).restore(revision);
        assert!(is_there("facts/data.mdb"));
        // A directory that cannot be examined counts as existing.
        let looped = scratch.path().join("looped");
        std::os::unix::fs::symlink("looped", &looped).unwrap();
        let before = Before::look(&looped);
        assert!(before.had_data && before.had_keys && before.had_facts);
    }
}
