//! Reads a backup, in the order of its manifest.

use super::age::{self, AgeError, Key, Opened};
use super::new_files::{fill, sync_all};
use super::{BackupError, Differs, Entry, Exact, MANIFEST, Manifest};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// An open backup. Its manifest was read already.
pub struct Backup {
    /// The manifest of the backup.
    pub manifest: Manifest,
    files: Files,
}

/// The place of a backup's files.
enum Files {
    Directory(PathBuf),
    /// A reader at the beginning of the archive. The manifest is read a second time with this reader.
    Archive(Box<dyn Read>),
}

/// Receives each file of a backup.
type Receive<'a> = &'a mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), BackupError>;

impl Backup {
    /// Whether a file that starts with these bytes is an archive or an encrypted archive.
    pub fn begins(start: &[u8]) -> bool {
        start.starts_with(age::FIRST_LINE.as_bytes()) || start.starts_with(format!("{MANIFEST}\0").as_bytes())
    }

    /// Opens a backup, and reads its manifest.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn open(path: &Path, key: Option<&Key>) -> Result<Self, BackupError> {
        let failed = |why| BackupError::io(path, why);
        if std::fs::metadata(path).map_err(failed)?.is_dir() {
            return Self::open_directory(path);
        }
        let opened = decrypted(path, key)?;
        let is_encrypted = begins_as_age(&File::open(path).map_err(failed)?).map_err(failed)?;
        let manifest = first(&mut entries(&mut tar::Archive::new(opened))?, is_encrypted)?;
        Ok(Backup { manifest, files: Files::Archive(decrypted(path, key)?) })
    }

    fn open_directory(path: &Path) -> Result<Self, BackupError> {
        let manifest = match open_plain(&path.join(MANIFEST)) {
            Ok(mut file) => Manifest::read(&mut file)?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let why = format!("the directory `{}` has no `{MANIFEST}`", path.display());
                return Err(BackupError::NotOne(why));
            }
            Err(why) => return Err(BackupError::io(path.join(MANIFEST), why)),
        };
        Ok(Backup { manifest, files: Files::Directory(path.to_owned()) })
    }

    /// Reads all files and compares them with the manifest. Returns the manifest.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn verify(self) -> Result<Manifest, BackupError> {
        self.verify_and_read("", &mut |_| Ok(()))
    }

    /// Verifies the backup as [`Backup::verify`] does. Also returns the content of the file `name`, if the backup has this file.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn verify_and_take(self, name: &str) -> Result<(Manifest, Option<Vec<u8>>), BackupError> {
        let mut taken = None;
        let manifest =
            self.verify_and_read(name, &mut |from| from.read_to_end(taken.insert(Vec::new())).map(drop))?;
        Ok((manifest, taken))
    }

    /// Verifies the backup as [`Backup::verify`] does. Also passes the file `name` to `receive`, if the backup has this file.
    ///
    /// # Errors
    /// [`BackupError`], or the error of `receive`.
    pub fn verify_and_read(
        self,
        name: &str,
        receive: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>,
    ) -> Result<Manifest, BackupError> {
        self.read(&mut |entry, from| {
            let received = if entry.path == name { receive(from) } else { Ok(()) };
            // The rest of the file is read even if `receive` failed. If the file differs from the manifest, this difference is reported as the cause
            // of the error.
            io::copy(from, &mut io::sink()).map_err(|why| damaged(entry, why))?;
            received.map_err(|why| match Differs::of(&why) {
                Some(_) => damaged(entry, why),
                None => BackupError::io(&entry.path, why),
            })
        })
    }

    /// Calls `receive` for each file. The read of a file fails if the file differs from its entry in the manifest.
    fn read(self, receive: Receive<'_>) -> Result<Manifest, BackupError> {
        let Backup { manifest, files } = self;
        match files {
            Files::Directory(path) => {
                for entry in &manifest.files {
                    let file = path.join(&entry.path);
                    let mut file = open_plain(&file).map_err(|why| match why.kind() {
                        io::ErrorKind::NotFound => {
                            BackupError::Damaged(format!("`{}` is missing", entry.path))
                        }
                        _ => BackupError::io(file, why),
                    })?;
                    receive(entry, &mut Exact::of(&mut file, entry))?;
                }
            }
            Files::Archive(from) => read_archive(from, &manifest, receive)?,
        }
        Ok(manifest)
    }
}

/// Writes the files of a backup into a new directory, and verifies each file while it is written. Returns the manifest.
///
/// # Errors
/// [`BackupError`]. After an error, the directory is not complete.
pub fn unpack_into(backup: Backup, directory: &Path) -> Result<Manifest, BackupError> {
    let manifest = backup.read(&mut |entry, from| {
        let path = directory.join(&entry.path);
        fill(&path, from).map_err(|why| match Differs::of(&why) {
            Some(_) => damaged(entry, why),
            None => BackupError::io(path, why),
        })
    })?;
    sync_all(directory).map_err(|why| BackupError::io(directory, why))?;
    Ok(manifest)
}

fn damaged(entry: &Entry, why: io::Error) -> BackupError {
    match Differs::of(&why) {
        Some(path) => {
            BackupError::Damaged(format!("the length or checksum of `{path}` differs from the manifest"))
        }
        None => read_failed(&entry.path, why),
    }
}

/// An error of a read. Its cause is the decryption, the format of the archive, or the disk.
fn read_failed(what: &str, why: io::Error) -> BackupError {
    match why.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other => {
            BackupError::Damaged(format!("reading {what} failed: {why}"))
        }
        _ => BackupError::io(what, why),
    }
}

/// Opens a regular file. A symbolic link is refused, because it may point to a file outside the backup.
fn open_plain(path: &Path) -> io::Result<BufReader<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(BufReader::with_capacity(1 << 16, file))
}

fn begins_as_age(mut file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(age::FIRST_LINE.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == age::FIRST_LINE.as_bytes())
}

/// A reader of the archive, which decrypts an encrypted archive.
fn decrypted(path: &Path, key: Option<&Key>) -> Result<Box<dyn Read>, BackupError> {
    let failed = |why| BackupError::io(path, why);
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(BackupError::NotOne("neither a regular file nor a directory".into()));
    }
    match (begins_as_age(&file).map_err(failed)?, key) {
        (false, _) => Ok(Box::new(BufReader::with_capacity(1 << 20, file))),
        (true, Some(key)) => Ok(Box::new(Opened::begin(file, key)?)),
        (true, None) => Err(AgeError::NeedsKey.into()),
    }
}

type Entries<'a> = tar::Entries<'a, Box<dyn Read>>;

fn entries(archive: &mut tar::Archive<Box<dyn Read>>) -> Result<Entries<'_>, BackupError> {
    archive.entries().map_err(|why| read_failed("the archive", why))
}

/// Calls `receive` for each file of an archive. The archive is read to its last byte, because only the end of an encrypted archive proves that it was
/// not cut.
fn read_archive(from: Box<dyn Read>, manifest: &Manifest, receive: Receive<'_>) -> Result<(), BackupError> {
    let damaged = |why: &str| Err(BackupError::Damaged(why.into()));
    let mut archive = tar::Archive::new(from);
    let mut members = entries(&mut archive)?;
    if first(&mut members, true)? != *manifest {
        return damaged("the archive was changed while it was read");
    }
    for entry in &manifest.files {
        let mut member = next(&mut members, &entry.path)?;
        receive(entry, &mut Exact::of(&mut member, entry))?;
    }
    if members.next().is_some() {
        return damaged("the archive has more files than its manifest lists");
    }
    // Reads the rest of the end mark of the archive. The complete end mark is 1,024 zero bytes.
    let mut rest = Vec::new();
    let read = archive.into_inner().take(1025).read_to_end(&mut rest);
    read.map_err(|why| read_failed("the archive", why))?;
    match rest.len() <= 1024 && rest.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => damaged("there are other bytes after the end mark of the archive"),
    }
}

/// Reads the manifest, the first file of the archive. If the manifest is not found and `is_certain` is true, the error says that the backup is
/// damaged. If `is_certain` is false, the error says that the file is not a backup.
fn first(entries: &mut Entries<'_>, is_certain: bool) -> Result<Manifest, BackupError> {
    let mut member = match next(entries, MANIFEST) {
        // For a file that is not a backup, the error of the `tar` library would not help the user.
        Err(BackupError::Damaged(_)) if !is_certain => {
            let why = format!("the archive does not begin with the file `{MANIFEST}`");
            return Err(BackupError::NotOne(why));
        }
        member => member?,
    };
    Manifest::read(&mut member)
}

/// The next member of the archive, which must be a regular file with this path.
fn next<'a>(entries: &mut Entries<'a>, expected: &str) -> Result<tar::Entry<'a, Box<dyn Read>>, BackupError> {
    let member = entries.next().ok_or_else(|| BackupError::Damaged(format!("`{expected}` is missing")))?;
    let member = member.map_err(|why| read_failed("the archive", why))?;
    let is_file = member.header().entry_type() == tar::EntryType::Regular;
    if !is_file || *member.path_bytes() != *expected.as_bytes() {
        let found = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let kind = if is_file { "" } else { ", which is not a regular file" };
        return Err(BackupError::Damaged(format!(
            "`{expected}` was expected, but the next file is `{found}`{kind}"
        )));
    }
    Ok(member)
}
