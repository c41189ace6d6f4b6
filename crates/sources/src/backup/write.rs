//! Writes a backup, and reads it again to verify it.

use super::age::{Key, Lock, Sealed};
use super::manifest::{self, Sha256};
use super::new_files::{fill, sync_all};
use super::{Backup, BackupError, Differs, Entry, Exact, MANIFEST, Manifest};
use crate::copy::Gathered;
use crate::files::atomic;
use crate::files::bounded;
use std::cell::OnceCell;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The bytes of a file of a backup.
pub enum Content {
    /// A file of the data directory, or of a directory outside the data directory.
    File(PathBuf),
    /// The facts.
    Facts(Box<Gathered>),
    /// A list of ACLs, in an unnamed file.
    Spooled(File),
}

/// A file that will be written into a backup.
pub struct Item {
    /// The entry of the file in the manifest.
    pub entry: Entry,
    content: Content,
}

impl Content {
    fn open(&mut self) -> io::Result<Box<dyn Read + '_>> {
        use std::io::Seek as _;
        Ok(match self {
            Content::File(path) => Box::new(bounded::open(path)?),
            Content::Facts(facts) => Box::new(facts.backup()?),
            Content::Spooled(file) => {
                file.rewind()?;
                Box::new(io::BufReader::with_capacity(1 << 20, file))
            }
        })
    }

    /// The error for content that cannot be read. If the file does not exist, it was replaced or removed after the listing.
    fn failed(&self, entry: &str, why: io::Error) -> BackupError {
        match why.kind() {
            io::ErrorKind::NotFound => BackupError::Changed(self.path(entry)),
            _ => BackupError::io(self.path(entry), why),
        }
    }

    /// The path of the content, for errors.
    fn path(&self, entry: &str) -> PathBuf {
        if let Content::File(path) = self { path.clone() } else { entry.into() }
    }
}

impl Item {
    /// Reads the content once to compute its length and digest.
    ///
    /// # Errors
    /// When the content cannot be read, or the path cannot be stored in a manifest.
    pub fn measure(path: &Path, mode: u32, mut content: Content) -> Result<Self, BackupError> {
        let name = path.to_str().filter(|_| manifest::is_inside(path));
        let name = name.ok_or_else(|| BackupError::Name(path.to_owned()))?.to_owned();
        let mut sum = Sum::default();
        let copied = content.open().and_then(|mut from| io::copy(&mut from, &mut sum));
        let bytes = copied.map_err(|why| content.failed(&name, why))?;
        let entry = Entry { path: name, bytes, sha256: sum.0.hex(), mode: mode & 0o770 };
        Ok(Item { entry, content })
    }

    /// Copies the content. The copy fails if the length or digest differs from the measured values.
    fn copy(
        &mut self,
        copy: impl FnOnce(&Entry, &mut Exact<'_>) -> io::Result<()>,
        to: &Path,
    ) -> Result<(), BackupError> {
        let from = self.content.path(&self.entry.path);
        let mut opened = match self.content.open() {
            Ok(opened) => opened,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(BackupError::Changed(from)),
            Err(why) => return Err(BackupError::io(from, why)),
        };
        let copied = copy(&self.entry, &mut Exact::of(&mut *opened, &self.entry));
        copied.map_err(|why| match Differs::of(&why) {
            Some(_) => BackupError::Changed(from.clone()),
            None => BackupError::io(to, why),
        })
    }
}

#[derive(Default)]
struct Sum(Sha256);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes an archive, and then reads the archive to verify it. If `lock` is given, the archive is encrypted. Returns the length of the archive in
/// bytes. An existing file with this name is replaced when the archive is complete.
///
/// # Errors
/// [`BackupError`]. After an error, no new file is left. Exception: if the file got its name, and only the sync of the directory failed, the new file
/// is left.
pub fn write_archive(
    path: &Path,
    manifest: &Manifest,
    items: &mut [Item],
    lock: Option<&Lock>,
) -> Result<u64, BackupError> {
    // The key of the encrypted file. With this key, the file is read again.
    let key = OnceCell::new();
    let mut failed = None;
    let written = atomic::write_with_checked(
        path,
        0o600,
        |file| {
            let to = BufWriter::with_capacity(1 << 20, file);
            let written = match lock {
                None => archive_to(to, path, manifest, items).map(drop),
                Some(lock) => {
                    Sealed::begin(to, lock).map_err(BackupError::from).and_then(|(sealed, of_file)| {
                        let _ = key.set(of_file);
                        let sealed = archive_to(sealed, path, manifest, items)?;
                        sealed.finish().map(drop).map_err(|why| BackupError::io(path, why))
                    })
                }
            };
            written.map_err(|why| keep(&mut failed, why))
        },
        |temp| {
            let key = key.get().cloned().map(Key::OfFile);
            let verified = Backup::open(temp, key.as_ref()).and_then(Backup::verify);
            verified.map(drop).map_err(|why| {
                io::Error::other(format!(
                    "the new backup could not be verified ({why}) and was removed. Run the backup again"
                ))
            })
        },
    );
    written.map_err(|why| failed.take().unwrap_or_else(|| BackupError::io(path, why)))?;
    Ok(std::fs::metadata(path).map_err(|why| BackupError::io(path, why))?.len())
}

/// Stores the reason in `failed`, because the callback of [`atomic::write_with_checked`] can return only an `io::Error`.
fn keep(failed: &mut Option<BackupError>, why: BackupError) -> io::Error {
    *failed = Some(why);
    io::Error::other("the backup was not written")
}

fn archive_to<W: Write>(
    to: W,
    path: &Path,
    manifest: &Manifest,
    items: &mut [Item],
) -> Result<W, BackupError> {
    let failed = |why| BackupError::io(path, why);
    let mut archive = tar::Builder::new(to);
    let header = |bytes: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(manifest.unix_seconds).unwrap_or(0));
        header
    };
    let bytes = manifest.to_bytes().map_err(failed)?;
    archive.append_data(&mut header(bytes.len() as u64), MANIFEST, bytes.as_slice()).map_err(failed)?;
    for item in items {
        let append = |entry: &Entry, from: &mut Exact<'_>| {
            archive.append_data(&mut header(entry.bytes), &entry.path, from)
        };
        item.copy(append, path)?;
    }
    let mut to = archive.into_inner().map_err(failed)?;
    to.flush().map_err(failed)?;
    Ok(to)
}

/// Writes a backup as a directory, then reads the directory again to verify the backup. Returns the sum of the lengths of its files in bytes. The
/// directory must not exist. The new directory gets its final name when all its files are complete.
///
/// # Errors
/// [`BackupError`]. After an error, no new directory is left. Exception: if the rename succeeded, and only the sync of the directory above failed,
/// the new directory is left.
pub fn write_directory(path: &Path, manifest: &Manifest, items: &mut [Item]) -> Result<u64, BackupError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut random = [0; 8];
    let failed = |why| BackupError::io(path, why);
    getrandom::fill(&mut random).map_err(|why| failed(io::Error::other(why.to_string())))?;
    let temp = path.with_file_name(format!(".enfilade-{name}-{:016x}", u64::from_be_bytes(random)));
    let mut write = || {
        DirBuilder::new().mode(0o700).create(&temp).map_err(failed)?;
        let bytes = manifest.to_bytes().map_err(failed)?;
        atomic::write(&temp.join(MANIFEST), &bytes, 0o600).map_err(failed)?;
        for item in items.iter_mut() {
            item.copy(|entry, from| fill(&temp.join(&entry.path), from), path)?;
        }
        Backup::open(&temp, None)?.verify()?;
        sync_all(&temp).map_err(failed)?;
        // The rename never replaces a directory. If two callers write to the same path, only one of the callers succeeds.
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            &temp,
            rustix::fs::CWD,
            path,
            rustix::fs::RenameFlags::NOREPLACE,
        )
        .map_err(|why| failed(why.into()))?;
        atomic::sync_directory(path).map_err(failed)?;
        Ok(items.iter().map(|item| item.entry.bytes).sum::<u64>() + bytes.len() as u64)
    };
    let written: Result<u64, BackupError> = write();
    written.inspect_err(|_| drop(std::fs::remove_dir_all(&temp)))
}
