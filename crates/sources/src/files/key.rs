//! The key with which the server computes the fast hash of a generated secret: 32 random bytes in a separate file. Only the owner of the file and the
//! configured group can read the file. The key is never part of the facts, so a dump or backup of facts does not contain it.

use super::directory::share;
use super::{atomic, bounded};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The greatest number of bytes that are read from a key file. The limit is far greater than the length of a key. So if a file has a wrong length,
/// the error can contain this length.
const BYTES_MAX: u64 = 1024 * 1024;

/// The bytes of the key. They are overwritten with zeros when they are dropped, and are never printed.
pub struct SecretKey(Zeroizing<[u8; 32]>);

impl SecretKey {
    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The reason why the key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("key file `{path}`: {why}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The mode of the file lets other users read the key.
    #[error("key file `{path}` can be opened by other users (mode {mode:o}); run `chmod 600 '{path}'`")]
    TooWide {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The file is not 32 bytes long.
    #[error(
        "key file `{path}` has {bytes} bytes, expected 32. Restore the file from the backup. If the key is lost, remove the file and run `enfilade keys \
        init --accept-loss`"
    )]
    Length {
        /// The path of the file.
        path: PathBuf,
        /// The length of the file in bytes.
        bytes: usize,
    },
}

/// Reads the key, or creates it. Only the owner of the file may read the file; if a group is given, the members of the group may read the file, too.
/// If several processes call this function at the same time, all of them get the same key.
///
/// # Errors
/// [`KeyError`].
pub fn load_or_make(path: &Path, group: Option<u32>) -> Result<SecretKey, KeyError> {
    let failed = |why| KeyError::Io { path: path.to_owned(), why };
    if !path.exists() {
        let mut random = Zeroizing::new([0; 32]);
        getrandom::fill(random.as_mut()).map_err(|why| failed(io::Error::other(why.to_string())))?;
        match atomic::write_new(path, random.as_ref(), 0o600) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(failed(why)),
            Ok(()) if group.is_some() => share(path, group, 0o640).map_err(failed)?,
            _ => {}
        }
    }
    load(path, group)
}

/// Reads an existing key.
///
/// # Errors
/// [`KeyError`].
pub fn load(path: &Path, group: Option<u32>) -> Result<SecretKey, KeyError> {
    let failed = |why| KeyError::Io { path: path.to_owned(), why };
    // The mode is read from the opened file and not by its path, because at any time another file may be renamed to this path.
    let file = bounded::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let mode = meta.mode() & 0o777;
    let allowed = if group == Some(meta.gid()) { 0o640 } else { 0o600 };
    if mode & 0o077 & !allowed != 0 {
        return Err(KeyError::TooWide { path: path.to_owned(), mode });
    }
    let read = Zeroizing::new(bounded::read_all(&file, BYTES_MAX).map_err(failed)?);
    let bytes = read.as_slice().try_into();
    let bytes = bytes.map_err(|_| KeyError::Length { path: path.to_owned(), bytes: read.len() })?;
    Ok(SecretKey(Zeroizing::new(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn made_once_and_kept_from_others() {
        let scratch = Scratch::new();
        let path = scratch.path().join("key");
        let first = load_or_make(&path, None).unwrap();
        assert_eq!(first.bytes(), load_or_make(&path, None).unwrap().bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(load_or_make(&path, None).err().unwrap().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, b"short").unwrap();
        assert!(load_or_make(&path, None).err().unwrap().to_string().contains("5 bytes"));
    }

    #[test]
    fn all_who_make_it_at_once_get_the_same() {
        let scratch = Scratch::new();
        let path = scratch.path().join("key");
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| *load_or_make(&path, None).unwrap().bytes())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0] && *key != [0; 32]));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
