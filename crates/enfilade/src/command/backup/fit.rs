//! Checks that the parts of a restored backup (facts, keys, configuration) match each other and this machine.

use crate::backup::{followed, missing};
use crate::config::Config;
use crate::reserved::{data_alone, refuse_exposed};
use crate::{clock, home, owner, token_key};
use anyhow::{Context, bail};
use enfilade_admin::{CertificateFiles, CertificatePlace, CertificateTerms, TokenKey};
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_sources::backup::Manifest;
use enfilade_sources::files::fernet_keys::FernetKeys;
use enfilade_sources::lmdb::Lmdb;
use enfilade_tls::{Digest, Tickets};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

/// Checks the new directory, which will become `data`. Returns the steps that the operator must still take. Returns an error if a datastore shares
/// files with `data`, if the store cannot be opened, or if the key of the API tokens is missing or wrong.
pub(super) fn check(
    data: &Path,
    new: &Path,
    config: &Config,
    manifest: &Manifest,
) -> anyhow::Result<Vec<String>> {
    let lmdb = Lmdb::open_for(&new.join("facts"), config.facts.terms())?;
    refuse_exposed(data_alone(data), &manifest.data, enfilade_admin::roots(&lmdb)?)?;
    token_key(new, &lmdb)?;
    let mut steps = incomplete(data, config, &lmdb, manifest)?;
    for (part, path) in &manifest.outside {
        steps.push(moved(data, part, path));
    }
    steps.extend(fernet(new));
    steps.extend(certificates(new, config));
    steps.extend(datastores(data, &lmdb, manifest)?);
    steps.extend(config.backup.directory.clone().map(|directory| {
        let directory = PathBuf::from(directory);
        format!(
            "the server writes scheduled backups to `{}` (`[backup] directory`): if the original server continues to run, set another directory in \
             `{}`. The server deletes only backups that it makes after this restore: delete older backups yourself",
            directory.display(),
            data.join("enfilade.toml").display()
        )
    }));
    for entry in &manifest.files {
        let name = entry.path.strip_prefix("acls/").and_then(|file| file.strip_suffix(".jsonl"));
        steps.extend(name.map(|name| {
            let file = data.join(&entry.path);
            format!(
                "when the content of datastore `{name}` is restored, restore its ACLs: enfilade --data '{}' acl restore {name} < '{}'",
                data.display(),
                file.display()
            )
        }));
    }
    Ok(steps)
}

/// The steps that the operator must take for edited files that are not in the backup, although the facts have records from these files.
fn incomplete(data: &Path, config: &Config, lmdb: &Lmdb, manifest: &Manifest) -> anyhow::Result<Vec<String>> {
    let files = home::file_set(data, config);
    let step = |file| {
        format!(
            "the backup is not complete: it has no `{file}`, although its facts have records from this file. Copy the file from another backup or \
             from the old data directory to `{}` before you start a server. Without the file, requests that need these records are refused after \
             `[facts] stale_limit`. Do not create an empty file: an empty file deletes the records",
            files.path(file).display()
        )
    };
    Ok(missing(followed(lmdb)?, manifest.files.iter()).into_iter().map(step).collect())
}

/// Checks that the key in the backup made the hashes of the API tokens. A server refuses to start with any other key.
fn token_key(new: &Path, lmdb: &Lmdb) -> anyhow::Result<()> {
    // The group is `None`: the restored files have no group yet, and only their owner can read them.
    let (judged, key) = token_key::judge(new, None, lmdb).context("the key of API tokens in the backup")?;
    let TokenKey::Lost { tokens, .. } = judged else { return Ok(()) };
    let is = if key.is_none() {
        "is missing in the backup"
    } else {
        "in the backup is not the key of the API tokens"
    };
    bail!(
        "`keys/token-hash.key` {is}: the hashes of {tokens} API tokens need the key that made them; use another backup"
    )
}

/// The step that the operator must take for a part of the installation that was not at its usual place in the data directory. A restore writes every
/// part to its usual place.
fn moved(data: &Path, part: &str, path: &Path) -> String {
    let (data, path) = (data.display(), path.display());
    match part {
        "enfilade.toml" => format!(
            "the configuration file was `{path}`, and is now `{data}/enfilade.toml`: start without --config, or copy the file to `{path}`"
        ),
        "the edited files" => format!(
            "`[facts] files` is `{path}`, but the restored files are in `{data}`: copy {data}/*.cfg, {data}/token.shadow and, if they are there, {data}/shadow.json and {data}/tfa.json to `{path}`, or remove `[facts] files`"
        ),
        part => format!(
            "the configuration contains the path `{path}`, but the restored files are in `{data}/{part}`: copy the files to `{path}`, or change the \
             path in `{data}/enfilade.toml`"
        ),
    }
}

fn fernet(new: &Path) -> Option<String> {
    match FernetKeys::new(new.join("keys/fernet")).read() {
        Ok(found) if found.primary().is_some() => None,
        Ok(_) => {
            Some("there are no Fernet keys, so nobody can get a session: copy `keys/` from another backup. Run `enfilade keys init` only if the keys are lost".into())
        }
        Err(why) => Some(format!(
            "the Fernet keys cannot be read ({why}), so nobody can get a session: make `keys/` readable, or copy it from another backup. Run `enfilade keys \
             init` only if the keys are lost"
        )),
    }
}

/// The steps that the operator must take for certificates that cannot be served. The checks are the same as in `enfilade certs check`, but they do
/// not use the directory of issuers.
fn certificates(new: &Path, config: &Config) -> Vec<String> {
    let directory = new.join("tls");
    if config.tls.crt_list.is_some() {
        return vec![
            "when the files of `[tls] crt_list` are in place, check the certificates: run `enfilade certs check`".into(),
        ];
    }
    if !directory.exists() {
        return vec![
            "the backup has no certificates: the next start of the server makes a certificate for localhost and the names in `[tls] names`"
                .into(),
        ];
    }
    let look = || {
        let terms = CertificateTerms::new(Tickets::default(), None)?;
        let seed = home::seed().map_err(|why| why.to_string())?;
        let files = CertificateFiles::new(CertificatePlace::Directory(directory), Digest::new(&seed), terms);
        let looked = files.look(config.tls.rules(), None, clock::nanos()).map_err(|why| why.to_string())?;
        let verified = files.verify(&looked.certificates, 1, &AtomicUsize::new(0));
        Ok::<_, String>([looked.bad, verified.bad].concat())
    };
    match look() {
        Ok(bad) => bad
            .into_iter()
            .map(|bad| format!("certificate `{}` cannot be served: {}", bad.file, bad.why))
            .collect(),
        Err(why) => vec![format!("the certificates cannot be read: {why}")],
    }
}

/// The step that the operator must take for clients that trust the local CA of the old data directory. `None` if the restored data directory has the
/// same CA, or if the old data directory has no CA.
pub(super) fn other_authority(old: &Path, data: &Path) -> Option<String> {
    const CERTIFICATE: &str = "ca/ca.crt";
    let before = std::fs::read(old.join(CERTIFICATE)).ok()?;
    let is_same = std::fs::read(data.join(CERTIFICATE)).is_ok_and(|now| now == before);
    (!is_same).then(|| {
        let old = old.join(CERTIFICATE);
        let (now, step) = if data.join(CERTIFICATE).exists() {
            let show = format!("enfilade --data '{}' certs ca --show", data.display());
            ("another local CA", format!("Give these clients the new CA certificate (`{show}`), or copy"))
        } else {
            ("no local CA", "Copy".to_owned())
        };
        format!(
            "the old data directory had a local CA, and the backup has {now}: clients that trust only the old CA refuse certificates that \
             another CA issued. {step} `{}` and its key into the directory `ca` of the new data directory",
            old.display()
        )
    })
}

/// The steps that the operator must take for some datastores: the directory of the datastore is not on this machine, cannot be opened, or is in the
/// old data directory.
fn datastores(data: &Path, lmdb: &Lmdb, manifest: &Manifest) -> anyhow::Result<Vec<String>> {
    let file = data.join(FileName::Datastores.as_str());
    let file = file.display();
    let step = |(name, root): (DatastoreName, String)| {
        let is_of_old = Path::new(&root).starts_with(&manifest.data) && data != manifest.data;
        if let Some(barrier) = owner::barrier(Path::new(&root)) {
            return Some(format!(
                "datastore `{name}`: the user who runs this command cannot open `{root}`: {barrier}. Make sure that the Linux user that runs the \
                 server can read and write the directory, or change the path of the datastore in `{file}`",
            ));
        }
        match (Path::new(&root).is_dir(), is_of_old) {
            (true, false) => None,
            (true, true) => Some(format!(
                "datastore `{name}` still uses `{root}` in the old data directory: if the original server continues to run, copy the content with \
                 its ACLs (`rsync -aX '{root}/' NEW/`, as root), and change the path of the datastore in `{file}`",
            )),
            (false, _) => Some(format!(
                "datastore `{name}`: `{root}` is not on this machine. Copy the content of the datastore there with the ACLs, which are extended \
                 attributes (`rsync -aX FROM/ '{root}/'`, as root), or change the path of the datastore in `{file}`",
            )),
        }
    };
    Ok(enfilade_admin::roots(lmdb)?.into_iter().filter_map(step).collect())
}
