//! The certificates that all members of a fleet serve. etcd stores them, encrypted for the members. Each member stores them in a directory of its
//! data directory. Door 1 reads this directory as a part of the directory of certificates.

use crate::config::Config;
use crate::fleet_log::log;
use crate::{clock, self_made, token_key};
use anyhow::{Context, bail, ensure};
use enfilade_facts::StoreId;
use enfilade_fleet::{
    CertificateSet, Log, Order, SHARED_CERTIFICATE_BYTES_MAX, SHARED_NAME_BYTES_MAX, SetId,
};
use enfilade_identity::HashKey;
use enfilade_identity::fernet::sealed_keys::open_keys;
use enfilade_identity::sealed_certificate::{SecretBytes, open_certificate, seal_certificate};
use enfilade_sources::files::certificates::is_certificate;
use enfilade_sources::files::key;
use enfilade_tls::{Bundle, Issuers, Parts};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The maximum number of attempts to make a change, if other members change certificates at the same time.
const TRIES: u32 = 5;
/// The file with the id of the set of certificates that is in the directory. Hidden files do not count as certificates.
const NEWEST: &str = ".newest";

/// The directory of the certificates of the fleet.
pub(crate) fn directory(data: &Path) -> PathBuf {
    data.join("tls-shared")
}

/// The certificates of a fleet, and their directory on this machine.
#[derive(Clone)]
pub(crate) struct CertificatesOfFleet {
    data: PathBuf,
    config: Config,
    store: StoreId,
}

/// The content of the directory, as far as this process knows it.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) id: Option<SetId>,
    /// The files that were written, and their versions.
    pub(crate) versions: BTreeMap<String, SetId>,
    /// The certificates of the fleet that cannot be used on this machine, by name, with the reasons.
    pub(crate) faults: BTreeMap<String, String>,
}

impl CertificatesOfFleet {
    pub(crate) fn new(data: &Path, config: &Config, store: StoreId) -> Self {
        CertificatesOfFleet { data: data.to_owned(), config: config.clone(), store }
    }

    /// The log of the fleet in etcd. The first call to etcd through the returned [`Log`] makes a connection. The connection belongs to the async
    /// runtime of that call.
    pub(crate) fn log(&self) -> anyhow::Result<Log> {
        log(&self.config, self.store)
    }

    /// Runs calls to etcd for a command.
    pub(crate) fn call<R>(&self, work: impl AsyncFnOnce(&Log) -> anyhow::Result<R>) -> anyhow::Result<R> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let log = self.log()?;
        runtime.block_on(work(&log))
    }

    /// Updates the directory to the newest set of certificates. A certificate that cannot be used is recorded, and its earlier file stays.
    ///
    /// # Errors
    /// When etcd does not answer or contains an older set, or the directory cannot be changed.
    pub(crate) async fn get(&self, log: &Log, held: &mut Held) -> anyhow::Result<()> {
        let set = log.certificate_set().await?;
        // If etcd lost its data, the certificates on this machine stay.
        let Some(id) = set.id else { return Ok(()) };
        self.refuse_older(&set)?;
        let mut faults = BTreeMap::new();
        for (name, version) in &set.certificates {
            if held.versions.get(name) == Some(version) && self.path(name).exists() {
                continue;
            }
            let Some(sealed) = log.shared_certificate(name).await? else { return Ok(()) };
            match self.opened(name, *version, &sealed) {
                Ok(pem) => {
                    self.write(name, pem).await?;
                    held.versions.insert(name.clone(), *version);
                }
                // The certificate was probably replaced after the set was read.
                Err(_) if log.certificate_news().await?.0 != Some(id) => return Ok(()),
                Err(why) => {
                    faults.insert(name.clone(), format!("{why:#}"));
                }
            }
        }
        self.keep_only(&set).await?;
        held.versions.retain(|name, _| set.certificates.contains_key(name));
        (held.id, held.faults) = (Some(id), faults);
        Ok(())
    }

    /// Adds, replaces or removes (`None`) a certificate of the fleet. If this member ordered the certificate from an ACME authority, `order` is this
    /// order. Then the same change records the success of the order.
    ///
    /// # Errors
    /// When the certificate is too large, when etcd does not answer, when other members change certificates at the same time, or when another member
    /// has the ACME order.
    pub(crate) async fn change(
        &self,
        log: &Log,
        (name, pem): (&str, Option<&[u8]>),
        order: Option<(&Order, &str)>,
    ) -> anyhow::Result<()> {
        refuse_name(name)?;
        let bytes = pem.map_or(0, <[u8]>::len);
        ensure!(
            bytes <= SHARED_CERTIFICATE_BYTES_MAX,
            "the certificate with its chain and key has {bytes} bytes; a shared certificate may have at most {SHARED_CERTIFICATE_BYTES_MAX}"
        );
        let key = self.hash_key()?;
        // If the key of this machine differs from the key of the other members, no other member could decrypt the certificate.
        if let Some(shared) = log.shared_keys().await? {
            ensure!(open_keys(&key, &shared.sealed).is_ok(), "{}", self.other_key());
        }
        for _ in 0..TRIES {
            let before = log.certificate_set().await?;
            self.refuse_older(&before)?;
            if pem.is_none() && !before.certificates.contains_key(name) {
                bail!("the fleet has no certificate `{name}`: `enfilade certs list` shows all");
            }
            let id = SetId::after(before.id)?;
            let sealed = pem.map(|pem| seal_certificate(&key, &named(name, id), pem)).transpose()?;
            let changed = log.change_certificate((&before, id), (name, sealed), order).await;
            if changed.with_context(|| format!("it is not known whether the certificate `{name}` was changed: when etcd answers again, look at `enfilade certs list`"))? {
                return Ok(());
            }
        }
        match order {
            Some(_) => bail!(
                "another member orders this certificate now, so this attempt stopped; nothing has to be done"
            ),
            None => bail!("other members changed certificates at the same time: run the command again"),
        }
    }

    /// Compares the certificates of the fleet with the files on this machine. Returns the number of all certificates, and the certificates for which
    /// this machine does not have the fleet's version, with the reasons.
    pub(crate) async fn compare(&self, log: &Log) -> anyhow::Result<(usize, BTreeMap<String, String>)> {
        let set = log.certificate_set().await?;
        self.refuse_older(&set)?;
        let mut faults = BTreeMap::new();
        for (name, version) in &set.certificates {
            let Some(sealed) = log.shared_certificate(name).await? else { continue };
            let fault = match self.opened(name, *version, &sealed) {
                Err(why) => Some(format!("{why:#}")),
                Ok(pem) => match std::fs::read(self.path(name)) {
                    Ok(here) if here == *pem => None,
                    Ok(_) => Some("this machine has an earlier version".to_owned()),
                    Err(why) => Some(format!("it cannot be read here: {why}")),
                },
            };
            faults.extend(fault.map(|why| (name.clone(), why)));
        }
        Ok((set.certificates.len(), faults))
    }

    /// Shares all certificates in the directory. `enfilade fleet init` calls this function, because the directory may contain certificates of an
    /// earlier fleet.
    pub(crate) async fn share_held(&self, log: &Log) -> anyhow::Result<usize> {
        let mut count = 0;
        for name in self.names()? {
            let path = self.path(&name);
            let pem = std::fs::read(&path).map(SecretBytes::new);
            let pem = pem.with_context(|| format!("`{}` cannot be read", path.display()))?;
            self.change(log, (&name, Some(&pem)), None).await?;
            count += 1;
        }
        Ok(count)
    }

    /// Deletes the record of the certificates of an earlier fleet. The certificates themselves stay.
    pub(crate) fn forget(data: &Path) -> anyhow::Result<()> {
        let path = directory(data).join(NEWEST);
        match std::fs::remove_file(&path) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(why).with_context(|| format!("`{}` cannot be deleted", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// The path of a certificate of the fleet on this machine.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        directory(&self.data).join(name)
    }

    /// The names of the files in the directory.
    pub(crate) fn names(&self) -> anyhow::Result<BTreeSet<String>> {
        let directory = directory(&self.data);
        let unread = || format!("`{}` cannot be read", directory.display());
        let entries = match std::fs::read_dir(&directory) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries.with_context(unread)?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<std::io::Result<BTreeSet<String>>>().with_context(unread)?;
        names.retain(|name| !name.starts_with('.'));
        Ok(names)
    }

    /// Decrypts a certificate, and checks that a server can use it.
    fn opened(&self, name: &str, version: SetId, sealed: &[u8]) -> anyhow::Result<SecretBytes> {
        refuse_name(name)?;
        let pem = open_certificate(&self.hash_key()?, &named(name, version), sealed)
            .map_err(|_| anyhow::anyhow!("it cannot be decrypted: {}", self.other_key()))?;
        let parts = Parts { pem: &pem, key: None, ocsp: None };
        Bundle::read(parts, &Issuers::default(), clock::now().unix_seconds).map_err(anyhow::Error::msg)?;
        Ok(pem)
    }

    async fn write(&self, name: &str, pem: SecretBytes) -> anyhow::Result<()> {
        let (data, path) = (self.data.clone(), self.path(name));
        let write = move || {
            self_made::make_place(&data, &directory(&data))?;
            match std::fs::read(&path).is_ok_and(|here| SecretBytes::new(here) == pem) {
                true => Ok(()),
                false => self_made::write_for_owner(&data, &path, &pem, 0o600),
            }
        };
        tokio::task::spawn_blocking(write).await?
    }

    /// Removes the files of certificates that the fleet does not have any more, and stores the id of the set.
    async fn keep_only(&self, set: &CertificateSet) -> anyhow::Result<()> {
        let (of, set) = (self.clone(), set.clone());
        let remove = move || {
            self_made::make_place(&of.data, &directory(&of.data))?;
            for name in of.names()?.iter().filter(|name| !set.certificates.contains_key(*name)) {
                let path = of.path(name);
                std::fs::remove_file(&path)
                    .with_context(|| format!("`{}` cannot be removed", path.display()))?;
            }
            let id = u64::from_be_bytes(set.id.unwrap_or_default().bytes());
            let text = format!("{id:016x}\n");
            match std::fs::read_to_string(of.path(NEWEST)).is_ok_and(|known| known == text) {
                true => Ok(()),
                false => self_made::write_for_owner(&of.data, &of.path(NEWEST), text.as_bytes(), 0o600),
            }
        };
        tokio::task::spawn_blocking(remove).await?
    }

    /// Refuses a set that is older than the set of this machine.
    fn refuse_older(&self, set: &CertificateSet) -> anyhow::Result<()> {
        let newest = std::fs::read_to_string(self.path(NEWEST)).ok();
        let newest = newest.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        let newest = newest.map(|id| SetId::from_bytes(id.to_be_bytes()));
        ensure!(
            newest.is_none_or(|newest| !set.is_before(newest)),
            "etcd has older certificates of the fleet than this machine: etcd was restored from an old backup. This machine keeps its certificates. Stop all servers, and follow docs/fleet.md, \"etcd lost its data\""
        );
        Ok(())
    }

    fn other_key(&self) -> String {
        format!(
            "`{}` differs from the file of the other members; copy the file from another member",
            token_key::path(&self.data).display()
        )
    }

    fn hash_key(&self) -> anyhow::Result<HashKey> {
        let found = key::load(&token_key::path(&self.data), self.config.facts.group);
        let found = found.context("the key with which the fleet encrypts its certificates cannot be read")?;
        Ok(HashKey::new(found.bytes()))
    }
}

/// The text that is authenticated together with an encrypted certificate.
fn named(name: &str, version: SetId) -> String {
    format!("{name} {:016x}", u64::from_be_bytes(version.bytes()))
}

/// Refuses a name if a server would not read a file with this name in a directory of certificates.
fn refuse_name(name: &str) -> anyhow::Result<()> {
    let is_plain = !name.is_empty() && name.len() <= SHARED_NAME_BYTES_MAX && !name.contains(['/', '\0']);
    // The check gets a directory that does not exist, because it must judge only the name, and must not read a file.
    let is_one = is_plain && is_certificate(Path::new("/nonexistent"), OsStr::new(name));
    ensure!(
        is_one,
        "`{name}` is not the file name of a shared certificate: choose a name such as `www.example.com.pem`"
    );
    Ok(())
}
