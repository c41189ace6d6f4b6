//! The index of certificates: the leaf certificates that an earlier start read. With the index, the next start only checks each file for changes.
//!
//! The index has an entry for a file only if the server read the whole file, and found that the key belongs to the certificate. The entry contains
//! the fields of the leaf certificate, and the file's inode number, size and times at that check. An index is ignored if it is damaged, has another
//! format version, or was written for another directory or crt-list. If the index is ignored, every file is read. The index contains the seed for the
//! digests of names, so it must be as private as the keys.
//!
//! Measured (`bench/runs/2026-11-22-certs.json`, 25,000 files): the server can answer for all names after 68 ms with the index, and after 116 ms
//! without the index. If the files are not in the page cache, the server needs 113 ms with the index, and 272 ms without the index. For 1,000,000
//! files (`2026-11-22-certs-1000000.json`), the server needs 3.6 s with the index, and 4.1 s without the index. If these files are not in the page
//! cache, the server needs 6.2 s with the index, and 11.4 s without the index.

use super::listing::Listing;
use super::{CertificateFiles, path_of};
use enfilade_facts::MemoSeed;
use enfilade_facts::memo::KeyMaker;
use enfilade_sources::files::atomic;
use enfilade_sources::files::certificates::{Identity, OpenDirectory, identity_of_whole, read_index};
use enfilade_tls::{Algorithm, CertificateFile, Certificates, DigestedLeaf};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How far the index is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexUse {
    /// No index is used.
    Off,
    /// Each file is checked for changes before the server answers.
    #[default]
    Checked,
    /// The files are checked for changes only after the server has begun to answer.
    Trusted,
}

const MAGIC: &[u8; 16] = b"enfilade leaves2";
const CHECKSUM_BYTES: usize = 16;

/// A loaded index.
pub struct LeafIndex {
    seed: [u8; 16],
    is_trusted: bool,
    leaves: HashMap<Box<str>, Known>,
}

struct Known {
    identity: Identity,
    leaf: DigestedLeaf,
    /// Whether `leaf` contains the names of the certificate. `leaf` does not contain them if the line of the crt-list contains names.
    has_names: bool,
}

impl LeafIndex {
    /// Reads the index of `place` from the file `index`. `None` if no index is used, or the index does not exist or is not valid.
    pub fn read(index: &Path, place: &Path, how: IndexUse) -> Option<Self> {
        let is_trusted = match how {
            IndexUse::Off => return None,
            how => how == IndexUse::Trusted,
        };
        let bytes = read_index(index).ok()?;
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if checksum(body) != *sum {
            return None;
        }
        let mut rest = Rest(body);
        if rest.array::<16>()? != *MAGIC {
            return None;
        }
        let seed = rest.array()?;
        if rest.text()? != place.to_string_lossy() {
            return None;
        }
        let count = rest.number()?;
        let mut leaves = HashMap::with_capacity(usize::try_from(count).ok()?.min(body.len() / 64));
        for _ in 0..count {
            let path = rest.text()?.into();
            let mut number = || rest.number();
            let identity = [number()?, number()?, number()?, number()?];
            let (not_before, not_after) = (number()? as i64, number()? as i64);
            let [algorithm, has_names] = rest.array()?;
            let algorithm = match algorithm {
                0 => Algorithm::Rsa,
                1 => Algorithm::Ecdsa,
                _ => Algorithm::Other,
            };
            let names = usize::try_from(rest.number()?).ok()?;
            let (digests, after) = rest.0.split_at_checked(names.checked_mul(8)?)?;
            rest.0 = after;
            let names = digests.as_chunks::<8>().0.iter().map(|digest| u64::from_le_bytes(*digest)).collect();
            let leaf = DigestedLeaf { not_before, not_after, algorithm, names };
            leaves.insert(path, Known { identity, leaf, has_names: has_names == 1 });
        }
        rest.0.is_empty().then_some(LeafIndex { seed, is_trusted, leaves })
    }

    /// The seed for the digests of the names in the index.
    pub fn seed(&self) -> MemoSeed {
        MemoSeed(self.seed)
    }

    /// The number of files in the index.
    pub fn count(&self) -> usize {
        self.leaves.len()
    }

    /// Writes an index of the verified files of a snapshot. `seed` is the seed for the digests of their names. Returns the number of files.
    ///
    /// # Errors
    /// When the index cannot be written; the old index stays.
    pub fn write(
        index: &Path,
        place: &Path,
        seed: &MemoSeed,
        certificates: &Certificates,
    ) -> io::Result<usize> {
        let mut body = Vec::with_capacity(certificates.count() * 128);
        body.extend_from_slice(MAGIC);
        body.extend_from_slice(&seed.0);
        let text = |body: &mut Vec<u8>, text: &str| {
            body.extend_from_slice(&(text.len() as u64).to_le_bytes());
            body.extend_from_slice(text.as_bytes());
        };
        text(&mut body, &place.to_string_lossy());
        let known: Vec<_> =
            certificates.files().filter_map(|file| Some((file, *file.identity.get()?))).collect();
        body.extend_from_slice(&(known.len() as u64).to_le_bytes());
        for (file, identity) in &known {
            text(&mut body, &file.path);
            let leaf = file.leaf();
            let numbers = identity.iter().copied().chain([leaf.not_before as u64, leaf.not_after as u64]);
            numbers.for_each(|number| body.extend_from_slice(&number.to_le_bytes()));
            let algorithm = match leaf.algorithm {
                Algorithm::Rsa => 0,
                Algorithm::Ecdsa => 1,
                Algorithm::Other => 2,
            };
            body.extend_from_slice(&[algorithm, u8::from(!file.is_named())]);
            body.extend_from_slice(&(leaf.names.len() as u64).to_le_bytes());
            leaf.names.iter().for_each(|name| body.extend_from_slice(&name.to_le_bytes()));
        }
        let sum = checksum(&body);
        body.extend_from_slice(&sum);
        atomic::write(index, &body, 0o600)?;
        Ok(known.len())
    }
}

/// The checksum detects accidental damage, but not the changes of an attacker who can write the file.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    KeyMaker::new(&MemoSeed(*MAGIC), "index").bytes(bytes).key().as_choice()
}

struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

impl CertificateFiles {
    /// Takes unchanged files from the index. If the index is trusted, files are taken without a check for changes. Returns the files that must be
    /// read.
    pub(super) fn known(
        &self,
        listing: &Listing,
        index: &LeafIndex,
        files: &mut Vec<Arc<CertificateFile>>,
    ) -> Vec<OsString> {
        let with_companions = if index.is_trusted { Default::default() } else { listing.with_companions() };
        let Ok(directory) = OpenDirectory::open(&listing.base) else { return listing.names.clone() };
        let is_same = |name: &OsStr, path: &Path, known: &Known| {
            let identity = match with_companions.contains(path) {
                true => identity_of_whole(path),
                false => directory.identity_of(name),
            };
            identity.is_ok_and(|identity| identity == known.identity)
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = listing.names.len().div_ceil(cores).max(1);
        let one = |names: &[OsString]| {
            let mut found: Vec<Arc<CertificateFile>> = Vec::with_capacity(names.len());
            let mut unknown = Vec::new();
            for name in names {
                let text = path_of(&listing.base, name);
                let path = Path::new(&text);
                let known = index.leaves.get(&*text).filter(|known| {
                    let has_what_it_needs = known.has_names || !listing.needs_names(path);
                    has_what_it_needs && (index.is_trusted || is_same(name, path, known))
                });
                let Some(Known { identity, leaf, .. }) = known else {
                    unknown.push(name.clone());
                    continue;
                };
                let before = found.len();
                listing.put(listing.file(&text, self.version(), leaf.clone()), &self.digest, &mut found);
                found.iter().skip(before).for_each(|file| file.verified_as(Some(*identity)));
            }
            (found, unknown)
        };
        let mut unknown = Vec::new();
        std::thread::scope(|scope| {
            let chunks = listing.names.chunks(share);
            let running: Vec<_> = chunks.map(|names| scope.spawn(move || one(names))).collect();
            for (found, rest) in running.into_iter().filter_map(|one| one.join().ok()) {
                files.extend(found);
                unknown.extend(rest);
            }
        });
        unknown
    }
}
