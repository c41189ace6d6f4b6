//! The directory of certificates: looked through, followed, and verified.

use enfilade_sources::files::certificates::{
    Engine, FileRead, Identity, Threads, engine, identity_of, is_certificate, list, read_whole,
};
use enfilade_tls::{Bundle, CertificateFile, Certificates, Digest, FileChange, Leaf, Room, Rules};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A certificate that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("certificate `{file}` is left out: {why}")]
pub struct BadCertificate {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// A directory of PEM bundles, by HAProxy's rules.
pub struct CertificateDirectory {
    path: PathBuf,
    engine: Box<dyn Engine>,
    digest: Digest,
    versions: AtomicU64,
    /// When the whole of it was looked at, in nanoseconds since the epoch.
    looked: AtomicU64,
}

/// What a look at the directory found.
#[derive(Debug)]
pub struct Looked {
    /// What there is.
    pub certificates: Certificates,
    /// What cannot be used, by file.
    pub bad: Vec<BadCertificate>,
    /// What can be used and may trouble clients; known of those that were read whole.
    pub warnings: Vec<BadCertificate>,
    /// How many files were read for it.
    pub read: usize,
}

/// A file that was changed as lately as that, in nanoseconds, may be changed again without looking different: file systems tell the time
/// in ticks.
const RACY_NANOS: u64 = 50_000_000;

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl CertificateDirectory {
    /// With the engine that is fastest here.
    pub fn new(path: PathBuf, digest: Digest) -> Self {
        Self::with(path, digest, engine())
    }

    /// With this engine.
    pub fn with(path: PathBuf, digest: Digest, engine: Box<dyn Engine>) -> Self {
        CertificateDirectory { path, engine, digest, versions: AtomicU64::new(1), looked: AtomicU64::new(0) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What reads it.
    pub fn engine(&self) -> String {
        self.engine.name()
    }

    /// Looks into every file, at its leaf alone: after that every name is answered. `now` in nanoseconds since the epoch.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look(&self, rules: Rules, now: u64) -> io::Result<Looked> {
        self.looked.store(now, Ordering::Relaxed);
        let names = list(&self.path)?;
        let mut bad = Vec::new();
        let mut files = Vec::with_capacity(names.len());
        for found in self.leaves(&names, |path, leaf, identity| self.file(path, &leaf, identity, now))? {
            match found {
                Ok(file) => files.push(file),
                Err(why) => bad.push(why),
            }
        }
        let certificates = Certificates::new(self.digest, rules, files);
        Ok(Looked { certificates, bad, warnings: Vec::new(), read: names.len() })
    }

    /// Something of each of these files' leaves, in their order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn leaves<T: Send + Sync>(
        &self,
        names: &[OsString],
        of: impl Fn(&str, Leaf, Option<Identity>) -> T + Sync,
    ) -> io::Result<Vec<Result<T, BadCertificate>>> {
        let found: Vec<OnceLock<Result<T, BadCertificate>>> = names.iter().map(|_| OnceLock::new()).collect();
        let each = |at: usize, read: Result<FileRead<'_>, String>| {
            let (Some(name), Some(place)) = (names.get(at), found.get(at)) else { return };
            let path = self.path.join(name);
            let text = path.to_string_lossy();
            let leaf = read.and_then(|FileRead { bytes, identity }| {
                let leaf = ROOM.with_borrow_mut(|room| Leaf::read(bytes, room))?;
                match leaf.has_key || read_whole(&path).is_ok_and(|whole| whole.key.is_some()) {
                    true => Ok((leaf, identity)),
                    false => Err("it holds no private key, and there is no `.key` file beside it".to_owned()),
                }
            });
            let said = leaf.map(|(leaf, identity)| of(&text, leaf, identity));
            let _ = place.set(said.map_err(|why| BadCertificate { file: text.clone().into_owned(), why }));
        };
        if self.engine.read(&self.path, names, &each).is_err() {
            // Where the fast way ends there is always the other; what was read stays.
            Threads::default().read(&self.path, names, &each)?;
        }
        let missing = |name: &OsStr| BadCertificate {
            file: self.path.join(name).display().to_string(),
            why: "it was not read".to_owned(),
        };
        let all = found.into_iter().zip(names);
        Ok(all.map(|(found, name)| found.into_inner().unwrap_or_else(|| Err(missing(name)))).collect())
    }

    fn file(&self, path: &str, leaf: &Leaf, identity: Option<Identity>, now: u64) -> CertificateFile {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let file = self.digest.file(path, version, leaf);
        // What is beside it is not in its identity: then it is read again each time.
        if let Some(identity) = identity.filter(|identity| leaf.has_key && is_settled(identity, now)) {
            let _ = file.identity.set(identity);
        }
        file
    }

    /// What became of a snapshot: every file is asked whether it changed, and those that did are read and verified. A file that cannot be
    /// used leaves what was there in its place.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look_again(&self, before: &Certificates, rules: Rules, now: u64) -> io::Result<Looked> {
        let names = list(&self.path)?;
        let changed = self.changed(before, &names);
        let is_listed = |path: &str| {
            let name = Path::new(path).file_name().unwrap_or_default();
            Path::new(path).parent() == Some(&self.path)
                && names.binary_search_by(|known| known.as_os_str().cmp(name)).is_ok()
        };
        let gone = before.files().filter(|file| !is_listed(&file.path));
        let gone = gone.map(|file| FileChange::Remove(file.path.clone())).collect();
        Ok(self.after(before, rules, &changed, gone, now))
    }

    /// The same where it is known which files to ask: those names of the directory.
    pub fn look_at(
        &self,
        before: &Certificates,
        names: &BTreeSet<OsString>,
        rules: Rules,
        now: u64,
    ) -> Looked {
        let mut there = BTreeSet::new();
        let mut gone = Vec::new();
        for name in names.iter().flat_map(|name| bundles_of(&self.path, name)) {
            let path = self.path.join(&name);
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() && is_certificate(&self.path, &name) => drop(there.insert(name)),
                _ => gone.push(FileChange::Remove(path.to_string_lossy().into())),
            }
        }
        gone.retain(|change| matches!(change, FileChange::Remove(path) if before.at_path(path).is_some()));
        let there: Vec<OsString> = there.into_iter().collect();
        self.after(before, rules, &there, gone, now)
    }

    /// Those that are not known to be as they were.
    fn changed(&self, before: &Certificates, names: &[OsString]) -> Vec<OsString> {
        let is_same = |name: &OsString| {
            let path = self.path.join(name);
            let known = before.at_path(&path.to_string_lossy()).and_then(|file| file.identity.get().copied());
            known.is_some_and(|known| identity_of(&path).is_ok_and(|now| now == known))
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = names.len().div_ceil(cores).max(1);
        std::thread::scope(|scope| {
            let of =
                |names: &[OsString]| names.iter().filter(|name| !is_same(name)).cloned().collect::<Vec<_>>();
            let running: Vec<_> = names.chunks(share).map(|names| scope.spawn(move || of(names))).collect();
            running.into_iter().flat_map(|one| one.join().unwrap_or_default()).collect()
        })
    }

    fn after(
        &self,
        before: &Certificates,
        rules: Rules,
        names: &[OsString],
        mut changes: Vec<FileChange>,
        now: u64,
    ) -> Looked {
        let (mut bad, mut warnings) = (Vec::new(), Vec::new());
        for name in names {
            let path = self.path.join(name);
            let text = path.to_string_lossy();
            match self.whole(&path, now) {
                // Only looked at again, because it was changed lately.
                Ok((file, _)) if before.at_path(&text).is_some_and(|known| is_same_reading(known, &file)) => {
                }
                Ok((file, amiss)) => {
                    changes.push(FileChange::Put(file));
                    warnings.extend(amiss.map(|why| BadCertificate { file: text.into_owned(), why }));
                }
                Err(why) => bad.push(BadCertificate { file: text.into_owned(), why }),
            }
        }
        Looked { certificates: before.under(rules).after(changes), bad, warnings, read: names.len() }
    }

    /// One file, verified.
    fn whole(&self, path: &Path, now: u64) -> Result<(CertificateFile, Option<String>), String> {
        let said = |why: io::Error| why.to_string();
        let identity = identity_of(path).map_err(said)?;
        let whole = read_whole(path).map_err(said)?;
        let bundle = Bundle::read(&whole.pem, whole.key.as_deref())?;
        let is_one = identity_of(path).is_ok_and(|after| after == identity) && whole.key.is_none();
        let Bundle { leaf, amiss, .. } = bundle;
        let leaf = Leaf { has_key: is_one, ..leaf };
        Ok((self.file(&path.to_string_lossy(), &leaf, Some(identity), now), amiss))
    }

    /// Reads every file whole: its key, and whether that is the certificate's. Says which cannot be used, and which were changed since
    /// they were looked at.
    pub fn verify(&self, certificates: &Certificates, threads: usize, done: &AtomicUsize) -> Verified {
        // What was changed since then may be another than the one that was looked at, also where it says the same.
        let now = self.looked.load(Ordering::Relaxed);
        let files: Vec<_> = certificates.files().collect();
        let next = AtomicUsize::new(0);
        let run = || {
            let mut found = Verified::default();
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let path = Path::new(&*file.path);
                match self.whole(path, now) {
                    Ok((whole, _)) if !file.says_the_same(&whole) => {
                        found.changed.extend(path.file_name().map(OsStr::to_owned))
                    }
                    Ok((whole, amiss)) => {
                        found
                            .warnings
                            .extend(amiss.map(|why| BadCertificate { file: file.path.to_string(), why }));
                        if let Some(identity) = whole.identity.get() {
                            let _ = file.identity.set(*identity);
                        }
                    }
                    Err(why) => found.bad.push(BadCertificate { file: file.path.to_string(), why }),
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            found
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
            let mut all = Verified::default();
            for one in running {
                let Verified { bad, warnings, changed } = one.join().unwrap_or_default();
                all.bad.extend(bad);
                all.warnings.extend(warnings);
                all.changed.extend(changed);
            }
            all.bad.sort_by(|a, b| a.file.cmp(&b.file));
            all.warnings.sort_by(|a, b| a.file.cmp(&b.file));
            all
        })
    }
}

/// What a verification found.
#[derive(Debug, Default)]
pub struct Verified {
    /// What cannot be used, by file.
    pub bad: Vec<BadCertificate>,
    /// What can be used and may trouble clients, by file.
    pub warnings: Vec<BadCertificate>,
    /// The names of files that were changed meanwhile.
    pub changed: BTreeSet<OsString>,
}

fn is_settled(identity: &Identity, now: u64) -> bool {
    let [_, _, modified, changed] = *identity;
    modified.max(changed).saturating_add(RACY_NANOS) < now
}

/// The same file, and it says the same; what was not known for sure of it is now.
fn is_same_reading(known: &CertificateFile, now: &CertificateFile) -> bool {
    let Some(identity) = now.identity.get() else { return false };
    known.says_the_same(now) && known.identity.get().is_some_and(|known| known == identity)
}

/// The bundles a changed file may belong to: itself, or what it is beside.
fn bundles_of(directory: &Path, name: &OsStr) -> Vec<OsString> {
    let path = Path::new(name);
    if path.extension() != Some(OsStr::new("key")) {
        return vec![name.to_owned()];
    }
    let Some(stem) = path.file_stem() else { return Vec::new() };
    let with = |ending: &str| {
        let mut name = stem.to_owned();
        name.push(ending);
        name
    };
    let beside = ["", ".pem", ".crt"].map(with);
    beside.into_iter().filter(|name| directory.join(name).exists()).collect()
}

impl std::fmt::Debug for CertificateDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateDirectory").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MemoSeed;
    use enfilade_sources::files::certificates::Ring;
    use enfilade_tls::Ask;

    /// Long after everything was written.
    const LATE: u64 = u64::MAX / 2;

    struct Shelf {
        place: PathBuf,
        directory: CertificateDirectory,
    }

    impl Shelf {
        fn new(name: &str, engine: Box<dyn Engine>) -> Self {
            let place = std::env::temp_dir().join(format!("enfilade-shelf-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&place);
            std::fs::create_dir(&place).unwrap();
            let digest = Digest::new(&MemoSeed([3; 16]));
            Shelf { directory: CertificateDirectory::with(place.clone(), digest, engine), place }
        }

        fn write(&self, file: &str, names: &[&str]) {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let made = rcgen::generate_simple_self_signed(names).unwrap();
            let text = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
            std::fs::write(self.place.join(file), text).unwrap();
        }
    }

    impl Drop for Shelf {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.place);
        }
    }

    fn answers(certificates: &Certificates, name: &str) -> String {
        let permit = enfilade_tls::open(certificates, &Ask::new(Some(name))).unwrap();
        Path::new(permit.certificate()).file_name().unwrap().to_str().unwrap().to_owned()
    }

    fn follows_what_changes(shelf: &Shelf) {
        shelf.write("a.pem", &["a.example"]);
        shelf.write("b.pem", &["b.example"]);
        shelf.write("c.pem", &["c.example"]);
        let (rules, look) = (Rules::default(), &shelf.directory);
        let first = look.look(rules, LATE).unwrap();
        assert_eq!((first.certificates.count(), first.read, first.bad.len()), (3, 3, 0));
        let verified = look.verify(&first.certificates, 2, &AtomicUsize::new(0));
        assert!(verified.bad.is_empty() && verified.changed.is_empty(), "{verified:?}");
        // Nothing changed, and nothing is read.
        let again = look.look_again(&first.certificates, rules, LATE).unwrap();
        assert_eq!((again.certificates.count(), again.read), (3, 0));
        // One is replaced, one removed, one added, one is no certificate, and one that was good is none any more.
        shelf.write("b.pem", &["b.example", "new.example"]);
        std::fs::remove_file(shelf.place.join("a.pem")).unwrap();
        shelf.write("d.pem", &["d.example"]);
        std::fs::write(shelf.place.join("readme"), "hello").unwrap();
        std::fs::write(shelf.place.join("c.pem"), "nothing").unwrap();
        let names = ["a.pem", "b.pem", "c.pem", "d.pem", "readme"].map(OsString::from).into();
        let by_name = look.look_at(&again.certificates, &names, rules, LATE);
        let by_all = look.look_again(&again.certificates, rules, LATE).unwrap();
        for after in [&by_name, &by_all] {
            let certificates = &after.certificates;
            assert_eq!((certificates.count(), after.read), (3, 4));
            assert_eq!(answers(certificates, "new.example"), "b.pem");
            assert_eq!(answers(certificates, "d.example"), "d.pem");
            assert_eq!(answers(certificates, "c.example"), "c.pem", "what was good stays");
            assert_eq!(answers(certificates, "a.example"), "b.pem", "the first that is left is the default");
            let bad: BTreeSet<_> =
                after.bad.iter().map(|bad| Path::new(&bad.file).file_name().unwrap()).collect();
            assert_eq!(bad, [OsStr::new("c.pem"), OsStr::new("readme")].into());
        }
        // A key that is another's is found by whoever reads it.
        let other = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().signing_key.serialize_pem();
        let text = std::fs::read_to_string(shelf.place.join("d.pem")).unwrap();
        let text = text.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap().to_owned() + &other;
        std::fs::write(shelf.place.join("d.pem"), text).unwrap();
        std::fs::remove_file(shelf.place.join("c.pem")).unwrap();
        std::fs::remove_file(shelf.place.join("readme")).unwrap();
        let looked = look.look(rules, LATE).unwrap();
        assert!(looked.bad.is_empty());
        let verified = look.verify(&looked.certificates, 1, &AtomicUsize::new(0));
        assert_eq!(verified.bad.len(), 1);
        assert!(verified.bad[0].why.contains("private key"), "{verified:?}");
        // What was changed just now may change again without looking different, so it is read each time.
        let young = look.look(rules, 0).unwrap().certificates;
        assert_eq!(look.look_again(&young, rules, 0).unwrap().read, 2);
    }

    #[test]
    fn a_directory_is_followed_by_either_engine() {
        follows_what_changes(&Shelf::new("threads", Box::new(Threads::default())));
        if let Ok(ring) = Ring::probe() {
            follows_what_changes(&Shelf::new("ring", Box::new(ring)));
        }
    }
}
