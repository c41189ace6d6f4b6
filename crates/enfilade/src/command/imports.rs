//! `enfilade import`.

mod cloud;
mod dump;
mod keystone;
mod proxmox;
mod report;

use crate::cli::Import;
use crate::config;
use crate::home::{Home, IfMissing, Installation, data_directory, is_house, seed};
use anyhow::Context as _;
use enfilade_admin::ProxmoxTerms;
use enfilade_facts::MemoSeed;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(home: &Home, command: Import, json: bool) -> anyhow::Result<()> {
    let report = match command {
        Import::Proxmox { directory, pretend, without_second_factor } => {
            proxmox::run(home, &directory, ProxmoxTerms { pretend, without_second_factor })?
        }
        Import::Keystone { os_cloud, passwords, leave_out_taken, pretend } => {
            let terms = keystone::Terms { passwords: passwords.as_deref(), leave_out_taken, pretend };
            keystone::run(home, &os_cloud, &terms)?
        }
    };
    report.tell(json);
    Ok(())
}

/// Whether the command only simulates an import, and no data directory exists.
pub(super) fn has_no_house(command: &Import, data: Option<&Path>) -> anyhow::Result<bool> {
    Ok(command.is_pretended() && !is_house(&data_directory(data.map(Path::to_path_buf))?))
}

/// Shows what an import would do, if there is no data directory. The facts go to a temporary directory, which is removed at the end.
pub(super) fn pretend(
    command: Import,
    data: Option<PathBuf>,
    config_file: Option<&Path>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(data_directory(data)?)?;
    let place = Temporary::make()?;
    let mut installation = Installation::find(Some(place.0.clone()), config_file, IfMissing::Create)?;
    installation.config = config::read(&data, config_file)?;
    if data.is_dir() {
        // The data directory may contain the files that people edit before it has facts.
        installation.config.facts.files.get_or_insert_with(|| data.clone());
    }
    let mut home = Home::open(installation)?;
    // A real import would create the directory `data`, so the commands in the report contain its path.
    home.data = data;
    run(&home, command, json)?;
    Ok(ExitCode::SUCCESS)
}

/// A temporary directory, which is removed when this value is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn make() -> anyhow::Result<Self> {
        let MemoSeed(random) = seed()?;
        let name = format!("enfilade-pretend-{:032x}", u128::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("directory `{}` cannot be made", path.display()))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
