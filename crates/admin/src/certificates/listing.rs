//! The list of certificate files, each with its TLS options, from a directory or a crt-list.

mod lookups;

use super::terms::CertificateTerms;
use super::{BadCertificate, CertificatePlace};
use enfilade_sources::files::certificates::{
    Listed, bundles_of_companion, files_of_kinds, is_certificate, list, read_text,
};
use enfilade_tls::{CrtList, Line, Options, Policy};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificate files of a directory or crt-list.
#[derive(Debug)]
pub(super) struct Listing {
    /// The directory for relative paths.
    pub(super) base: PathBuf,
    /// The names of the files, without duplicates. The names from a directory are sorted by bytes, and the names from a list are in the order of
    /// the lines.
    pub(super) names: Vec<OsString>,
    lines: Option<Lines>,
    /// For a directory: the paths of the bundles that may have companion files (`.key`, `.ocsp`).
    with_companions: BTreeSet<PathBuf>,
    /// Warnings about lines and files that are valid, but that the operator probably did not intend.
    pub(super) warnings: Vec<BadCertificate>,
    usual: Arc<Policy>,
}

/// The lines of a crt-list.
#[derive(Debug, Default)]
struct Lines {
    /// The lines of each certificate file, each with its policy.
    of: HashMap<PathBuf, Vec<(Line, Arc<Policy>)>>,
    /// The file name of the list.
    list: String,
    /// The list itself, and the files in the options of its lines, such as CA files. The certificate files are the keys of `of`.
    read: BTreeSet<PathBuf>,
}

/// The warning about a `.crt` file that contains a private key but is not read.
const PASSED_OVER: &str = "the file is not served, although it contains a private key: a `.crt` file is read only if there is a `.key` file next to it; rename \
                           the file to end with `.pem`";

/// The maximum number of problems in one error.
const LISTED_MAX: usize = 100;

fn listed(bad: &[BadCertificate]) -> String {
    let mut said: Vec<String> =
        bad.iter().take(LISTED_MAX).map(|bad| format!("{}: {}", bad.file, bad.why)).collect();
    let more = bad.len().saturating_sub(LISTED_MAX);
    if more > 0 {
        said.push(format!("and {more} more"));
    }
    said.join("; ")
}

/// The name of a file in a listing: the name alone if the file is in the directory `base`, otherwise the whole path.
fn name_in<'p>(base: &Path, path: &'p Path) -> &'p OsStr {
    path.file_name().filter(|_| path.parent() == Some(base)).unwrap_or(path.as_os_str())
}

impl Listing {
    /// Reads the place. A crt-list is used completely or not at all. If a line were left out, connections to the names of this line could get the
    /// certificate and options of another line. If lines are invalid, `is_usable` is called for the certificate of each line, so that one error lists
    /// all lines that cannot be used.
    ///
    /// # Errors
    /// When the place cannot be read, or lines of the list are invalid.
    pub(super) fn read(
        place: &CertificatePlace,
        terms: &CertificateTerms,
        known: Option<Listed>,
        is_usable: impl Fn(&Path) -> Result<(), String>,
    ) -> io::Result<Self> {
        let (listing, mut bad) = Self::read_past(place, terms, known)?;
        if bad.is_empty() {
            return Ok(listing);
        }
        let files = listing.names.iter().map(|name| listing.base.join(name));
        let unusable = files.filter_map(|path| Some((is_usable(&path).err()?, path)));
        let file = |path: &Path| path.display().to_string();
        bad.extend(unusable.map(|(why, path)| {
            let line = listing.lines_of(&path).and_then(<[_]>::first).map_or(0, |(line, _)| line.number);
            (line, listing.at_lines(BadCertificate { file: file(&path), why }))
        }));
        bad.sort_by_key(|(line, _)| *line);
        let bad: Vec<BadCertificate> = bad.into_iter().map(|(_, bad)| bad).collect();
        Err(io::Error::other(listed(&bad)))
    }

    /// Reads the place, even if lines of a crt-list are invalid. The result contains the listing, and the invalid lines with their numbers. If a line
    /// can be parsed, but its options cannot be applied, the listing contains its certificate with the default policy. So no server may use a listing
    /// that has invalid lines. If `known` is given, it is the list of the directory, and the directory is not listed again.
    ///
    /// # Errors
    /// When the place cannot be read.
    pub(super) fn read_past(
        place: &CertificatePlace,
        terms: &CertificateTerms,
        known: Option<Listed>,
    ) -> io::Result<(Self, Vec<(u32, BadCertificate)>)> {
        let usual = Arc::clone(&terms.usual);
        let list_path = match place {
            CertificatePlace::Directory(base) => {
                let mut listed = known.map_or_else(|| list(base), Ok)?;
                let base = base.clone();
                let passed_over = listed.passed_over();
                let names = &mut listed.names;
                if let Some(shared) = terms.shared().next() {
                    let of_fleet = list(shared)?;
                    names.extend(of_fleet.names.iter().map(|name| shared.join(name).into_os_string()));
                    listed.with_companions.extend(of_fleet.with_companions);
                    // The names are sorted by their bytes, because `has` finds a name by binary search.
                    names.sort();
                }
                let warnings = passed_over.into_iter().map(|file| BadCertificate {
                    file: file.display().to_string(),
                    why: PASSED_OVER.to_owned(),
                });
                let warnings = warnings.collect();
                let Listed { names, with_companions, .. } = listed;
                let listing = Listing { base, names, lines: None, with_companions, warnings, usual };
                return Ok((listing, Vec::new()));
            }
            CertificatePlace::List(path) => path,
        };
        let base = list_path.parent().map(Path::to_owned).unwrap_or_default();
        let text = String::from_utf8(read_text(list_path)?)
            .map_err(|_| io::Error::other("the crt-list is not UTF-8"))?;
        let CrtList { lines, bad, warnings } = CrtList::parse(&text);
        let at = |number: u32, why: String| BadCertificate {
            file: format!("{}:{number}", list_path.display()),
            why,
        };
        let mut bad: Vec<(u32, BadCertificate)> =
            bad.into_iter().map(|(number, why)| (number, at(number, why))).collect();
        let mut policies: HashMap<Options, Arc<Policy>> =
            HashMap::from([(Options::default(), Arc::clone(&usual))]);
        let name = list_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut all = Lines { of: HashMap::new(), list: name, read: [list_path.clone()].into() };
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
                            bad.push((line.number, at(line.number, why)));
                            Arc::clone(&usual)
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
        let warnings = warnings.into_iter().map(|(number, why)| at(number, why)).collect();
        Ok((
            Listing { base, names, lines: Some(all), with_companions: BTreeSet::new(), warnings, usual },
            bad,
        ))
    }

    /// The warnings at the time `now` (in nanoseconds since the epoch): warnings about lines and files that are probably not intended, and warnings
    /// about certificate revocation lists.
    pub(super) fn warnings_at(&self, now: u64) -> Vec<BadCertificate> {
        [self.warnings.clone(), self.revocations_at(now)].concat()
    }

    /// The problems of certificate revocation lists at the time `now` (in nanoseconds since the epoch). A problem of a policy is reported once, for
    /// the first line that has the policy.
    pub(super) fn revocations_at(&self, now: u64) -> Vec<BadCertificate> {
        let seconds = i64::try_from(now / super::NANOS).unwrap_or(i64::MAX);
        let mut policies: BTreeMap<&[u8; 32], (u32, &Policy)> = BTreeMap::new();
        for (line, policy) in self.lines() {
            let (first, _) = policies.entry(policy.epoch()).or_insert((line.number, policy));
            *first = line.number.min(*first);
        }
        let list = self.base.join(self.lines.as_ref().map_or("", |lines| &lines.list));
        let at = |number: u32, why: &str| BadCertificate {
            file: format!("{}:{number}", list.display()),
            why: why.to_owned(),
        };
        let of = |(number, policy): &(u32, &Policy)| {
            policy.faults(seconds).into_iter().map(|why| at(*number, why)).collect()
        };
        policies.values().flat_map(|row| -> Vec<BadCertificate> { of(row) }).collect()
    }

    /// The names of the files to read. If a crt-list contains a name, and no file with this name exists, the name can stand for several files, one
    /// for each kind of key (`NAME.rsa`, `NAME.ecdsa`).
    pub(super) fn files(&self) -> Vec<OsString> {
        let mut files = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let path = self.base.join(name);
            match self.lines.is_none() || path.exists() {
                true => files.push(name.clone()),
                false => match files_of_kinds(&path) {
                    kinds if kinds.is_empty() => files.push(name.clone()),
                    kinds => files.extend(kinds.into_iter().map(OsString::from)),
                },
            }
        }
        files
    }

    /// Extends the text of a problem with the numbers of the crt-list lines that contain the file.
    pub(super) fn at_lines(&self, bad: BadCertificate) -> BadCertificate {
        let lines = self.lines_of(Path::new(&bad.file)).unwrap_or_default();
        let list = self.lines.as_ref().map_or("", |lines| lines.list.as_str());
        let places: Vec<String> = lines.iter().map(|(line, _)| format!("{list}:{}", line.number)).collect();
        match places.is_empty() {
            true => bad,
            false => BadCertificate { why: format!("{} ({})", bad.why, places.join(", ")), file: bad.file },
        }
    }

    /// Refuses the list if a certificate on a line with options cannot be used, because no other certificate may be sent in its place. The error
    /// lists all certificates that cannot be used.
    pub(super) fn check_bound(&self, bad: &[BadCertificate]) -> io::Result<()> {
        match bad.iter().find(|bad| self.is_bound(Path::new(&bad.file))) {
            None => Ok(()),
            Some(bound) => Err(io::Error::other(format!(
                "{}; the whole crt-list is refused because of `{}`: its line has its own options, so no other certificate can be sent in its place. Repair this file, or remove its line",
                listed(bad),
                bound.file
            ))),
        }
    }

    /// The listing of a directory, limited to the files in `paths` and the bundles of these files.
    pub(super) fn of_few(
        place: &CertificatePlace,
        paths: &BTreeSet<PathBuf>,
        terms: &CertificateTerms,
    ) -> Self {
        let base = place.path().to_owned();
        let bundles = paths.iter().flat_map(|path| bundles_of_companion(path));
        let all: BTreeSet<OsString> = paths
            .iter()
            .cloned()
            .chain(bundles)
            .filter_map(|path| {
                let (directory, name) = (path.parent()?, path.file_name()?);
                let is_of_it = directory == base || Some(directory) == terms.shared.as_deref();
                (is_of_it && is_certificate(directory, name)).then(|| name_in(&base, &path).to_owned())
            })
            .collect();
        let names = all.into_iter().collect();
        Listing {
            base,
            names,
            lines: None,
            with_companions: BTreeSet::new(),
            warnings: Vec::new(),
            usual: Arc::clone(&terms.usual),
        }
    }
}
