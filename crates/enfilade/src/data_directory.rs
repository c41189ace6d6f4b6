//! Checks whether a directory is a data directory, and whether a data directory may be created at a path.

use crate::config::{self, Config};
use crate::owner;
use crate::reserved::{Roots, data_alone, refuse_exposed};
use anyhow::{Context, bail};
use enfilade_admin::real_path;
use enfilade_facts::tables::FileName;
use enfilade_sources::files::directory;
use enfilade_sources::files::file_set::FileSet;
use std::path::{Path, PathBuf};

/// The data directory from the command line, or otherwise from `ENFILADE_DATA`. The default is `/var/lib/enfilade` for root, and `enfilade` in the
/// XDG data home for other users.
pub(crate) fn data_directory(said: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let environment = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(data) = said.or_else(|| environment("ENFILADE_DATA")) {
        return Ok(data);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/enfilade"));
    }
    let share =
        environment("XDG_DATA_HOME").or_else(|| environment("HOME").map(|home| home.join(".local/share")));
    let share = share.context(
        "no data directory is given: give one with --data, or set ENFILADE_DATA, XDG_DATA_HOME or HOME",
    )?;
    Ok(share.join("enfilade"))
}

/// Whether this directory contains a store of facts, and so is a data directory.
pub(crate) fn is_house(data: &Path) -> bool {
    // A restore that was killed may have left only `facts.new`.
    ["facts", "facts.new"].iter().any(|name| data.join(name).exists())
}

/// The configuration of a data directory. The directory need not exist, and nothing is created.
pub(crate) fn config_of(data: Option<PathBuf>, config: Option<&Path>) -> anyhow::Result<Config> {
    let data = data_directory(data)?;
    refuse_unusable(&data)?;
    config::read(&data, config)
}

pub(crate) fn refuse_unusable(data: &Path) -> anyhow::Result<()> {
    if data.is_file() {
        bail!("`{}` is a file, not a directory: give the data directory with --data", data.display());
    }
    owner::check(data)
}

/// Refuses a path at which no data directory may be created. This function creates nothing.
pub(crate) fn check_new(data: &Path) -> anyhow::Result<()> {
    refuse_unusable(data)?;
    refuse_foreign(data)?;
    refuse_served(data, &[]).context("nothing was created")
}

/// Names of files and directories that an operator may put into a new data directory. If one of them exists, [`refuse_foreign`] accepts the
/// directory.
const PREPARED: [&str; 12] = [
    "enfilade.toml",
    "keys",
    "tls",
    "ca",
    "datastores",
    "user.cfg",
    "datastore.cfg",
    "acl.cfg",
    "token.shadow",
    "shadow.json",
    "domains.cfg",
    "tfa.json",
];

/// Names of files that servers and commands write only if there is a store of facts. If one of these files exists without a store, the store was
/// lost.
const OF_A_STORE: [&str; 7] =
    ["sessions", "last-used", "attempts", "tls-index", "backups.json", "initial-password", config::RECORD];

/// Refuses the data directory of an earlier server if the store of facts is missing. A new store would not contain the users, roles and revocations
/// of that server.
pub(crate) fn refuse_lost_store(data: &Path) -> anyhow::Result<()> {
    let rest = OF_A_STORE.iter().find(|name| !is_house(data) && data.join(name).exists());
    match rest {
        Some(rest) => bail!(
            "`{place}` is the data directory of an earlier server (it has `{rest}`), but the store of facts, `{place}/facts`, is missing. Nothing was \
             created. Put the store back, or restore a backup with `enfilade --data '{place}' facts restore FILE`. To begin without the old \
             users, roles and revocations, move `{place}` away",
            place = data.display()
        ),
        None => Ok(()),
    }
}

/// Refuses a directory that contains files, but no file of a data directory, because the path may be mistyped.
pub(crate) fn refuse_foreign(data: &Path) -> anyhow::Result<()> {
    let is_ours = |name: &&str| data.join(name).exists();
    if ["facts", "facts.new"].iter().chain(&PREPARED).any(is_ours) {
        return Ok(());
    }
    // A new file system contains `lost+found`. A directory that cannot be listed is refused later.
    let is_other =
        |name: &std::ffi::OsString| name != "lost+found" && !name.as_encoded_bytes().starts_with(b".");
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
    match entries.map(|entry| entry.file_name()).find(is_other) {
        Some(other) => bail!(
            "`{}` is not a data directory of enfilade, and contains other files, such as `{}`; nothing was created; give the right directory, or \
             an empty directory, with --data or ENFILADE_DATA",
            data.display(),
            other.to_string_lossy()
        ),
        None => Ok(()),
    }
}

/// Refuses a data directory in a datastore of another server of this machine, because the users of that server could read the keys. This function
/// checks the servers of the data directories `others`, of the default data directory, and of each data directory above this data directory.
pub(crate) fn refuse_served(data: &Path, others: &[&Path]) -> anyhow::Result<()> {
    let data = real_path(&std::path::absolute(data)?);
    let default = data_directory(None).ok().map(|default| real_path(&default));
    let houses = data.ancestors().skip(1).chain(default.as_deref().filter(|default| *default != data));
    for house in houses.chain(others.iter().copied()).filter(|house| is_house(house)) {
        let config = config::read(house, None).with_context(|| {
            format!(
                "the configuration of the server with the data directory `{}` cannot be read, so it is not known whether a datastore of that server contains `{}`",
                house.display(),
                data.display()
            )
        })?;
        refuse_exposed(data_alone(&data), house, roots_of(house, &config))?;
    }
    Ok(())
}

/// The datastores that `datastore.cfg` of a data directory defines. The result is empty if this user cannot read the file.
pub(crate) fn roots_of(data: &Path, config: &Config) -> Roots {
    let text = file_set(data, config).read(FileName::Datastores).ok().flatten();
    enfilade_admin::roots_in_file(&text.unwrap_or_default())
}

/// The files that people edit, in the configured directory.
pub(crate) fn file_set(data: &Path, config: &Config) -> FileSet {
    let set = FileSet::new(config.facts.files.as_deref().unwrap_or(data)).shared_by(config.facts.group);
    set.with_stale_limit(config.facts.stale_limit)
}

/// Creates a directory that only its owner, and the members of a given group, can open.
pub(crate) fn make_directory(path: &Path, group: Option<u32>) -> anyhow::Result<()> {
    let made = directory::make_for(path, group);
    made.with_context(|| format!("directory `{}` cannot be made", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{IfMissing, Installation};

    #[test]
    fn a_new_store_is_not_made_in_the_place_of_a_lost_one() {
        let scratch = enfilade_testkit::Scratch::new();
        let data = scratch.path();
        std::fs::create_dir(data.join("keys")).unwrap();
        refuse_lost_store(data).unwrap();
        std::fs::write(data.join("sessions"), "").unwrap();
        let why = Installation::find(Some(data.to_owned()), None, IfMissing::Create).err().unwrap();
        assert!(why.to_string().contains("facts restore"), "{why}");
        Installation::find(Some(data.to_owned()), None, IfMissing::Refill).unwrap();
        std::fs::create_dir(data.join("facts")).unwrap();
        refuse_lost_store(data).unwrap();
    }
}
