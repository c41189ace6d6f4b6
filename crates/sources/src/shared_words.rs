//! A small file of numbers that every process of the machine sees at once: mapped, never read or written.

use crate::mapping::Mapping;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

const MAP_BYTES: usize = 4096;
const WORDS: usize = MAP_BYTES / 8;

/// The mapped file. Its first word says what it is.
pub(crate) struct SharedWords {
    mapping: Mapping,
}

impl SharedWords {
    /// Opens the file; makes it where there is none.
    pub(crate) fn open(path: &Path, magic: [u8; 8]) -> io::Result<Self> {
        let mut file = match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
        {
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
            // Whoever made it was interrupted, or is at it just now; a file that held something was never this short.
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
            let text = format!("`{}` does not begin as it should: it is damaged", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Mapping::new(&file, MAP_BYTES / 8).map(|mapping| SharedWords { mapping })
    }

    /// One of the words, from 1.
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        let words = self.mapping.words();
        debug_assert!((1..WORDS).contains(&index));
        words.get(index).unwrap_or(&NO_WORD)
    }
}

/// What is written here nobody reads.
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
        assert!(why.contains("words` does not begin as it should"), "{why}");
    }
}
