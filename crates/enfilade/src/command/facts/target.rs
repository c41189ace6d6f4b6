//! The target of `enfilade facts backup` and `enfilade facts dump`: a new file, standard output, a device or a pipe.

use crate::output;
use crate::reserved::refuse_backup_place;
use anyhow::{Context, bail, ensure};
use enfilade_facts::Source;
use enfilade_sources::files::atomic;
use serde_json::Value;
use std::fmt;
use std::fs::{Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// The place where a copy of the facts is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Stdout,
    /// A device or a pipe. The command writes to it, and never replaces it by a file.
    Opened(&'a Path),
    /// A file, which gets its name when it is complete.
    File(&'a Path),
}

/// Refuses an existing file, unless `force` is set, because the file may be the only good backup.
pub(in crate::command) fn refuse_existing(file: &Path, force: bool) -> anyhow::Result<()> {
    // A symbolic link counts as an existing file, because the rename at the end would replace the link.
    if std::fs::symlink_metadata(file).is_ok() && !force {
        bail!("`{}` already exists: give another name, or --force to replace it", file.display());
    }
    Ok(())
}

impl<'a> Target<'a> {
    /// The target of a command. The target is standard output if no file is given, and also for `-`.
    pub(super) fn of(file: Option<&'a Path>, force: bool) -> anyhow::Result<Self> {
        let Some(file) = file.filter(|file| *file != Path::new("-")) else { return Target::stdout() };
        // Links are followed, because `/dev/stdout` is a link to a pipe, a terminal or a file.
        let Ok(meta) = std::fs::metadata(file) else {
            refuse_existing(file, force)?;
            return Ok(Target::File(file));
        };
        if is_stdout(&meta) {
            return Target::stdout();
        }
        ensure!(!meta.is_dir(), "`{}` is a directory: give the name of a file", file.display());
        if !meta.is_file() {
            ensure!(
                force || !meta.file_type().is_block_device(),
                "`{}` is a block device, whose content would be overwritten: give the name of a file, or --force",
                file.display()
            );
            return Ok(Target::Opened(file));
        }
        refuse_existing(file, force)?;
        ensure!(
            !is_link_to_opened(file),
            "`{}` is a link to a file that is already open: give the name of that file, or `-` for standard output",
            file.display()
        );
        Ok(Target::File(file))
    }

    /// Uses standard output, unless a copy written to it would be lost.
    fn stdout() -> anyhow::Result<Self> {
        ensure!(
            output::can_be_seen(io::stdout()),
            "{}, so the copy would be lost: give the name of a file",
            output::UNSEEN
        );
        Ok(Target::Stdout)
    }

    /// Refuses a file in the data directory or in a datastore. A device, a pipe and standard output are always accepted.
    pub(super) fn refuse_place(&self, data: &Path, source: &dyn Source) -> anyhow::Result<()> {
        match self {
            Target::File(file) => refuse_backup_place(data, source, file),
            Target::Stdout | Target::Opened(_) => Ok(()),
        }
    }

    /// The directory for a temporary copy of the facts. It is the directory of the target file, because the disk of that directory must have enough
    /// space for the target file anyway. Without a target file, it is the data directory.
    pub(super) fn spool<'s>(&'s self, data: &'s Path) -> &'s Path {
        match self {
            Target::File(file) => directory_of(file),
            Target::Stdout | Target::Opened(_) => data,
        }
    }

    /// Opens the target, and calls `write` with it.
    pub(super) fn write(
        &self,
        mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let written = match self {
            Target::Stdout => write(&mut io::stdout().lock()),
            Target::Opened(path) => {
                OpenOptions::new().write(true).open(path).and_then(|mut to| write(&mut to))
            }
            Target::File(path) => atomic::write_with(path, 0o600, |to| write(to)),
        };
        written.with_context(|| format!("{self} cannot be written"))
    }

    /// Prints what was written. If the copy itself is written to standard output, this text is printed to standard error.
    pub(super) fn done(&self, json: bool, value: &Value, text: &str) {
        match self {
            Target::Stdout => output::note(text),
            Target::Opened(_) | Target::File(_) => output::done(json, value, text),
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Stdout => f.write_str("standard output"),
            Target::Opened(path) | Target::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

/// The directory of a file.
fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether this is the file, pipe or terminal that is the standard output of this process.
fn is_stdout(meta: &Metadata) -> bool {
    rustix::fs::fstat(io::stdout()).is_ok_and(|out| (out.st_dev, out.st_ino) == (meta.dev(), meta.ino()))
}

/// Whether this is a link such as `/dev/stderr`, which leads to a file that a process has open. A rename would replace the link in `/dev`.
fn is_link_to_opened(file: &Path) -> bool {
    let is_link = std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_symlink());
    is_link
        && (file.parent() == Some(Path::new("/dev"))
            || file.starts_with("/dev/fd")
            || file.starts_with("/proc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_pipes_are_written_to_and_files_are_kept() {
        let scratch = enfilade_testkit::Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        assert_eq!(Target::of(None, false).unwrap(), Target::Stdout);
        assert_eq!(Target::of(Some(Path::new("-")), false).unwrap(), Target::Stdout);
        let full = Path::new("/dev/full");
        for force in [false, true] {
            assert_eq!(Target::of(Some(full), force).unwrap(), Target::Opened(full));
        }
        let why = Target::Opened(full).write(|to| to.write_all(b"x")).unwrap_err();
        let says = format!("{why:#}");
        assert!(says.starts_with("`/dev/full` cannot be written: No space left"), "{says}");
        let pipe = path("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(Target::of(Some(&pipe), true).unwrap(), Target::Opened(&pipe));

        let (file, link, new) = (path("file"), path("link"), path("new"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(path("nowhere"), &link).unwrap();
        for existing in [&file, &link] {
            let why = Target::of(Some(existing), false).unwrap_err().to_string();
            assert!(why.contains("already exists: give another name, or --force"), "{why}");
            assert_eq!(Target::of(Some(existing), true).unwrap(), Target::File(existing));
        }
        let why = Target::of(Some(scratch.path()), true).unwrap_err().to_string();
        assert!(why.contains("is a directory"), "{why}");
        let target = Target::of(Some(&new), false).unwrap();
        assert_eq!((&target, target.spool(Path::new("/data"))), (&Target::File(&new), scratch.path()));
        target.write(|to| to.write_all(b"whole")).unwrap();
        assert_eq!(std::fs::read(&new).unwrap(), b"whole");
    }
}
