//! `enfilade import`.

mod cloud;
mod dump;
mod keystone;
mod proxmox;
mod report;
mod undo;

use self::report::Report;
use self::undo::Before;
pub(super) use self::undo::FIRST_REVISION;
use crate::cli::Import;
use crate::fleet::Use;
use crate::home::{self, Home, IfMissing, Installation, data_directory, is_house, seed};
use crate::{config, placed};
use anyhow::Context as _;
use enfilade_admin::{ProxmoxFiles, ProxmoxTerms};
use enfilade_facts::MemoSeed;
use enfilade_sources::files::file_set::FileSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Imports records, or only shows the effects of an import. If there is no data directory, the import is simulated in a temporary directory before
/// the real import. So an import that fails creates nothing.
pub(super) fn run(
    command: &Import,
    data: Option<PathBuf>,
    config_file: Option<&Path>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(data_directory(data)?)?;
    let (pretend, is_new) = (command.is_pretended(), !is_house(&data));
    if is_new {
        home::check_new(&data)?;
    }
    let records = Records::read(command, &data)?;
    let mut report = match is_new {
        true => Some(rehearse(&records, &data, config_file)?),
        false => None,
    };
    if is_new && !pretend {
        report = Some(import_new(&records, data, config_file)?);
    } else if !is_new {
        let home = Home::open(Installation::find(Some(data), config_file, IfMissing::Create)?, Use::Command)?;
        report = Some(records.import(&home, pretend)?);
    }
    report.iter().for_each(|report| report.tell(json));
    Ok(ExitCode::SUCCESS)
}

/// Imports into a new data directory. If nothing could be imported, for example because the disk is full, the created files are removed again.
fn import_new(records: &Records<'_>, data: PathBuf, config_file: Option<&Path>) -> anyhow::Result<Report> {
    let before = Before::look(&data);
    let opened = Installation::find(Some(data), config_file, IfMissing::Create)
        .and_then(|installation| Home::open(installation, Use::Command));
    let home = opened.inspect_err(|_| before.restore(FIRST_REVISION))?;
    let opened_at = home.source().at().revision;
    let imported = records.import(&home, false);
    // The store can be removed only when it is closed.
    drop(home);
    imported.inspect_err(|_| before.restore(opened_at))
}

/// The records of the source, and the options of their import.
enum Records<'c> {
    Proxmox(Box<ProxmoxFiles>, ProxmoxTerms),
    Keystone(&'c str, keystone::Terms<'c>, keystone::Asked),
}

impl<'c> Records<'c> {
    fn read(command: &'c Import, data: &Path) -> anyhow::Result<Self> {
        Ok(match command {
            Import::Proxmox { directory, without_second_factor, same_source, .. } => {
                let terms = ProxmoxTerms {
                    pretend: false,
                    without_second_factor: *without_second_factor,
                    same_source: *same_source,
                };
                let files = ProxmoxFiles::read(&FileSet::new(directory), terms)?
                    .after(placed::imported_before(data)?);
                Records::Proxmox(Box::new(files), terms)
            }
            Import::Keystone { os_cloud, passwords, leave_out_taken, restore_deleted, .. } => {
                let terms = keystone::Terms {
                    passwords: passwords.as_deref(),
                    leave_out_taken: *leave_out_taken,
                    restore_deleted: *restore_deleted,
                };
                let asked = keystone::read(os_cloud, &terms)?;
                Records::Keystone(os_cloud, terms, asked)
            }
        })
    }

    fn import(&self, home: &Home, pretend: bool) -> anyhow::Result<Report> {
        match self {
            Records::Proxmox(files, terms) => proxmox::run(home, files, ProxmoxTerms { pretend, ..*terms }),
            Records::Keystone(name, terms, asked) => keystone::run(home, name, terms, asked, pretend),
        }
    }
}

/// Shows the effects of an import if there is no data directory. The facts are written to a temporary directory, which is removed at the end.
fn rehearse(records: &Records<'_>, data: &Path, config_file: Option<&Path>) -> anyhow::Result<Report> {
    let config = config::read(data, config_file)?;
    let place = Temporary::make()?;
    let mut installation = Installation::find(Some(place.0.clone()), config_file, IfMissing::Create)?;
    installation.config = config;
    if data.is_dir() {
        // The data directory may contain the files that people edit, although it does not contain facts yet. The rehearsal reads these files.
        installation.config.facts.files.get_or_insert_with(|| data.to_path_buf());
    }
    let mut home = Home::open(installation, Use::Command)?;
    // A real import would create the directory `data`, so the commands in the report contain its path.
    home.data = data.to_path_buf();
    records.import(&home, true)
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
