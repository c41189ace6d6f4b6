//! Reads a file safely, even if somebody has replaced the file with a FIFO or a huge file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file without blocking. Everything except a regular file is refused, because a read from a FIFO could block for ever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Reads the whole file, and fails if it is larger than `bytes_max`.
pub(crate) fn read_all(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= bytes_max {
        return Ok(bytes);
    }
    let text = format!("it is larger than {} MiB", bytes_max.div_ceil(1024 * 1024));
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

/// Opens a regular file without blocking ([`open`]), and reads all its bytes ([`read_all`]).
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(&open(path)?, bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn only_regular_files_and_not_too_much_of_them() {
        let scratch = Scratch::new();
        let path = scratch.path().join("file");
        std::fs::write(&path, b"12345678").unwrap();
        assert_eq!(read(&path, 8).unwrap(), b"12345678");
        assert_eq!(read(&path, 7).unwrap_err().to_string(), "it is larger than 1 MiB");
        assert_eq!(read(scratch.path(), 8).unwrap_err().to_string(), "it is not a regular file");
        let fifo = scratch.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read(&fifo, 8).unwrap_err().to_string(), "it is not a regular file");
    }
}
