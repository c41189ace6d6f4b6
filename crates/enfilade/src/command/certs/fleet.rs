//! Certificates that all members of a fleet serve.

use crate::home::Installation;
use crate::output;
use crate::shared_certificates::{CertificatesOfFleet, Held, directory};
use crate::upkeep::open;
use anyhow::{Context, bail};
use enfilade_facts::Source as _;
use enfilade_tls::Leaf;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// The certificates of the fleet of this machine.
///
/// # Errors
/// When this machine is not a member of a fleet.
pub(super) fn of(installation: &Installation) -> anyhow::Result<CertificatesOfFleet> {
    let lmdb = open(installation)?;
    if !lmdb.is_replica() {
        let mut text = "this machine is not a member of a fleet: omit --fleet to change the certificates of this machine. To begin a fleet, run \
                        `enfilade fleet init`"
            .to_owned();
        let left = directory(&installation.data);
        if left.is_dir() {
            text.push_str(&format!(
                "; to change the certificates of an earlier fleet, use --directory {} instead of --fleet",
                output::word(&left.to_string_lossy())
            ));
        }
        bail!(text);
    }
    Ok(CertificatesOfFleet::new(&installation.data, &installation.config, lmdb.at().store))
}

/// Whether this machine has a certificate of the fleet with this file name.
pub(super) fn has(installation: &Installation, name: &str) -> bool {
    installation.config.fleet.etcd.is_some() && directory(&installation.data).join(name).exists()
}

/// Adds or replaces a certificate of the fleet. `judge` gets the path of the present file with this name, and returns the leaf in the file, or an
/// error if that certificate must not be replaced. This function returns the replaced leaf.
pub(super) fn add(
    fleet: &CertificatesOfFleet,
    name: &str,
    pem: &[u8],
    judge: impl FnOnce(&Path) -> anyhow::Result<Option<Leaf>>,
) -> anyhow::Result<Option<Leaf>> {
    fleet.call(async |log| {
        let mut held = Held::default();
        fleet.get(log, &mut held).await?;
        // If this machine does not have the present certificate, it does not know the names of that certificate. An operator can replace the
        // certificate nevertheless.
        let replaced = match held.faults.contains_key(name) {
            true => None,
            false => judge(&fleet.path(name))?,
        };
        fleet.change(log, (name, Some(pem)), None).await?;
        taken_over(fleet.get(log, &mut held).await)?;
        Ok(replaced)
    })
}

pub(super) fn remove(installation: &Installation, name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let fleet = of(installation)?;
    fleet.call(async |log| {
        fleet.change(log, (name, None), None).await?;
        taken_over(fleet.get(log, &mut Held::default()).await)
    })?;
    let text = format!(
        "`{name}` removed from all members of the fleet; running servers stop using it within a few seconds"
    );
    output::done(json, &json!({ "removed": name, "shared": true }), &text);
    Ok(ExitCode::SUCCESS)
}

fn taken_over(got: anyhow::Result<()>) -> anyhow::Result<()> {
    got.context("the certificate of the fleet was changed, so do not run this command again. This machine does not have the change yet; its server tries again to get the change")
}
