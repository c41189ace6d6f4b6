//! Certificates of a public certificate authority (ACME, RFC 8555). The server obtains a certificate for the names in `[tls] acme`, and renews it.
//!
//! Servers that share a data directory share the account and the certificate. One server obtains the certificate, and each server answers the
//! challenges. In a fleet, one member obtains the certificate for all members (`fleet.rs`).

mod answers;
mod challenge;
mod fleet;
mod https;
mod order;
mod record;

pub(crate) use answers::Answers;
pub(crate) use fleet::learn;
pub(crate) use record::Record;

use crate::config::{Config, MailAddress};
use crate::home::Home;
use crate::reserved::{refuse_exposed, written_to};
use crate::{clock, output, self_made, shared_certificates};
use anyhow::Context;
use challenge::Challenge;
use enfilade_admin::CertificatePlace;
use enfilade_faces::{AcmeState, Faces};
use enfilade_facts::Source;
use enfilade_sources::files::lock::FileLock;
use enfilade_tls::Leaf;
use fleet::{OfFleet, Taken};
use https::Https;
use instant_acme::{Account, AccountCredentials, NewAccount};
use order::Answering;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How often the certificate is checked. The interval is short, because a lost certificate file must be replaced soon.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The waits after the first, second, third and every later failure. Let's Encrypt allows at most five failed validations of a name in one hour.
const WAITS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(900),
    Duration::from_secs(3600),
    Duration::from_secs(6 * 3600),
];
/// The longest time for one attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(300);

/// Obtains and renews the certificate.
struct Client {
    data: PathBuf,
    source: Arc<dyn Source>,
    /// The path of the bundle: certificate, intermediates and key.
    place: PathBuf,
    names: Vec<String>,
    /// The URL of the authority's directory.
    directory: String,
    /// The operator's e-mail address, as a `mailto:` URL.
    contact: Option<String>,
    roots: Option<PathBuf>,
    answers: Arc<Answers>,
    /// The kinds of challenges that this server can answer.
    challenges: Vec<Challenge>,
    /// The fleet that shares the certificate. `None` if this machine is not a member of a fleet.
    fleet: Option<OfFleet>,
    /// The state that all faces share. It contains the metrics about the certificate.
    faces: Faces,
}

/// The subdirectory of the data directory for the account, the answers to challenges, and the [`Record`].
fn place(data: &Path) -> PathBuf {
    data.join("acme")
}

/// The path of the bundle for the names in `[tls] acme`. `None` if there are no names, or if a crt-list contains the certificates.
pub(crate) fn bundle(config: &Config, data: &Path) -> Option<PathBuf> {
    let first = config.tls.acme_names().first()?;
    let CertificatePlace::Directory(own) = config.tls.place(data) else { return None };
    // Only a member of a fleet can have the setting `[fleet] etcd`.
    let directory = if config.fleet.etcd.is_some() { shared_certificates::directory(data) } else { own };
    Some(directory.join(format!("acme-{}", self_made::file_of(first))))
}

/// Whether this server answers handshakes with which an ACME authority validates names. A member of a fleet also answers the challenges of
/// certificates that other members order.
pub(crate) fn is_asked(home: &Home) -> bool {
    home.config.tls.acme.is_some() || home.facts.server.is_some()
}

/// Starts the task that obtains and renews the certificate, if `[tls] acme` has names. If a caller notifies `again`, the task tries at once.
pub(crate) fn follow(
    home: &Home,
    faces: &Faces,
    answers: &Arc<Answers>,
    again: &Arc<Notify>,
) -> anyhow::Result<()> {
    let tls = &home.config.tls;
    let Some(bundle) = bundle(&home.config, &home.data) else { return Ok(()) };
    answers.make(&home.data)?;
    let http = tls.http_listen.is_some().then_some(Challenge::Http);
    let fleet = match home.facts.server {
        Some(_) => Some(OfFleet::new(&home.data, &home.config, home.store.at().store, &bundle)?),
        None => None,
    };
    let client = Client {
        fleet,
        data: home.data.clone(),
        source: Arc::clone(&home.facts.source),
        place: bundle,
        names: tls.acme_names().to_vec(),
        directory: tls.acme_directory.url().to_owned(),
        contact: tls.acme_contact.as_ref().map(MailAddress::url),
        roots: tls.acme_roots.clone(),
        answers: Arc::clone(answers),
        challenges: http.into_iter().chain([Challenge::TlsAlpn]).collect(),
        faces: faces.clone(),
    };
    client.measure(None);
    tokio::spawn(client.run(Arc::clone(again)));
    Ok(())
}

/// The wait after a failure. `failures` is the number of earlier failures.
fn wait_after(failures: usize) -> Duration {
    WAITS.get(failures).or(WAITS.last()).copied().unwrap_or(LOOK_EVERY)
}

impl Client {
    async fn run(self, again: Arc<Notify>) {
        let (mut failures, mut is_asked) = (0, false);
        loop {
            let wait = match self.attempt(&mut failures, is_asked).await {
                Ok(()) => {
                    failures = 0;
                    LOOK_EVERY
                }
                Err(why) => {
                    let wait = wait_after(failures);
                    failures += 1;
                    Record::failed(&self.data, &format!("{why:#}"), clock::now().unix_seconds);
                    output::note(&format!(
                        "warning: the certificate for {} was not obtained or renewed: {why:#}; the next attempt is in {} min, or at a reload (SIGHUP)",
                        self.names.join(" "),
                        wait.as_secs() / 60
                    ));
                    wait
                }
            };
            let next = (failures > 0).then(|| {
                clock::now().unix_seconds.saturating_add(i64::try_from(wait.as_secs()).unwrap_or(i64::MAX))
            });
            self.measure(next);
            is_asked = tokio::time::timeout(wait, again.notified()).await.is_ok();
        }
    }

    /// Shows the state of the certificate in the metrics. `next` is the time of the next attempt after a failure, in seconds since the epoch.
    ///
    /// The record says whether the last attempt failed. Another server of this data directory, or an earlier process, may have made the last attempt.
    fn measure(&self, next: Option<i64>) {
        let Record { obtained, failed, .. } = Record::read(&self.data);
        let has_failed = next.is_some() || failed.is_some() && self.is_due();
        self.faces.metrics().set_acme(AcmeState { obtained, has_failed, next });
    }

    /// Obtains a certificate if the certificate is due. After a failure, the next attempt uses the next kind of challenge, if this server can answer
    /// several kinds. In a fleet, the failures of all members count.
    async fn attempt(&self, failures: &mut usize, is_asked: bool) -> anyhow::Result<()> {
        if !self.is_due() {
            return Ok(());
        }
        // If another server holds the lock, that server obtains the certificate. The next check of this server finds the certificate, or tries again.
        let _lock = match FileLock::take(&place(&self.data).join(".lock"), Duration::ZERO) {
            Ok(lock) => lock,
            Err(why) if why.kind() == std::io::ErrorKind::TimedOut => return Ok(()),
            Err(why) => return Err(why).context("no certificate can be ordered"),
        };
        let taken = match &self.fleet {
            Some(fleet) => match fleet.take(is_asked).await {
                Ok(Some(taken)) => Some(taken),
                Ok(None) => return Ok(()),
                // This error is not a failure at the authority. So the number of failures does not grow, and the next check tries again.
                Err(why) => {
                    output::note(&format!(
                        "warning: this member cannot order the certificate for {} now: {why:#}",
                        self.names.join(" ")
                    ));
                    return Ok(());
                }
            },
            None => None,
        };
        if let Some(taken) = &taken {
            *failures = taken.failures;
        }
        let obtained = match self.is_due() {
            true => self.order(*failures, taken.as_ref()).await,
            false => Ok(()),
        };
        if let Some(taken) = &taken {
            if obtained.is_err() {
                let wait = i64::try_from(wait_after(*failures).as_secs()).unwrap_or(i64::MAX);
                taken.failed(*failures + 1, clock::now().unix_seconds.saturating_add(wait)).await;
            }
            taken.end().await;
        }
        obtained
    }

    /// Orders a certificate, and stores it at its path.
    async fn order(&self, failures: usize, taken: Option<&Taken<'_>>) -> anyhow::Result<()> {
        // The key of the certificate must never be written into a datastore.
        let (place, data, source) = (self.place.clone(), self.data.clone(), Arc::clone(&self.source));
        let check = move || refuse_exposed(written_to(&place), &data, enfilade_admin::roots(&*source)?);
        tokio::task::spawn_blocking(check).await??;
        let kind = self.kind(failures);
        output::note(&format!(
            "obtaining a certificate for {} from {} ({})",
            self.names.join(" "),
            self.directory,
            kind.name()
        ));
        let answering = taken.map_or(Answering::Here(&self.answers), Answering::Fleet);
        let obtain = async {
            let obtained = tokio::time::timeout(ATTEMPT_MAX, self.obtain(kind, answering)).await;
            let (leaf, bundle) = obtained.map_err(|_| {
                anyhow::anyhow!(
                    "the authority did not issue the certificate within {} s",
                    ATTEMPT_MAX.as_secs()
                )
            })??;
            let (directory, names) = (Some(self.directory.clone()), self.names.clone());
            let (obtained, valid_until) = (Some(clock::now().unix_seconds), Some(leaf.not_after));
            let record =
                Record { directory, names, obtained, valid_until, challenge: Some(kind), failed: None };
            match taken {
                Some(taken) => taken.share(bundle.as_bytes(), &record).await?,
                None => self_made::write_for_owner(&self.data, &self.place, bundle.as_bytes(), 0o600)?,
            }
            record.write(&self.data)?;
            Ok::<_, anyhow::Error>(leaf)
        };
        let lost = async {
            match taken {
                Some(taken) => taken.keep().await,
                None => std::future::pending().await,
            }
        };
        let leaf = tokio::select! {
            leaf = obtain => leaf?,
            why = lost => return Err(why),
        };
        output::note(&format!(
            "certificate `{}` was obtained: {}, valid until {}",
            self.place.display(),
            self.names.join(" "),
            output::time(leaf.not_after)
        ));
        Ok(())
    }

    /// The kind of challenge for the next attempt. Without a failure, this is the kind of the last successful attempt; if there is none, the first
    /// kind in the list. After each failure, the next kind in the list is used.
    fn kind(&self, failures: usize) -> Challenge {
        let worked = Record::read(&self.data).challenge;
        let first = self.challenges.iter().position(|kind| Some(*kind) == worked).unwrap_or(0);
        let kind = self.challenges.iter().cycle().nth(first + failures);
        kind.copied().unwrap_or(Challenge::TlsAlpn)
    }

    /// Whether the certificate is missing, comes from another authority, lacks a name, or has less than a third of its lifetime left.
    fn is_due(&self) -> bool {
        let leaf = std::fs::read(&self.place).ok();
        let leaf = leaf.and_then(|pem| Leaf::read(&pem, &mut enfilade_tls::Room::default()).ok());
        let Some(leaf) = leaf else { return true };
        let lacks = self.names.iter().any(|name| !leaf.names.contains(name));
        let is_of_another = Record::read(&self.data).directory.is_some_and(|of| of != self.directory);
        let left = leaf.not_after.saturating_sub(clock::now().unix_seconds);
        lacks || is_of_another || left < leaf.not_after.saturating_sub(leaf.not_before) / 3
    }

    /// Obtains a certificate. Returns its leaf and the bundle.
    async fn obtain(&self, kind: Challenge, answering: Answering<'_>) -> anyhow::Result<(Leaf, String)> {
        let account = self.account().await?;
        let order::Obtained { chain, key } = order::obtain(&account, &self.names, kind, answering).await?;
        let bundle = format!("{}\n{key}", chain.trim_end());
        let leaf = Leaf::read(bundle.as_bytes(), &mut enfilade_tls::Room::default()).map_err(|why| {
            anyhow::anyhow!("the certificate that the authority issued cannot be read: {why}")
        })?;
        if let Some(lacking) = self.names.iter().find(|name| !leaf.names.contains(name)) {
            anyhow::bail!("the certificate that the authority issued does not contain the name `{lacking}`");
        }
        Ok((leaf, bundle))
    }

    /// Opens the account at the authority, or creates one.
    async fn account(&self) -> anyhow::Result<Account> {
        let file = place(&self.data).join(format!("account-{}.json", self.authority()));
        let https =
            || Https::new(self.roots.as_deref()).map(|https| Account::builder_with_http(Box::new(https)));
        if let Ok(bytes) = std::fs::read(&file) {
            let credentials: AccountCredentials = serde_json::from_slice(&bytes).with_context(|| {
                format!("`{}` is damaged: remove it to create another account", file.display())
            })?;
            return https()?.from_credentials(credentials).await.map_err(|why| self.no_account(why));
        }
        let contact: Vec<&str> = self.contact.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let created = https()?.create(&new, self.directory.clone(), None).await;
        let (account, credentials) = created.map_err(|why| self.no_account(why))?;
        self_made::write_for_owner(&self.data, &file, &serde_json::to_vec(&credentials)?, 0o600)?;
        Ok(account)
    }

    /// The error for an account that cannot be opened or created.
    fn no_account(&self, why: instant_acme::Error) -> anyhow::Error {
        match why {
            instant_acme::Error::Json(_) => anyhow::anyhow!(
                "`{}` is not the directory of an ACME authority: correct `[tls] acme_directory`",
                self.directory
            ),
            why => anyhow::Error::new(why).context("the account at the authority cannot be created or used"),
        }
    }

    /// The host and the port of the authority, as a part of a file name.
    fn authority(&self) -> String {
        let host = self.directory.split('/').nth(2).unwrap_or_default();
        host.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.' && letter != '-', "_")
    }
}
