//! The index from names to certificate files, as an immutable snapshot. After a change of some files, a new snapshot is made. The new snapshot shares
//! the unchanged parts with the previous snapshot.
//!
//! Instead of a name, the index stores the first 64 bits of the name's keyed digest, with the number of the file. The digests need less memory than
//! the names. The server can have a million certificates with five names each. Two names can have the same digest, but a client that does not know
//! the key cannot find two such names. When a handshake has loaded the file, the server also checks that the certificate contains the name itself,
//! unless the name comes from a crt-list.

use crate::crt_list::Line;
use crate::leaf::{Algorithm, Leaf};
use crate::parts::{CHUNK, Entry, Part, chunks, entries, part_of, parts};
use crate::policy::Policy;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::{MemoKey, MemoSeed};
use std::sync::{Arc, OnceLock};

/// Which file is preferred if several files match the requested name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// A file with the name itself is preferred to a file with a wildcard that matches the name.
    #[default]
    ExactFirst,
    /// As in HAProxy, the kind of key decides first: an ECDSA file with a matching wildcard is preferred to an RSA file with the exact name.
    Haproxy,
}

/// The rules by which a file is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which file is preferred if several files match the requested name.
    pub matching: Match,
    /// Whether a handshake is refused if no certificate has the name. If this is false, the handshake gets the default certificate.
    pub strict: bool,
}

/// The data of a certificate file that the server has in memory for every file, even if no handshake has needed the file yet.
#[derive(Clone, Debug)]
pub struct CertificateFile {
    /// The path of the file. Without a crt-list, files are ordered by path, and the first file is the default.
    pub path: Box<str>,
    /// The version number of the file's content. Each change of the file changes this number.
    pub version: u64,
    /// The inode number, size, modification time and change time that the file had when it was verified. The field is set when the file is verified,
    /// unless the file had changed shortly before its verification. If a value of the file differs from this field, the file was changed.
    pub identity: OnceLock<[u64; 4]>,
    /// The first second in which the certificate is valid (in seconds since the epoch).
    pub not_before: i64,
    /// The last second in which the certificate is valid (in seconds since the epoch).
    pub not_after: i64,
    /// The kind of the certificate's key.
    pub algorithm: Algorithm,
    /// The policy of connections that get this certificate.
    pub policy: Arc<Policy>,
    /// Digests of the names for which the file is served: the names that its crt-list line lists, or otherwise the names of the certificate.
    names: Box<[u64]>,
    listed: Option<Box<Listed>>,
}

/// The data of the crt-list line that contains the path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    /// The number of the line. If several lines have the same name, the line with the lowest number is preferred.
    order: u32,
    /// Whether the line lists the names for which the file is served.
    is_named: bool,
    /// Digests of the names that the line excludes from its wildcards.
    excluded: Box<[u64]>,
    is_default: bool,
}

type Chunk = crate::parts::Chunk<CertificateFile>;

/// The keyed digest of names and paths. The key is random. The index of leaf certificates in the data directory keeps the key for the next start.
#[derive(Clone, Copy)]
pub struct Digest(KeyMaker);

impl Digest {
    /// A digest with this key.
    pub fn new(seed: &MemoSeed) -> Self {
        Digest(KeyMaker::new(seed, "name"))
    }

    fn short(&self, kind: u64, text: &str) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.of(kind, text).as_choice();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    fn of(&self, kind: u64, text: &str) -> MemoKey {
        self.0.number(kind).bytes(text.as_bytes()).key()
    }

    fn name(&self, name: &str) -> u64 {
        self.short(1, name)
    }

    fn path(&self, path: &str) -> u64 {
        self.short(2, path)
    }

    /// The fields of a leaf, with digests in the place of its names.
    pub fn leaf(&self, leaf: &Leaf) -> DigestedLeaf {
        let Leaf { not_before, not_after, algorithm, .. } = *leaf;
        let names = leaf.names.iter().map(|name| self.name(name)).collect();
        DigestedLeaf { not_before, not_after, algorithm, names }
    }

    /// Returns the file with the settings of a line of a crt-list. The file gets `policy`, the names that the line excludes, and the names that the
    /// line lists. If the line lists no names, the file keeps the names of its certificate.
    pub fn listed(&self, file: CertificateFile, line: &Line, policy: Arc<Policy>) -> CertificateFile {
        let digests = |names: &[String]| names.iter().map(|name| self.name(name)).collect();
        let listed = Listed {
            order: line.number,
            is_named: line.names.is_some(),
            excluded: digests(&line.excluded),
            is_default: line.is_default,
        };
        let names = line.names.as_ref().map_or(file.names, |names| digests(names));
        CertificateFile { policy, names, listed: Some(Box::new(listed)), ..file }
    }
}

/// The fields of a leaf certificate, with digests in the place of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestedLeaf {
    /// The first second in which the certificate is valid (in seconds since the epoch).
    pub not_before: i64,
    /// The last second in which the certificate is valid (in seconds since the epoch).
    pub not_after: i64,
    /// The kind of the certificate's key.
    pub algorithm: Algorithm,
    /// Digests of the certificate's names.
    pub names: Box<[u64]>,
}

/// A change of one file.
#[derive(Clone, Debug)]
pub enum FileChange {
    /// The file is new, or replaces the file at the same path.
    Put(Arc<CertificateFile>),
    /// The file at this path was removed.
    Remove(Box<str>),
}

/// A snapshot: all certificate files, and the index of their names and paths.
#[derive(Clone)]
pub struct Certificates {
    digest: Digest,
    rules: Rules,
    parts: Arc<[Part]>,
    files: Arc<[Chunk]>,
    free: Vec<u32>,
    default: Option<Arc<CertificateFile>>,
    /// The policy that all files share. `None` if files have different policies, or if the first snapshot had no files. If a snapshot has `None`,
    /// each snapshot after further changes also has `None`, even if all its files share a policy.
    only: Option<Arc<Policy>>,
    count: usize,
    names: usize,
}

impl Certificates {
    /// A snapshot of these files. The default is the first file by line number and path, unless a line of a crt-list makes another file the default.
    pub fn new(digest: Digest, rules: Rules, mut files: Vec<Arc<CertificateFile>>) -> Self {
        files.sort_unstable_by(|a, b| a.place().cmp(&b.place()));
        files.dedup_by(|b, a| a.place() == b.place());
        // The default comes first, and then all other files in their order.
        if let Some(default) = files.iter().position(|file| file.rank().0 == 0) {
            files.get_mut(..=default).into_iter().for_each(|front| front.rotate_right(1));
        }
        let first = files.first().map(|file| Arc::clone(&file.policy));
        let only = first.filter(|first| files.iter().all(|file| file.policy.epoch() == first.epoch()));
        let names = files.iter().map(|file| file.names.len()).sum();
        let names_of = |file: &Arc<CertificateFile>, found: &mut dyn FnMut(u64)| {
            file.names.iter().copied().chain([digest.path(&file.path)]).for_each(found);
        };
        let parts = parts(&files, names, names_of).into();
        let count = files.len();
        let chunks = chunks(files);
        let default = chunks.first().and_then(|chunk| chunk.first().cloned().flatten());
        let files = chunks.into();
        Certificates { digest, rules, parts, files, free: Vec::new(), default, only, count, names }
    }

    /// The snapshot after these changes.
    #[must_use]
    pub fn after(&self, changes: impl IntoIterator<Item = FileChange>) -> Self {
        let mut next = Draft {
            parts: self.parts.iter().map(|part| Edited::Shared(Arc::clone(part))).collect(),
            files: self.files.iter().map(|chunk| Edited::Shared(Arc::clone(chunk))).collect(),
            free: self.free.clone(),
            removed_default: false,
        };
        let (mut count, mut names) = (self.count, self.names);
        let mut default = self.default.clone();
        let mut only = self.only.clone();
        for change in changes {
            let (path, order): (&str, Option<u32>) = match &change {
                FileChange::Put(file) => (&file.path, Some(file.order())),
                FileChange::Remove(path) => (path, None),
            };
            while let Some((number, before)) = next.find(self.digest.path(path), path, order) {
                next.take_out(number, &before, self.digest.path(path));
                (count, names) = (count - 1, names - before.names.len());
                next.removed_default |= default.as_ref().is_some_and(|file| file.place() == before.place());
            }
            if let FileChange::Put(file) = change {
                only = only.filter(|only| only.epoch() == file.policy.epoch());
                (count, names) = (count + 1, names + file.names.len());
                if default.as_ref().is_none_or(|first| file.rank() <= first.rank()) {
                    default = Some(Arc::clone(&file));
                    next.removed_default = false;
                }
                next.put_in(file, self.digest);
            }
        }
        let (removed_default, free) = (next.removed_default, std::mem::take(&mut next.free));
        let parts = next.parts.into_iter().map(Edited::done).collect();
        let files: Arc<[Chunk]> = next.files.into_iter().map(Edited::done).collect();
        if removed_default {
            default = files
                .iter()
                .flat_map(|chunk| chunk.iter().flatten())
                .min_by(|a, b| a.rank().cmp(&b.rank()))
                .cloned();
        }
        Certificates {
            digest: self.digest,
            rules: self.rules,
            parts,
            files,
            free,
            default,
            only,
            count,
            names,
        }
    }

    /// A snapshot of the same files under other rules.
    #[must_use]
    pub fn under(&self, rules: Rules) -> Self {
        Certificates { rules, ..self.clone() }
    }

    /// The rules.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The certificate files that the index has for this server name, in any order. A wildcard is found only by its own text, such as `*.a.example`.
    pub(crate) fn with_name(&self, name: &str) -> impl Iterator<Item = &Arc<CertificateFile>> {
        let digest = self.digest.name(name);
        let part = self.parts.get(part_of(digest)).map_or(&[][..], |part| part);
        entries(part, digest).iter().filter_map(|entry| self.file_at(entry.file))
    }

    /// The policy that all files share. `None` if files have different policies, or if the first snapshot had no files. If a snapshot has `None`,
    /// each snapshot after further changes also has `None`, even if all its files share a policy.
    pub fn only_policy(&self) -> Option<&Arc<Policy>> {
        self.only.as_ref()
    }

    /// The default certificate: the file for names that no certificate has.
    pub fn fallback(&self) -> Option<&Arc<CertificateFile>> {
        self.default.as_ref()
    }

    /// A file at this path for which `fits` returns true. Several lines of a crt-list can name the same path.
    pub fn at_path<'s>(
        &'s self,
        path: &str,
        fits: impl Fn(&CertificateFile) -> bool,
    ) -> Option<&'s Arc<CertificateFile>> {
        let digest = self.digest.path(path);
        let part = self.parts.get(part_of(digest))?;
        let mut files = entries(part, digest).iter().filter_map(|entry| self.file_at(entry.file));
        files.find(|file| &*file.path == path && fits(file))
    }

    fn file_at(&self, number: u32) -> Option<&Arc<CertificateFile>> {
        let number = number as usize;
        self.files.get(number / CHUNK)?.get(number % CHUNK)?.as_ref()
    }

    /// Every file, in any order.
    pub fn files(&self) -> impl Iterator<Item = &Arc<CertificateFile>> {
        self.files.iter().flat_map(|chunk| chunk.iter().flatten())
    }

    /// The keyed digest of the snapshot's names and paths.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many certificate files there are. A file in several lines of a crt-list counts once for each line.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many names the files have. A name of several files counts once for each file.
    pub fn names(&self) -> usize {
        self.names
    }

    /// Whether there is no certificate at all.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("count", &self.count).finish_non_exhaustive()
    }
}

impl CertificateFile {
    /// Returns the record of a certificate file that was read. Connections that get this certificate have the policy `policy`.
    pub fn new(path: &str, version: u64, leaf: DigestedLeaf, policy: Arc<Policy>) -> Self {
        let DigestedLeaf { not_before, not_after, algorithm, names } = leaf;
        let (path, identity, listed) = (path.into(), OnceLock::new(), None);
        CertificateFile { path, version, identity, not_before, not_after, algorithm, policy, names, listed }
    }

    /// The fields of the file's leaf. If a crt-list lists the names of the file, the result has no names: the index does not store the names in the
    /// certificate.
    pub fn leaf(&self) -> DigestedLeaf {
        let CertificateFile { not_before, not_after, algorithm, .. } = *self;
        let names = if self.is_named() { Box::default() } else { self.names.clone() };
        DigestedLeaf { not_before, not_after, algorithm, names }
    }

    /// Sets [`CertificateFile::identity`], after the file was verified. `None` changes nothing.
    pub fn verified_as(&self, identity: Option<[u64; 4]>) {
        if let Some(identity) = identity {
            let _ = self.identity.set(identity);
        }
    }

    /// Whether `leaf` has the same validity, kind of key and names as the stored data of this file. If a crt-list lists the names of the file, the
    /// names are not compared.
    pub fn says_the_same(&self, leaf: &DigestedLeaf) -> bool {
        let is_same_name = self.is_named() || self.names == leaf.names;
        let dates = (leaf.not_before, leaf.not_after, leaf.algorithm);
        (self.not_before, self.not_after, self.algorithm) == dates && is_same_name
    }

    /// Whether the names of this file come from a crt-list, not from the certificate.
    pub fn is_named(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.is_named)
    }

    fn order(&self) -> u32 {
        self.listed.as_ref().map_or(0, |listed| listed.order)
    }

    /// Whether the file's line of a crt-list excludes this name from its wildcards.
    pub(crate) fn excludes(&self, digest: &Digest, name: &str) -> bool {
        let excluded = self.listed.as_ref().map_or(&[][..], |listed| &listed.excluded);
        !excluded.is_empty() && excluded.contains(&digest.name(name))
    }

    /// The position of the file. Of several files with the same name and kind of key, the file with the lowest position is served.
    pub(crate) fn place(&self) -> (u32, &str) {
        (self.order(), &self.path)
    }

    /// The file with the lowest rank is the default.
    fn rank(&self) -> (u32, u32, &str) {
        let is_other = self.listed.as_ref().is_none_or(|listed| !listed.is_default);
        (u32::from(is_other), self.order(), &self.path)
    }

    /// The memo key of this version of the file under its policy.
    pub(crate) fn key(&self, digest: &Digest) -> MemoKey {
        digest.0.number(3).bytes(self.path.as_bytes()).number(self.version).bytes(self.policy.epoch()).key()
    }
}

/// A snapshot that is being made from the previous one.
struct Draft {
    parts: Vec<Edited<Entry>>,
    files: Vec<Edited<Option<Arc<CertificateFile>>>>,
    free: Vec<u32>,
    removed_default: bool,
}

/// A part or chunk that is shared with the previous snapshot, or a copy that can be changed.
enum Edited<T> {
    Shared(Arc<[T]>),
    Own(Vec<T>),
}

impl<T: Clone> Edited<T> {
    fn all(&self) -> &[T] {
        match self {
            Edited::Shared(shared) => shared,
            Edited::Own(own) => own,
        }
    }

    fn own(&mut self) -> &mut Vec<T> {
        if let Edited::Shared(shared) = self {
            *self = Edited::Own(shared.to_vec());
        }
        match self {
            Edited::Own(own) => own,
            Edited::Shared(_) => unreachable!("the shared slice was copied above"),
        }
    }

    fn done(self) -> Arc<[T]> {
        match self {
            Edited::Shared(shared) => shared,
            Edited::Own(own) => own.into(),
        }
    }
}

impl Draft {
    /// Finds the file at this path, and its number in the index. If `order` is given, only the file of the crt-list line with this number is found.
    fn find(&self, digest: u64, path: &str, order: Option<u32>) -> Option<(u32, Arc<CertificateFile>)> {
        let part = self.parts.get(part_of(digest))?;
        entries(part.all(), digest).iter().find_map(|entry| {
            let number = entry.file as usize;
            let file = self.files.get(number / CHUNK)?.all().get(number % CHUNK)?.as_ref()?;
            let is_it = &*file.path == path && order.is_none_or(|order| order == file.order());
            is_it.then(|| (entry.file, Arc::clone(file)))
        })
    }

    fn take_out(&mut self, number: u32, file: &CertificateFile, path: u64) {
        for digest in file.names.iter().chain([&path]) {
            if let Some(part) = self.parts.get_mut(part_of(*digest)) {
                part.own().retain(|entry| entry.name != *digest || entry.file != number);
            }
        }
        if let Some(chunk) = self.files.get_mut(number as usize / CHUNK) {
            chunk.own().iter_mut().skip(number as usize % CHUNK).take(1).for_each(|place| *place = None);
        }
        self.free.push(number);
    }

    fn put_in(&mut self, file: Arc<CertificateFile>, digest: Digest) {
        let path = digest.path(&file.path);
        let digests: Vec<u64> = file.names.iter().copied().chain([path]).collect();
        let number = self.place(file);
        for name in digests {
            if let Some(part) = self.parts.get_mut(part_of(name)) {
                let part = part.own();
                let at = part.partition_point(|entry| (entry.name, entry.file) < (name, number));
                part.insert(at, Entry { name, file: number });
            }
        }
    }

    fn place(&mut self, file: Arc<CertificateFile>) -> u32 {
        if let Some(number) = self.free.pop() {
            if let Some(chunk) = self.files.get_mut(number as usize / CHUNK) {
                let places = chunk.own().iter_mut().skip(number as usize % CHUNK).take(1);
                places.for_each(|place| *place = Some(Arc::clone(&file)));
            }
            return number;
        }
        if self.files.last().is_none_or(|chunk| chunk.all().len() >= CHUNK) {
            self.files.push(Edited::Own(Vec::new()));
        }
        let chunks = self.files.len();
        let Some(last) = self.files.last_mut() else { return u32::MAX };
        last.own().push(Some(file));
        u32::try_from((chunks - 1) * CHUNK + last.all().len() - 1).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    pub(crate) fn digest() -> Digest {
        Digest::new(&MemoSeed([7; 16]))
    }

    fn file(path: &str, version: u64, names: &[&str]) -> Arc<CertificateFile> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = Leaf { names, not_before: 0, not_after: 0, algorithm: Algorithm::Ecdsa, has_key: true };
        Arc::new(CertificateFile::new(path, version, digest().leaf(&leaf), usual()))
    }

    fn usual() -> Arc<Policy> {
        static USUAL: OnceLock<Arc<Policy>> = OnceLock::new();
        Arc::clone(USUAL.get_or_init(|| Arc::new(Policy::usual(&crate::Tickets::default()).unwrap())))
    }

    fn paths(view: &Certificates, name: &str) -> BTreeSet<(String, u64)> {
        view.with_name(name).map(|file| (file.path.to_string(), file.version)).collect()
    }

    /// Files are added, changed and removed at random. After each step, the snapshot gives the same answers as a plain table of the files.
    #[test]
    fn a_changed_snapshot_equals_a_new_one() {
        let mut state = 2_026_u64;
        let mut roll = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        let mut model: BTreeMap<String, (u64, Vec<String>)> = BTreeMap::new();
        let mut view = Certificates::new(digest(), Rules::default(), Vec::new());
        for step in 0..2_000_u64 {
            let mut changes = Vec::new();
            for _ in 0..=roll(3) {
                let path = format!("/c/{}.pem", roll(600));
                if roll(3) == 0 {
                    model.remove(&path);
                    changes.push(FileChange::Remove(path.into()));
                } else {
                    let names: BTreeSet<String> =
                        (0..=roll(4)).map(|_| format!("n{}.example", roll(300))).collect();
                    let names: Vec<String> = names.into_iter().collect();
                    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
                    changes.push(FileChange::Put(file(&path, step, &texts)));
                    model.insert(path, (step, names));
                }
            }
            view = view.after(changes);
            assert_eq!(view.count(), model.len());
            assert_eq!(view.names(), model.values().map(|(_, names)| names.len()).sum::<usize>());
            assert_eq!(view.fallback().map(|file| file.path.to_string()), model.keys().next().cloned());
            for _ in 0..5 {
                let name = format!("n{}.example", roll(300));
                let with = model.iter().filter(|(_, (_, names))| names.contains(&name));
                let expected: BTreeSet<_> =
                    with.map(|(path, (version, _))| (path.clone(), *version)).collect();
                assert_eq!(paths(&view, &name), expected);
                let path = format!("/c/{}.pem", roll(600));
                let found = view.at_path(&path, |_| true).map(|file| file.version);
                assert_eq!(found, model.get(&path).map(|(version, _)| *version));
            }
            if step % 500 == 499 {
                let files: Vec<_> = view.files().cloned().collect();
                let fresh = Certificates::new(digest(), Rules::default(), files);
                assert_eq!((fresh.count(), fresh.names()), (view.count(), view.names()));
                for n in 0..300 {
                    let name = format!("n{n}.example");
                    assert_eq!(paths(&fresh, &name), paths(&view, &name));
                }
            }
        }
        assert!(view.count() > 100 && view.files.len() <= 3, "the places of removed files are used again");
    }
}
