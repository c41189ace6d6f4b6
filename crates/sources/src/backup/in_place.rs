//! Restores a data directory under a temporary name next to its final path, and renames the directory when the restore is complete.

use super::new_files::sync_all;
use super::{BackupError, Manifest};
use crate::files::atomic::sync_directory;
use rustix::fs::{CWD, FlockOperation, Gid, Mode, RenameFlags, Uid, flock};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory that is being restored.
pub struct NewDirectory {
    path: PathBuf,
    new: PathBuf,
    /// The open new directory. This process holds a lock on it during the restore. The kernel releases the lock when the process ends, also if the
    /// process is killed.
    _lock: File,
    is_in_place: bool,
}

/// The owner and the group of the restored files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owners {
    /// The user and the group of all files, if the caller is root and restores for another user.
    pub owner: Option<(u32, u32)>,
    /// The group of the users who share the data directory.
    pub group: Option<u32>,
}

impl NewDirectory {
    /// Makes the directory under its temporary name. If an interrupted restore has left a directory with this name, that directory is removed first.
    ///
    /// # Errors
    /// When the directory cannot be made, or another process restores to the same path.
    pub fn begin(path: &Path) -> Result<Self, BackupError> {
        let named = path.file_name().ok_or_else(|| {
            BackupError::io(path, io::Error::other("a restore cannot replace this directory, because its path does not end in a name (it is `/` or ends in `..`): give another --data"))
        })?;
        let new = path.with_file_name(format!("{}.restoring", named.to_string_lossy()));
        let failed = |why| BackupError::io(&new, why);
        let make = || DirBuilder::new().mode(0o700).create(&new);
        match make() {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                // A running restore holds the lock. If the lock is free, the directory was left by an interrupted restore, and can be removed.
                let _lock = locked(&new).map_err(failed)?;
                std::fs::remove_dir_all(&new).and_then(|()| make()).map_err(failed)?;
            }
            made => made.map_err(failed)?,
        }
        let lock = locked(&new).map_err(failed)?;
        Ok(NewDirectory { path: path.to_owned(), new, _lock: lock, is_in_place: false })
    }

    /// The temporary path of the directory. The directory has this path until [`NewDirectory::put_in_place`] is called.
    pub fn directory(&self) -> &Path {
        &self.new
    }

    /// Sets the owner, group and mode of everything in the directory. If `owners` has no group, only the owner can access the directory and its
    /// files.
    ///
    /// # Errors
    /// When the owner, group or mode of a file cannot be set.
    pub fn give_to(&self, owners: Owners, manifest: &Manifest) -> Result<(), BackupError> {
        if owners.group.is_some() {
            let shared = manifest.files.iter().filter(|entry| entry.mode & 0o070 != 0);
            let above = shared.filter_map(|entry| Some((Path::new(&entry.path).parent()?, 0o770)));
            let files = manifest.files.iter().map(|entry| (Path::new(&entry.path), entry.mode));
            // If the group has access to a file, it needs access to the directory of the file, too.
            for (path, mode) in above.chain([(Path::new(""), 0o770)]).chain(files) {
                let path = self.new.join(path);
                set_mode(&path, mode).map_err(|why| BackupError::io(path, why))?;
            }
        }
        give(&self.new, owners).map_err(|(path, why)| BackupError::io(path, why))
    }

    /// Moves the directory to its final path. A previous directory with this path is renamed, and its new path is returned. If the previous directory
    /// is empty, it is replaced instead.
    ///
    /// # Errors
    /// When the directory cannot be moved. Then the previous directory still has its old path, with two exceptions. If the previous directory could
    /// not be renamed back, the error contains its new path. If only the last step (the sync of the directory above) fails, the new directory is
    /// already at its final path.
    pub fn put_in_place(mut self, unix_seconds: i64) -> Result<Option<PathBuf>, BackupError> {
        let failed = |why: io::Error| BackupError::io(&self.path, why);
        sync_all(&self.new).map_err(failed)?;
        let is_empty = match std::fs::read_dir(&self.path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => true,
            Err(why) => return Err(failed(why)),
        };
        // A rename can replace an empty directory, but no other directory.
        let aside = if is_empty {
            std::fs::rename(&self.new, &self.path).map_err(failed)?;
            None
        } else {
            let aside = self.aside(unix_seconds);
            self.exchange(&aside).map_err(failed)?;
            Some(aside)
        };
        self.is_in_place = true;
        sync_directory(&self.path).map_err(failed)?;
        Ok(aside)
    }

    fn aside(&self, unix_seconds: i64) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let named = |second| self.path.with_file_name(format!("{name}.set-aside-{second}"));
        (unix_seconds..).map(named).find(|aside| !aside.exists()).unwrap_or_default()
    }

    /// Exchanges the new directory with the old directory. The old directory gets the name `aside`. The old directory never gets the temporary name
    /// of the new directory, because the next restore would remove a directory with the temporary name.
    fn exchange(&self, aside: &Path) -> io::Result<()> {
        std::fs::rename(&self.new, aside)?;
        let exchanged = rustix::fs::renameat_with(CWD, aside, CWD, &self.path, RenameFlags::EXCHANGE);
        let Err(why) = exchanged else { return Ok(()) };
        std::fs::rename(aside, &self.new)?;
        // Some file systems cannot exchange two names (overlayfs, ZFS before 2.2).
        if ![Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&why) {
            return Err(why.into());
        }
        std::fs::rename(&self.path, aside)?;
        let Err(why) = std::fs::rename(&self.new, &self.path) else { return Ok(()) };
        std::fs::rename(aside, &self.path).map_err(|again| {
            let text = format!("{why}; the old directory now has the name `{}`: {again}", aside.display());
            io::Error::new(why.kind(), text)
        })?;
        Err(why)
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = std::fs::remove_dir_all(&self.new);
        }
    }
}

fn locked(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(io::Error::other(
            "another process is restoring into this directory: wait until that process has ended",
        )),
        Err(why) => Err(why.into()),
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    match rustix::fs::chmod(path, Mode::from_raw_mode(mode)) {
        // One file of the manifest may be missing: the file with the facts is removed after the facts were loaded into the store.
        Err(Errno::NOENT) | Ok(()) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Sets the owner and the group of a directory and of everything in it. This process made all of these files.
fn give(path: &Path, owners: Owners) -> Result<(), (PathBuf, io::Error)> {
    let failed = |why| (path.to_owned(), why);
    let meta = std::fs::symlink_metadata(path).map_err(failed)?;
    let group = owners.group.or(owners.owner.map(|(_, group)| group));
    if group.is_some() {
        let (user, group) = (owners.owner.map(|(user, _)| Uid::from_raw(user)), group.map(Gid::from_raw));
        let is_same = user.is_none_or(|user| user.as_raw() == meta.uid())
            && group.is_none_or(|group| group.as_raw() == meta.gid());
        if !is_same {
            let given = rustix::fs::chownat(CWD, path, user, group, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            given.map_err(|why| failed(why.into()))?;
        }
    }
    if !meta.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(failed)? {
        give(&entry.map_err(failed)?.path(), owners)?;
    }
    Ok(())
}
