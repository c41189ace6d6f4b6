//! Certificate orders (ACME) in a fleet. The order of a certificate is a record with a lease in etcd. Only the member that has the order may obtain
//! the certificate from the authority. All members answer the challenges, and all members get the certificate.

use super::challenge::Challenge;
use super::{Record, bundle};
use crate::clock;
use crate::config::Config;
use crate::shared_certificates::{CertificatesOfFleet, Held};
use anyhow::{bail, ensure};
use enfilade_facts::StoreId;
use enfilade_fleet::{LastOrder, Log, ORDER_SECONDS, Order};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// The interval at which the lease of an order is renewed.
const RENEW: Duration = Duration::from_secs(3);
/// The maximum time for which the member with the order waits until all members can send the answers to the challenges.
const ANSWERED_MAX: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(100);
/// How long the member with the order tries to store the certificate. The attempts end earlier if another member has taken the order.
const STORE_MAX: Duration = Duration::from_secs(60);
/// An upper limit for the wait after a failure, in seconds: the longest wait plus a reserve. A longer wait means that the clock of another member is
/// wrong.
const WAIT_MAX: i64 = 7 * 3600;
/// Another member may obtain the certificate for other names or from another authority. After that, this member waits for this number of seconds
/// before it orders a certificate. It does not wait if the operator asks for an attempt (SIGHUP). Without the wait, members with different settings
/// would order certificates again and again.
const OTHER_SECONDS: i64 = 24 * 3600;

/// What this member needs to order the certificate with the file name `name` for its fleet.
pub(super) struct OfFleet {
    data: PathBuf,
    log: Log,
    certificates: CertificatesOfFleet,
    name: String,
    /// The names in the certificate.
    names: Vec<String>,
    /// The URL of the authority's directory.
    directory: String,
}

/// The order of the certificate. This member has the order.
pub(super) struct Taken<'f> {
    fleet: &'f OfFleet,
    order: Order,
    /// The number of failed attempts of all members since the last success.
    pub(super) failures: usize,
}

impl OfFleet {
    pub(super) fn new(data: &Path, config: &Config, store: StoreId, bundle: &Path) -> anyhow::Result<Self> {
        let certificates = CertificatesOfFleet::new(data, config, store);
        let name = bundle.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (log, names) = (certificates.log()?, config.tls.acme_names().to_vec());
        let directory = config.tls.acme_directory.url().to_owned();
        Ok(OfFleet { data: data.to_owned(), log, certificates, name, names, directory })
    }

    /// Takes the order, and gets the newest certificates. Returns `None` if another member has the order. Also returns `None` if the last attempt of
    /// a member failed recently, and the operator did not ask for another attempt.
    pub(super) async fn take(&self, is_asked: bool) -> anyhow::Result<Option<Taken<'_>>> {
        let last = self.log.last_order(&self.name).await?;
        let now = clock::now().unix_seconds;
        // The clock of another member may be wrong, so a time in the far future is ignored.
        if (1..=WAIT_MAX).contains(&last.next.saturating_sub(now)) && !is_asked {
            return Ok(None);
        }
        let found = record(&last);
        if let Some(found) = found
            .filter(|found| found.names != self.names || found.directory.as_ref() != Some(&self.directory))
            && now.saturating_sub(found.obtained.unwrap_or(0)) < OTHER_SECONDS
            && !is_asked
        {
            bail!(
                "less than a day ago, a member of the fleet (perhaps this one, with its earlier settings) obtained the certificate for other names ({}), \
                 or from another authority. Set `[tls] acme` and `acme_directory` to the same values on all members; after a change, restart the servers, and then send SIGHUP to one \
                 of them",
                found.names.join(" ")
            );
        }
        let Some(order) = self.log.take_order(&self.name).await? else { return Ok(None) };
        let failures = usize::try_from(last.failures).unwrap_or(usize::MAX);
        let taken = Taken { fleet: self, order, failures };
        // Perhaps another member obtained the certificate immediately before this member took the order. So the newest certificates are read.
        let mut held = Held::default();
        let got = self.certificates.get(&self.log, &mut held).await;
        let fault = held.faults.remove(&self.name);
        if got.is_err() || fault.is_some() {
            taken.end().await;
        }
        got?;
        if let Some(why) = fault {
            bail!("the fleet has a certificate `{}` that this machine cannot use: {why}", self.name);
        }
        learned(&self.data, &self.log.last_order(&self.name).await?)?;
        Ok(Some(taken))
    }
}

impl Taken<'_> {
    /// Renews the lease of the order until this member has lost the order. Returns the reason for the loss.
    pub(super) async fn keep(&self) -> anyhow::Error {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(RENEW).await;
            match self.fleet.log.renew_order(&self.order).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => {
                    return anyhow::anyhow!(
                        "this member no longer has the lease in etcd with which it may order the certificate, so this attempt stopped; a member will try again automatically"
                    );
                }
                Err(why) if renewed.elapsed().as_secs() >= ORDER_SECONDS.unsigned_abs() => return why.into(),
                Err(_) => {}
            }
        }
    }

    /// Gives all members the answer to a challenge. Returns the id of the answer.
    pub(super) async fn answer(&self, kind: Challenge, of: &str, value: &[u8]) -> anyhow::Result<String> {
        let id = format!("{}/{of}", kind.directory());
        let is_put = self.fleet.log.put_answer(&self.order, &id, value).await?;
        ensure!(
            is_put,
            "another member orders this certificate now, so this attempt stopped; nothing has to be done"
        );
        Ok(id)
    }

    /// Waits until all members send these answers. The wait is short, because a dead member must not prevent the renewal.
    pub(super) async fn wait_until_answered(&self, ids: &[String]) {
        let began = Instant::now();
        while began.elapsed() < ANSWERED_MAX {
            let lacking = self.fleet.log.without_answers(&self.order, ids).await;
            if lacking.is_ok_and(|lacking| lacking.is_empty()) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives the certificate to all members. The function makes several attempts, because an issued certificate must not be lost.
    pub(super) async fn share(&self, bundle: &[u8], record: &Record) -> anyhow::Result<()> {
        let OfFleet { log, certificates, name, .. } = self.fleet;
        let (about, began) = (serde_json::to_string(record)?, Instant::now());
        loop {
            match certificates.change(log, (name, Some(bundle)), Some((&self.order, &about))).await {
                Err(_) if began.elapsed() < STORE_MAX => tokio::time::sleep(RENEW).await,
                changed => {
                    changed?;
                    return certificates.get(log, &mut Held::default()).await;
                }
            }
        }
    }

    /// Records that the attempt failed. `next` is the time of the next attempt, in seconds since the epoch.
    pub(super) async fn failed(&self, failures: usize, next: i64) {
        let failures = u32::try_from(failures).unwrap_or(u32::MAX);
        // If etcd does not answer, another member may try before this time.
        let _ = self.fleet.log.order_failed(&self.order, failures, next).await;
    }

    pub(super) async fn end(&self) {
        // If etcd does not answer, the order ends with its lease.
        let _ = self.fleet.log.end_order(&self.order).await;
    }
}

fn record(last: &LastOrder) -> Option<Record> {
    serde_json::from_str(last.about.as_deref()?).ok()
}

/// Writes the record of the certificate that a member obtained last, if the record is newer than the record of this machine.
fn learned(data: &Path, last: &LastOrder) -> anyhow::Result<()> {
    match record(last) {
        Some(found) if found.obtained > Record::read(data).obtained => found.write(data),
        _ => Ok(()),
    }
}

/// Reads from etcd which certificate a member obtained last, and updates the record of this machine. Does nothing if this machine has no `[tls]
/// acme`.
pub(crate) async fn learn(config: &Config, data: &Path, log: &Log) -> anyhow::Result<()> {
    let Some(bundle) = bundle(config, data) else { return Ok(()) };
    let name = bundle.file_name().unwrap_or_default().to_string_lossy().into_owned();
    learned(data, &log.last_order(&name).await?)
}
