//! Backups of a whole house: one directory, or one archive (tar), perhaps encrypted.
//!
//! Both forms have the same files. The first is the manifest: what the backup is, and the path, size and digest of every other file. So a
//! reader knows before each file what it must be, and the first difference ends the reading. Nothing else is followed: no link, no path
//! that leaves the directory, no file that was not declared.

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
    /// Reading or writing.
    #[error("`{path}`: {why}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// A file of the house changed between the two readings.
    #[error("`{0}` was changed while the backup was made: run the backup again")]
    Changed(PathBuf),
    /// A name cannot be kept.
    #[error("`{0}` cannot be backed up: its name is not UTF-8, or is longer than 1,024 bytes: rename it")]
    Name(PathBuf),
    /// It is something else.
    #[error("it is not a backup of a house: {0}")]
    NotOne(String),
    /// A newer program made it.
    #[error(
        "it has format {found}, and this program reads formats up to {FORMAT}: restore it with the version of enfilade that made it, or a newer one"
    )]
    Newer {
        /// Its format.
        found: u32,
    },
    /// A byte of it is another one, or missing.
    #[error("the backup is damaged: {0}; use another backup")]
    Damaged(String),
    /// Encryption.
    #[error(transparent)]
    Age(#[from] AgeError),
}

impl BackupError {
    /// An error of the system, with the file.
    pub fn io(path: impl Into<PathBuf>, why: io::Error) -> Self {
        BackupError::Io { path: path.into(), why }
    }
}

/// Reads exactly the declared bytes of an entry. The end is an error if they were not these bytes.
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

    /// The error for bytes that are not the declared ones.
    fn differs(&self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Differs(self.entry.path.clone()))
    }
}

/// The file that is not as it was declared.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not as the manifest declares it")]
struct Differs(String);

impl Differs {
    /// The file, if that is why a copy failed.
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
            // One byte more means that the file has grown.
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
