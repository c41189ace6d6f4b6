//! The certificates of the server. This module loads the certificates at the start, reads their keys at handshakes, and replaces certificates and
//! keys while the server runs.

mod page;
mod served;
mod ticket_keys;
mod told;
mod watched_list;

pub(crate) use served::{Served, Watched, count_of};
pub(crate) use ticket_keys::follow as follow_ticket_keys;
pub(crate) use told::{described, how_to_add, unused_names};
pub(crate) use watched_list::WatchedList;

use crate::config::{Check, Tls as TlsConfig};
use crate::home;
use crate::{clock, output, progress, self_made, shared_certificates};
use anyhow::{Context, bail};
use enfilade_admin::{
    BadCertificate, CertificateFiles, CertificatePlace, CertificateTerms, IndexUse, LeafIndex, Looked,
    Verified,
};
use enfilade_facts::{MemoKey, MemoSeed};
use enfilade_tls::{
    CertificateFile, Certificates, Digest, KeyMemo, Policy, Ready, Refusal, Rules, Tickets, TlsPermit,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, Semaphore};
use tokio_rustls::rustls::ServerConfig;
use told::{TOLD_MAX, listed, unusable, warn};

/// The maximum number of parsed keys in memory. Each key takes about 4 KiB.
const HOT_MAX: usize = 16_384;

/// The files of the configured certificates, and their parsed keys. When a file changes, the server makes a new snapshot of the certificates, but the
/// new snapshot uses the same `Keeper`.
pub(crate) struct Keeper {
    pub(crate) files: CertificateFiles,
    /// The part of the configuration from which the `Keeper` was created: the directory or crt-list of certificates, and the directory of issuers.
    made_of: (CertificatePlace, Option<PathBuf>),
    digest: Digest,
    seed: MemoSeed,
    /// The path of the file with the index of leaf certificates.
    index: PathBuf,
    /// Whether the index was used without checking the files for changes.
    pub(crate) believes: bool,
    /// The index that an earlier start of the server wrote.
    known: Mutex<Option<LeafIndex>>,
    memo: KeyMemo,
    /// Files that are being read for a handshake. Other handshakes that need the same file wait for the result.
    loading: Mutex<HashMap<MemoKey, Arc<OnceCell<Loaded>>>>,
    /// Limits how many keys are read at the same time. A handshake waits for this semaphore only if the handshake needs a key from a file.
    turns: Semaphore,
    /// Files that a handshake could not use, with the reason. A file is logged again only if the reason has changed, and not for each handshake.
    told: Mutex<HashMap<String, String>>,
}

#[derive(Clone)]
struct Loaded {
    ready: Ready,
    /// Whether the memo may keep the result. A file that could not be read is read again at the next handshake.
    is_lasting: bool,
}

impl Keeper {
    pub(crate) fn new(tls: &TlsConfig, data: &Path, tickets: &Tickets) -> anyhow::Result<Self> {
        let place = tls.place(data);
        let index = data.join("tls-index");
        let known = LeafIndex::read(&index, place.path(), tls.index_use());
        let seed = match &known {
            Some(known) => known.seed(),
            None => home::seed()?,
        };
        let digest = Digest::new(&seed);
        let believes = known.is_some() && tls.index_use() == IndexUse::Trusted;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Keeper {
            made_of: (place.clone(), tls.issuers.clone()),
            files: files(place, tls, Some(data), digest, tickets.clone())?,
            digest,
            seed,
            index,
            believes,
            known: Mutex::new(known),
            memo: KeyMemo::new(HOT_MAX),
            loading: Mutex::default(),
            turns: Semaphore::new(cores),
            told: Mutex::default(),
        })
    }

    /// Whether this keeper was made from this configuration, and can stay in use.
    pub(crate) fn is_of(&self, tls: &TlsConfig, data: &Path) -> bool {
        // The issuers are read only when a keeper is made. So if the configuration has issuers, every reload makes a new keeper.
        self.made_of == (tls.place(data), tls.issuers.clone()) && tls.issuers.is_none()
    }

    /// The directory or crt-list of the certificates.
    pub(crate) fn place(&self) -> &CertificatePlace {
        self.files.place()
    }

    /// Watches the directories of the certificates. If `list` is still current, the next [`Self::load`] does not list the directory again.
    pub(crate) fn watch(&self, list: Option<WatchedList>) -> Option<Watched> {
        WatchedList::watch(list, &self.files)
    }

    /// Reads every leaf certificate that is not in the index. Returns the usable certificates and the bad certificates. Fails if no certificate is
    /// usable.
    pub(crate) fn load(&self, rules: Rules) -> anyhow::Result<(Certificates, Vec<BadCertificate>)> {
        let began = clock::nanos();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).take();
        let looked = look(&self.files, rules, known.as_ref())?;
        warn(&looked.warnings);
        let (count, names) = (looked.certificates.count(), looked.certificates.names());
        if count > 1 {
            let seconds = clock::nanos().saturating_sub(began) as f64 / 1e9;
            let known = count.saturating_sub(looked.read);
            output::note(&format!(
                "{count} certificates with {} loaded in {seconds:.2} s: {} from files (read with {}), {known} from the index",
                output::counted(names, "name", "names"),
                looked.read,
                self.files.engine()
            ));
        }
        Ok((looked.certificates, looked.bad))
    }

    /// Writes the index of the certificates to its file, for the next start. If the file cannot be written, the next start only takes longer.
    pub(crate) fn write_down(&self, certificates: &Certificates) {
        let place = self.files.place().path();
        if let Err(why) = LeafIndex::write(&self.index, place, &self.seed, certificates) {
            output::note(&format!(
                "warning: the index of the certificates, `{}`, cannot be written: {why}; the next start may take longer",
                self.index.display()
            ));
        }
    }

    /// Reads every key. The caller must remove the unusable certificates. If there are other certificates with the same names, the server then uses
    /// these.
    pub(crate) fn verify(&self, certificates: &Certificates, done: &AtomicUsize) -> Verified {
        self.files.verify(certificates, threads(), done)
    }

    /// The TLS configuration for a handshake, from the memo. If the memo does not contain the configuration, a thread for blocking work reads the
    /// files. Handshakes that need the same file at the same time share one read.
    pub(crate) async fn config(self: &Arc<Self>, permit: &TlsPermit) -> Result<Arc<ServerConfig>, Refusal> {
        let key = self.memo.key(permit, &self.digest);
        if let Some(ready) = self.memo.get(key).filter(|ready| ready.is_good(clock::now().unix_seconds)) {
            return ready.config(permit);
        }
        let cell = Arc::clone(self.loading().entry(key).or_default());
        let read = || self.read(PathBuf::from(permit.certificate()), Arc::clone(permit.policy()));
        let loaded = cell.get_or_init(read).await.clone();
        if loaded.is_lasting {
            self.memo.put(key, loaded.ready.clone());
        }
        self.loading().remove(&key);
        loaded.ready.config(permit)
    }

    async fn read(self: &Arc<Self>, path: PathBuf, policy: Arc<Policy>) -> Loaded {
        // `acquire` does not fail, because the semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let keeper = Arc::clone(self);
        let read =
            tokio::task::spawn_blocking(move || match keeper.files.ready(&path, &policy, clock::nanos()) {
                Ok(ready) => Loaded { ready, is_lasting: true },
                Err(why) => Loaded { ready: Ready::Unusable(why.to_string().into()), is_lasting: false },
            });
        let ended =
            |_| Loaded { ready: Ready::Unusable("the file could not be read".into()), is_lasting: false };
        read.await.unwrap_or_else(ended)
    }

    /// Logs a file that a handshake could not use, unless the last reason that was logged for that file is the same.
    pub(crate) fn tell_once(&self, refusal: &Refusal) {
        let Refusal::Unusable { file, why } = refusal else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(file) != Some(why) {
            output::note(&format!("warning: a TLS handshake failed: {refusal}"));
            told.insert(file.clone(), why.clone());
        }
    }

    fn loading(&self) -> std::sync::MutexGuard<'_, HashMap<MemoKey, Arc<OnceCell<Loaded>>>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The certificate files in a directory or crt-list, with the configured directory of issuers. If the data directory is given, the result for a
/// directory of certificates also contains the certificate files of the fleet.
pub(crate) fn files(
    place: CertificatePlace,
    tls: &TlsConfig,
    data: Option<&Path>,
    digest: Digest,
    tickets: Tickets,
) -> anyhow::Result<CertificateFiles> {
    let terms = CertificateTerms::new(tickets, tls.issuers.as_deref()).map_err(anyhow::Error::msg)?;
    let shared = data.map(shared_certificates::directory).filter(|shared| shared != place.path());
    Ok(CertificateFiles::new(place, digest, terms.with_shared(shared.as_deref())))
}

/// Reads the leaf of every certificate. Fails if a server could not start with these certificates.
fn look(files: &CertificateFiles, rules: Rules, known: Option<&LeafIndex>) -> anyhow::Result<Looked> {
    let looked = files.look(rules, known, clock::nanos()).with_context(|| unusable(files.place()))?;
    // One usable certificate is enough for a server to start. The other certificates are verified later.
    if let Err(unusable) = files.first_usable(&looked.certificates) {
        bail!(
            "there is no usable certificate in {}: {}{}",
            described(files.place()),
            how_to_add(files.place()),
            listed(&[looked.bad, unusable].concat())
        );
    }
    Ok(looked)
}

/// Reads the certificates as a server would at its start. Fails if the start would fail. Returns `None` if a server would make its first certificate
/// at the start.
pub(crate) fn examine(tls: &TlsConfig, data: &Path) -> anyhow::Result<Option<(CertificateFiles, Looked)>> {
    let place = tls.place(data);
    if self_made::is_made_at_start(data, &place)? {
        return Ok(None);
    }
    let files = files(place, tls, Some(data), Digest::new(&home::seed()?), Tickets::default())?;
    let looked = look(&files, tls.rules(), None)?;
    if tls.check == Check::Eager {
        verify_all(&files, &looked.certificates, &looked.bad)?;
    }
    Ok(Some((files, looked)))
}

/// Reads every key. Fails if a certificate is unusable. The error names the unusable certificates, at most [`TOLD_MAX`] of them. A server with `[tls]
/// check = "eager"` calls this function before it listens, so it does not start with an unusable certificate.
pub(crate) fn verify_all(
    files: &CertificateFiles,
    certificates: &Certificates,
    bad: &[BadCertificate],
) -> anyhow::Result<()> {
    let verified = progress::shown("verifying certificates", certificates.count(), |done| {
        files.verify(certificates, threads(), done)
    });
    let all = [bad, &verified.bad].concat();
    match all.len() {
        0 => Ok(()),
        count => bail!(
            "{} cannot be used, and `[tls] check` is `eager`: repair or remove each of these files{}",
            output::counted(count, "certificate", "certificates"),
            listed(&all)
        ),
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Logs bad certificates, at most [`TOLD_MAX`] of them. The message says what clients get instead of the certificate.
pub(crate) fn tell(bad: &[BadCertificate], certificates: &Certificates, keeper: &Keeper) {
    for bad @ BadCertificate { file, why } in bad.iter().take(TOLD_MAX) {
        let is_in_memory = |file: &CertificateFile| keeper.memo.can_serve(file, &keeper.digest);
        output::note(&match () {
            () if certificates.at_path(file, |_| true).is_none() => format!("warning: {bad}"),
            () if certificates.at_path(file, is_in_memory).is_some() => {
                format!(
                    "warning: certificate `{file}` cannot be used: {why}; the server uses the earlier certificate until the next start. Repair the \
                     file before you restart the server"
                )
            }
            () => format!(
                "warning: certificate `{file}` cannot be used: {why}; the server has no earlier key for this certificate in memory, so TLS \
                 handshakes for its names fail; repair the file"
            ),
        });
    }
    if bad.len() > TOLD_MAX {
        let more = output::counted(bad.len() - TOLD_MAX, "more certificate", "more certificates");
        output::note(&format!("warning: {more} cannot be used, too; see `enfilade certs check`"));
    }
}
