//! Reserved paths: the files and directories that the server itself reads and writes (keys, facts, certificates, configuration). No client can reach
//! a reserved path through a datastore (invariant S8).
//!
//! When the root directory of a datastore is opened, the server compares this directory with the reserved paths. The server compares the open
//! directory, and not only its path in the configuration. Objects beneath an open root are not compared, because the server does not follow links and
//! mounts beneath a root (`root.rs`).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, makedev, openat, readlinkat, statx};
use rustix::io::{self, Errno};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The reserved paths of a server. They can change while the server runs.
#[derive(Debug, Default)]
pub struct ReservedPaths(RwLock<Reserved>);

/// The reserved paths at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    /// Reserved directories. No datastore may contain a reserved directory, or lie in a reserved directory.
    pub directories: BTreeSet<PathBuf>,
    /// The directories of certificates. This set can change while the server runs. No datastore may contain such a directory, or lie in such a
    /// directory.
    pub certificates: BTreeSet<PathBuf>,
    /// Reserved files. No datastore may contain a reserved file, but a datastore may lie in the same directory as a reserved file.
    pub files: BTreeSet<PathBuf>,
    /// The subdirectory of the data directory in which datastores may be.
    pub datastores: Option<PathBuf>,
    /// The directories in which the server can open files (Landlock), each by device and inode. `None` if the server can open files in all
    /// directories. The server cannot add a directory while it runs, because the kernel does not permit this.
    pub openable: Option<BTreeSet<(u64, u64)>>,
}

impl ReservedPaths {
    /// Creates a value that initially contains these reserved paths.
    pub fn new(reserved: Reserved) -> Self {
        ReservedPaths(RwLock::new(reserved))
    }

    /// Changes the reserved paths. Open roots are not checked again. The caller must close each open root, because a root is checked only when it is
    /// opened.
    pub fn change(&self, change: impl FnOnce(&mut Reserved)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn now(&self) -> RwLockReadGuard<'_, Reserved> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reserved path that contains `path`, equals `path`, or lies in `path`. Links in both paths are resolved as far as the paths exist. A
    /// path in [`Reserved::datastores`] may lie in a reserved directory. A caller uses this method for a directory that does not exist yet. After the
    /// directory was made, [`crate::Root::open`] checks it again.
    pub fn overlap_of_path(&self, path: &Path) -> Option<PathBuf> {
        let reserved = self.now();
        let is_free = |path: &Path, above: &Path| {
            let datastores = reserved.datastores.as_deref().filter(|free| free.starts_with(above));
            datastores.is_some_and(|free| path.starts_with(free) || path.starts_with(real_path(free)))
        };
        let of_spelled = |path: &Path| {
            let overlaps = |(own, is_directory): &(&PathBuf, bool)| {
                [own.as_path(), &real_path(own)].into_iter().any(|spelled| {
                    let is_in = *is_directory && path.starts_with(spelled);
                    spelled.starts_with(path) || is_in && !is_free(path, spelled)
                })
            };
            reserved.all().find(overlaps).map(|(own, _)| own.clone())
        };
        of_spelled(path).or_else(|| of_spelled(&real_path(path)))
    }

    /// Whether the server can open files in an open directory.
    ///
    /// # Errors
    /// The error of a failed system call. After an error, the caller must not serve the directory.
    pub(crate) fn is_openable(&self, root: BorrowedFd<'_>) -> io::Result<bool> {
        match &self.now().openable {
            None => Ok(true),
            Some(openable) => Ok(ancestry(root)?.iter().any(|id| openable.contains(id))),
        }
    }

    /// The first reserved path that overlaps with an open directory. Compares the open directory with each reserved path and with all directories
    /// above the reserved path. Also compares each reserved directory with all directories above the open directory. These comparisons are by device
    /// and inode. Also compares the paths within the file systems, which a bind mount does not change.
    ///
    /// # Errors
    /// The error of a failed system call. After an error, the caller must not serve the directory.
    pub(crate) fn overlap(&self, root: BorrowedFd<'_>) -> io::Result<Option<PathBuf>> {
        let reserved = self.now();
        if reserved.directories.is_empty() && reserved.certificates.is_empty() && reserved.files.is_empty() {
            return Ok(None);
        }
        let above = ancestry(root)?;
        let free = reserved.datastores.as_deref().map(identity).transpose()?.flatten();
        // A directory in the subdirectory `datastores` may be served, even if a reserved directory contains `datastores`.
        let counted: Vec<Identity> = above.iter().copied().take_while(|id| Some(*id) != free).collect();
        let mut asked = HashSet::new();
        for (own, is_directory) in reserved.all() {
            let real = real_path(own);
            if is_directory && identity(own)?.is_some_and(|id| counted.contains(&id)) {
                return Ok(Some(own.clone()));
            }
            for spelled in [own.as_path(), &real] {
                for place in spelled.ancestors() {
                    if !asked.insert(place.to_owned()) {
                        break;
                    }
                    let id = identity(place)?;
                    if id.is_some() && id == above.first().copied() {
                        return Ok(Some(own.clone()));
                    }
                }
            }
        }
        reserved.overlap_on_disk(root)
    }
}

impl Reserved {
    /// Each reserved path, and whether it is a directory. No file in a reserved directory may be served.
    fn all(&self) -> impl Iterator<Item = (&PathBuf, bool)> {
        let directories = self.directories.iter().chain(&self.certificates).map(|path| (path, true));
        directories.chain(self.files.iter().map(|path| (path, false)))
    }

    /// Compares the paths within file systems, because a directory can be mounted at several paths.
    fn overlap_on_disk(&self, root: BorrowedFd<'_>) -> io::Result<Option<PathBuf>> {
        let mounts = std::fs::read("/proc/self/mountinfo")
            .map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::IO))?;
        let Some(root) = OnDisk::of(root, &mounts)? else { return Ok(None) };
        let free = match &self.datastores {
            Some(free) => OnDisk::at(free, &mounts)?,
            None => None,
        };
        let is_free = free.is_some_and(|free| root.is_in(&free));
        for (own, is_directory) in self.all() {
            let Some(place) = OnDisk::at(own, &mounts)? else { continue };
            if place.is_in(&root) || is_directory && root.is_in(&place) && !is_free {
                return Ok(Some(own.clone()));
            }
        }
        Ok(None)
    }
}

/// The device and inode of an object.
type Identity = (u64, u64);

fn identity_of(found: &Statx) -> Identity {
    (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)
}

/// The identity of the object at a path; links are followed. `None` if there is no object.
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match io::retry_on_intr(|| statx(CWD, path, AtFlags::empty(), StatxFlags::INO)) {
        Ok(found) => Ok(Some(identity_of(&found))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The identities of an open directory and of every directory above it, up to `/`.
fn ancestry(directory: BorrowedFd<'_>) -> io::Result<Vec<Identity>> {
    const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let id = |fd: BorrowedFd<'_>| {
        let found =
            io::retry_on_intr(|| statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::MNT_ID));
        found.map(|found| (identity_of(&found), found.stx_mnt_id))
    };
    let mut last = id(directory)?;
    let mut above = vec![last.0];
    let mut at: Option<OwnedFd> = None;
    loop {
        let from = at.as_ref().map_or(directory, AsFd::as_fd);
        let next = io::retry_on_intr(|| openat(from, "..", FLAGS, Mode::empty()))?;
        let found = id(next.as_fd())?;
        // `/` is its own parent.
        if found == last {
            return Ok(above);
        }
        above.push(found.0);
        (last, at) = (found, Some(next));
    }
}

/// The path with every link resolved, as far as the path exists.
pub fn real_path(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    let joined = found.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    joined.unwrap_or_else(|| path.to_owned())
}

/// The present path of an open file or directory, as the kernel reports it.
pub(crate) fn path_of(opened: BorrowedFd<'_>) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let path = readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

/// The file system of a file or directory, and the path within that file system.
struct OnDisk {
    /// The device number of the file system, as the kernel lists it.
    device: Vec<u8>,
    path: PathBuf,
}

impl OnDisk {
    fn is_in(&self, other: &OnDisk) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }

    /// Finds the object at a path; `None` if there is no object.
    fn at(path: &Path, mounts: &[u8]) -> io::Result<Option<OnDisk>> {
        match io::retry_on_intr(|| openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())) {
            Ok(opened) => OnDisk::of(opened.as_fd(), mounts),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Finds an open file or directory; `None` if its mount is not listed.
    fn of(opened: BorrowedFd<'_>, mounts: &[u8]) -> io::Result<Option<OnDisk>> {
        let found = io::retry_on_intr(|| statx(opened, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID))?;
        let path = path_of(opened)?;
        let number = found.stx_mnt_id.to_string();
        let of_mount = |line: &&[u8]| line.split(|byte| *byte == b' ').next() == Some(number.as_bytes());
        let Some(line) = mounts.split(|byte| *byte == b'\n').find(of_mount) else { return Ok(None) };
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // proc_pid_mountinfo(5): number, parent, device, root within the file system, mount point.
        let [_, _, device, root, point, ..] = fields.as_slice() else { return Ok(None) };
        let Ok(rest) = path.strip_prefix(unescaped(point)) else { return Ok(None) };
        Ok(Some(OnDisk { device: device.to_vec(), path: unescaped(root).join(rest) }))
    }
}

/// Decodes a field of mountinfo, in which blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.split_first_chunk::<3>().filter(|_| byte == b'\\').and_then(|(digits, tail)| {
            Some((u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?, tail))
        });
        let (value, after) = octal.unwrap_or((byte, tail));
        bytes.push(value);
        rest = after;
    }
    PathBuf::from(OsString::from_vec(bytes))
}
