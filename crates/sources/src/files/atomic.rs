//! Replaces a file. Every reader sees either the old bytes or the new bytes, also after a power cut. If root writes a file, the file belongs to the
//! owner of its directory.

use super::owner;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Writes a temporary file in the same directory, syncs it, renames it over the file, and syncs the directory.
///
/// # Errors
/// When any step fails. If the last step (the sync of the directory) failed, the file was replaced, but a power cut may bring the old file back. If
/// any other step failed, the file is unchanged.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, None)
}

/// Replaces a file as [`write()`] does, but for content that is too large for memory. The callback `write` writes the content into the temporary
/// file.
///
/// # Errors
/// When a step of [`write()`] fails, or the callback `write` fails.
pub fn write_with(path: &Path, mode: u32, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    write_with_checked(path, mode, write, |_| Ok(()))
}

/// Replaces a file as [`write_with`] does, but calls `check` with the path of the complete temporary file before the file is renamed.
///
/// # Errors
/// When a step of [`write_with`] fails, or `check` fails. If `check` fails, the file is unchanged.
pub(crate) fn write_with_checked(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
    check: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let temp = write_beside(path, mode, None, write)?;
    check(&temp).inspect_err(|_| drop(std::fs::remove_file(&temp)))?;
    put_in_place(&temp, path)
}

/// Replaces a file as [`write()`] does, but the new file gets the owner and group that `like` contains, as far as this process may set them. If the
/// new file had another group, a daemon with the group of the old file could not read the new file.
///
/// # Errors
/// The errors of [`write()`].
pub fn replace(path: &Path, bytes: &[u8], mode: u32, like: Option<&Metadata>) -> io::Result<()> {
    let temp = write_beside(path, mode, like, |file| file.write_all(bytes))?;
    put_in_place(&temp, path)
}

/// Replaces a file as [`write()`] does. The owner may read and write the new file. If `group` is given, the members of the group may read and write
/// the file, too.
///
/// # Errors
/// When a step of [`write()`] fails, or the group of the file cannot be set.
pub fn write_shared(path: &Path, bytes: &[u8], group: Option<u32>) -> io::Result<()> {
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    let temp = write_beside(path, mode, None, |file| {
        // The group is set before the file has content, so that members of another group cannot read the content.
        group.map_or(Ok(()), |group| fchown(&*file, None, Some(group)))?;
        file.write_all(bytes)
    })?;
    put_in_place(&temp, path)
}

fn put_in_place(temp: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(temp, path).and_then(|()| sync_directory(path)).inspect_err(|_| {
        let _ = std::fs::remove_file(temp);
    })
}

/// Writes a file that must not exist yet. If two callers write the same file at the same time, one caller gets the error `AlreadyExists`.
///
/// # Errors
/// When the file exists, or any step fails.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temp = write_beside(path, mode, None, |file| file.write_all(bytes))?;
    // Unlike a rename, a hard link never replaces an existing file.
    let linked = std::fs::hard_link(&temp, path).and_then(|()| sync_directory(path));
    let _ = std::fs::remove_file(&temp);
    linked
}

fn write_beside(
    path: &Path,
    mode: u32,
    like: Option<&Metadata>,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|why| io::Error::other(why.to_string()))?;
    let temp = path.with_file_name(format!(".enfilade-{:016x}", u64::from_be_bytes(random)));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temp)?;
        owner::give_opened(&file, owner::parent(path))?;
        fill(&mut file)?;
        // The umask may have removed bits of `mode`.
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        if let Some(like) = like {
            // The group is set before the owner, because a process may be unable to change the group of a file that it no longer owns.
            let _ =
                fchown(&file, None, Some(like.gid())).and_then(|()| fchown(&file, Some(like.uid()), None));
        }
        file.sync_all()
    };
    write().inspect_err(|_| {
        let _ = std::fs::remove_file(&temp);
    })?;
    Ok(temp)
}

/// A file for reading and writing on the file system of this directory. The name of the file is removed at once. So the kernel deletes the file when
/// the process closes it or ends, even if the process is killed.
///
/// # Errors
/// When the file cannot be made.
pub fn unnamed(directory: &Path) -> io::Result<File> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|why| io::Error::other(why.to_string()))?;
    let temp = directory.join(format!(".enfilade-{:016x}", u64::from_be_bytes(random)));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&temp)?;
    std::fs::remove_file(&temp)?;
    Ok(file)
}

/// Copies all bytes of `from` into an unnamed file, and sets the position of the file to its beginning.
///
/// # Errors
/// When `from` cannot be read, or the file cannot be written.
pub fn spooled(mut from: impl Read, directory: &Path) -> io::Result<File> {
    let mut file = unnamed(directory)?;
    io::copy(&mut from, &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// Syncs the directory that contains `path`.
///
/// # Errors
/// When the directory cannot be opened or synced.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn replaces_whole_and_leaves_nothing_behind() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        write(&path, b"one", 0o640).unwrap();
        write(&path, b"two", 0o640).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(write_new(&path, b"three", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        write_new(&scratch.path().join("new"), b"three", 0o600).unwrap();
        assert!(write(&scratch.path().join("no/such/file"), b"x", 0o600).is_err());
        let old = std::fs::metadata(&path).unwrap();
        replace(&path, b"four", 0o640, Some(&old)).unwrap();
        let new = std::fs::metadata(&path).unwrap();
        assert_eq!((new.uid(), new.gid(), new.mode() & 0o777), (old.uid(), old.gid(), 0o640));
        assert_ne!(new.ino(), old.ino());
        let mut names: Vec<_> =
            std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "new"]);
    }
}
