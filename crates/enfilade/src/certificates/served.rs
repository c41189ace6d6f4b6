//! Replaces the served certificates at run time. Changes are made one after the other, and each publishes a new snapshot.

use super::{Keeper, TOLD_MAX, tell, warn};
use crate::config::Tls as TlsConfig;
use crate::listen::Tls;
use crate::{clock, output};
use anyhow::Context;
use enfilade_admin::{BadCertificate, Verified};
use enfilade_faces::Faces;
use enfilade_sources::files::certificates::{Changed, DirectoryWatch};
use enfilade_tls::{Certificates, Rules, Tickets};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The served certificates, and the files that cannot be used.
pub(crate) struct Served {
    exchange: watch::Sender<Tls>,
    /// The problem of each bad file, by its path. The lock is held during every change.
    bad: Mutex<BTreeMap<String, String>>,
    /// When the last warning about expiring certificates was logged, in seconds since the epoch.
    ends_told: Mutex<i64>,
    faces: Faces,
    tickets: Tickets,
}

/// How long a directory of certificates must be unchanged before it is read: files are often written together, or twice.
const QUIET: Duration = Duration::from_millis(100);
/// The maximum number of waits of [`QUIET`] for a directory. After the last wait, the directory is read even if changes continue.
const QUIET_TURNS_MAX: usize = 20;
/// Warnings begin this many days before a certificate expires, because a renewal by hand takes days.
const SOON_DAYS: i64 = 14;
const DAY: i64 = 86_400;
const WATCH_TURN: Duration = Duration::from_secs(60);

impl Served {
    pub(crate) fn new(
        exchange: watch::Sender<Tls>,
        bad: Vec<BadCertificate>,
        faces: Faces,
        tickets: Tickets,
    ) -> Arc<Self> {
        tell(&bad);
        let bad = bad.into_iter().map(|bad| (bad.file, bad.why)).collect();
        let served = Served { exchange, bad: Mutex::new(bad), ends_told: Mutex::new(0), faces, tickets };
        served.measure(&served.bad());
        let keeper = Arc::clone(&served.exchange.borrow().keeper);
        served.reserve(&keeper);
        Arc::new(served)
    }

    /// Reserves the directories of certificates, so that no datastore contains them.
    fn reserve(&self, keeper: &Keeper) {
        let (house, directories) = (self.faces.house(), keeper.files.directories());
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let directories: BTreeSet<PathBuf> = directories.iter().map(absolute).collect();
        let mut is_other = false;
        house.reserved().change(|reserved| {
            is_other = reserved.certificates != directories;
            reserved.certificates = directories;
        });
        if is_other {
            // Closes open roots of datastores, so that each is checked against the reserved paths when it is opened again.
            let _ = house.close_idle_roots();
        }
    }

    /// The keys that seal session tickets of all certificates.
    pub(crate) fn tickets(&self) -> &Tickets {
        &self.tickets
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
        self.reserve(&keeper);
        let default = |certificates: &Certificates| certificates.fallback().map(|file| file.path.clone());
        let (before, after) = (default(&self.exchange.borrow().certificates), default(&certificates));
        if let Some(file) = after.filter(|after| before.as_ref() != Some(after)) {
            output::note(&format!(
                "certificate `{file}` is the default certificate from now on: it is sent for names that no certificate has"
            ));
        }
        self.exchange.send_replace(Tls { certificates: Arc::new(certificates), keeper });
    }

    /// Logs new problems; removes the problems of examined files that are good again.
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

    /// Reads the whole directory again. Returns the number of certificates, and whether all files are usable.
    pub(crate) fn look_again(&self, rules: Rules) -> anyhow::Result<(usize, bool)> {
        let mut bad = self.bad();
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        let looked = keeper.files.look_again(&certificates, rules, clock::nanos());
        let looked = looked.with_context(|| keeper.unusable())?;
        if looked.certificates.is_empty() {
            anyhow::bail!("there is no usable certificate in {}; see `enfilade certs check`", keeper.place());
        }
        let (count, is_well) = (looked.certificates.count(), looked.bad.is_empty());
        self.exchange(looked.certificates, keeper);
        // Every file that was not known to be good was read again, so these problems replace all earlier ones.
        warn(&looked.warnings);
        self.note(&mut bad, |_| true, looked.bad);
        Ok((count, is_well))
    }

    /// Whether the served certificates come from this configuration.
    pub(crate) fn is_of(&self, tls: &TlsConfig, data: &Path) -> bool {
        self.exchange.borrow().keeper.is_of(tls, data)
    }

    /// Serves the certificates of another place from now on.
    pub(crate) fn move_to(&self, keeper: Keeper, rules: Rules) -> anyhow::Result<(usize, bool)> {
        let (certificates, found) = keeper.load(rules)?;
        let mut bad = self.bad();
        let (count, is_well) = (certificates.count(), found.is_empty());
        self.exchange(certificates, Arc::new(keeper));
        self.note(&mut bad, |_| true, found);
        Ok((count, is_well))
    }

    /// Reads every key, logs how long that took, and stops serving unusable certificates.
    pub(crate) fn verify(self: &Arc<Self>) -> anyhow::Result<()> {
        let served = Arc::clone(self);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            let Tls { certificates, keeper } = served.exchange.borrow().clone();
            let (began, done) = (clock::nanos(), AtomicUsize::new(0));
            let Verified { bad: found, warnings, changed, out } = keeper.verify(&certificates, &done);
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
                // If no certificate would remain, the old certificates stay, and each handshake reports the problem.
                if !next.is_empty() {
                    served.exchange(next, keeper);
                }
                served.note(&mut bad, |_| false, found);
            }
            drop(bad);
            if !changed.is_empty() {
                served.look_at(Changed::Files(changed));
            }
            served.write_down();
        })?;
        Ok(())
    }

    /// Reads the changed files and applies the current rules.
    pub(crate) fn look_at(&self, changed: Changed) {
        let files = match changed {
            Changed::Files(files) => files,
            Changed::Everything => {
                let rules = self.exchange.borrow().certificates.rules();
                if let Err(why) = self.look_again(rules) {
                    not_reloaded(&why);
                }
                return;
            }
        };
        let mut bad = self.bad();
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        let rules = certificates.rules();
        let looked = match keeper.files.look_at(&certificates, &files, rules, clock::nanos()) {
            Ok(looked) => looked,
            Err(why) => return not_reloaded(&anyhow::Error::from(why).context(keeper.unusable())),
        };
        if looked.certificates.is_empty() {
            output::note(
                "warning: no usable certificate is left; the old ones stay in use until one is added; see `enfilade certs check`",
            );
            return;
        }
        let changes = changes(&certificates, &looked.certificates, &files);
        let is_list = files.contains(keeper.files.place().path());
        if is_list || !changes.is_empty() {
            output::note(&format!("{} from now on{changes}", count_of(looked.certificates.count())));
        }
        self.exchange(looked.certificates, Arc::clone(&keeper));
        let asked = |file: &str| files.contains(Path::new(file));
        warn(&looked.warnings);
        self.note(&mut bad, asked, looked.bad);
    }

    /// Writes the index for the next start.
    pub(crate) fn write_down(&self) {
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        keeper.write_down(&certificates);
    }

    /// Starts a thread that reacts to changes of the files. `watched` was opened before the files were first read, so that no change is missed.
    pub(crate) fn follow(self: &Arc<Self>, watched: Option<Watched>) -> anyhow::Result<()> {
        let served = Arc::clone(self);
        // If the index was trusted at the start, the files must be checked now: without `watched`, the loop begins with a check of all files.
        let mut watched = watched.filter(|_| !self.exchange.borrow().keeper.believes);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            loop {
                let keeper = Arc::clone(&served.exchange.borrow().keeper);
                let directories = keeper.files.directories();
                if watched.as_ref().is_none_or(|watched| watched.directories != directories) {
                    watched = Watched::new(directories);
                    // Finds changes that were made before the watch began.
                    served.look_at(Changed::Everything);
                }
                served.warn_of_ends();
                let Some(Watched { watch, .. }) = &watched else {
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

    /// Logs once a day which certificates expire soon or have expired.
    fn warn_of_ends(&self) {
        let now = clock::now().unix_seconds;
        let mut told = self.ends_told.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *told + DAY {
            return;
        }
        *told = now;
        drop(told);
        let certificates = Arc::clone(&self.exchange.borrow().certificates);
        let mut ending: Vec<_> =
            certificates.files().filter(|file| file.not_after < now + SOON_DAYS * DAY).collect();
        ending.sort_by(|a, b| (a.not_after, &a.path).cmp(&(b.not_after, &b.path)));
        for file in ending.iter().take(TOLD_MAX) {
            let until = output::time(file.not_after);
            output::note(&match file.not_after < now {
                true => format!("warning: certificate `{}` expired at {until}: renew it", file.path),
                false => format!("warning: certificate `{}` expires at {until}: renew it", file.path),
            });
        }
        if ending.len() > TOLD_MAX {
            let more = ending.len() - TOLD_MAX;
            output::note(&format!(
                "warning: and {more} more expire soon; see `enfilade certs list --expiring {SOON_DAYS}d`"
            ));
        }
    }
}

fn not_reloaded(why: &anyhow::Error) {
    output::note(&format!("warning: certificates not reloaded, the old ones stay in use: {why:#}"));
}

/// The beginning of a sentence that says how many certificates are served.
pub(crate) fn count_of(count: usize) -> String {
    format!("{} served", output::counted(count, "certificate is", "certificates are"))
}

/// A list of the files that have a new certificate (`+`), or no certificate any more (`-`).
fn changes(before: &Certificates, after: &Certificates, files: &BTreeSet<PathBuf>) -> String {
    let version = |certificates: &Certificates, path: &str| {
        certificates.at_path(path, |_| true).map(|file| file.version)
    };
    let change = |path: &PathBuf| {
        let path = path.to_str()?;
        match (version(before, path), version(after, path)) {
            (Some(_), None) => Some(format!(" -{path}")),
            (old, Some(new)) if old != Some(new) => Some(format!(" +{path}")),
            _ => None,
        }
    };
    let all: String = files.iter().filter_map(change).take(TOLD_MAX).collect();
    if all.is_empty() { all } else { format!(":{all}") }
}

/// Watched directories.
pub(crate) struct Watched {
    directories: BTreeSet<PathBuf>,
    watch: DirectoryWatch,
}

impl Watched {
    /// Starts watching; `None` if the kernel refuses.
    pub(crate) fn new(directories: BTreeSet<PathBuf>) -> Option<Self> {
        let watch = DirectoryWatch::new(directories.iter().cloned()).ok()?;
        Some(Watched { directories, watch })
    }
}
