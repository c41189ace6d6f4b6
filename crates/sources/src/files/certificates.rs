//! Reading a directory of PEM bundles, in HAProxy's order: by name; hidden files and directories are skipped.

use super::bounded;
use std::io;
use std::path::{Path, PathBuf};

/// A bundle larger than this is no bundle.
const BYTES_MAX: u64 = 1024 * 1024;

/// One file.
#[derive(Clone, Debug)]
pub struct CertificateFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes, or why they could not be read.
    pub content: Result<Vec<u8>, String>,
}

/// Reads every `.pem` file of the directory.
///
/// # Errors
/// When the directory itself cannot be read; a file that cannot be is reported in its place.
pub fn read(directory: &Path) -> io::Result<Vec<CertificateFile>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.retain(|path| {
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        !hidden && path.extension().is_some_and(|extension| extension == "pem") && !path.is_dir()
    });
    paths.sort();
    Ok(paths
        .into_iter()
        .map(|path| CertificateFile {
            content: bounded::read(&path, BYTES_MAX).map_err(|why| why.to_string()),
            path,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn bundles_by_name() {
        let scratch = Scratch::new();
        for name in ["b.pem", "a.pem", ".hidden.pem", "a.key", "notes.txt"] {
            std::fs::write(scratch.path().join(name), name).unwrap();
        }
        std::fs::create_dir(scratch.path().join("c.pem")).unwrap();
        std::fs::write(scratch.path().join("d.pem"), vec![0; 1024 * 1024 + 1]).unwrap();
        let read = read(scratch.path()).unwrap();
        let names: Vec<_> =
            read.iter().map(|file| file.path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.pem", "b.pem", "d.pem"]);
        assert_eq!(read[0].content, Ok(b"a.pem".to_vec()));
        assert_eq!(read[2].content, Err("it is larger than 1 MiB".into()));
    }
}
