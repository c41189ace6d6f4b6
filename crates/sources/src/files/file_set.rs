//! The files that people edit, as in Proxmox: the directory of the files, the locks, and functions that change the files.

use super::lock::{self, FileLock};
use super::{atomic, bounded, directory};
use enfilade_facts::limits::STALE_LIMIT_SECONDS;
use enfilade_facts::tables::FileName;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The greatest size of a file, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// The longest wait for a lock, as in Proxmox.
const LOCK_WAIT: Duration = Duration::from_secs(10);
/// The longest time for which the mirror waits for a process that holds the lock of a changed file. If that process has not committed the change by
/// then, the mirror commits the change.
const FINISH_WAIT: Duration = Duration::from_millis(400);

/// The directory of the files, their stale limit, and the group that may use them.
#[derive(Clone, Debug)]
pub struct FileSet {
    directory: PathBuf,
    stale_limit: i64,
    group: Option<u32>,
    followed: Followed,
}

/// Returns the reason why changes of the files of this machine are not copied into the facts now; `None` if they are copied.
pub type WhyNotFollowed = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A function that returns a reason if the files of this machine are not followed. If there is no function, the files are always followed.
#[derive(Clone, Default)]
struct Followed(Option<WhyNotFollowed>);

impl Followed {
    fn why_not(&self) -> Option<String> {
        self.0.as_ref().and_then(|why| why())
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Followed").field(&self.why_not()).finish()
    }
}

impl FileSet {
    /// The files in this directory, with the usual stale limit.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        FileSet {
            directory: directory.into(),
            stale_limit: STALE_LIMIT_SECONDS,
            group: None,
            followed: Followed::default(),
        }
    }

    /// If a group is given, the members of the group may use new files and new lock files like the owner of these files. Existing files are not
    /// changed.
    #[must_use]
    pub fn shared_by(self, group: Option<u32>) -> Self {
        FileSet { group, ..self }
    }

    /// Sets the stale limit, in seconds: how long the last good facts stay valid while their part of a file cannot be read.
    #[must_use]
    pub fn with_stale_limit(self, stale_limit: i64) -> Self {
        FileSet { stale_limit, ..self }
    }

    /// While `why` returns a reason, the files of this machine are not followed. During this time, no command can change the files: each attempt
    /// fails with this reason.
    #[must_use]
    pub fn followed_unless(self, why: Option<WhyNotFollowed>) -> Self {
        FileSet { followed: Followed(why), ..self }
    }

    /// Whether changes of the files of this machine are copied into the facts now.
    pub fn is_followed(&self) -> bool {
        self.followed.why_not().is_none()
    }

    /// The stale limit, in seconds.
    pub fn stale_limit(&self) -> i64 {
        self.stale_limit
    }

    /// The path of a file.
    pub fn path(&self, file: FileName) -> PathBuf {
        self.directory.join(file.as_str())
    }

    /// The bytes of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read, or is larger than 128 MiB.
    pub fn read(&self, file: FileName) -> io::Result<Option<Vec<u8>>> {
        self.read_named(file.as_str())
    }

    /// The bytes of the file with this name in the directory; `None` if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn read_named(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match bounded::read(&self.directory.join(name), FILE_BYTES_MAX) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The lock file that Proxmox takes before it edits this file.
    fn lock_path(&self, file: FileName) -> PathBuf {
        self.directory.join(match file {
            FileName::Datastores => ".datastore.lck",
            FileName::Users => ".user.lck",
            FileName::Acl => ".acl.lck",
            FileName::Secrets => "token.shadow.lock",
        })
    }

    /// Waits up to [`FINISH_WAIT`] in total for the other processes that hold locks of these files. So each of these processes can commit its change
    /// with the name of its user. This process takes each lock that is free or becomes free in this time, and holds it until the result is dropped.
    pub(crate) fn let_finish(&self, files: impl Iterator<Item = FileName>) -> Vec<FileLock> {
        let paths: Vec<PathBuf> = files.map(|file| self.lock_path(file)).collect();
        lock::wait_for(&paths, FINISH_WAIT)
    }

    /// Takes the locks of these files. The order of the locks is always the same, as in Proxmox: for example, the lock of `user.cfg` is taken before
    /// the lock of `token.shadow`.
    ///
    /// # Errors
    /// When the files of this machine are not followed, another process holds one of the locks for longer than ten seconds, or a lock file cannot be
    /// created.
    pub fn lock(&self, files: &[FileName]) -> io::Result<Locked<'_>> {
        if let Some(why) = self.followed.why_not() {
            return Err(io::Error::other(why));
        }
        let mut locks = Vec::new();
        for file in FileName::ALL.into_iter().filter(|file| files.contains(file)) {
            let path = self.lock_path(file);
            let is_new = !path.exists();
            locks.push((file, FileLock::take(&path, LOCK_WAIT)?));
            if is_new {
                directory::share_file(&path, self.group)?;
            }
        }
        Ok(Locked { set: self, locks, edited: Vec::new() })
    }
}

/// The reason why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError<E> {
    /// The file or its lock cannot be used, or a new value cannot be written in the syntax of the file.
    #[error("{0}")]
    File(String),
    /// The callback refused the change.
    #[error("{0}")]
    Refused(E),
}

/// The files that this process has locked, and the new bytes of each file that is edited.
pub struct Locked<'s> {
    set: &'s FileSet,
    locks: Vec<(FileName, FileLock)>,
    edited: Vec<Edited>,
}

/// A file that is edited and not written yet.
struct Edited {
    file: FileName,
    /// The path of the file that is replaced. If the path of `file` is a symbolic link, this is the target of the link.
    target: PathBuf,
    /// The attributes of the file; `None` if it does not exist.
    old: Option<Metadata>,
    is_changed: bool,
    bytes: Vec<u8>,
}

impl Locked<'_> {
    /// Replaces the bytes of a file with the result of `edit`, when [`Locked::write`] is called. `edit` gets the present bytes, which are empty if
    /// the file does not exist. The new file has the owner and group of the old file. If the file is a symbolic link, the target of the link is
    /// replaced.
    ///
    /// # Errors
    /// When the file is not locked or cannot be read, or `edit` refuses. In this case the bytes of the file stay as they were before this call.
    pub fn rewrite<E>(
        &mut self,
        file: FileName,
        edit: impl FnOnce(&[u8]) -> Result<Vec<u8>, EditError<E>>,
    ) -> Result<(), EditError<E>> {
        let edited = match self.edited.iter_mut().find(|edited| edited.file == file) {
            Some(edited) => edited,
            None => {
                let opened = self.open(file).map_err(EditError::File)?;
                self.edited.push_mut(opened)
            }
        };
        let new = edit(&edited.bytes)?;
        edited.is_changed |= edited.old.is_none() || new != edited.bytes;
        edited.bytes = new;
        Ok(())
    }

    fn open(&self, file: FileName) -> Result<Edited, String> {
        let path = self.set.path(file);
        let failed = |why: io::Error| format!("`{}`: {why}", path.display());
        if !self.locks.iter().any(|(locked, _)| *locked == file) {
            return Err(format!(
                "internal error: `{}` is edited without its lock; nothing was changed",
                path.display()
            ));
        }
        let target = match std::fs::canonicalize(&path) {
            Ok(target) => target,
            Err(why) if why.kind() == io::ErrorKind::NotFound => path.clone(),
            Err(why) => return Err(failed(why)),
        };
        let (bytes, old) = match bounded::open(&target) {
            Ok(opened) => {
                let bytes = bounded::read_all(&opened, FILE_BYTES_MAX).map_err(failed)?;
                (bytes, Some(opened.metadata().map_err(failed)?))
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => (Vec::new(), None),
            Err(why) => return Err(failed(why)),
        };
        Ok(Edited { file, target, old, is_changed: false, bytes })
    }

    /// The edited files, with their new bytes.
    pub fn edited(&self) -> impl Iterator<Item = (FileName, &[u8])> {
        self.edited.iter().map(|edited| (edited.file, edited.bytes.as_slice()))
    }

    /// Writes the edited files, in the order of their first edits. The locks are still held afterwards.
    ///
    /// # Errors
    /// When a file cannot be written. If only the sync of its directory failed, this file already has its new bytes; otherwise it has its old bytes.
    /// The files after it are unchanged.
    pub fn write(&mut self) -> Result<(), String> {
        for Edited { file, target, old, is_changed, bytes } in self.edited.drain(..) {
            let written = match &old {
                _ if !is_changed => Ok(()),
                None if self.set.group.is_some() => atomic::write_shared(&target, &bytes, self.set.group),
                old => atomic::replace(&target, &bytes, 0o640, old.as_ref()),
            };
            written.map_err(|why| format!("`{}`: {why}", self.set.path(file).display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn what_a_link_points_to_is_replaced_and_the_link_stays() {
        let scratch = Scratch::new();
        let real = scratch.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::fs::write(real.join("user.cfg"), b"old").unwrap();
        let set = FileSet::new(scratch.path());
        std::os::unix::fs::symlink("real/user.cfg", set.path(FileName::Users)).unwrap();
        let mut locked = set.lock(&[FileName::Users]).unwrap();
        for more in [" and", " new"] {
            let edit = |bytes: &[u8]| Ok([bytes, more.as_bytes()].concat());
            locked.rewrite::<String>(FileName::Users, edit).unwrap();
        }
        assert_eq!(std::fs::read(real.join("user.cfg")).unwrap(), b"old");
        locked.write().unwrap();
        assert_eq!(std::fs::read(real.join("user.cfg")).unwrap(), b"old and new");
        assert!(std::fs::symlink_metadata(set.path(FileName::Users)).unwrap().is_symlink());
        let inode = std::fs::metadata(set.path(FileName::Users)).unwrap().ino();
        locked.rewrite::<String>(FileName::Users, |bytes| Ok(bytes.to_vec())).unwrap();
        locked.write().unwrap();
        assert_eq!(std::fs::metadata(set.path(FileName::Users)).unwrap().ino(), inode);
        let unlocked = locked.rewrite::<String>(FileName::Acl, |_| Ok(Vec::new())).unwrap_err().to_string();
        assert!(unlocked.contains("acl.cfg` is edited without its lock"), "{unlocked}");
    }
}
