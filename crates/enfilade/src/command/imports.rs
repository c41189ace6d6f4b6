//! `enfilade import`.

mod cloud;
mod dump;
mod keystone;
mod proxmox;
mod report;

use crate::cli::Import;
use crate::home::Home;
use enfilade_admin::ProxmoxTerms;

pub(super) fn run(home: &Home, command: Import, json: bool) -> anyhow::Result<()> {
    let report = match command {
        Import::Proxmox { directory, pretend, without_second_factor } => {
            proxmox::run(home, &directory, ProxmoxTerms { pretend, without_second_factor })?
        }
        Import::Keystone { os_cloud, passwords, pretend } => {
            keystone::run(home, &os_cloud, passwords.as_deref(), pretend)?
        }
    };
    report.tell(json);
    Ok(())
}
