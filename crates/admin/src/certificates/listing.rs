//! Which files there are, and under which terms: what a directory holds, or what a crt-list says.

use super::{BadCertificate, CertificatePlace};
use enfilade_sources::files::certificates::{
    bundles_beside, is_certificate, list, read_text, with_something_beside,
};
use enfilade_tls::{CertificateFile, CrtList, Digest, DigestedLeaf, Issuers, Line, Options, Policy, Tickets};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What all certificates have in common.
#[derive(Clone, Debug)]
pub struct CertificateTerms {
    pub(super) tickets: Tickets,
    pub(super) usual: Arc<Policy>,
    pub(super) issuers: Arc<Issuers>,
}

impl CertificateTerms {
    /// With these tickets, and the authorities of this directory for bundles that hold only their leaf.
    ///
    /// # Errors
    /// When the TLS library does not take its own defaults, or the directory cannot be read.
    pub fn new(tickets: Tickets, issuers: Option<&Path>) -> Result<Self, String> {
        let mut known = Issuers::default();
        if let Some(directory) = issuers {
            let said = |what: &Path, why: String| format!("`[tls] issuers`: `{}`: {why}", what.display());
            let names = list(directory).map_err(|why| said(directory, why.to_string()))?;
            for path in names.iter().map(|name| directory.join(name)) {
                let pem = read_text(&path).map_err(|why| said(&path, why.to_string()))?;
                known.add(&pem).map_err(|why| said(&path, why))?;
            }
        }
        let usual = Arc::new(Policy::usual(&tickets)?);
        Ok(CertificateTerms { tickets, usual, issuers: Arc::new(known) })
    }
}

/// What there is at a place.
#[derive(Debug)]
pub(super) struct Listing {
    /// Files that are not named by a whole path are here.
    pub(super) base: PathBuf,
    /// Each once, in their order.
    pub(super) names: Vec<OsString>,
    lines: Option<Lines>,
    /// What is obeyed and may not be what was meant.
    pub(super) warnings: Vec<BadCertificate>,
    usual: Arc<Policy>,
}

/// What a crt-list says.
#[derive(Debug, Default)]
struct Lines {
    of: HashMap<PathBuf, Vec<(Line, Arc<Policy>)>>,
    /// The list itself, and what its lines read beside certificates.
    read: BTreeSet<PathBuf>,
}

impl Listing {
    /// Reads it. A list is obeyed as a whole or not at all: with a line left out, another one with other terms would answer for its
    /// names.
    ///
    /// # Errors
    /// When the place cannot be read, or what is wrong with which lines.
    pub(super) fn read(place: &CertificatePlace, terms: &CertificateTerms) -> io::Result<Self> {
        let usual = Arc::clone(&terms.usual);
        let list_path = match place {
            CertificatePlace::Directory(base) => {
                let (base, names) = (base.clone(), list(base)?);
                return Ok(Listing { base, names, lines: None, warnings: Vec::new(), usual });
            }
            CertificatePlace::List(path) => path,
        };
        let base = list_path.parent().map(Path::to_owned).unwrap_or_default();
        let text =
            String::from_utf8(read_text(list_path)?).map_err(|_| io::Error::other("it is not UTF-8"))?;
        let CrtList { lines, bad, warnings } = CrtList::parse(&text);
        let at = |number: u32, why: String| BadCertificate {
            file: format!("{}:{number}", list_path.display()),
            why,
        };
        let mut bad: Vec<BadCertificate> = bad.into_iter().map(|(number, why)| at(number, why)).collect();
        let mut policies: HashMap<Options, Arc<Policy>> =
            HashMap::from([(Options::default(), Arc::clone(&usual))]);
        let mut all = Lines { of: HashMap::new(), read: [list_path.clone()].into() };
        let mut names = Vec::new();
        for line in lines {
            let policy = match policies.get(&line.options) {
                Some(policy) => Arc::clone(policy),
                None => {
                    let read = |name: &str| {
                        let path = base.join(name);
                        let bytes = read_text(&path).map_err(|why| why.to_string());
                        all.read.insert(path);
                        bytes
                    };
                    match Policy::new(&line.options, &terms.tickets, read) {
                        Ok(policy) => {
                            let policy = Arc::new(policy);
                            policies.insert(line.options.clone(), Arc::clone(&policy));
                            policy
                        }
                        Err(why) => {
                            bad.push(at(line.number, why));
                            continue;
                        }
                    }
                }
            };
            let lines = all.of.entry(base.join(&line.file)).or_default();
            if lines.is_empty() {
                names.push(OsString::from(&line.file));
            }
            lines.push((line, policy));
        }
        if !bad.is_empty() {
            let said: Vec<String> = bad.iter().map(|bad| format!("{}: {}", bad.file, bad.why)).collect();
            return Err(io::Error::other(said.join("; ")));
        }
        let warnings = warnings.into_iter().map(|(number, why)| at(number, why)).collect();
        Ok(Listing { base, names, lines: Some(all), warnings, usual })
    }

    /// A directory as far as these files are of it.
    pub(super) fn of_few(
        place: &CertificatePlace,
        paths: &BTreeSet<PathBuf>,
        terms: &CertificateTerms,
    ) -> Self {
        let base = place.path().to_owned();
        let beside = paths.iter().flat_map(|path| bundles_beside(path));
        let all: BTreeSet<OsString> = paths
            .iter()
            .cloned()
            .chain(beside)
            .filter(|path| path.parent() == Some(&base))
            .filter_map(|path| path.file_name().map(OsStr::to_owned))
            .filter(|name| is_certificate(&base, name))
            .collect();
        let names = all.into_iter().collect();
        Listing { base, names, lines: None, warnings: Vec::new(), usual: Arc::clone(&terms.usual) }
    }

    /// Whether there is a list.
    pub(super) fn is_of_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// The lines a file is on, where there is a list; a file of a bundle of several kinds is on the bundle's.
    fn lines_of(&self, path: &Path) -> Option<&[(Line, Arc<Policy>)]> {
        let lines = self.lines.as_ref()?;
        let bundle = || lines.of.get(&path.with_extension(""));
        Some(lines.of.get(path).or_else(bundle).map_or(&[], Vec::as_slice))
    }

    /// Whether the file is meant.
    pub(super) fn has(&self, path: &Path) -> bool {
        match self.lines_of(path) {
            Some(lines) => !lines.is_empty(),
            None => {
                let name = path.file_name().unwrap_or_default();
                path.parent() == Some(&self.base)
                    && self.names.binary_search_by(|known| known.as_os_str().cmp(name)).is_ok()
            }
        }
    }

    /// Whether its names are its certificate's, on some line.
    pub(super) fn needs_names(&self, path: &Path) -> bool {
        self.lines_of(path).is_none_or(|lines| lines.iter().any(|(line, _)| line.names.is_none()))
    }

    /// A file as it was found, under the usual terms.
    pub(super) fn file(&self, path: &str, version: u64, leaf: DigestedLeaf) -> CertificateFile {
        CertificateFile::new(path, version, leaf, Arc::clone(&self.usual))
    }

    /// What is served of a file, as it is or as each of its lines has it, goes behind what is there.
    pub(super) fn put(&self, file: CertificateFile, digest: &Digest, into: &mut Vec<CertificateFile>) {
        match self.lines_of(Path::new(&*file.path)) {
            None => into.push(file),
            Some(lines) => into.extend(
                lines.iter().map(|(line, policy)| digest.listed(file.clone(), line, Arc::clone(policy))),
            ),
        }
    }

    /// Whether nothing may answer in its place: its terms are not the usual ones.
    pub(super) fn is_bound(&self, path: &Path) -> bool {
        let of = self.lines_of(path).unwrap_or_default();
        of.iter().any(|(_, policy)| policy.epoch() != self.usual.epoch())
    }

    /// Whether everything follows from this file.
    pub(super) fn rests_on(&self, path: &Path) -> bool {
        self.lines.as_ref().is_some_and(|lines| lines.read.contains(path))
    }

    /// Where the files are, and what they rest on.
    pub(super) fn directories(&self) -> BTreeSet<PathBuf> {
        let parent = |path: &Path| path.parent().map(Path::to_owned);
        let of_lines = self.lines.iter().flat_map(|lines| lines.of.keys().chain(&lines.read));
        of_lines.filter_map(|path| parent(path)).chain([self.base.clone()]).collect()
    }

    /// Files whose own identity is not all there is to them.
    pub(super) fn with_something_beside(&self) -> BTreeSet<PathBuf> {
        with_something_beside(&self.directories())
    }
}
