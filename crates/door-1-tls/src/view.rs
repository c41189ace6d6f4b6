//! What there is to choose from: which names are in which file. One immutable snapshot; a change of some files makes another one
//! that shares all but what changed.
//!
//! A name is kept as 64 bits of a keyed digest beside the number of its file, so a million certificates with five names each take
//! less memory than their names would. Two names that meet are not to be found without the key, and whoever loads a file for a name
//! looks whether that is in it.

use crate::crt_list::Line;
use crate::leaf::{Algorithm, Leaf};
use crate::policy::Policy;
use enfilade_facts::memo::KeyMaker;
use enfilade_facts::{MemoKey, MemoSeed};
use std::sync::{Arc, OnceLock};

/// In so many parts are the names, so that a change copies few of them.
const PARTS: usize = 4096;
/// Below this one core is done before another has begun.
const SHARED_MIN: usize = 65_536;
/// So many files are copied when one of them changes.
const CHUNK: usize = 256;

/// How one of several files is chosen for a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// A file with the name itself before one with a wildcard.
    #[default]
    ExactFirst,
    /// As HAProxy: the best kind of key of both, so that an ECDSA wildcard stands before an RSA file with the name itself.
    Haproxy,
}

/// The rules of choosing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which of several.
    pub matching: Match,
    /// Whether a name nobody has is refused, instead of answered by the default.
    pub strict: bool,
}

/// A file with a certificate, as far as it was looked at.
#[derive(Clone, Debug)]
pub struct CertificateFile {
    /// Where it is. Files are in the order of their paths; the first one is the default.
    pub path: Box<str>,
    /// Which reading of it this is: another one after each change.
    pub version: u64,
    /// What tells a changed file from an unchanged one, once that is known for sure; only the reader can read it.
    pub identity: OnceLock<[u64; 4]>,
    /// The first second it is valid, since the epoch.
    pub not_before: i64,
    /// The last second it is valid, since the epoch.
    pub not_after: i64,
    /// What it signs with.
    pub algorithm: Algorithm,
    /// Under which terms it is served.
    pub policy: Arc<Policy>,
    /// Digests of its names.
    names: Box<[u64]>,
    listed: Option<Box<Listed>>,
}

/// What a line of a crt-list says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    /// Which line: earlier ones go first.
    order: u32,
    /// Whether the line gives the names.
    is_named: bool,
    /// Digests of names its wildcards do not mean.
    excluded: Box<[u64]>,
    is_default: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    name: u64,
    file: u32,
}

type Part = Arc<[Entry]>;
type Chunk = Arc<[Option<Arc<CertificateFile>>]>;

/// What names and files are digested with: one for each process.
#[derive(Clone, Copy)]
pub struct Digest(KeyMaker);

impl Digest {
    /// With this key.
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

    /// A leaf, its names digested.
    pub fn leaf(&self, leaf: &Leaf) -> DigestedLeaf {
        let Leaf { not_before, not_after, algorithm, .. } = *leaf;
        let names = leaf.names.iter().map(|name| self.name(name)).collect();
        DigestedLeaf { not_before, not_after, algorithm, names }
    }

    /// The same as a line of a crt-list has it, under the line's policy.
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

/// What is known of a leaf before anybody asks for it, its names digested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestedLeaf {
    /// The first second it is valid, since the epoch.
    pub not_before: i64,
    /// The last second it is valid, since the epoch.
    pub not_after: i64,
    /// What it signs with.
    pub algorithm: Algorithm,
    /// Digests of its names.
    pub names: Box<[u64]>,
}

/// What becomes of a file.
#[derive(Clone, Debug)]
pub enum FileChange {
    /// It is there, perhaps in the place of another of the same path.
    Put(CertificateFile),
    /// It is gone.
    Remove(Box<str>),
}

/// Every certificate there is.
#[derive(Clone)]
pub struct Certificates {
    digest: Digest,
    rules: Rules,
    parts: Arc<[Part]>,
    files: Arc<[Chunk]>,
    free: Vec<u32>,
    default: Option<Arc<CertificateFile>>,
    /// The policy, as long as there is one only.
    only: Option<Arc<Policy>>,
    count: usize,
    names: usize,
}

impl Certificates {
    /// Of these files; the first of them is the default, unless a line says otherwise.
    pub fn new(digest: Digest, rules: Rules, mut files: Vec<CertificateFile>) -> Self {
        files.sort_unstable_by(|a, b| a.place().cmp(&b.place()));
        files.dedup_by(|b, a| a.place() == b.place());
        // Behind the one that answers for names nobody has, everything is in its order.
        if let Some(default) = files.iter().position(|file| file.rank().0 == 0) {
            files.get_mut(..=default).into_iter().for_each(|front| front.rotate_right(1));
        }
        let first = files.first().map(|file| Arc::clone(&file.policy));
        let only = first.filter(|first| files.iter().all(|file| file.policy.epoch() == first.epoch()));
        let (parts, names) = parts(digest, &files);
        let parts = parts.into();
        let count = files.len();
        let chunks = chunks(files);
        let default = chunks.first().and_then(|chunk| chunk.first().cloned().flatten());
        let files = chunks.into();
        Certificates { digest, rules, parts, files, free: Vec::new(), default, only, count, names }
    }

    /// After these changes.
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
                let file = Arc::new(file);
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

    /// The same under other rules.
    #[must_use]
    pub fn under(&self, rules: Rules) -> Self {
        Certificates { rules, ..self.clone() }
    }

    /// The rules it is under.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// The files with this name, wildcards as they are written, in no order.
    pub(crate) fn with_name(&self, name: &str) -> impl Iterator<Item = &Arc<CertificateFile>> {
        let digest = self.digest.name(name);
        let part = self.parts.get(part_of(digest)).map_or(&[][..], |part| part);
        entries(part, digest).iter().filter_map(|entry| self.file_at(entry.file))
    }

    /// Under whose terms everything is served, where they are the same for all.
    pub fn only_policy(&self) -> Option<&Arc<Policy>> {
        self.only.as_ref()
    }

    pub(crate) fn fallback(&self) -> Option<&Arc<CertificateFile>> {
        self.default.as_ref()
    }

    /// The file at this path; in a crt-list there may be several lines with it, and this is one of those that fit.
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

    /// Every file, in no order.
    pub fn files(&self) -> impl Iterator<Item = &Arc<CertificateFile>> {
        self.files.iter().flat_map(|chunk| chunk.iter().flatten())
    }

    /// What files are digested with.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many certificates there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many names they have.
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
    /// A file as it was found.
    pub fn new(path: &str, version: u64, leaf: DigestedLeaf, policy: Arc<Policy>) -> Self {
        let DigestedLeaf { not_before, not_after, algorithm, names } = leaf;
        let (path, identity, listed) = (path.into(), OnceLock::new(), None);
        CertificateFile { path, version, identity, not_before, not_after, algorithm, policy, names, listed }
    }

    /// What is known of its leaf; without its names where a list gives others.
    pub fn leaf(&self) -> DigestedLeaf {
        let CertificateFile { not_before, not_after, algorithm, .. } = *self;
        let names = if self.is_named() { Box::default() } else { self.names.clone() };
        DigestedLeaf { not_before, not_after, algorithm, names }
    }

    /// It was verified, and this is what tells it from a changed one, once that is known for sure.
    pub fn verified_as(&self, identity: Option<[u64; 4]>) {
        if let Some(identity) = identity {
            let _ = self.identity.set(identity);
        }
    }

    /// Whether it is as another reading of it says.
    pub fn says_the_same(&self, leaf: &DigestedLeaf) -> bool {
        let is_same_name = self.is_named() || self.names == leaf.names;
        let dates = (leaf.not_before, leaf.not_after, leaf.algorithm);
        (self.not_before, self.not_after, self.algorithm) == dates && is_same_name
    }

    /// Whether a list gives its names.
    pub fn is_named(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.is_named)
    }

    fn order(&self) -> u32 {
        self.listed.as_ref().map_or(0, |listed| listed.order)
    }

    /// Whether its wildcards do not mean this name.
    pub(crate) fn excludes(&self, digest: &Digest, name: &str) -> bool {
        let excluded = self.listed.as_ref().map_or(&[][..], |listed| &listed.excluded);
        !excluded.is_empty() && excluded.contains(&digest.name(name))
    }

    /// What comes first answers where several could.
    pub(crate) fn place(&self) -> (u32, &str) {
        (self.order(), &self.path)
    }

    /// The least of all answers for names nobody has.
    fn rank(&self) -> (u32, u32, &str) {
        let is_other = self.listed.as_ref().is_none_or(|listed| !listed.is_default);
        (u32::from(is_other), self.order(), &self.path)
    }

    /// What is remembered of this reading of the file is remembered under this.
    pub(crate) fn key(&self, digest: &Digest) -> MemoKey {
        digest.0.number(3).bytes(self.path.as_bytes()).number(self.version).bytes(self.policy.epoch()).key()
    }
}

/// Where each name and path is, in all parts, and how many names there are. Each core puts the names of a share of the files in their
/// parts, and then puts a share of the parts in order.
fn parts(digest: Digest, files: &[CertificateFile]) -> (Vec<Part>, usize) {
    let names = files.iter().map(|file| file.names.len()).sum::<usize>();
    let cores = cores(names);
    let numbered: Vec<(u32, &CertificateFile)> = (0..).zip(files).collect();
    let scattered: Vec<Vec<Vec<Entry>>> = shared(&numbered, cores, |files| {
        // A bit more room than an even spread takes, so that hardly any part moves while it grows.
        let even = files.iter().map(|(_, file)| file.names.len() + 1).sum::<usize>() / PARTS;
        let mut parts: Vec<Vec<Entry>> = (0..PARTS).map(|_| Vec::with_capacity(even + even / 4)).collect();
        for (number, file) in files {
            for name in file.names.iter().copied().chain([digest.path(&file.path)]) {
                if let Some(part) = parts.get_mut(part_of(name)) {
                    part.push(Entry { name, file: *number });
                }
            }
        }
        vec![parts]
    });
    let all: Vec<usize> = (0..PARTS).collect();
    let parts = shared(&all, cores, |numbers| {
        let whole = |number: &usize| {
            let shares = scattered.iter().filter_map(|parts| parts.get(*number));
            let mut part: Vec<Entry> = shares.flatten().copied().collect();
            part.sort_unstable_by_key(|entry| (entry.name, entry.file));
            Part::from(part)
        };
        numbers.iter().map(whole).collect()
    });
    (parts, names)
}

/// The files in chunks, each core a share.
fn chunks(mut files: Vec<CertificateFile>) -> Vec<Chunk> {
    let share = files.len().div_ceil(cores(files.len())).next_multiple_of(CHUNK);
    let mut shares = Vec::new();
    while files.len() > share {
        let rest = files.split_off(share);
        shares.push(std::mem::replace(&mut files, rest));
    }
    shares.push(files);
    let of = |files: Vec<CertificateFile>| -> Vec<Chunk> {
        let mut files = files.into_iter().map(|file| Some(Arc::new(file)));
        let next = || Some(files.by_ref().take(CHUNK).collect::<Chunk>()).filter(|chunk| !chunk.is_empty());
        std::iter::from_fn(next).collect()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = shares.into_iter().map(|files| scope.spawn(move || of(files))).collect();
        running.into_iter().flat_map(joined).collect()
    })
}

/// How many cores are worth having for so many.
fn cores(count: usize) -> usize {
    match count < SHARED_MIN {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A share that is missing would have names answered with others' certificates.
fn joined<T>(one: std::thread::ScopedJoinHandle<'_, T>) -> T {
    one.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
}

/// Something of each of these, in their order, each core a share.
fn shared<T: Sync, R: Send>(all: &[T], cores: usize, of: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    if cores < 2 {
        return of(all);
    }
    let share = all.len().div_ceil(cores).max(1);
    std::thread::scope(|scope| {
        let of = &of;
        let running: Vec<_> = all.chunks(share).map(|share| scope.spawn(move || of(share))).collect();
        running.into_iter().flat_map(joined).collect()
    })
}

fn part_of(digest: u64) -> usize {
    (digest >> 52) as usize % PARTS
}

/// Those of one digest.
fn entries(part: &[Entry], digest: u64) -> &[Entry] {
    let from = part.partition_point(|entry| entry.name < digest);
    let rest = part.get(from..).unwrap_or_default();
    let count = rest.iter().take_while(|entry| entry.name == digest).count();
    rest.get(..count).unwrap_or_default()
}

/// A snapshot that is being made out of another.
struct Draft {
    parts: Vec<Edited<Entry>>,
    files: Vec<Edited<Option<Arc<CertificateFile>>>>,
    free: Vec<u32>,
    removed_default: bool,
}

/// A piece as it was, or one that is copied because something in it changes.
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
            Edited::Shared(_) => unreachable!("it was made an own one"),
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
    /// At this path, and of this line if one is meant.
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

    fn file(path: &str, version: u64, names: &[&str]) -> CertificateFile {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let leaf = Leaf { names, not_before: 0, not_after: 0, algorithm: Algorithm::Ecdsa, has_key: true };
        CertificateFile::new(path, version, digest().leaf(&leaf), usual())
    }

    fn usual() -> Arc<Policy> {
        static USUAL: OnceLock<Arc<Policy>> = OnceLock::new();
        Arc::clone(USUAL.get_or_init(|| Arc::new(Policy::usual(&crate::Tickets::default()).unwrap())))
    }

    fn paths(view: &Certificates, name: &str) -> BTreeSet<(String, u64)> {
        view.with_name(name).map(|file| (file.path.to_string(), file.version)).collect()
    }

    /// Files come, change and go at random; what the snapshot says is what a table of all of them says.
    #[test]
    fn a_changed_snapshot_is_the_one_that_is_made_anew() {
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
                let anew: Vec<_> = view.files().map(|file| CertificateFile::clone(file)).collect();
                let anew = Certificates::new(digest(), Rules::default(), anew);
                assert_eq!((anew.count(), anew.names()), (view.count(), view.names()));
                for n in 0..300 {
                    let name = format!("n{n}.example");
                    assert_eq!(paths(&anew, &name), paths(&view, &name));
                }
            }
        }
        assert!(view.count() > 100 && view.files.len() <= 3, "places are used again");
    }
}
