//! The log of the fleet in etcd, with the settings in the section `[fleet]` of `enfilade.toml`.

use crate::config::Config;
use anyhow::{Context, bail};
use enfilade_facts::StoreId;
use enfilade_fleet::{Etcd, Log, LogError, Tls};
use std::path::Path;
use std::time::Duration;

/// The name of this machine in its fleet.
///
/// # Errors
/// When the name is not configured.
pub(crate) fn name(config: &Config) -> anyhow::Result<&str> {
    let name = config.fleet.name.as_ref().context(
        "enfilade.toml does not set `fleet.name`, the name of this machine in its fleet: set it, such as name = \"a\"",
    )?;
    Ok(name.as_str())
}

/// The log of a store. The first call through a [`Log`] makes its connection, which belongs to the async runtime of that call. So each runtime needs
/// a separate `Log`.
///
/// # Errors
/// When `[fleet]` is not complete, or a certificate cannot be read.
pub(crate) fn log(config: &Config, store: StoreId) -> anyhow::Result<Log> {
    let fleet = &config.fleet;
    let etcd = fleet.etcd.as_ref().context(
        "enfilade.toml does not set `fleet.etcd` (the URLs of etcd). Set it, for example etcd = [\"https://etcd1:2379\"]",
    )?;
    let tls = match (&fleet.ca, &fleet.certificate, &fleet.key) {
        (Some(ca), Some(certificate), Some(key)) => {
            Some(Tls { ca: read(ca)?, certificate: read(certificate)?, key: read(key)? })
        }
        (None, None, None) if etcd.0.iter().all(|url| url.starts_with("http://")) => None,
        _ => bail!(
            "TLS to etcd needs three keys in the section [fleet] of enfilade.toml: `ca`, `certificate` and `key`; set all of them"
        ),
    };
    let log = Log::new(Etcd::at(&etcd.0, tls.as_ref())?, fleet.prefix.as_str(), store);
    Ok(log.of_member(name(config)?).with_delta(Duration::from_millis(fleet.proof_millis.0)))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("`{}` (section [fleet]) cannot be read", path.display()))
}

/// Runs calls to etcd.
///
/// # Errors
/// The error of the calls.
pub(crate) fn wait_for<R>(work: impl Future<Output = Result<R, LogError>>) -> anyhow::Result<R> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(work)?)
}
