//! Makes directories that still exist after a power cut, and sets the owner and group of new files.

use super::atomic::sync_directory;
use super::owner::{give, give_opened, opened, parent};
use rustix::fs::{AtFlags, Gid};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory that only its owner can enter, and the missing directories above it, and syncs the parent of each new directory. Each new
/// directory is added to `made`, outermost first, even if a later step fails.
///
/// If possible, the parent of the deepest directory that already exists is synced, too. The process that made the existing directory may have ended
/// before it synced the parent. The directories above this parent are assumed to be synced.
///
/// # Errors
/// When a directory cannot be made or synced.
pub fn make(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let mut missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    let there = path.ancestors().nth(missing.len());
    if let Some(there) = there.filter(|there| there.file_name().is_some()) {
        // An error is ignored, because the parent may have another owner, or its file system may not support the sync of directories.
        let _ = sync_directory(there);
    }
    while let Some(directory) = missing.pop() {
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => {
                made.push(directory.to_owned());
                give(directory, parent(directory))?;
            }
            // Another process has made the directory in the meantime.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(why) => return Err(why),
        }
        sync_directory(directory)?;
    }
    Ok(())
}

/// Makes a directory as [`make`] does. If a group is given, and the directory is new, the members of the group may use the directory like the owner.
/// They may not use the new directories above it. An existing directory is not changed.
///
/// # Errors
/// The errors of [`make`], and an error when the group of the directory cannot be set.
pub fn make_for(path: &Path, group: Option<u32>) -> io::Result<()> {
    let is_new = !path.exists();
    make(path, &mut Vec::new())?;
    match is_new && group.is_some() {
        true => share(path, group, 0o770),
        false => Ok(()),
    }
}

/// If a group is given, lets its members read and write the file. If root owns the file, the owner of its directory becomes the owner of the file.
///
/// # Errors
/// When the owner or the group of the file cannot be set.
pub fn share_file(path: &Path, group: Option<u32>) -> io::Result<()> {
    match group {
        Some(_) => share(path, group, 0o660),
        None => give(path, parent(path)),
    }
}

/// Opens or makes a file with `open`, and applies [`share_file`] to it.
///
/// # Errors
/// The errors of `open` and of [`share_file`].
pub fn open_for<F>(
    path: &Path,
    group: Option<u32>,
    open: impl FnOnce(&Path) -> io::Result<F>,
) -> io::Result<F> {
    let file = open(path)?;
    share_file(path, group)?;
    Ok(file)
}

/// Sets the group and the mode of a file or directory. If root owns the file or directory, the owner of the directory above becomes its owner. Only
/// the owner of the file and root may change the group and the mode. Any other user can open the file only as a member of its group, so the group is
/// already correct and nothing is changed.
pub(crate) fn share(path: &Path, group: Option<u32>, mode: u32) -> io::Result<()> {
    let file = opened(path)?;
    let is = rustix::fs::fstat(&file)?;
    let caller = rustix::process::geteuid();
    if is.st_uid != caller.as_raw() && !caller.is_root() {
        return Ok(());
    }
    give_opened(&file, parent(path))?;
    if let Some(group) = group.filter(|group| *group != is.st_gid || is.st_uid == 0) {
        rustix::fs::chownat(&file, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
    }
    if is.st_mode & 0o777 != mode {
        let of_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        std::fs::set_permissions(of_descriptor, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::MetadataExt;

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

    #[test]
    fn what_root_makes_belongs_to_the_owner_of_the_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let scratch = Scratch::new();
        let house = scratch.path().join("house");
        std::fs::create_dir(&house).unwrap();
        std::os::unix::fs::chown(&house, Some(4321), Some(4322)).unwrap();
        let owner = |path: &Path| {
            let meta = std::fs::metadata(path).unwrap();
            (meta.uid(), meta.gid())
        };
        make(&house.join("a/b"), &mut Vec::new()).unwrap();
        crate::files::atomic::write(&house.join("written"), b"x", 0o600).unwrap();
        crate::files::atomic::write_shared(&house.join("shared"), b"x", Some(4323)).unwrap();
        open_for(&house.join("opened"), None, |path| std::fs::File::create(path)).unwrap();
        open_for(&house.join("of_group"), Some(4323), |path| std::fs::File::create(path)).unwrap();
        for name in ["a", "a/b", "written", "opened"] {
            assert_eq!(owner(&house.join(name)), (4321, 4322), "{name}");
        }
        for name in ["shared", "of_group"] {
            assert_eq!(owner(&house.join(name)), (4321, 4323), "{name}");
        }
        // If the owner of a file is not root, the owner is not changed.
        std::os::unix::fs::chown(house.join("opened"), Some(4324), None).unwrap();
        share_file(&house.join("opened"), None).unwrap();
        assert_eq!(owner(&house.join("opened")).0, 4324);
    }

    #[test]
    fn a_link_is_not_followed_to_what_it_names() {
        let scratch = Scratch::new();
        let (file, link) = (scratch.path().join("file"), scratch.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let group = Some(rustix::process::getegid().as_raw());
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert!(share_file(&link, group).unwrap_err().to_string().contains("is a symbolic link"));
        assert_eq!(mode(), 0o600);
        share_file(&file, group).unwrap();
        assert_eq!(mode(), 0o660);
    }
}
