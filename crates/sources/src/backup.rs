//! Backups of all data of a server: facts, keys, certificates and ACLs. A backup is a directory or an archive (tar). An archive can be encrypted.
//!
//! A directory and an archive contain the same files. The first file is the manifest. It describes the backup, and contains the path, size and digest
//! of every other file. So a reader checks each file while it reads the file, and stops at the first difference. A link in place of a file, and a
//! path that leaves the directory, are refused. An archive with files that are not in the manifest is refused; in a directory, such files are
//! ignored.

pub mod age;
mod in_place;
mod manifest;
mod new_files;
mod read;
mod write;

pub use in_place::{NewDirectory, Owners};
pub use manifest::{Entry, FORMAT, MANIFEST, Manifest};
pub use read::{Backup, unpack_into};
pub use write::{Content, Item, write_archive, write_directory};

use age::AgeError;
use std::io::{self, Read};
use std::path::PathBuf;

/// A backup cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("`{path}`: {why}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// A file was created, changed or removed while the backup was made.
    #[error("`{0}` was changed while the backup was made: run the backup again")]
    Changed(PathBuf),
    /// The name of a file cannot be stored in the manifest.
    #[error(
        "`{0}` cannot be backed up, because this path is not UTF-8 or is longer than 1,024 bytes: rename the file"
    )]
    Name(PathBuf),
    /// The file or directory is not a backup that `enfilade backup` made.
    #[error("not a backup that `enfilade backup` made: {0}")]
    NotOne(String),
    /// A newer program made the backup.
    #[error(
        "the backup has format {found}, and this program reads formats up to {FORMAT}. Restore the backup with the version of enfilade that made it, or with a newer version"
    )]
    Newer {
        /// The format of the backup.
        found: u32,
    },
    /// A byte of the backup was changed, or is missing.
    #[error("the backup is damaged: {0}; use another backup")]
    Damaged(String),
    /// The backup cannot be encrypted or decrypted.
    #[error(transparent)]
    Age(#[from] AgeError),
}

impl BackupError {
    /// An error of the system, with the file.
    pub fn io(path: impl Into<PathBuf>, why: io::Error) -> Self {
        BackupError::Io { path: path.into(), why }
    }
}

/// Reads a file of a backup. If the length or digest of the file differs from the entry in the manifest, a read fails. At the latest, the read at the
/// end of the file fails.
struct Exact<'r> {
    from: &'r mut dyn Read,
    entry: &'r Entry,
    left: u64,
    digest: Option<manifest::Sha256>,
}

impl<'r> Exact<'r> {
    fn of(from: &'r mut dyn Read, entry: &'r Entry) -> Self {
        Exact { from, entry, left: entry.bytes, digest: Some(manifest::Sha256::default()) }
    }

    /// The error for bytes that differ from the entry in the manifest.
    fn differs(&self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Differs(self.entry.path.clone()))
    }
}

/// The path of a file that differs from its entry in the manifest.
#[derive(Debug, thiserror::Error)]
#[error("the length or checksum of `{0}` differs from the manifest")]
struct Differs(String);

impl Differs {
    /// The path of the file, if a copy failed because the file differs from its entry.
    fn of(why: &io::Error) -> Option<&str> {
        Some(&why.get_ref()?.downcast_ref::<Differs>()?.0)
    }
}

impl Read for Exact<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            // A further byte means that the file is longer than the manifest declares.
            let is_longer = self.from.read(&mut [0])? != 0;
            let digest = self.digest.take();
            return match is_longer || digest.is_some_and(|digest| digest.hex() != self.entry.sha256) {
                true => Err(self.differs()),
                false => Ok(0),
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let into = into.get_mut(..most).unwrap_or_default();
        let count = self.from.read(into)?;
        if count == 0 {
            return Err(self.differs());
        }
        self.left -= count as u64;
        if let Some(digest) = &mut self.digest {
            digest.add(into.get(..count).unwrap_or_default());
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
