//! Replaces the served certificates at run time. Only one thread at a time makes a change. Each change publishes a new snapshot.

use super::told::{TOLD_MAX, described, how_to_add, unusable, warn};
use super::{Keeper, tell};
use crate::config::Tls as TlsConfig;
use crate::listen::Tls;
use crate::{clock, output};
use anyhow::Context;
use enfilade_admin::{BadCertificate, CertificateFiles, Examined, Looked, Verified};
use enfilade_faces::Faces;
use enfilade_sources::files::certificates::{Changed, ChangedFiles, DirectoryWatch, links_of};
use enfilade_tls::{Certificates, Rules, Tickets};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The served certificates, and the problems of their files.
pub(crate) struct Served {
    exchange: watch::Sender<Tls>,
    /// The present problems. The lock is also held during every change of the served certificates.
    faults: Mutex<Faults>,
    /// The time of the last daily check for expiring certificates and revocation lists, in seconds since the epoch; 0 before the first check.
    ends_told: Mutex<i64>,
    /// The watch that reports changed files. A new watch replaces it if a reload sets another directory or crt-list, or if a link leads to another
    /// file. `None` while the files cannot be watched.
    watched: Mutex<Option<Arc<Watched>>>,
    faces: Faces,
    tickets: Tickets,
}

/// The problems that exist now. The metrics show exactly these problems. The metrics include the problems that were found after a signal, and the
/// problems that were found after a file had changed.
#[derive(Default)]
struct Faults {
    /// The problem of each bad file, by its path.
    files: BTreeMap<String, String>,
    /// Whether the directory or the crt-list was refused. If it was refused, the earlier certificates are served.
    is_place_refused: bool,
    /// Whether the last reload refused the configuration.
    is_configuration_refused: bool,
}

/// How long a directory of certificates must be unchanged before it is read. The reason: several files are often written one after the other, or a
/// file is written twice.
const QUIET: Duration = Duration::from_millis(100);
/// The maximum number of waits of [`QUIET`] for a directory. After the last wait, the directory is read even if changes continue.
const QUIET_TURNS_MAX: usize = 20;
/// Warnings begin this many days before a certificate expires, because a renewal by hand takes days.
const SOON_DAYS: i64 = 14;
const DAY: i64 = 86_400;
/// How long one wait for a change lasts. After each wait, the loop checks whether a reload has replaced the watch.
const WATCH_TURN: Duration = Duration::from_secs(1);
/// The number of waits after which links and expiry dates are checked again.
const WATCH_TURNS: usize = 60;

impl Served {
    pub(crate) fn new(
        exchange: watch::Sender<Tls>,
        bad: Vec<BadCertificate>,
        faces: Faces,
        tickets: Tickets,
    ) -> Arc<Self> {
        let first = exchange.borrow().clone();
        tell(&bad, &first.certificates, &first.keeper);
        let files = bad.into_iter().map(|bad| (bad.file, bad.why)).collect();
        let faults = Mutex::new(Faults { files, ..Faults::default() });
        let (ends_told, watched) = (Mutex::new(0), Mutex::default());
        let served = Arc::new(Served { exchange, faults, ends_told, watched, faces, tickets });
        served.measure(&served.faults());
        let keeper = Arc::clone(&served.exchange.borrow().keeper);
        served.reserve(&keeper);
        served.faces.set_certificates(Arc::clone(&served) as _);
        served
    }

    /// Reserves the directories of certificates. So no datastore can contain them.
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
            // Closes open roots of datastores. So each root is checked against the reserved paths when it is opened again.
            let _ = house.close_idle_roots();
        }
    }

    /// The keys that seal session tickets. All certificates use the same keys.
    pub(crate) fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// The snapshot that handshakes use now.
    pub(super) fn now(&self) -> Tls {
        self.exchange.borrow().clone()
    }

    /// At most `most` files that cannot be used, with the reasons, and the number of all of them.
    pub(super) fn bad(&self, most: usize) -> (Vec<(String, String)>, usize) {
        let files = &self.faults().files;
        let some = files.iter().take(most).map(|(file, why)| (file.clone(), why.clone()));
        (some.collect(), files.len())
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self) -> MutexGuard<'_, Option<Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measure(&self, faults: &Faults) {
        let certificates = Arc::clone(&self.exchange.borrow().certificates);
        let soonest = certificates.files().map(|file| file.not_after).min();
        let metrics = self.faces.metrics();
        metrics.set_certificates(certificates.count(), soonest.unwrap_or(0));
        metrics.set_bad_certificates(faults.files.len());
        metrics.set_reload_failed(faults.is_place_refused || faults.is_configuration_refused);
    }

    fn exchange(&self, certificates: Certificates, keeper: Arc<Keeper>) {
        self.reserve(&keeper);
        let default = |certificates: &Certificates| certificates.fallback().map(|file| file.path.clone());
        let (before, after) = (default(&self.exchange.borrow().certificates), default(&certificates));
        if let Some(file) = after.filter(|after| before.as_ref() != Some(after)) {
            output::note(&format!(
                "certificate `{file}` is the default certificate from now on: the server sends it for server names that no certificate contains"
            ));
        }
        self.exchange.send_replace(Tls { certificates: Arc::new(certificates), keeper });
    }

    /// Logs new problems. Removes the problems of examined files that are usable again.
    fn note(&self, faults: &mut Faults, examined: &Examined, found: Vec<BadCertificate>) {
        let known = &faults.files;
        let fresh: Vec<_> =
            found.iter().filter(|found| known.get(&found.file) != Some(&found.why)).cloned().collect();
        faults.files.retain(|file, _| !examined.has(file));
        faults.files.extend(found.into_iter().map(|found| (found.file, found.why)));
        let now = self.exchange.borrow().clone();
        tell(&fresh, &now.certificates, &now.keeper);
        self.measure(faults);
    }

    /// Reads the whole directory or crt-list again. Returns the number of served certificates, and the number of files that cannot be used.
    pub(crate) fn look_again(&self, rules: Rules) -> anyhow::Result<[usize; 2]> {
        self.look(&mut self.faults(), rules, None)?;
        self.watch();
        Ok(self.counts())
    }

    /// The number of served certificates, and the number of files that cannot be used.
    fn counts(&self) -> [usize; 2] {
        let bad = self.faults().files.len();
        [self.exchange.borrow().certificates.count(), bad]
    }

    /// Reads the changed files (all files if `changed` is `None`), and serves the certificates that were found. If the directory or crt-list cannot
    /// be used, or no certificate is left, the earlier certificates stay. Returns the number of served certificates, and a list of the changes.
    fn look(
        &self,
        faults: &mut Faults,
        rules: Rules,
        changed: Option<&BTreeSet<PathBuf>>,
    ) -> anyhow::Result<(usize, String)> {
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        // If the only remaining certificate was removed, the snapshot was not replaced, so the removed certificate is still served. In this case, all
        // files are read, and not only the changed files.
        let is_empty = faults.is_place_refused && !keeper.files.is_behind();
        let looked = match changed.filter(|_| !is_empty) {
            Some(changed) => keeper.files.look_at(&certificates, changed, rules, clock::nanos()),
            None => keeper.files.look_again(&certificates, rules, clock::nanos()),
        };
        let looked = looked.with_context(|| unusable(keeper.place())).and_then(|looked| {
            match looked.certificates.is_empty() {
                true => anyhow::bail!(
                    "no usable certificate is left in {}: {}",
                    described(keeper.place()),
                    how_to_add(keeper.place())
                ),
                false => Ok(looked),
            }
        });
        faults.is_place_refused = looked.is_err() || keeper.files.is_behind();
        let looked = looked.inspect_err(|_| self.measure(faults))?;
        Ok(self.publish(faults, &certificates, keeper, looked))
    }

    /// Serves the certificates that were found. Returns their number, and a list of the changes since `before`.
    fn publish(
        &self,
        faults: &mut Faults,
        before: &Certificates,
        keeper: Arc<Keeper>,
        looked: Looked,
    ) -> (usize, String) {
        let (count, changes) =
            (looked.certificates.count(), changes(before, &looked.certificates, &looked.examined));
        self.exchange(looked.certificates, keeper);
        warn(&looked.warnings);
        self.note(faults, &looked.examined, looked.bad);
        (count, changes)
    }

    /// Records whether a reload refused the configuration.
    pub(crate) fn configured(&self, is_refused: bool) {
        let mut faults = self.faults();
        faults.is_configuration_refused = is_refused;
        self.measure(&faults);
    }

    /// Whether the served certificates come from this configuration.
    pub(crate) fn is_of(&self, tls: &TlsConfig, data: &Path) -> bool {
        self.exchange.borrow().keeper.is_of(tls, data)
    }

    /// Serves the certificates of another place from now on, and watches that place. Returns the number of served certificates, and the number of
    /// files that cannot be used.
    pub(crate) fn move_to(&self, keeper: Keeper, rules: Rules) -> anyhow::Result<[usize; 2]> {
        // The lock is held while the files are read. So if the watch reports a change during this time, the change is read with the new keeper.
        let mut faults = self.faults();
        let (certificates, found) = keeper.load(rules)?;
        self.exchange(certificates, Arc::new(keeper));
        faults.is_place_refused = false;
        self.note(&mut faults, &Examined::All, found);
        drop(faults);
        self.watch();
        Ok(self.counts())
    }

    /// Watches the directories of the certificates, unless they are watched already. After a new watch has begun, all files are read again, because
    /// they may have changed before the watch began.
    fn watch(&self) {
        self.watch_unless(Watched::is_of);
    }

    /// Like [`Self::watch`], but keeps the present watch if `is_enough` says that it is sufficient.
    fn watch_unless(&self, is_enough: fn(&Watched, &CertificateFiles) -> bool) {
        let keeper = Arc::clone(&self.exchange.borrow().keeper);
        let mut watched = self.watched();
        if watched.as_ref().is_some_and(|watched| is_enough(watched, &keeper.files)) {
            return;
        }
        *watched = Watched::new(&keeper.files).ok().map(Arc::new);
        drop(watched);
        self.look_at(None);
    }

    /// Starts a thread that reads every key, and stops serving unusable certificates.
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
                let verified = output::counted(count, "certificate", "certificates");
                output::note(&format!("{verified} verified in {seconds:.1} s; {wrong} cannot be used"));
            }
            let mut faults = served.faults();
            let now = served.exchange.borrow().clone();
            if Arc::ptr_eq(&now.keeper, &keeper) && wrong > 0 {
                let next = now.certificates.after(out);
                // If no certificate would remain, the old certificates stay, and each handshake that needs an unusable key fails.
                if !next.is_empty() {
                    served.exchange(next, keeper);
                }
                served.note(&mut faults, &Examined::Files(BTreeSet::new()), found);
            }
            drop(faults);
            if !changed.is_empty() {
                served.look_at(Some(&changed));
            }
            served.write_down();
        })?;
        Ok(())
    }

    /// Reads these files (all files if `files` is `None`), applies the current rules, and logs the changes.
    pub(crate) fn look_at(&self, files: Option<&BTreeSet<PathBuf>>) {
        let mut faults = self.faults();
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        let was_refused = faults.is_place_refused;
        match self.look(&mut faults, certificates.rules(), files) {
            Ok((count, changes)) => {
                let is_list = files.is_some_and(|files| files.contains(keeper.place().path()));
                if is_list || !changes.is_empty() || was_refused && !faults.is_place_refused {
                    output::note(&from_now_on(count, &changes));
                }
            }
            Err(why) => output::note(&format!(
                "warning: certificates not reloaded, {}: {why:#}",
                remaining(&certificates, &keeper)
            )),
        }
    }

    /// Serves renewed certificates immediately if their new files were renamed over the old files: such files are complete, so further changes need
    /// not be awaited. If one of the files cannot be used, for example because the file of its key is renamed a little later, nothing changes and
    /// nothing is logged. Returns the files that were read and need not be read again.
    fn look_early(&self, changed: &ChangedFiles) -> BTreeSet<PathBuf> {
        let mut faults = self.faults();
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        let is_served = |file: &&PathBuf| certificates.at_path(&file.to_string_lossy(), |_| true).is_some();
        let renewed: BTreeSet<PathBuf> = changed.renamed.iter().filter(is_served).cloned().collect();
        if renewed.is_empty() || faults.is_place_refused {
            return BTreeSet::new();
        }
        match keeper.files.look_at(&certificates, &renewed, certificates.rules(), clock::nanos()) {
            Ok(looked) if looked.bad.is_empty() && !looked.certificates.is_empty() => {
                let (count, changes) = self.publish(&mut faults, &certificates, keeper, looked);
                if !changes.is_empty() {
                    output::note(&from_now_on(count, &changes));
                }
                renewed
            }
            _ => BTreeSet::new(),
        }
    }

    /// Writes the index for the next start.
    pub(crate) fn write_down(&self) {
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        keeper.write_down(&certificates);
    }

    /// Starts a thread that reacts to changes of the files. `watched` was opened before the files were read at the start. So no change is missed.
    pub(crate) fn follow(self: &Arc<Self>, watched: Option<Watched>) -> anyhow::Result<()> {
        let served = Arc::clone(self);
        // If the server used the index at its start without a check, the files have not been checked yet. Without `watched`, the loop begins with a
        // check of all files.
        let watched = watched.filter(|_| !self.exchange.borrow().keeper.believes);
        *self.watched() = watched.map(Arc::new);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            // The search for links lists the whole directory, so it is not repeated after each change.
            let mut searches_links = true;
            loop {
                served.watch_unless(if searches_links { Watched::is_of } else { Watched::is_of_directories });
                searches_links = true;
                served.warn_of_ends();
                let now = served.watched().clone();
                let Some(now) = now else {
                    served.wait_for_the_place();
                    continue;
                };
                let Some(mut changed) = served.next_change(&now) else { continue };
                if let Changed::Files(files) = &mut changed {
                    let read = served.look_early(files);
                    files.all.retain(|file| !read.contains(file));
                }
                for _ in 0..QUIET_TURNS_MAX {
                    let more = now.wait(QUIET);
                    if more.is_nothing() {
                        break;
                    }
                    changed = changed.and(more);
                }
                match changed {
                    Changed::Files(files) => {
                        if !files.all.is_empty() {
                            served.look_at(Some(&files.all));
                        }
                        searches_links = false;
                    }
                    Changed::Everything => {
                        // The next iteration of the loop begins a new watch, and reads all files.
                        served.watched().take_if(|watched| Arc::ptr_eq(watched, &now));
                    }
                }
            }
        })?;
        Ok(())
    }

    /// Waits for a change. Returns `None` if there was no change for a minute, or if a reload has replaced the watch.
    fn next_change(&self, now: &Arc<Watched>) -> Option<Changed> {
        for _ in 0..WATCH_TURNS {
            let changed = now.wait(WATCH_TURN);
            if !changed.is_nothing() {
                return Some(changed);
            }
            if self.watched().as_ref().is_none_or(|watched| !Arc::ptr_eq(watched, now)) {
                return None;
            }
        }
        None
    }

    /// Waits, for at most a minute, until the directory or crt-list can be watched. A directory that was moved away may come back at any time, and a
    /// reload may set another directory.
    fn wait_for_the_place(&self) {
        for _ in 0..WATCH_TURNS {
            std::thread::park_timeout(WATCH_TURN);
            let keeper = Arc::clone(&self.exchange.borrow().keeper);
            if self.watched().is_some() || Watched::new(&keeper.files).is_ok() {
                return;
            }
        }
    }

    /// Logs once a day which certificates and revocation lists expire soon or have expired.
    fn warn_of_ends(&self) {
        let now = clock::now().unix_seconds;
        let mut told = self.ends_told.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *told + DAY {
            return;
        }
        let is_first = std::mem::replace(&mut *told, now) == 0;
        drop(told);
        let Tls { certificates, keeper } = self.exchange.borrow().clone();
        // At the start, the warnings about revocation lists were already logged when the files were read.
        if !is_first {
            warn(&keeper.files.revocations(clock::nanos()));
        }
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
            let more = output::counted(
                ending.len() - TOLD_MAX,
                "more certificate expires",
                "more certificates expire",
            );
            output::note(&format!(
                "warning: {more} soon, or expired already; see `enfilade certs list --expiring {SOON_DAYS}d`"
            ));
        }
    }
}

/// The beginning of a sentence that says how many certificates are served.
pub(crate) fn count_of(count: usize) -> String {
    format!("{} served", output::counted(count, "certificate is", "certificates are"))
}

/// Says how many certificates are served after these changes.
fn from_now_on(count: usize, changes: &str) -> String {
    format!("{} from now on{changes}", count_of(count))
}

/// A list of the examined files that have a new certificate or key (`+`), or no certificate any more (`-`).
fn changes(before: &Certificates, after: &Certificates, examined: &Examined) -> String {
    let version = |certificates: &Certificates, path: &str| {
        certificates.at_path(path, |_| true).map(|file| file.version)
    };
    let change = |path: &str| match (version(before, path), version(after, path)) {
        (Some(_), None) => Some(format!(" -{path}")),
        (old, Some(new)) if old != Some(new) => Some(format!(" +{path}")),
        _ => None,
    };
    let all: BTreeSet<String> = match examined {
        Examined::Files(files) => files.iter().filter_map(|path| change(path.to_str()?)).collect(),
        // One lookup for each file of a snapshot leaves out the files that did not change.
        Examined::All => {
            let gone = before.files().filter(|file| version(after, &file.path).is_none());
            let new = after.files().filter(|file| version(before, &file.path) != Some(file.version));
            gone.chain(new).filter_map(|file| change(&file.path)).collect()
        }
    };
    let shown: String = all.iter().take(TOLD_MAX).map(String::as_str).collect();
    if shown.is_empty() { shown } else { format!(":{shown}") }
}

/// Describes which connections still work while the files cannot be read. If the key of a certificate is not in memory, the certificate can be served
/// only while its file can be read.
fn remaining(certificates: &Certificates, keeper: &Keeper) -> String {
    let on_disk = certificates.files().filter(|file| !keeper.memo.can_serve(file, &keeper.digest));
    let is_lost = |path: &str| keeper.files.is_usable(Path::new(path)).is_err();
    let lost: BTreeSet<&str> =
        on_disk.take(TOLD_MAX).map(|file| &*file.path).filter(|path| is_lost(path)).collect();
    match lost.is_empty() {
        true => "the earlier certificates stay in use".to_owned(),
        false => format!(
            "the earlier certificates stay in use, but the server cannot read the key of {}: TLS handshakes with these certificates fail until the \
             files can be read",
            output::some(&lost.into_iter().collect::<Vec<_>>())
        ),
    }
}

/// The watched directories of certificate files.
pub(crate) struct Watched {
    directories: BTreeSet<PathBuf>,
    /// The files to which links in the directories lead, and the links on the way. The directories of all these files and links are watched, too.
    links: BTreeSet<PathBuf>,
    watch: DirectoryWatch,
}

impl Watched {
    /// Starts watching.
    ///
    /// # Errors
    /// When a directory does not exist, or the kernel refuses the watch.
    pub(crate) fn new(files: &CertificateFiles) -> std::io::Result<Self> {
        let directories = files.directories();
        let links = links_of(&directories);
        let also: BTreeSet<PathBuf> =
            links.iter().filter_map(|link| link.parent()).map(Path::to_owned).collect();
        let watch = DirectoryWatch::new(directories.iter().cloned(), also)?;
        Ok(Watched { directories, links, watch })
    }

    /// Starts watching only the directories, without a search for links. The caller must call [`Self::is_of`] later.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn without_links(directories: BTreeSet<PathBuf>) -> std::io::Result<Self> {
        let links = BTreeSet::new();
        let watch = DirectoryWatch::new(directories.iter().cloned(), [])?;
        Ok(Watched { directories, links, watch })
    }

    /// Whether this watch covers the directories of `files`.
    pub(super) fn is_of_directories(&self, files: &CertificateFiles) -> bool {
        self.directories == files.directories()
    }

    /// Whether this watch still covers `files`: the directories are the watched directories, and their links lead to the same files as at the
    /// beginning of the watch.
    pub(crate) fn is_of(&self, files: &CertificateFiles) -> bool {
        let directories = files.directories();
        self.directories == directories && self.links == links_of(&directories)
    }

    /// Waits for a change, for at most the time `at_most`. Returns the changes since the last call. Returns [`Changed::Everything`] if a link or its
    /// target changed, if there is a new link, or if it is not known which files changed.
    pub(crate) fn wait(&self, at_most: Duration) -> Changed {
        let until = clock::nanos().saturating_add(at_most.as_nanos() as u64);
        loop {
            let left = until.saturating_sub(clock::nanos());
            let mut files = match self.watch.wait(Duration::from_nanos(left)) {
                Changed::Files(files) if files.all.is_disjoint(&self.links) => files,
                _ => return Changed::Everything,
            };
            // The directories to which links lead also contain other files. Changes of these other files do not matter.
            let is_within =
                |file: &PathBuf| file.parent().is_some_and(|parent| self.directories.contains(parent));
            files.all.retain(is_within);
            files.renamed.retain(is_within);
            if files.all.iter().any(|file| file.is_symlink()) {
                return Changed::Everything;
            }
            if left == 0 || !files.all.is_empty() {
                return Changed::Files(files);
            }
        }
    }
}
