//! Reads and verifies the certificates of a directory or a crt-list, and follows changes of their files.

mod changed;
mod index;
mod listing;
mod shown;
mod terms;
#[cfg(test)]
mod tests;
mod usable;

pub use index::{IndexUse, LeafIndex};
pub use shown::LinePolicy;
pub use terms::CertificateTerms;

use enfilade_sources::files::certificates::{
    Engine, Identity, Listed, Threads, WholeBundle, bundles_of_companion, engine, files_of_kinds, read_whole,
};
use enfilade_tls::{
    Bundle, CertificateFile, Certificates, Digest, DigestedLeaf, FileChange, Leaf, Parts, Policy, Ready,
    Room, Rules, WITHOUT_KEY,
};
use listing::Listing;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A problem of a certificate file or of a line of a crt-list. Unless the problem is in a list of warnings, the file or line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("certificate `{file}` is left out: {why}")]
pub struct BadCertificate {
    /// The path of the file, or `LIST:NUMBER` for a line of a crt-list.
    pub file: String,
    /// The problem, in words.
    pub why: String,
}

/// The place of the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificatePlace {
    /// A directory of PEM bundles, read by HAProxy's rules.
    Directory(PathBuf),
    /// A crt-list in HAProxy's format.
    List(PathBuf),
}

impl CertificatePlace {
    /// The path of the directory or the list.
    pub fn path(&self) -> &Path {
        match self {
            CertificatePlace::Directory(path) | CertificatePlace::List(path) => path,
        }
    }
}

/// The certificate files of a place.
pub struct CertificateFiles {
    place: CertificatePlace,
    engine: Box<dyn Engine>,
    digest: Digest,
    terms: CertificateTerms,
    versions: AtomicU64,
    /// The time of the last [`Self::look`] or [`Self::look_past`], in nanoseconds since the epoch.
    looked: AtomicU64,
    listing: Mutex<Option<Arc<Listing>>>,
    /// The list of the directory that the next look uses.
    listed: Mutex<Option<Listed>>,
    /// Whether the directory or the list could not be used at the last [`Self::look_again`], so that earlier certificates are in use.
    is_behind: AtomicBool,
}

/// The files that were examined.
#[derive(Debug)]
pub enum Examined {
    /// All files of the place.
    All,
    /// Changed files, with the bundles that they belong to.
    Files(BTreeSet<PathBuf>),
}

impl Examined {
    /// Whether the file was examined.
    pub fn has(&self, file: &str) -> bool {
        match self {
            Examined::All => true,
            Examined::Files(files) => files.contains(Path::new(file)),
        }
    }
}

/// The result of reading the files.
#[derive(Debug)]
pub struct Looked {
    /// The usable certificates.
    pub certificates: Certificates,
    /// Unusable files.
    pub bad: Vec<BadCertificate>,
    /// The files that were examined. An examined file that is unusable is in `bad`.
    pub examined: Examined,
    /// Usable files that can cause problems for clients, files that contain a key but are not served, and problems of crt-list lines and of
    /// certificate revocation lists. Whether a usable file can cause problems is known only if the file was read whole.
    pub warnings: Vec<BadCertificate>,
    /// The number of files that were read.
    pub read: usize,
}

/// A duration in nanoseconds. If a file changed less than this time ago, it may change again without a change of its [`Identity`] (its inode number,
/// size and times), because file systems store coarse time stamps.
const RACY_NANOS: u64 = 50_000_000;
const NANOS: u64 = 1_000_000_000;

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl CertificateFiles {
    /// Certificate files that are read with the fastest [`Engine`] that the kernel allows.
    pub fn new(place: CertificatePlace, digest: Digest, terms: CertificateTerms) -> Self {
        Self::with(place, digest, terms, engine())
    }

    /// Certificate files that are read with this engine.
    pub fn with(
        place: CertificatePlace,
        digest: Digest,
        terms: CertificateTerms,
        engine: Box<dyn Engine>,
    ) -> Self {
        CertificateFiles {
            place,
            engine,
            digest,
            terms,
            versions: AtomicU64::new(1),
            looked: AtomicU64::default(),
            listing: Mutex::default(),
            listed: Mutex::default(),
            is_behind: AtomicBool::default(),
        }
    }

    /// The place of the files.
    pub fn place(&self) -> &CertificatePlace {
        &self.place
    }

    /// The name of the engine that reads the files.
    pub fn engine(&self) -> String {
        self.engine.name()
    }

    /// The directories that the server must watch. The set is complete after the first look.
    pub fn directories(&self) -> BTreeSet<PathBuf> {
        match (&self.place, self.listed()) {
            (CertificatePlace::List(_), Some(listing)) => listing.directories(),
            (CertificatePlace::List(path), None) => path.parent().map(Path::to_owned).into_iter().collect(),
            (CertificatePlace::Directory(path), _) => self.terms.shared().chain([path]).cloned().collect(),
        }
    }

    fn listed(&self) -> Option<Arc<Listing>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn list(&self) -> io::Result<Arc<Listing>> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listing = Listing::read(&self.place, &self.terms, listed, |path| self.is_usable(path))?;
        let listing = Arc::new(listing);
        // Only a crt-list is kept in memory; a directory is listed again each time.
        if matches!(self.place, CertificatePlace::List(_)) {
            *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&listing));
        }
        Ok(listing)
    }

    /// Reads a certificate with its key and chain, and checks that it can be used. If no file exists at the path, the path can stand for a bundle of
    /// several files.
    ///
    /// # Errors
    /// Why the certificate cannot be used.
    pub fn is_usable(&self, path: &Path) -> Result<(), String> {
        let now = self.looked.load(Ordering::Relaxed);
        let kinds = files_of_kinds(path);
        match path.exists() || kinds.is_empty() {
            true => self.whole(path, now).map(drop),
            false => kinds.iter().try_for_each(|path| self.whole(path, now).map(drop)),
        }
    }

    /// Reads the leaf certificate of every file, so that the server knows which names each certificate contains. The leaves of unchanged files are
    /// taken from `known`, the index of an earlier start. `now` is in nanoseconds since the epoch.
    ///
    /// # Errors
    /// When the directory or the list cannot be read, a line of the list is invalid, or the certificate of a line with options cannot be read.
    pub fn look(&self, rules: Rules, known: Option<&LeafIndex>, now: u64) -> io::Result<Looked> {
        self.looked.store(now, Ordering::Relaxed);
        let listing = self.list()?;
        let looked = self.look_over(&listing, rules, known, now)?;
        listing.check_bound(&looked.bad)?;
        Ok(looked)
    }

    fn look_over(
        &self,
        listing: &Listing,
        rules: Rules,
        known: Option<&LeafIndex>,
        now: u64,
    ) -> io::Result<Looked> {
        let mut files = Vec::with_capacity(listing.names.len());
        let unknown = known.map(|index| self.known(listing, index, &mut files));
        let names = unknown.as_ref().unwrap_or(&listing.names);
        let mut read = names.len();
        let mut bad = self.leaves_into(listing, names, &mut files)?;
        // If no file exists at a path, the path can stand for a bundle of several files, one for each kind of key (`NAME.rsa`, `NAME.ecdsa`).
        let kinds: Vec<OsString> =
            bad.iter().flat_map(|bad| files_of_kinds(Path::new(&bad.file))).map(Into::into).collect();
        if !kinds.is_empty() {
            bad.retain(|bad| files_of_kinds(Path::new(&bad.file)).is_empty());
            read += kinds.len();
            bad.extend(self.leaves_into(listing, &kinds, &mut files)?);
        }
        let bad: Vec<BadCertificate> = bad.into_iter().map(|bad| listing.at_lines(bad)).collect();
        let certificates = Certificates::new(self.digest, rules, files);
        let (warnings, examined) = (listing.warnings_at(now), Examined::All);
        Ok(Looked { certificates, bad, examined, warnings, read })
    }

    fn leaves_into(
        &self,
        listing: &Listing,
        names: &[OsString],
        files: &mut Vec<Arc<CertificateFile>>,
    ) -> io::Result<Vec<BadCertificate>> {
        let made = self.leaves_of(&listing.base, names, |path, leaf| {
            listing.file(path, self.version(), self.digest.leaf(&leaf))
        })?;
        let mut bad = Vec::new();
        for made in made {
            match made {
                Ok(file) => listing.put(file, &self.digest, files),
                Err(why) => bad.push(why),
            }
        }
        Ok(bad)
    }

    fn version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Calls `of` with the path and the leaf of each file in `names`; relative names are in `base`. Returns the results in the same order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn leaves_of<T: Send + Sync>(
        &self,
        base: &Path,
        names: &[OsString],
        of: impl Fn(&str, Leaf) -> T + Sync,
    ) -> io::Result<Vec<Result<T, BadCertificate>>> {
        let found: Vec<OnceLock<Result<T, BadCertificate>>> = names.iter().map(|_| OnceLock::new()).collect();
        let each = |at: usize, read: Result<&[u8], String>| {
            let (Some(name), Some(place)) = (names.get(at), found.get(at)) else { return };
            let text = path_of(base, name);
            let leaf = read.and_then(|bytes| {
                let leaf = ROOM.with_borrow_mut(|room| Leaf::read(bytes, room))?;
                match leaf.has_key || read_whole(&base.join(name)).is_ok_and(|whole| whole.key.is_some()) {
                    true => Ok(leaf),
                    false => Err(WITHOUT_KEY.to_owned()),
                }
            });
            let said = leaf.map(|leaf| of(&text, leaf));
            let _ = place.set(said.map_err(|why| BadCertificate { file: text.clone(), why }));
        };
        if self.engine.read(base, names, &each).is_err() {
            // If the fast engine fails, threads read the files. The results for files that were already read are kept.
            Threads::default().read(base, names, &each)?;
        }
        let missing = |name: &OsString| BadCertificate {
            file: base.join(name).display().to_string(),
            why: "the file was not read".to_owned(),
        };
        let all = found.into_iter().zip(names);
        Ok(all.map(|(found, name)| found.into_inner().unwrap_or_else(|| Err(missing(name)))).collect())
    }

    /// The next snapshot. Every file is checked for changes, and changed files are read and verified. If a file is unusable, its old certificate
    /// stays in use. If the line of an unusable file has options, this call fails and nothing changes.
    ///
    /// # Errors
    /// When the directory or the list cannot be read, or a line of the list cannot be used.
    pub fn look_again(&self, before: &Certificates, rules: Rules, now: u64) -> io::Result<Looked> {
        let was = self.listed();
        let looked = self.all_again(before, rules, now);
        if looked.is_err() {
            *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = was;
        }
        self.is_behind.store(looked.is_err(), Ordering::Relaxed);
        looked
    }

    fn all_again(&self, before: &Certificates, rules: Rules, now: u64) -> io::Result<Looked> {
        let listing = self.list()?;
        match self.place {
            CertificatePlace::Directory(_) => {
                let changed = self.changed(&listing, &listing.names, |path| before.at_path(path, |_| true));
                let gone = before.files().filter(|file| !listing.has(Path::new(&*file.path)));
                let gone = gone.map(|file| FileChange::Remove(file.path.clone())).collect();
                let looked = self.after(&listing, before, rules, &changed, gone, now);
                Ok(Looked { examined: Examined::All, ..looked })
            }
            // Lines may have moved, and their options may have changed. So the snapshot is built again, with the known leaves of unchanged files.
            CertificatePlace::List(_) => self.relisted(&listing, before, rules, now),
        }
    }

    fn relisted(
        &self,
        listing: &Listing,
        before: &Certificates,
        rules: Rules,
        now: u64,
    ) -> io::Result<Looked> {
        let known = |path: &str| {
            before.at_path(path, |file| !file.is_named() || !listing.needs_names(Path::new(path)))
        };
        let names = listing.files();
        let changed: BTreeSet<OsString> = self.changed(listing, &names, known).into_iter().collect();
        let (mut bad, mut warnings, mut files) = (Vec::new(), listing.warnings_at(now), Vec::new());
        for name in &names {
            let path = listing.base.join(name);
            let text = path.to_string_lossy();
            let old = known(&text);
            let read = changed.contains(name).then(|| self.whole(&path, now));
            let (version, leaf, identity) = match (read, old) {
                (Some(Ok((leaf, identity, amiss))), _) => {
                    warnings.extend(amiss.map(|why| BadCertificate { file: text.to_string(), why }));
                    (self.version(), leaf, identity)
                }
                (Some(Err(why)), old) => {
                    bad.push(listing.at_lines(BadCertificate { file: text.to_string(), why }));
                    match old {
                        Some(old) => (old.version, old.leaf(), None),
                        None => continue,
                    }
                }
                (None, Some(old)) => (old.version, old.leaf(), old.identity.get().copied()),
                (None, None) => continue,
            };
            let before = files.len();
            listing.put(listing.file(&text, version, leaf), &self.digest, &mut files);
            files.iter().skip(before).for_each(|file| file.verified_as(identity));
        }
        listing.check_bound(&bad)?;
        Ok(Looked {
            certificates: Certificates::new(self.digest, rules, files),
            bad,
            examined: Examined::All,
            warnings,
            read: changed.len(),
        })
    }

    /// Makes the next snapshot like [`Self::look_again`], but checks only the files in `paths` for changes.
    ///
    /// # Errors
    /// As [`Self::look_again`], if one of the files is the list, or another file that the whole list depends on.
    pub fn look_at(
        &self,
        before: &Certificates,
        paths: &BTreeSet<PathBuf>,
        rules: Rules,
        now: u64,
    ) -> io::Result<Looked> {
        // If the list could not be used at the last look, this change may have repaired it, so the list is read again. While the list cannot be used,
        // changes of files are judged by the earlier list.
        if self.is_behind()
            && let Ok(looked) = self.look_again(before, rules, now)
        {
            return Ok(looked);
        }
        let listing = match (&self.place, self.listed()) {
            (CertificatePlace::List(_), Some(listing))
                if !paths.iter().any(|path| listing.rests_on(path)) =>
            {
                listing
            }
            (CertificatePlace::List(_), _) => return self.look_again(before, rules, now),
            // In a directory, only the changed files are examined.
            (CertificatePlace::Directory(_), _) => Arc::new(Listing::of_few(&self.place, paths, &self.terms)),
        };
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        let bundles = paths.iter().flat_map(|path| bundles_of_companion(path)).filter(|path| path.exists());
        let examined: BTreeSet<PathBuf> = paths.iter().cloned().chain(bundles).collect();
        for path in &examined {
            // This function also tries to read a dangling link or a pipe, so that the error is reported.
            let is_file = std::fs::symlink_metadata(path).is_ok() && !path.is_dir();
            let text = path.to_string_lossy();
            let is_known = before.at_path(&text, |_| true).is_some();
            // The certificate of a crt-list line stays in use while its file is missing or broken. The server also tries to read a missing file, to
            // report the error.
            match listing.has(path) && (is_file || (is_known && listing.is_of_lines())) {
                true => there.push(path.clone().into_os_string()),
                false if is_known && !listing.is_of_lines() => gone.push(FileChange::Remove(text.into())),
                false => {}
            }
        }
        let looked = self.after(&listing, before, rules, &there, gone, now);
        Ok(Looked { examined: Examined::Files(examined), ..looked })
    }

    /// Whether the directory or the list could not be used when it was last read, so that earlier certificates are in use.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    fn after(
        &self,
        listing: &Listing,
        before: &Certificates,
        rules: Rules,
        names: &[OsString],
        mut changes: Vec<FileChange>,
        now: u64,
    ) -> Looked {
        let (mut bad, mut warnings) = (Vec::new(), Vec::new());
        for name in names {
            let path = listing.base.join(name);
            let text = path.to_string_lossy();
            match self.whole(&path, now) {
                // The file has not changed since it was verified: its identity is the same. So the record of the file stays.
                Ok((leaf, identity, _))
                    if before
                        .at_path(&text, |_| true)
                        .is_some_and(|known| is_same_reading(known, &leaf, identity)) => {}
                Ok((leaf, identity, amiss)) => {
                    let mut files = Vec::new();
                    listing.put(listing.file(&text, self.version(), leaf), &self.digest, &mut files);
                    files.iter().for_each(|file| file.verified_as(identity));
                    changes.extend(files.into_iter().map(FileChange::Put));
                    warnings.extend(amiss.map(|why| BadCertificate { file: text.into_owned(), why }));
                }
                Err(why) => bad.push(listing.at_lines(BadCertificate { file: text.into_owned(), why })),
            }
        }
        let (certificates, examined) = (before.under(rules).after(changes), Examined::Files(BTreeSet::new()));
        Looked { certificates, bad, examined, warnings, read: names.len() }
    }

    /// Reads and verifies one file. Returns its leaf, its identity (`None` if the file changed recently), and a warning.
    #[allow(clippy::type_complexity, reason = "three results for one file, used only in this module")]
    fn whole(
        &self,
        path: &Path,
        now: u64,
    ) -> Result<(DigestedLeaf, Option<Identity>, Option<String>), String> {
        let whole = read_whole(path).map_err(|why| why.to_string())?;
        let bundle = self.bundle(&whole, now)?;
        let identity = whole.identity.filter(|identity| is_settled(identity, now));
        Ok((self.digest.leaf(&bundle.leaf), identity, bundle.amiss))
    }

    fn bundle(&self, whole: &WholeBundle, now: u64) -> Result<Bundle, String> {
        let WholeBundle { pem, key, ocsp, .. } = whole;
        let parts = Parts { pem, key: key.as_deref(), ocsp: ocsp.as_deref() };
        Bundle::read(parts, &self.terms.issuers, (now / NANOS) as i64)
    }

    /// The key and the chain of a file, for a handshake under a given policy. `now` is in nanoseconds since the epoch.
    ///
    /// # Errors
    /// When the file cannot be read. Problems of its content are in the result.
    pub fn ready(&self, path: &Path, policy: &Policy, now: u64) -> io::Result<Ready> {
        let whole = read_whole(path)?;
        Ok(policy.ready(self.bundle(&whole, now)))
    }

    /// Reads every file whole and checks that the key belongs to the certificate. Returns unusable files, and files that changed since they were
    /// read. Files that are already verified are not read again.
    pub fn verify(&self, certificates: &Certificates, threads: usize, done: &AtomicUsize) -> Verified {
        // A file that changed after the last look gets no identity: it may be a different file than the file in the snapshot, even if the fields of
        // its leaf are the same.
        let now = self.looked.load(Ordering::Relaxed);
        let listing = self.listed();
        let files: Vec<_> = certificates.files().collect();
        let next = AtomicUsize::new(0);
        let run = || {
            let mut found = Verified::default();
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.fetch_add(1, Ordering::Relaxed);
                if file.identity.get().is_some() {
                    continue;
                }
                let path = Path::new(&*file.path);
                match self.whole(path, now) {
                    Ok((leaf, ..)) if !file.says_the_same(&leaf) => found.changed.extend([path.to_owned()]),
                    Ok((_, identity, amiss)) => {
                        found
                            .warnings
                            .extend(amiss.map(|why| BadCertificate { file: file.path.to_string(), why }));
                        file.verified_as(identity);
                    }
                    Err(why) => {
                        // If this certificate is removed, another certificate is sent for its names. If the line of the file has options, no other
                        // certificate may be sent, so the certificate stays.
                        if !listing.as_ref().is_some_and(|listing| listing.is_bound(path)) {
                            found.out.push(FileChange::Remove(file.path.clone()));
                        }
                        let bad = BadCertificate { file: file.path.to_string(), why };
                        found.bad.push(listing.as_ref().map_or(bad.clone(), |listing| listing.at_lines(bad)));
                    }
                }
            }
            found
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
            let mut all = Verified::default();
            for one in running {
                let Verified { bad, warnings, changed, out } = one.join().unwrap_or_default();
                all.bad.extend(bad);
                all.warnings.extend(warnings);
                all.changed.extend(changed);
                all.out.extend(out);
            }
            all.bad.sort_by(|a, b| a.file.cmp(&b.file));
            all.bad.dedup();
            all.warnings.sort_by(|a, b| a.file.cmp(&b.file));
            all
        })
    }
}

/// The result of a verification.
#[derive(Debug, Default)]
pub struct Verified {
    /// Unusable files.
    pub bad: Vec<BadCertificate>,
    /// Usable files that may cause problems for clients.
    pub warnings: Vec<BadCertificate>,
    /// Files that changed after they were read for the snapshot: the fields of their leaf are different now.
    pub changed: BTreeSet<PathBuf>,
    /// The changes that remove unusable files from the snapshot.
    pub out: Vec<FileChange>,
}

/// The path of a file as text. Most names are simply appended to `base`, because joining a million paths with `Path::join` takes a second.
fn path_of(base: &Path, name: &OsStr) -> String {
    match (base.to_str(), name.to_str()) {
        (Some(base), Some(name)) if !base.is_empty() && !base.ends_with('/') && !name.starts_with('/') => {
            [base, "/", name].concat()
        }
        _ => base.join(name).to_string_lossy().into_owned(),
    }
}

fn is_settled(identity: &Identity, now: u64) -> bool {
    let [_, _, modified, changed] = *identity;
    modified.max(changed).saturating_add(RACY_NANOS) < now
}

/// Whether the file that was read has the identity and the leaf fields of the known file. An uncertain identity (`None`) never counts as equal.
fn is_same_reading(known: &CertificateFile, leaf: &DigestedLeaf, identity: Option<Identity>) -> bool {
    identity.is_some() && known.says_the_same(leaf) && known.identity.get().copied() == identity
}
