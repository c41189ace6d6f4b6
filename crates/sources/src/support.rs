//! Writes archives that an operator can send to the maintainers of this program, so that the maintainers can help with a problem.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a new archive (tar), which contains each text as a file with the given name. Only the user of this process can read the archive.
///
/// # Errors
/// When there is already a file of this name, or the archive cannot be written.
pub fn write_archive(path: &Path, unix_seconds: u64, texts: &[(String, Vec<u8>)]) -> std::io::Result<()> {
    let file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut archive = tar::Builder::new(file);
    for (name, text) in texts {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(unix_seconds);
        archive.append_data(&mut header, name, text.as_slice())?;
    }
    let mut file = archive.into_inner()?;
    file.flush()?;
    file.sync_all()
}
