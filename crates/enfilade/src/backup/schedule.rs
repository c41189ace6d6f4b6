//! Backups that a server makes automatically, and the record of these backups.

use super::{Made, Target, make};
use crate::home::{Home, Installation, make_directory};
use crate::reserved::refuse_exposed_backups;
use crate::{clock, output};
use anyhow::Context;
use enfilade_faces::Faces;
use enfilade_sources::backup::age::Lock;
use enfilade_sources::files::{atomic, lock::FileLock};
use enfilade_sources::lmdb::Lmdb;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The default of `[backup] every`, in seconds.
const EVERY: i64 = 24 * 3600;
/// The pause between a failed backup and the next attempt, in seconds. The pause is never longer than `[backup] every`.
const AFTER_FAILURE: i64 = 600;
/// How often the thread checks whether a backup is due.
const LOOK: Duration = Duration::from_secs(1);
/// If no process has written to a temporary file for this many seconds, the server removes the file. The process that wrote the file has most likely
/// ended.
const ABANDONED: i64 = 24 * 3600;
/// The beginning of the name of each temporary file that this program writes.
const TEMPORARY: &str = ".enfilade-";

/// The record of scheduled backups, in the data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The backups that the server made and keeps, the oldest first.
    pub(crate) made: Vec<Kept>,
    /// The time of the last attempt and the reason why it failed; absent after a success.
    pub(crate) failed: Option<Failed>,
}

/// A backup that the server made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The path of the backup.
    pub(crate) file: PathBuf,
    /// The time at which the backup was complete, in seconds since the epoch.
    pub(crate) unix_seconds: i64,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// The time at which the attempt failed, in seconds since the epoch.
    pub(crate) unix_seconds: i64,
    /// The reason why the attempt failed.
    pub(crate) why: String,
}

impl Record {
    fn path(data: &Path) -> PathBuf {
        data.join("backups.json")
    }

    /// Reads the record. The record is empty if there is no file.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Self> {
        let path = Record::path(data);
        let text = match std::fs::read(&path) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Record::default()),
            text => text.with_context(|| format!("`{}` cannot be read", path.display()))?,
        };
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "`{}` is damaged: remove this file. The server then does not know its earlier backups and does not delete them, so delete the old ones yourself",
                path.display()
            )
        })
    }

    fn write(&self, installation: &Installation) -> anyhow::Result<()> {
        let path = Record::path(&installation.data);
        let group = installation.config.facts.group;
        atomic::write_shared(&path, &serde_json::to_vec(self)?, group)
            .with_context(|| format!("`{}` cannot be written", path.display()))
    }

    /// The newest backup, if it is in this directory. `None` if it is in another directory, or if there is no backup.
    pub(crate) fn last_in(&self, directory: Option<&Path>) -> Option<&Kept> {
        self.made.last().filter(|last| last.file.parent() == directory)
    }

    /// The time at which the next backup is due, in seconds since the epoch. If the newest backup is not in the configured directory, a backup is due
    /// at once, or after the pause that follows a failure.
    pub(crate) fn due(&self, every: i64, directory: Option<&Path>) -> i64 {
        let next = self.last_in(directory).map_or(0, |last| last.unix_seconds + every);
        let again = self.failed.as_ref().map_or(0, |failed| failed.unix_seconds + every.min(AFTER_FAILURE));
        next.max(again)
    }

    /// The path of the newest backup, if the file does not exist any more.
    pub(crate) fn newest_lost(&self) -> Option<&Path> {
        self.made.last().map(|last| last.file.as_path()).filter(|file| is_gone(file))
    }

    /// Like [`Record::due`]. But if the file of the newest backup does not exist any more, this backup is lost. Then the next backup is due at most
    /// [`AFTER_FAILURE`] seconds after the time of the lost backup. If the pause that follows a failure ends later, the next backup is due at the end
    /// of this pause.
    fn due_by_files(&self, every: i64, directory: Option<&Path>) -> i64 {
        self.due(self.newest_lost().map_or(every, |_| every.min(AFTER_FAILURE)), directory)
    }
}

/// Whether there is no file at this path. If the file system reports another error, the file may still exist.
pub(crate) fn is_gone(file: &Path) -> bool {
    std::fs::symlink_metadata(file).is_err_and(|why| why.kind() == std::io::ErrorKind::NotFound)
}

/// The seconds between two backups, if a directory for backups is configured.
pub(crate) fn every(installation: &Installation) -> Option<i64> {
    let backup = &installation.config.backup;
    backup.directory.as_ref().map(|_| backup.every.as_ref().map_or(EVERY, |every| every.seconds))
}

/// Starts the thread that makes backups, if a directory is configured. If several servers share a data directory, only one of them makes each backup.
pub(crate) fn follow(home: &Home, faces: &Faces) -> anyhow::Result<()> {
    let installation = home.installation();
    let Some(every) = every(&installation) else { return Ok(()) };
    let (source, faces) = (Arc::clone(&home.store), faces.clone());
    std::thread::Builder::new().name("backups".into()).spawn(move || {
        let mut told = String::new();
        loop {
            let record = look(&installation, &source, every);
            let problem = match &record {
                Ok(Record { failed: Some(failed), .. }) => failed.why.clone(),
                Ok(_) => String::new(),
                Err(why) => format!("{why:#}"),
            };
            let last =
                record.iter().flat_map(|record| record.made.last()).map(|last| last.unix_seconds).max();
            faces.metrics().set_backup(last, !problem.is_empty());
            if problem != told && !problem.is_empty() {
                output::note(&format!("warning: the scheduled backup failed: {problem}"));
            }
            told = problem;
            std::thread::park_timeout(LOOK);
        }
    })?;
    Ok(())
}

/// Makes a backup if one is due. Returns the new record.
fn look(installation: &Installation, lmdb: &Lmdb, every: i64) -> anyhow::Result<Record> {
    let directory = directory(installation);
    let record = Record::read(&installation.data)?;
    if clock::now().unix_seconds < record.due_by_files(every, directory.as_deref()) {
        return Ok(record);
    }
    let lock = installation.data.join(".backups.lck");
    let _lock = match FileLock::take(&lock, Duration::ZERO) {
        // Another server of this data directory makes the backup now.
        Err(why) if why.kind() == std::io::ErrorKind::TimedOut => return Ok(record),
        taken => taken?,
    };
    let mut record = Record::read(&installation.data)?;
    if clock::now().unix_seconds < record.due_by_files(every, directory.as_deref()) {
        return Ok(record);
    }
    let is_there = directory.as_deref().is_some_and(Path::exists);
    if let Some(lost) = record.newest_lost().filter(|_| is_there) {
        output::note(&format!(
            "warning: the last backup `{}` is missing, so a new one is made now",
            lost.display()
        ));
    }
    match run(installation, lmdb, &record) {
        Ok((made, file)) => {
            made.lacks().iter().for_each(|lacks| output::note(&format!("warning: {lacks}")));
            let Made { manifest, bytes, .. } = made;
            output::note(&format!(
                "backup `{}` is complete and verified: {} records as of revision {}, {}",
                file.display(),
                manifest.records,
                manifest.revision,
                output::bytes(bytes)
            ));
            record.made.push(Kept { file, unix_seconds: clock::now().unix_seconds });
            record.failed = None;
            record.write(installation)?;
            forget(&mut record, installation.config.backup.keep.into())?;
        }
        Err(why) => {
            record.failed = Some(Failed { unix_seconds: clock::now().unix_seconds, why: format!("{why:#}") });
        }
    }
    record.write(installation)?;
    Ok(record)
}

/// The configured directory of backups, if there is one.
pub(crate) fn directory(installation: &Installation) -> Option<PathBuf> {
    installation.config.backup.directory.clone().map(PathBuf::from)
}

/// If the directory contained backups before and does not exist any more, refuses to create it again. Perhaps the directory is on a disk that is not
/// mounted now. Then the backups would fill the disk that contains the mount point.
fn refuse_vanished(record: &Record, directory: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        record.last_in(Some(directory)).is_none() || directory.exists(),
        "the directory of the earlier backups, `{}`, does not exist any more: mount its disk, or make the directory with `mkdir -p '{}'`",
        directory.display(),
        directory.display()
    );
    Ok(())
}

fn run(installation: &Installation, lmdb: &Lmdb, record: &Record) -> anyhow::Result<(Made, PathBuf)> {
    let backup = &installation.config.backup;
    let directory = directory(installation).context("`[backup] directory` is not set")?;
    refuse_vanished(record, &directory)?;
    refuse_exposed_backups(&installation.data, &installation.config, enfilade_admin::roots(lmdb)?)?;
    make_directory(&directory, None)?;
    remove_abandoned(&directory, clock::now().unix_seconds);
    let recipients = &backup.recipients.0;
    let (lock, end) = match recipients.is_empty() {
        true => (None, "tar"),
        false => (Some(Lock::Recipients(recipients.clone())), "tar.age"),
    };
    let time = output::time(clock::now().unix_seconds).replace([':', '-'], "");
    let file = directory.join(format!("enfilade-{time}.{end}"));
    anyhow::ensure!(!file.exists(), "`{}` already exists", file.display());
    let made = make(installation, lmdb, &Target::Archive(&file, lock), &|| Ok(Vec::new()), &mut |_, _| {})?;
    Ok((made, file))
}

/// Deletes the oldest backups in the directory of the newest backup until `keep` backups are left, or until a file cannot be deleted. A missing file
/// is not an error, because an operator may have deleted it. If an earlier configuration named another directory, the backups in that directory are
/// removed from the record, but their files are not deleted.
fn forget(record: &mut Record, keep: usize) -> anyhow::Result<()> {
    let directory = record.made.last().and_then(|newest| newest.file.parent()).map(Path::to_owned);
    record.made.retain(|kept| kept.file.parent() == directory.as_deref());
    while keep < record.made.len() {
        let file = &record.made.first().context("the record of backups has no entry")?.file;
        match std::fs::remove_file(file) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                output::note(&format!("warning: old backup `{}` cannot be deleted: {why}", file.display()));
                break;
            }
            _ => drop(record.made.remove(0)),
        }
    }
    Ok(())
}

/// Removes temporary files of processes that were killed while they wrote a backup.
fn remove_abandoned(directory: &Path, now: i64) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in
        entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()))
    {
        use std::os::unix::fs::MetadataExt as _;
        let is_old = entry.metadata().is_ok_and(|meta| meta.is_file() && meta.mtime() + ABANDONED < now);
        if is_old {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
