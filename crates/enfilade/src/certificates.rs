//! The certificates a server answers with: which there are, their keys as they are needed, and what becomes of both while it runs.

mod served;

pub(crate) use served::Served;

use crate::{clock, output};
use anyhow::{Context, bail};
use enfilade_admin::{BadCertificate, CertificateDirectory, Verified};
use enfilade_facts::{MemoKey, MemoSeed};
use enfilade_sources::files::certificates::read_whole;
use enfilade_tls::{Certificates, Digest, FileChange, KeyMemo, Ready, Refusal, Rules, Terms, TlsPermit};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, Semaphore};
use tokio_rustls::rustls::ServerConfig;

/// Keys that are kept parsed: about 4 KiB each.
const HOT_MAX: usize = 16_384;
/// More than so many are for `enfilade certs check` to tell.
const TOLD_MAX: usize = 100;

/// What stays while certificates come and go.
pub(crate) struct Keeper {
    pub(crate) directory: CertificateDirectory,
    digest: Digest,
    terms: Terms,
    memo: KeyMemo,
    /// Files that are being read for somebody: whoever else needs one waits for the same.
    loading: Mutex<HashMap<MemoKey, Arc<OnceCell<Loaded>>>>,
    /// For those who came first with their names. Whoever asks for many waits here, and nobody else does.
    turns: Semaphore,
    /// What was told of files that could not be used when somebody came for them: once each, however often somebody comes.
    told: Mutex<HashMap<String, String>>,
}

#[derive(Clone)]
struct Loaded {
    ready: Ready,
    /// Whether it would be the same another time.
    is_lasting: bool,
}

impl Keeper {
    pub(crate) fn new(directory: PathBuf, seed: &MemoSeed) -> anyhow::Result<Self> {
        let digest = Digest::new(seed);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Keeper {
            directory: CertificateDirectory::new(directory, digest),
            digest,
            terms: Terms::new().map_err(anyhow::Error::msg)?,
            memo: KeyMemo::new(HOT_MAX),
            loading: Mutex::default(),
            turns: Semaphore::new(cores),
            told: Mutex::default(),
        })
    }

    /// Looks at every leaf. Bad ones are left out and all named; with none left there is nothing to serve with.
    pub(crate) fn load(&self, rules: Rules) -> anyhow::Result<(Certificates, Vec<BadCertificate>)> {
        let directory = self.directory.path().display();
        let looked = self
            .directory
            .look(rules, clock::nanos())
            .with_context(|| format!("certificate directory `{directory}` cannot be read"))?;
        if looked.certificates.is_empty() {
            bail!(
                "there is no usable certificate in `{directory}`: put a PEM bundle (certificate, intermediates, key) there{}",
                listed(&looked.bad)
            );
        }
        Ok((looked.certificates, looked.bad))
    }

    /// Reads every key before anything is served; one that cannot be used stops the start, and all of them are named.
    pub(crate) fn verify_all(
        &self,
        certificates: &Certificates,
        bad: &[BadCertificate],
    ) -> anyhow::Result<()> {
        let verified = self.directory.verify(certificates, threads(), &AtomicUsize::new(0));
        let all = [bad, &verified.bad].concat();
        match all.len() {
            0 => Ok(()),
            count => bail!(
                "{count} certificates cannot be used, and `[tls] check` is `eager`: mend or remove them{}",
                listed(&all)
            ),
        }
    }

    /// Reads every key while others are served. What cannot be used is taken out, so that another certificate with its names answers.
    pub(crate) fn verify(
        &self,
        certificates: &Certificates,
        done: &AtomicUsize,
    ) -> (Vec<FileChange>, Verified) {
        let verified = self.directory.verify(certificates, threads(), done);
        let out = verified.bad.iter().map(|bad| FileChange::Remove(bad.file.as_str().into()));
        (out.collect(), verified)
    }

    /// What a handshake goes on with: known, or read now, off the reactor and once for however many wait for it.
    pub(crate) async fn config(self: &Arc<Self>, permit: &TlsPermit) -> Result<Arc<ServerConfig>, Refusal> {
        let key = self.memo.key(permit, &self.digest);
        if let Some(ready) = self.memo.get(key) {
            return ready.config(permit);
        }
        let cell = Arc::clone(self.loading().entry(key).or_default());
        let loaded = cell.get_or_init(|| self.read(PathBuf::from(permit.certificate()))).await.clone();
        if loaded.is_lasting {
            self.memo.put(key, loaded.ready.clone());
        }
        self.loading().remove(&key);
        loaded.ready.config(permit)
    }

    async fn read(self: &Arc<Self>, path: PathBuf) -> Loaded {
        // Never closed, so a turn always comes.
        let _turn = self.turns.acquire().await;
        let keeper = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || match read_whole(&path) {
            Ok(whole) => {
                let ready = keeper.terms.ready(&whole.pem, whole.key.as_deref());
                Loaded { ready, is_lasting: true }
            }
            Err(why) => Loaded { ready: Ready::Unusable(why.to_string().into()), is_lasting: false },
        });
        let ended = |_| Loaded { ready: Ready::Unusable("it could not be read".into()), is_lasting: false };
        read.await.unwrap_or_else(ended)
    }

    /// Tells of a file that cannot be used, unless that was told.
    pub(crate) fn tell_once(&self, refusal: &Refusal) {
        let Refusal::Unusable { file, why } = refusal else { return };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(file) != Some(why) {
            output::note(&format!("warning: a handshake ended: {refusal}"));
            told.insert(file.clone(), why.clone());
        }
    }

    fn loading(&self) -> std::sync::MutexGuard<'_, HashMap<MemoKey, Arc<OnceCell<Loaded>>>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn listed(bad: &[BadCertificate]) -> String {
    let mut text: String = bad.iter().take(TOLD_MAX).map(|bad| format!("; {bad}")).collect();
    if bad.len() > TOLD_MAX {
        text.push_str(&format!("; and {} more, see `enfilade certs check`", bad.len() - TOLD_MAX));
    }
    text
}

/// Into the log, the first of many.
pub(crate) fn tell(bad: &[BadCertificate]) {
    bad.iter().take(TOLD_MAX).for_each(|bad| output::note(&format!("warning: {bad}")));
    if bad.len() > TOLD_MAX {
        output::note(&format!(
            "warning: and {} more certificates; see `enfilade certs check`",
            bad.len() - TOLD_MAX
        ));
    }
}

/// What is served and may trouble clients: into the log, the first of many.
pub(crate) fn warn(warnings: &[BadCertificate]) {
    for BadCertificate { file, why } in warnings.iter().take(TOLD_MAX) {
        output::note(&format!("warning: certificate `{file}` is served, but {why}"));
    }
}
