//! The steps with which a machine joins a fleet. A member writes an invitation, which is a file with a copy of its store and keys. The new machine
//! uses the invitation once.

use super::{log_of, member};
use crate::backup::key_files;
use crate::config::ProofMillis;
use crate::fleet_log::{log, name, wait_for};
use crate::home::{Installation, check_new, data_directory, is_house, make_directory};
use crate::reserved::refuse_backup_place;
use crate::{clock, config, output};
use anyhow::{Context, ensure};
use enfilade_facts::{Source, StoreId};
use enfilade_fleet::Writer;
use enfilade_sources::backup::{Backup, Content, FORMAT, Item, Manifest, unpack_into, write_archive};
use enfilade_sources::files::atomic;
use enfilade_sources::lmdb::Lmdb;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file in an invitation that contains the name of the new member and the id of the invitation.
const INVITATION: &str = "invitation.json";
/// The directory in the new data directory into which an invitation is unpacked.
const UNPACKED: &str = ".joining";

#[derive(Deserialize, Serialize)]
struct Invitation {
    /// The name of the new member.
    name: String,
    /// The id of the invitation in etcd.
    id: String,
    store: String,
    etcd: Vec<String>,
    prefix: String,
    /// `fleet.proof_millis` of the fleet. Absent in invitations that an older version of this program wrote.
    #[serde(default)]
    proof_millis: ProofMillis,
}

pub(super) fn invite(installation: &Installation, new: &str, file: &Path, json: bool) -> anyhow::Result<()> {
    let fleet = &installation.config.fleet;
    ensure!(
        new != name(&installation.config)?,
        "`{new}` is the name of this machine: give the name of the new member"
    );
    ensure!(!file.exists(), "`{}` exists already: give the name of a new file", file.display());
    let lmdb = Arc::new(member(installation)?);
    refuse_backup_place(&installation.data, &*lmdb, file)?;
    let log = log_of(installation, &lmdb)?;
    // The newest changes are fetched first. Otherwise the new member could need entries that the log does not have any more.
    Writer::new(Arc::clone(&lmdb) as Arc<dyn Source>, log)?.catch_up()?;
    let mut copy = atomic::unnamed(&installation.data)?;
    lmdb.copy_to(&mut copy)?;
    let at = lmdb.at();
    let log = log_of(installation, &lmdb)?;
    let id = wait_for(async { log.invite(new).await })?;
    let invitation = Invitation {
        name: new.to_owned(),
        id,
        store: at.store.to_string(),
        etcd: fleet.etcd.iter().flat_map(|etcd| etcd.0.clone()).collect(),
        prefix: fleet.prefix.as_str().to_owned(),
        proof_millis: fleet.proof_millis,
    };
    let mut about = atomic::unnamed(&installation.data)?;
    about.write_all(&serde_json::to_vec(&invitation)?)?;
    let mut items = vec![
        Item::measure(Path::new(INVITATION), 0o600, Content::Spooled(about))?,
        Item::measure(Path::new("facts/data.mdb"), 0o600, Content::Spooled(copy))?,
    ];
    items.extend(key_files(installation)?);
    let manifest = Manifest {
        enfilade_backup: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        unix_seconds: clock::now().unix_seconds,
        data: installation.data.clone(),
        store: at.store.to_string(),
        revision: at.revision.0,
        records: 0,
        outside: BTreeMap::new(),
        files: items.iter().map(|item| item.entry.clone()).collect(),
    };
    let bytes = write_archive(file, &manifest, &mut items, None)?;
    let text = format!(
        "`{}` ({}) invites a machine to join as `{new}` once within 24 h. The file contains the facts and the keys of this fleet: copy it over \
         SSH, run \
         `enfilade fleet join {}` there, and delete both copies",
        file.display(),
        output::bytes(bytes),
        output::word(&file.file_name().unwrap_or_default().to_string_lossy()),
    );
    output::done(json, &json!({ "invitation": file, "member": new, "bytes": bytes }), &text);
    Ok(())
}

/// Makes the data directory of a new member.
pub(in crate::command) fn join(
    data: Option<PathBuf>,
    config_file: Option<&Path>,
    file: &Path,
    json: bool,
) -> anyhow::Result<()> {
    let data = data_directory(data)?;
    check_new(&data)?;
    ensure!(
        !is_house(&data),
        "`{}` has facts already: give a new data directory with --data",
        data.display()
    );
    let (manifest, about) = Backup::open(file, None)?.verify_and_take(INVITATION)?;
    let not_one = || {
        format!(
            "`{}` is not an invitation: make one with `enfilade fleet invite` on a member",
            file.display()
        )
    };
    let about: Invitation = serde_json::from_slice(&about.with_context(not_one)?).with_context(not_one)?;
    let store = StoreId(u128::from_str_radix(&about.store, 16).with_context(not_one)?);
    make_directory(&data, None)?;
    let data = std::fs::canonicalize(&data)?;
    write_config(&data, config_file, &about)?;
    let config = config::read(&data, config_file)?;
    let here = name(&config)?;
    ensure!(
        here == about.name,
        "the invitation is for `{}`, and `fleet.name` in enfilade.toml is `{here}`: set name = \"{}\", or make another invitation",
        about.name,
        about.name
    );
    let unpacked = data.join(UNPACKED);
    let _ = std::fs::remove_dir_all(&unpacked);
    unpack_into(Backup::open(file, None)?, &unpacked)?;
    let joined = enter(&data, &unpacked, &config, (store, &about.id), config.facts.terms());
    let _ = std::fs::remove_dir_all(&unpacked);
    joined?;
    let value = json!({ "member": here, "data": data, "store": manifest.store });
    let text = format!(
        "`{here}` is a member of the fleet, with all changes so far. Start the server, and delete `{}`",
        file.display()
    );
    output::done(json, &value, &text);
    Ok(())
}

/// Writes the section `[fleet]`, unless there is a configuration file already.
fn write_config(data: &Path, config_file: Option<&Path>, about: &Invitation) -> anyhow::Result<()> {
    let path = config::path(data, config_file);
    if path.exists() {
        return Ok(());
    }
    let mut fleet = toml::Table::from_iter([
        ("name".to_owned(), about.name.clone().into()),
        ("etcd".to_owned(), about.etcd.clone().into()),
        ("prefix".to_owned(), about.prefix.clone().into()),
    ]);
    if about.proof_millis != ProofMillis::default() {
        let millis = i64::try_from(u64::from(about.proof_millis))?;
        fleet.insert("proof_millis".to_owned(), millis.into());
    }
    let table = toml::Table::from_iter([("fleet".to_owned(), fleet.into())]);
    std::fs::write(&path, table.to_string())
        .with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Uses the invitation, and puts the copied store and keys into the data directory.
fn enter(
    data: &Path,
    unpacked: &Path,
    config: &config::Config,
    (store, invitation): (StoreId, &str),
    terms: enfilade_sources::lmdb::Terms,
) -> anyhow::Result<()> {
    let here = name(config)?;
    let keys = data.join("keys");
    ensure!(
        !keys.exists(),
        "this data directory already has keys in `{}`, where the keys of the fleet belong: move this directory away, then run the command again",
        keys.display()
    );
    let log = log(config, store)?;
    wait_for(async {
        log.head().await?;
        log.accept(invitation, here, clock::now().unix_seconds).await
    })?;
    let facts = unpacked.join("facts");
    make_directory(&facts, config.facts.group)?;
    if unpacked.join("keys").exists() {
        std::fs::rename(unpacked.join("keys"), &keys)?;
    }
    std::fs::rename(&facts, data.join("facts"))?;
    let lmdb = Lmdb::open_for(&data.join("facts"), terms)?;
    ensure!(
        lmdb.is_replica() && lmdb.at().store == store,
        "the store in the invitation is not the store of the fleet: make another invitation"
    );
    Writer::new(Arc::new(lmdb), crate::fleet_log::log(config, store)?)?.catch_up()?;
    Ok(())
}
