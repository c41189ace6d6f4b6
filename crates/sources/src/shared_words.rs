//! A small file of numbers that is mapped into memory. A change by one process is visible at once to all processes that map the file.

use crate::mapping::Mapping;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

const MAP_BYTES: usize = 4096;
const WORDS: usize = MAP_BYTES / 8;

/// The mapped file. Its first word is a magic number that identifies the kind of file.
pub(crate) struct SharedWords {
    mapping: Mapping,
    /// The device and inode number of the mapped file.
    shown: Mutex<(u64, u64)>,
}

impl SharedWords {
    /// Opens the file, or creates it.
    pub(crate) fn open(path: &Path, magic: [u8; 8]) -> io::Result<Self> {
        let file = open(path, magic)?;
        let shown = Mutex::new(id_of(&file.metadata()?));
        Mapping::new(&file, MAP_BYTES / 8).map(|mapping| SharedWords { mapping, shown })
    }

    /// Opens the file at `path` if that file is not the mapped file. Returns `None` if the mapped file is still at `path`.
    ///
    /// # Errors
    /// When the file cannot be opened or made.
    pub(crate) fn replaced(&self, path: &Path, magic: [u8; 8]) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(meta) if id_of(&meta) == *self.shown.lock().unwrap_or_else(PoisonError::into_inner) => {
                Ok(None)
            }
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
            _ => Self::open(path, magic).map(Some),
        }
    }

    /// Replaces the mapped file: the file of `other`, which is at `path`, is mapped at the same address.
    ///
    /// # Errors
    /// When the file cannot be mapped. In this case the old file stays mapped.
    pub(crate) fn show(&self, path: &Path, other: &Self) -> io::Result<()> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let id = id_of(&file.metadata()?);
        if id != *other.shown.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(io::Error::other(
                "the file was replaced again at the same time; the server tries again in a second",
            ));
        }
        self.mapping.show(&file)?;
        *shown = id;
        Ok(())
    }

    /// The word with this index. The words are counted from 1, because word 0 is the magic number.
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        let words = self.mapping.words();
        debug_assert!((1..WORDS).contains(&index));
        words.get(index).unwrap_or(&NO_WORD)
    }
}

/// The device and inode number of a file. While a file is mapped, no other file has the same device and inode number.
fn id_of(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Opens the file, which must begin with `magic`, or creates it.
fn open(path: &Path, magic: [u8; 8]) -> io::Result<File> {
    let mut file = match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(&magic)?;
            file.set_len(MAP_BYTES as u64)?;
            file
        }
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).write(true).open(path)?
        }
        Err(why) => return Err(why),
    };
    let mut found = magic;
    if file.metadata()?.len() < MAP_BYTES as u64 {
        // A complete file is never this short. Another process is still creating the file, or was interrupted before the file was complete.
        file.set_len(MAP_BYTES as u64)?;
    } else {
        let mut start = [0; 8];
        io::Seek::rewind(&mut file)?;
        file.read_exact(&mut start)?;
        if start != [0; 8] {
            found = start;
        }
    }
    if found != magic {
        let text = format!(
            "`{}` is damaged, its first bytes are wrong. Stop every enfilade process on this data directory, delete this file, then run \
            `enfilade facts check`",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(file)
}

/// A word for an index that does not exist. It is never used in a correct program.
static NO_WORD: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_is_no_such_file_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path().join("words");
        std::fs::write(&path, [1; MAP_BYTES]).unwrap();
        let why = SharedWords::open(&path, *b"somewhat").err().unwrap().to_string();
        assert!(why.contains("words` is damaged"), "{why}");
    }
}
