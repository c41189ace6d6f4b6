//! Exchanging the certificates while they are served: one change after the other, and each a snapshot of its own.

use super::{Keeper, tell, warn};
use crate::listen::Tls;
use crate::{clock, output};
use enfilade_admin::{BadCertificate, Verified};
use enfilade_faces::Faces;
use enfilade_sources::files::certificates::{Changed, DirectoryWatch};
use enfilade_tls::{Certificates, Rules};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What is served, and what cannot be.
pub(crate) struct Served {
    exchange: watch::Sender<Tls>,
    /// What is wrong with which file. Whoever changes something holds it.
    bad: Mutex<BTreeMap<String, String>>,
    faces: Faces,
}

/// Whoever writes a file writes another one with it, or the same once more: so long nothing has to happen before it is looked at.
const QUIET: Duration = Duration::from_millis(100);
/// And then it is looked at, whatever happens.
const QUIET_TURNS_MAX: usize = 20;
const WATCH_TURN: Duration = Duration::from_secs(60);

impl Served {
    pub(crate) fn new(exchange: watch::Sender<Tls>, bad: Vec<BadCertificate>, faces: Faces) -> Arc<Self> {
        tell(&bad);
        let bad = bad.into_iter().map(|bad| (bad.file, bad.why)).collect();
        let served = Served { exchange, bad: Mutex::new(bad), faces };
        served.measure(&served.bad());
        Arc::new(served)
    }

    fn bad(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measure(&self, bad: &BTreeMap<String, String>) {
        let certificates = Arc::clone(&self.exchange.borrow().certificates);
        let soonest = certificates.files().map(|file| file.not_after).min();
        let metrics = self.faces.metrics();
        metrics.set_certificates(certificates.count(), soonest.unwrap_or(0));
        metrics.set_bad_certificates(bad.len());
    }

    fn exchange(&self, certificates: Certificates, keeper: Arc<Keeper>) {
        self.exchange.send_replace(Tls { certificates: Arc::new(certificates), keeper });
    }

    /// Tells of what is newly wrong; what was asked and is not wrong is well again.
    fn note(
        &self,
        bad: &mut BTreeMap<String, String>,
        asked: impl Fn(&str) -> bool,
        found: Vec<BadCertificate>,
    ) {
        let fresh: Vec<_> =
            found.iter().filter(|found| bad.get(&found.file) != Some(&found.why)).cloned().collect();
        bad.retain(|file, _| !asked(file));
        bad.extend(found.into_iter().map(|found| (found.file, found.why)));
        tell(&fresh);
        self.measure(bad);
    }

    /// Looks at the whole directory again; says how many certificates there are, and whether nothing is wrong.
    pub(crate) fn look_again(&self, rules: Rules) -> anyhow::Result<(usize, bool)> {
        let mut bad = self.bad();
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        let looked = keeper.directory.look_again(&certificates, rules, clock::nanos())?;
        if looked.certificates.is_empty() {
            anyhow::bail!("no certificate would be left in `{}`", keeper.directory.path().display());
        }
        let (count, is_well) = (looked.certificates.count(), looked.bad.is_empty());
        self.exchange(looked.certificates, keeper);
        // Whatever is not known to be good was read again.
        warn(&looked.warnings);
        self.note(&mut bad, |_| true, looked.bad);
        Ok((count, is_well))
    }

    /// Whether this is the directory.
    pub(crate) fn is_of(&self, directory: &std::path::Path) -> bool {
        self.exchange.borrow().keeper.directory.path() == directory
    }

    /// With another directory from now on.
    pub(crate) fn move_to(&self, keeper: Keeper, rules: Rules) -> anyhow::Result<(usize, bool)> {
        let (certificates, found) = keeper.load(rules)?;
        let mut bad = self.bad();
        let (count, is_well) = (certificates.count(), found.is_empty());
        self.exchange(certificates, Arc::new(keeper));
        self.note(&mut bad, |_| true, found);
        Ok((count, is_well))
    }

    /// Reads every key, tells how long that took, and takes out what cannot be used.
    pub(crate) fn verify(self: &Arc<Self>) -> anyhow::Result<()> {
        let served = Arc::clone(self);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            let Tls { certificates, keeper } = served.exchange.borrow().clone();
            let (began, done) = (clock::nanos(), AtomicUsize::new(0));
            let (out, Verified { bad: found, warnings, changed }) = keeper.verify(&certificates, &done);
            warn(&warnings);
            let seconds = (clock::nanos().saturating_sub(began)) as f64 / 1e9;
            let count = done.load(Ordering::Relaxed);
            let wrong = found.len();
            if count > 1 || wrong > 0 {
                output::note(&format!(
                    "{count} certificates verified in {seconds:.1} s; {wrong} cannot be used"
                ));
            }
            let mut bad = served.bad();
            let now = served.exchange.borrow().clone();
            if Arc::ptr_eq(&now.keeper, &keeper) && wrong > 0 {
                let next = now.certificates.after(out);
                // Where nothing would be left, what there is says at the handshake what is wrong.
                if !next.is_empty() {
                    served.exchange(next, keeper);
                }
                served.note(&mut bad, |_| false, found);
            }
            drop(bad);
            if !changed.is_empty() {
                served.look_at(Changed::Names(changed));
            }
        })?;
        Ok(())
    }

    /// Looks at what changed, under the rules there are.
    pub(crate) fn look_at(&self, changed: Changed) {
        let names = match changed {
            Changed::Names(names) => names,
            Changed::Everything => {
                let rules = self.exchange.borrow().certificates.rules();
                if let Err(why) = self.look_again(rules) {
                    output::note(&format!("warning: the certificates are as they were: {why:#}"));
                }
                return;
            }
        };
        let mut bad = self.bad();
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        let rules = certificates.rules();
        let looked = keeper.directory.look_at(&certificates, &names, rules, clock::nanos());
        if looked.certificates.is_empty() {
            output::note("warning: no certificate is left; the last ones are kept until there is another");
            return;
        }
        self.exchange(looked.certificates, Arc::clone(&keeper));
        let asked =
            |file: &str| names.iter().any(|name| keeper.directory.path().join(name).as_os_str() == file);
        warn(&looked.warnings);
        self.note(&mut bad, asked, looked.bad);
    }

    /// Follows the directory.
    pub(crate) fn follow(self: &Arc<Self>) -> anyhow::Result<()> {
        let served = Arc::clone(self);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            let mut watched: Option<(std::path::PathBuf, DirectoryWatch)> = None;
            loop {
                let directory = served.exchange.borrow().keeper.directory.path().to_owned();
                if watched.as_ref().is_none_or(|(of, _)| *of != directory) {
                    watched = DirectoryWatch::new(&directory).ok().map(|watch| (directory, watch));
                    // Whatever happened before it was watched.
                    served.look_at(Changed::Everything);
                }
                let Some((_, watch)) = &watched else {
                    std::thread::park_timeout(WATCH_TURN);
                    continue;
                };
                let mut changed = watch.wait(WATCH_TURN);
                if changed.is_nothing() {
                    continue;
                }
                for _ in 0..QUIET_TURNS_MAX {
                    let more = watch.wait(QUIET);
                    if more.is_nothing() {
                        break;
                    }
                    changed = changed.and(more);
                }
                if changed == Changed::Everything {
                    watched = None;
                } else {
                    served.look_at(changed);
                }
            }
        })?;
        Ok(())
    }
}
