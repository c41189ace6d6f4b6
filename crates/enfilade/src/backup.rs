//! Makes backups of a whole installation (facts, keys, certificates, configuration), for the command `enfilade backup` and for the scheduled backups
//! of a server.

mod parts;
pub(crate) mod schedule;

use crate::home::{Installation, file_set};
use crate::{clock, token_key};
use anyhow::{Context, bail, ensure};
use enfilade_facts::tables::{FileName, MirroredFile};
use enfilade_facts::{Read as _, Source};
use enfilade_sources::backup::age::Lock;
use enfilade_sources::backup::{
    BackupError, Content, Entry, FORMAT, Item, Manifest, write_archive, write_directory,
};
use enfilade_sources::copy::Gathered;
use enfilade_sources::lmdb::Lmdb;
use parts::Parts;
use std::path::{Path, PathBuf};

/// The name of the file in a backup that contains the records of the store (the facts).
pub(crate) const FACTS: &str = "facts.backup";
/// The maximum number of attempts to make a backup. An attempt fails if a file of the backup, such as a key or a certificate, changes during the
/// attempt.
const TRIES: usize = 5;

/// The place where a backup is written.
pub(crate) enum Target<'a> {
    /// A new directory.
    Directory(&'a Path),
    /// One file, which is encrypted if there is a [`Lock`].
    Archive(&'a Path, Option<Lock>),
}

impl Target<'_> {
    fn path(&self) -> &Path {
        match self {
            Target::Directory(path) | Target::Archive(path, _) => path,
        }
    }

    fn write(&self, manifest: &Manifest, items: &mut [Item]) -> Result<u64, BackupError> {
        match self {
            Target::Directory(path) => write_directory(path, manifest, items),
            Target::Archive(path, lock) => write_archive(path, manifest, items, lock.as_ref()),
        }
    }
}

/// A complete backup.
pub(crate) struct Made {
    pub(crate) manifest: Manifest,
    pub(crate) bytes: u64,
    /// Files that are not in the backup. The user of this process cannot read these files, and the server does not use them.
    pub(crate) left_out: Vec<PathBuf>,
}

impl Made {
    /// The sentence about the files that are not in the backup.
    pub(crate) fn lacks(&self) -> Option<String> {
        let names: Vec<String> = self.left_out.iter().map(|file| format!("`{}`", file.display())).collect();
        (!names.is_empty()).then(|| {
            format!(
                "not in the backup, because the user of this process may not read these files: {}. Give this user the right to read the files, or \
                 copy them by hand",
                names.join(", ")
            )
        })
    }
}

/// Makes a backup. `more` returns further files for the backup. `progress` gets the number of records that were read from the store, and the number
/// of all records.
///
/// The records of the store are copied once. All other files are read twice: before and after this copy. A file must have the same content both
/// times, because all parts of the backup must be from the same moment.
pub(crate) fn make(
    installation: &Installation,
    lmdb: &Lmdb,
    target: &Target<'_>,
    more: &dyn Fn() -> anyhow::Result<Vec<Item>>,
    progress: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Made> {
    let named = || format!("backup `{}` was not made", target.path().display());
    let (judged, key) = token_key::judge(&installation.data, installation.config.facts.group, lmdb)?;
    if let Some(fault) = token_key::fault(&installation.data, judged, key.is_none()) {
        bail!("{}: {fault}", named());
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match try_to_make(installation, lmdb, target, more, progress) {
            Err(why) if tries < TRIES && was_changed(&why) => {}
            made => return made.with_context(named),
        }
    }
}

fn was_changed(why: &anyhow::Error) -> bool {
    matches!(why.downcast_ref::<BackupError>(), Some(BackupError::Changed(_)))
}

fn try_to_make(
    installation: &Installation,
    lmdb: &Lmdb,
    target: &Target<'_>,
    more: &dyn Fn() -> anyhow::Result<Vec<Item>>,
    progress: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Made> {
    let Parts { mut items, outside, left_out } = Parts::of(installation)?;
    items.extend(more()?);
    let now = clock::now().unix_seconds;
    // The records are collected in an unnamed file in the data directory. So if the backup is encrypted, no readable copy of the records remains
    // outside the data directory.
    let facts = Gathered::of(&|look| lmdb.with_view(look), &installation.data, now, progress)
        .context("the records of the store (the facts) cannot be copied")?;
    refuse_missing(installation, lmdb, &items)?;
    let origin = facts.origin.clone();
    items.insert(0, Item::measure(Path::new(FACTS), 0o600, Content::Facts(Box::new(facts)))?);
    let manifest = Manifest {
        enfilade_backup: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        unix_seconds: now,
        data: installation.data.clone(),
        store: origin.store,
        revision: origin.revision,
        records: origin.records,
        outside: outside.into_iter().map(|(to, from)| (to.to_owned(), from)).collect(),
        files: items.iter().map(|item| item.entry.clone()).collect(),
    };
    let bytes = target.write(&manifest, &mut items)?;
    Ok(Made { manifest, bytes, left_out })
}

/// The files of an installation that a backup contains below `keys/`. The keys of certificates are not among these files.
pub(crate) fn key_files(installation: &Installation) -> Result<Vec<Item>, BackupError> {
    let Parts { items, .. } = Parts::of(installation)?;
    Ok(items.into_iter().filter(|item| item.entry.path.starts_with("keys/")).collect())
}

/// The edited files from which records in the store were mirrored. A backup must contain each of these files.
pub(crate) fn followed(source: &dyn Source) -> anyhow::Result<Vec<FileName>> {
    let rows = source.read(|view| view.list::<MirroredFile>(&[]))??;
    Ok(rows.into_iter().map(|(file, _)| file).collect())
}

/// The files of `followed` that are not among the entries of a backup.
pub(crate) fn missing<'e>(
    followed: Vec<FileName>,
    entries: impl Iterator<Item = &'e Entry> + Clone,
) -> Vec<FileName> {
    let is_missing = |file: &FileName| entries.clone().all(|entry| entry.path != file.as_str());
    followed.into_iter().filter(is_missing).collect()
}

/// Refuses a backup without the configuration file, if this installation ever had one. Also refuses a backup without an edited file from which the
/// store has records ([`followed`]). After a restore of such a backup, the content of the missing file would be lost.
fn refuse_missing(installation: &Installation, lmdb: &Lmdb, items: &[Item]) -> anyhow::Result<()> {
    let files = file_set(&installation.data, &installation.config);
    let entries = items.iter().map(|item| &item.entry);
    let known = missing(followed(lmdb)?, entries.clone());
    let mut missing: Vec<PathBuf> = known.into_iter().map(|file| files.path(file)).collect();
    if installation.had_config_file && entries.clone().all(|entry| entry.path != "enfilade.toml") {
        missing.push(installation.config_path());
    }
    if let Some(new) = missing.iter().find(|file| file.exists()) {
        // The file was created after the list of files was made.
        return Err(BackupError::Changed(new.clone()).into());
    }
    let names: Vec<String> = missing.iter().map(|file| format!("`{}`", file.display())).collect();
    let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    ensure!(
        names.is_empty(),
        "{} {is} missing, and the server has read {it} before, so a backup without {it} is not complete. Restore {it} from an earlier backup. Do not \
         make empty files instead: an empty enfilade.toml sets every key to its default, and any other empty file deletes the records that came from \
         it",
        names.join(", ")
    );
    Ok(())
}

/// The path as an absolute path, which does not depend on the working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
