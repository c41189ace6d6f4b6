//! `enfilade backup`.

mod fit;
mod restore;
mod restored;

use super::facts::refuse_existing;
use crate::backup::{Made, Target, make};
use crate::cli::Backup;
use crate::fleet::Use;
use crate::home::{Home, Installation};
use crate::progress::Progress;
use crate::reserved::refuse_backup_place;
use crate::upkeep::open;
use crate::{output, prompt};
use anyhow::{Context, bail, ensure};
use enfilade_facts::vocabulary::{Secret, StorePath};
use enfilade_sources::backup::age::Lock;
use enfilade_sources::backup::{Content, Item};
use enfilade_sources::files::atomic;
use enfilade_sources::lmdb::Lmdb;
pub(super) use restore::restore;
use serde_json::json;
use std::io::{BufWriter, Write as _};
use std::path::Path;

pub(super) fn run(installation: &Installation, command: &Backup, json: bool) -> anyhow::Result<()> {
    let target = target(command)?;
    // To read the ACLs of files, the command needs the datastores. So it opens a `Home`. Without `--acls`, the command opens only the store (LMDB).
    let made = match command.acls {
        true => {
            let home = Home::open(installation.clone(), Use::Command)?;
            refuse_backup_place(&home.data, home.source(), &command.target)?;
            make_shown(installation, &home.store, &target, &|| acls(&home))?
        }
        false => {
            let lmdb = open(installation)?;
            refuse_backup_place(&installation.data, &lmdb, &command.target)?;
            make_shown(installation, &lmdb, &target, &|| Ok(Vec::new()))?
        }
    };
    tell(command, &made, json);
    Ok(())
}

fn make_shown(
    installation: &Installation,
    lmdb: &Lmdb,
    target: &Target<'_>,
    more: &dyn Fn() -> anyhow::Result<Vec<Item>>,
) -> anyhow::Result<Made> {
    let mut progress = Progress::start("reading the facts");
    make(installation, lmdb, target, more, &mut |done, all| progress.show(done, all))
}

fn tell(command: &Backup, made: &Made, json: bool) {
    let Made { manifest, bytes, left_out } = made;
    let target = command.target.display();
    let is_encrypted = command.passphrase || command.passphrase_stdin || !command.recipients.is_empty();
    let value = json!({
        "backup": command.target, "bytes": bytes, "files": manifest.files.len(), "records": manifest.records,
        "store": manifest.store, "revision": manifest.revision, "unix_seconds": manifest.unix_seconds, "encrypted": is_encrypted,
        "verified": true, "left_out": left_out,
    });
    let mut text = format!(
        "`{target}` is complete and verified: {} records as of revision {}, {} other files, {}",
        manifest.records,
        manifest.revision,
        manifest.files.len() - 1,
        output::bytes(*bytes)
    );
    if !is_encrypted {
        text.push_str("\nthe backup contains private keys and hashes of secrets, and is not encrypted: store the backup where only administrators can read it");
    }
    text.push_str(match command.acls {
        true => "\nnot in the backup: the content of datastores; copy it with `rsync -aX`, as root",
        false => {
            "\nnot in the backup: the content of datastores, and the ACLs of their files; copy both with `rsync -aX`, as root (--acls adds the ACLs to the backup)"
        }
    });
    text.extend(made.lacks().iter().map(|lacks| format!("\n{lacks}")));
    let key = match (is_encrypted, command.recipients.is_empty()) {
        (false, _) => "",
        (true, true) => " --passphrase",
        (true, false) => " --identity KEYFILE",
    };
    text.push_str(&format!("\nto check the backup again: enfilade restore '{target}' --check{key}"));
    output::done(json, &value, &text);
}

/// Endings of the names of compressed archives. A target with such a name is refused, because backups are not compressed.
const COMPRESSED: [&str; 9] = ["gz", "tgz", "zip", "bz2", "tbz2", "xz", "txz", "zst", "7z"];

/// The form of the backup (directory, file or encrypted file), according to the name of the target.
fn target(command: &Backup) -> anyhow::Result<Target<'_>> {
    let Backup { target, recipients, force, .. } = command;
    let ends_in = |end: &str| target.extension().is_some_and(|found| found == end);
    ensure!(
        !COMPRESSED.iter().any(|end| ends_in(end)),
        "`{}`: backups are not compressed; expected a name that ends in .tar for one file, a name that ends in .tar.age together with --recipient or \
         --passphrase for an encrypted file, or the name of a new directory",
        target.display()
    );
    let is_encrypted = command.passphrase || command.passphrase_stdin || !recipients.is_empty();
    ensure!(
        is_encrypted || !ends_in("age"),
        "`{}`: a name that ends in .age is only for an encrypted backup; give --recipient AGE-RECIPIENT or --passphrase, or give another name, such \
         as backup.tar",
        target.display()
    );
    ensure!(
        !is_encrypted || ends_in("age"),
        "`{}`: an encrypted backup needs a name that ends in .age, such as backup.tar.age",
        target.display()
    );
    let lock = match passphrase(command)? {
        Some(passphrase) => Some(Lock::Passphrase(passphrase)),
        None if recipients.is_empty() => None,
        None => Some(Lock::Recipients(recipients.clone())),
    };
    if lock.is_some() || ends_in("tar") {
        ensure!(!target.is_dir(), "`{}` is a directory: give the name of a file", target.display());
        ensure!(
            !target.exists() || target.is_file(),
            "`{}` is a device or a pipe: a backup is read again after it was written, so give the name of a file",
            target.display()
        );
        refuse_existing(target, *force)?;
        return Ok(Target::Archive(target, lock));
    }
    match std::fs::symlink_metadata(target) {
        Err(_) => Ok(Target::Directory(target)),
        Ok(_) => bail!(
            "`{}` already exists: give the name of a new directory, or a name that ends in .tar for one file",
            target.display()
        ),
    }
}

/// The minimum length of a new passphrase, in characters.
const PASSPHRASE_CHARACTERS_MIN: usize = 12;

/// Reads a passphrase for the new backup. On a terminal the user types the passphrase twice, because nobody could open a backup that was encrypted
/// with a mistyped passphrase.
fn passphrase(command: &Backup) -> anyhow::Result<Option<Secret>> {
    if !command.passphrase && !command.passphrase_stdin {
        return Ok(None);
    }
    let passphrase = match command.passphrase_stdin {
        true => prompt::from_stdin()?,
        false => prompt::hidden("passphrase of the backup: ")?,
    };
    let characters = String::from_utf8_lossy(passphrase.reveal()).chars().count();
    ensure!(
        characters >= PASSPHRASE_CHARACTERS_MIN,
        "the passphrase has {characters} characters, expected at least {PASSPHRASE_CHARACTERS_MIN}, because an attacker who has the file can try passphrases for years; nothing was written"
    );
    if command.passphrase {
        let again = prompt::hidden("the same passphrase again: ")?;
        ensure!(passphrase.reveal() == again.reveal(), "the two passphrases differ; nothing was written");
    }
    Ok(Some(passphrase))
}

/// The ACLs of the files of all datastores, in one file for each datastore.
fn acls(home: &Home) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for datastore in enfilade_admin::list_datastores(home.source())? {
        let name = datastore.name;
        let mut to = BufWriter::new(atomic::unnamed(&home.data)?);
        let mut failed = None;
        let all = StorePath::from_plain("/")?;
        let saved = enfilade_admin::save_acls(&home.change_context(), &name, &all, &mut |path, acl| {
            let written = acl
                .map_err(anyhow::Error::msg)
                .and_then(|sddl| Ok(writeln!(to, "{}", json!({ "path": path, "sddl": sddl }))?));
            failed = failed.take().or(written.err().map(|why| format!("{path}: {why}")));
        });
        saved.with_context(|| format!("the ACLs of datastore `{name}` cannot be read"))?;
        if let Some(why) = failed {
            bail!("the ACLs of datastore `{name}` cannot be saved: {why}");
        }
        let file = to.into_inner().map_err(|why| why.into_error())?;
        let path = format!("acls/{name}.jsonl");
        items.push(Item::measure(Path::new(&path), 0o600, Content::Spooled(file))?);
    }
    Ok(items)
}
