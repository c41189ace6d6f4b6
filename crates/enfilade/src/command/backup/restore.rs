//! `enfilade restore`.

use super::fit;
use super::restored::{Restored, about, described, tell};
use crate::backup::{FACTS, missing};
use crate::cli::Restore;
use crate::config::{self, Config};
use crate::home::{data_directory, is_house, refuse_foreign, refuse_served};
use crate::progress::Progress;
use crate::reserved::{DATASTORES, data_alone, refuse_exposed};
use crate::upkeep::audit;
use crate::{clock, output, prompt, token_key};
use anyhow::{Context, bail, ensure};
use enfilade_facts::Table;
use enfilade_facts::tables::{FileName, Key as _};
use enfilade_sources::backup::age::{Key, identities};
use enfilade_sources::backup::{Backup, BackupError, NewDirectory, Owners, unpack_into};
use enfilade_sources::copy;
use enfilade_sources::files::atomic::sync_directory;
use enfilade_sources::lmdb::Lmdb;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Restores a backup. The command writes nothing before the whole backup was read and verified.
pub(in crate::command) fn restore(
    data: Option<PathBuf>,
    command: &Restore,
    json: bool,
) -> anyhow::Result<()> {
    let source = &command.backup;
    let key = key(command)?;
    let unchanged = || format!("`{}` was not restored; nothing was changed", source.display());
    let backup = Backup::open(source, key.as_ref());
    if command.check {
        return check(source, backup, json);
    }
    let data = place(data_directory(data)?).with_context(unchanged)?;
    let (manifest, datastores) = backup
        .and_then(|backup| backup.verify_and_take(FileName::Datastores.as_str()))
        .with_context(unchanged)?;
    refuse_served(&data, &[&data, &manifest.data]).with_context(unchanged)?;
    refuse_within(&data).with_context(unchanged)?;
    let of_backup = enfilade_admin::roots_in_file(&datastores.unwrap_or_default());
    refuse_exposed(data_alone(&data), &manifest.data, of_backup).with_context(unchanged)?;
    let backup = Backup::open(source, key.as_ref()).with_context(unchanged)?;
    let restored = into(&data, backup, command).with_context(unchanged)?;
    tell(&data, &restored, json);
    Ok(())
}

/// Reads the whole backup. Also fails if records in the backup were read from an edited file, and the backup does not contain this file. A restore
/// would lose the content of the file.
fn check(source: &Path, backup: Result<Backup, BackupError>, json: bool) -> anyhow::Result<()> {
    let mut followed = Vec::new();
    let checked = backup.and_then(|backup| {
        backup.verify_and_read(FACTS, &mut |facts| {
            followed = followed_in(facts)?;
            Ok(())
        })
    });
    let manifest = checked.with_context(|| format!("`{}` cannot be restored", source.display()))?;
    let missing: Vec<String> =
        missing(followed, manifest.files.iter()).iter().map(|file| format!("`{file}`")).collect();
    ensure!(
        missing.is_empty(),
        "{}: the backup is undamaged, but not complete. These files are missing: {}. The facts in the backup contain records that were read from these files. Use another backup. If you have no other backup, `enfilade restore` also restores this one, and shows the next steps for each missing file",
        about(&manifest),
        missing.join(", ")
    );
    let text = format!("{}: the backup is complete and undamaged", about(&manifest));
    output::done(json, &described(&manifest), &text);
    Ok(())
}

/// The edited files from which records of these facts were read.
fn followed_in(facts: &mut dyn Read) -> std::io::Result<Vec<FileName>> {
    let copy = copy::read_backup(BufReader::with_capacity(1 << 20, facts)).map_err(std::io::Error::other)?;
    let mut followed = Vec::new();
    for record in copy.records {
        let (table, key, _) = record.map_err(std::io::Error::other)?;
        followed.extend(FileName::from_bytes(&key).filter(|_| table == Table::Files));
    }
    Ok(followed)
}

fn key(command: &Restore) -> anyhow::Result<Option<Key>> {
    if command.passphrase_stdin {
        return Ok(Some(Key::Passphrase(prompt::from_stdin()?)));
    }
    if command.passphrase {
        return Ok(Some(Key::Passphrase(prompt::hidden("passphrase of the backup: ")?)));
    }
    let Some(path) = &command.identity else { return Ok(None) };
    let named = || format!("private key file `{}` cannot be used", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    Ok(Some(Key::Identities(identities(&text).with_context(named)?)))
}

/// The path of the data directory without symbolic links, because the new directory is made in its real parent.
fn place(data: PathBuf) -> anyhow::Result<PathBuf> {
    ensure!(
        !data.exists() || data.is_dir(),
        "`{}` is a file, not a directory: give the data directory with --data",
        data.display()
    );
    if data.exists() {
        return Ok(std::fs::canonicalize(data)?);
    }
    let data = std::path::absolute(data)?;
    let (above, name) = (
        data.parent().context("the data directory has no parent directory: give another path with --data")?,
        data.file_name().context(
            "the path of the data directory does not end with a name: give another path with --data",
        )?,
    );
    let named = || {
        format!(
            "the directory `{}`, in which the data directory is to be made, cannot be opened; if it does not exist, make it with `mkdir -p`",
            above.display()
        )
    };
    Ok(std::fs::canonicalize(above).with_context(named)?.join(name))
}

/// Refuses a directory inside the data directory of a server. There, the restored files would be mixed with the keys and the content of that server.
fn refuse_within(data: &Path) -> anyhow::Result<()> {
    match data.ancestors().skip(1).find(|above| is_house(above) && above.join("keys").exists()) {
        Some(above) => bail!(
            "`{}` is in the data directory `{}` of another server: give a directory outside of it with --data",
            data.display(),
            above.display()
        ),
        None => Ok(()),
    }
}

fn into(data: &Path, backup: Backup, command: &Restore) -> anyhow::Result<Restored> {
    let owner = owner(data)?;
    let is_empty = !data.exists() || std::fs::read_dir(data)?.next().is_none();
    ensure!(
        is_empty || command.force,
        "data directory `{}` is not empty: give another one with --data, or --force to move it aside",
        data.display()
    );
    if !is_empty {
        refuse_foreign(data)?;
    }
    refuse_mount(data)?;
    let facts = data.join("facts");
    // While the old directory is moved, no server may begin to use it.
    let _closed = if facts.exists() { Some(Lmdb::keep_closed(&facts)?) } else { None };
    let made = NewDirectory::begin(data)?;
    let new = made.directory();
    let manifest = unpack_into(backup, new)?;
    let config = config::read(new, None).context("the configuration of the backup cannot be used")?;
    restore_facts(new, &config, command)?;
    let mut steps = fit::check(data, new, &config, &manifest)?;
    made.give_to(Owners { owner, group: config.facts.group }, &manifest)?;
    let aside = made.put_in_place(clock::now().unix_seconds)?;
    let mut kept = None;
    if let Some(aside) = &aside {
        let (from, to) = (aside.join(DATASTORES), data.join(DATASTORES));
        match keep_content(&from, &to, token_key::is_same(aside, data, config.facts.group)) {
            Ok(Content::Kept) => kept = Some(to),
            Ok(Content::None) => {}
            Ok(Content::OfAnother) => steps.push(format!(
                "the backup is from another server, so the content of the old datastores stays in `{}`: otherwise the users of the other server \
                 could get access to it. If they may have access, run mv '{}' '{}'",
                from.display(),
                from.display(),
                to.display()
            )),
            Err(why) => steps.push(format!(
                "the content of datastores is now in `{}`, and cannot be moved back ({why}): move it to `{}` before you start a server",
                from.display(),
                to.display()
            )),
        }
        steps.extend(fit::other_authority(aside, data));
    }
    let earlier = set_aside_earlier(data, aside.as_deref(), manifest.unix_seconds);
    Ok(Restored { manifest, config, aside, earlier, kept, steps })
}

/// The data directories that earlier restores moved aside from this place after the backup was made, the oldest first. A restored store has an empty
/// change log. So only these directories contain the changes between the backup and the earlier restores.
fn set_aside_earlier(data: &Path, newest: Option<&Path>, backup_made: i64) -> Vec<PathBuf> {
    let (Some(above), Some(name)) = (data.parent(), data.file_name()) else { return Vec::new() };
    let begin = format!("{}.set-aside-", name.to_string_lossy());
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    let mut found: Vec<(i64, PathBuf)> = entries
        .filter_map(|entry| {
            let second: i64 = entry.file_name().to_str()?.strip_prefix(&begin)?.parse().ok()?;
            Some((second, entry.path()))
        })
        .filter(|(second, path)| backup_made <= *second && Some(path.as_path()) != newest && is_house(path))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The new place of the directory of datastores that was in the old data directory.
enum Content {
    /// The old data directory contained no such directory.
    None,
    /// The directory is in the new data directory.
    Kept,
    /// The directory stays in the old data directory, because the backup is from another server.
    OfAnother,
}

/// Moves the directory of datastores from the old data directory into the new data directory, because a backup has no content of datastores.
fn keep_content(from: &Path, to: &Path, is_same_server: bool) -> std::io::Result<Content> {
    if std::fs::symlink_metadata(from).is_err() {
        return Ok(Content::None);
    }
    if !is_same_server {
        return Ok(Content::OfAnother);
    }
    std::fs::rename(from, to)?;
    // If a sync fails, the content is at its new path nevertheless.
    let _ = sync_directory(to).and_then(|()| sync_directory(from));
    Ok(Content::Kept)
}

/// The user and the group of an existing data directory, if root runs the restore. The new directory gets the same owner.
fn owner(data: &Path) -> anyhow::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() || !data.exists() {
        return Ok(None);
    }
    let meta = std::fs::metadata(data)?;
    Ok(Some((meta.uid(), meta.gid())))
}

/// Refuses a mount point. The data directory is replaced by a rename, and a mount point cannot be renamed.
fn refuse_mount(data: &Path) -> anyhow::Result<()> {
    let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev());
    let above =
        data.parent().context("the data directory has no parent directory: give another path with --data")?;
    if data.exists() && device(data)? != device(above)? {
        ensure!(
            !is_house(data),
            "`{}` is a mount point, which cannot be replaced in one step: restore into a directory outside of it, then move the files",
            data.display()
        );
        bail!(
            "`{}` is a mount point, which cannot be replaced in one step: restore into a directory in it, such as \
             --data '{}'",
            data.display(),
            data.join("enfilade").display()
        );
    }
    Ok(())
}

fn restore_facts(new: &Path, config: &Config, command: &Restore) -> anyhow::Result<()> {
    let file = new.join(FACTS);
    let opened = File::open(&file).context("the backup does not contain the store's records (the facts)")?;
    let copy = copy::read_backup(BufReader::with_capacity(1 << 20, opened))?;
    let audit = audit(format!("restored {} (revision {})", command.backup.display(), copy.origin.revision));
    let lmdb = Lmdb::open_for(&new.join("facts"), config.facts.terms())?;
    let mut progress = Progress::start("restoring the facts");
    lmdb.restore(copy, &audit, false, &mut |done, all| progress.show(done, all))?;
    drop(progress);
    Ok(std::fs::remove_file(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_were_set_aside_after_the_backup_are_found() {
        let scratch = enfilade_testkit::Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        for name in
            ["data", "data.set-aside-9", "data.set-aside-100", "data.set-aside-20", "other.set-aside-30"]
        {
            std::fs::create_dir_all(path(name).join("facts")).unwrap();
        }
        for name in ["data.set-aside-40", "data.set-aside-x"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let (newest, earlier) = (path("data.set-aside-100"), path("data.set-aside-20"));
        let found = |newest: Option<&Path>| set_aside_earlier(&path("data"), newest, 10);
        assert_eq!(found(Some(&newest)), std::slice::from_ref(&earlier));
        assert_eq!(found(None), [earlier, newest]);
    }
}
