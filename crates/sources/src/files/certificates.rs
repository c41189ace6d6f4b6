//! Reads a directory of PEM bundles by HAProxy's rules: every regular file in the byte order of names, except hidden files, companion files (`.key`,
//! `.issuer`, `.ocsp`, `.sctl`), and `.crt` files without a `.key` file. Links to files are followed. Subdirectories are not read.
//!
//! There may be a hundred thousand files, so they are read in parallel by one of two engines. [`Ring`] passes many files to the kernel at once
//! (io_uring). [`Threads`] is used if io_uring is not available (seccomp, containers, old kernels).

mod links;
mod ring;
mod threads;
mod watch;

pub use links::links_of;
pub use ring::Ring;
pub use threads::Threads;
pub use watch::{Changed, ChangedFiles, DirectoryWatch};

use super::bounded;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The greatest size of a bundle, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;

/// The greatest size of a crt-list, or of a file of CA certificates or revocation lists, in bytes. This size is enough for a few million lines.
const LIST_BYTES_MAX: u64 = 1 << 30;
/// The greatest size of an index of certificates, in bytes.
const INDEX_BYTES_MAX: u64 = 4 << 30;

/// Endings of companion files.
const COMPANIONS: [&str; 4] = ["key", "issuer", "ocsp", "sctl"];

/// Identifies one version of a file: inode number, size, modification time and change time. The times are in nanoseconds.
pub type Identity = [u64; 4];

/// A function that an engine calls for each file. The first argument is the index of the file's name in the list of names. The second argument
/// contains the bytes of the file, or the reason why the file could not be read.
pub type Each<'e> = dyn Fn(usize, Result<&[u8], String>) + Sync + 'e;

/// A method of reading many files.
pub trait Engine: Send + Sync {
    /// The name of the engine in the log.
    fn name(&self) -> String;

    /// Reads each of these files of a directory once, in any order, and passes it to `each`.
    ///
    /// # Errors
    /// When the directory cannot be opened or the engine fails. Some files may have been read before the engine failed. An error of one file is
    /// passed to `each`.
    fn read(&self, directory: &Path, names: &[OsString], each: &Each<'_>) -> io::Result<()>;
}

/// The fastest engine that the kernel allows.
pub fn engine() -> Box<dyn Engine> {
    match Ring::probe() {
        Ok(ring) => Box::new(ring),
        Err(_) => Box::new(Threads::default()),
    }
}

/// The files of a directory. The directory is read only once, because a directory of certificates can have a hundred thousand files.
#[derive(Debug, Default)]
pub struct Listed {
    directory: PathBuf,
    /// `None` if the version is not known. The list then counts as changed.
    version: Option<DirectoryVersion>,
    /// The names of the certificate files, sorted by bytes.
    pub names: Vec<OsString>,
    /// The `.crt` files without a `.key` file.
    crts: Vec<PathBuf>,
    /// The paths of bundles that may have companion files. A change of a companion file does not change the identity of the bundle's own file. So the
    /// caller must call [`identity_of_whole`] to find changes of these bundles.
    pub with_companions: BTreeSet<PathBuf>,
    /// The names of all symbolic links.
    links: Vec<OsString>,
}

/// The device and the identity of a directory. If another directory is moved to the path, the version is another one. The version changes also if
/// another machine changes the directory on a network file system.
type DirectoryVersion = (u64, Identity);

fn version_of(directory: &Path) -> Option<DirectoryVersion> {
    let found = rustix::fs::stat(directory).ok()?;
    Some((found.st_dev, identity(&found)))
}

/// Lists the files of a directory of certificates.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &Path) -> io::Result<Listed> {
    let version = version_of(directory);
    let mut listed = Listed { directory: directory.to_owned(), version, ..Listed::default() };
    listed.names = list_of(directory, |name, is_link| {
        if is_link {
            listed.links.push(name.to_owned());
        }
        if is_certificate(directory, name) {
            return true;
        }
        let path = directory.join(name);
        if is_passed_over(name) {
            listed.with_companions.extend(bundles_of_companion(&path));
        } else {
            listed.crts.push(path);
        }
        false
    })?;
    listed.crts.sort();
    Ok(listed)
}

impl Listed {
    /// Whether the directory at the path is still the directory that was listed, with the same files.
    pub fn is_unchanged(&self) -> bool {
        self.version.is_some() && self.version == version_of(&self.directory)
    }

    /// The `.crt` files that contain a private key, but are not served. A `.crt` file is served only if its `.key` file exists. If a `.pem` file of
    /// the same name is in the same directory, the `.crt` file is taken for the certificate of the authority, and is not in the result.
    pub fn passed_over(&self) -> Vec<PathBuf> {
        let has_key = |bytes: &[u8]| bytes.windows(PRIVATE_KEY.len()).any(|window| window == PRIVATE_KEY);
        let is_unserved = |file: &&PathBuf| {
            !file.with_extension("pem").exists() && read_one(file).is_ok_and(|(bytes, _)| has_key(&bytes))
        };
        self.crts.iter().filter(is_unserved).cloned().collect()
    }
}

/// The names of the files in a directory of authorities, sorted by bytes. Files of authorities have no keys, so a `.crt` file is listed even without
/// a `.key` file.
///
/// # Errors
/// When the directory cannot be read.
pub fn list_authorities(directory: &Path) -> io::Result<Vec<OsString>> {
    list_of(directory, |name, _| !is_passed_over(name))
}

/// The end of the PEM label of a private key.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

/// The names for which `counts` returns true, sorted by bytes, without the names of directories. `counts` gets a name, and whether it is the name of
/// a symbolic link.
fn list_of(directory: &Path, mut counts: impl FnMut(&OsStr, bool) -> bool) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type());
        if !counts(&name, kind.as_ref().is_ok_and(|kind| kind.is_symlink())) {
            continue;
        }
        let kind = kind?;
        // A link to a directory is skipped. A dangling link is listed, and the attempt to read it is reported as an error.
        let is_directory = kind.is_dir() || kind.is_symlink() && directory.join(&name).is_dir();
        if !is_directory {
            names.push(name);
        }
    }
    sort(&mut names);
    Ok(names)
}

/// The greatest number of names that one core sorts alone. Several cores sort a longer list of names faster.
const SHARED_MIN: usize = 16_384;

/// Sorts names by their bytes. Each core sorts a part, and then the sorted parts are merged. The first 16 bytes of each name are stored next to the
/// pointer to the name, so that most comparisons need no slow access through the pointer.
fn sort(names: &mut Vec<OsString>) {
    let first = |name: &OsString| {
        let mut first = [0; 16];
        first.iter_mut().zip(name.as_bytes()).for_each(|(place, byte)| *place = *byte);
        u128::from_be_bytes(first)
    };
    let mut keyed: Vec<(u128, OsString)> = names.drain(..).map(|name| (first(&name), name)).collect();
    let order = |a: &(u128, OsString), b: &(u128, OsString)| {
        a.0.cmp(&b.0).then_with(|| a.1.as_bytes().cmp(b.1.as_bytes()))
    };
    if keyed.len() > SHARED_MIN {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = keyed.len().div_ceil(cores);
        std::thread::scope(|scope| {
            for keyed in keyed.chunks_mut(share) {
                scope.spawn(move || keyed.sort_unstable_by(order));
            }
        });
    }
    // Rust's stable sort detects the sorted parts and merges them.
    keyed.sort_by(order);
    names.extend(keyed.into_iter().map(|(_, name)| name));
}

/// Whether a file of this name is hidden, or a companion file.
fn is_passed_over(name: &OsStr) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    name.as_bytes().starts_with(b".") || extension.is_some_and(|extension| COMPANIONS.contains(&extension))
}

/// Whether a file of this name counts as a certificate file.
pub fn is_certificate(directory: &Path, name: &OsStr) -> bool {
    if is_passed_over(name) {
        return false;
    }
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    // Other programs store certificates of authorities as `.crt`. So a `.crt` file counts only if its `.key` file exists.
    extension != Some("crt")
        || [true, false].into_iter().any(|whole| companion_path(&directory.join(name), "key", whole).exists())
}

/// The path of a companion file of `NAME.pem`: `NAME.pem.key` if `whole` is true, otherwise `NAME.key`.
fn companion_path(bundle: &Path, ending: &str, whole: bool) -> PathBuf {
    match whole {
        true => {
            let mut path = bundle.as_os_str().to_owned();
            path.extend([OsStr::new("."), OsStr::new(ending)]);
            path.into()
        }
        false => bundle.with_extension(ending),
    }
}

/// The existing `.key` file of a certificate file.
pub fn key_file_of(certificate: &Path) -> Option<PathBuf> {
    let paths = [true, false].map(|whole| companion_path(certificate, "key", whole));
    paths.into_iter().find(|path| path != certificate && path.is_file())
}

/// The existing companion files that belong to this bundle and to no other existing bundle.
pub fn companions_of(bundle: &Path) -> Vec<PathBuf> {
    let paths = COMPANIONS
        .into_iter()
        .flat_map(|ending| [true, false].map(|whole| companion_path(bundle, ending, whole)));
    let is_its_own = |path: &PathBuf| {
        let others = bundles_of_companion(path).into_iter().filter(|other| other != bundle);
        path.is_file() && !others.into_iter().any(|other| other.exists())
    };
    paths.filter(is_its_own).collect()
}

/// A bundle and its companion files.
#[derive(Clone, Debug)]
pub struct WholeBundle {
    /// The content of the bundle.
    pub pem: Vec<u8>,
    /// The content of the `.key` file in the same directory.
    pub key: Option<Vec<u8>>,
    /// The content of the `.ocsp` file in the same directory.
    pub ocsp: Option<Vec<u8>>,
    /// The combined identity of these files; `None` if one of them changed while it was read.
    pub identity: Option<Identity>,
}

/// Reads one bundle with its companion files.
///
/// # Errors
/// When the bundle or an existing companion file cannot be read.
pub fn read_whole(bundle: &Path) -> io::Result<WholeBundle> {
    let (pem, mut identity) = read_one(bundle)?;
    let mut companion = |ending: &str| {
        for whole in [true, false] {
            match read_one(&companion_path(bundle, ending, whole)) {
                Ok((bytes, of_it)) => {
                    identity = identity.zip(of_it).map(|(one, other)| together(one, other));
                    return Ok(Some(bytes));
                }
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(why),
            }
        }
        Ok(None)
    };
    let (key, ocsp) = (companion("key")?, companion("ocsp")?);
    Ok(WholeBundle { pem, key, ocsp, identity })
}

/// Reads a crt-list, or a file of CA certificates or revocation lists.
///
/// # Errors
/// When the file cannot be read, or is not a regular file.
pub fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    bounded::read(path, LIST_BYTES_MAX)
}

/// Reads the index of certificates that an earlier process wrote.
///
/// # Errors
/// When the file cannot be read.
pub fn read_index(path: &Path) -> io::Result<Vec<u8>> {
    bounded::read(path, INDEX_BYTES_MAX)
}

/// Reads a file, and returns its bytes and its identity. The identity is `None` if the file changed while it was read.
fn read_one(path: &Path) -> io::Result<(Vec<u8>, Option<Identity>)> {
    let file = bounded::open(path)?;
    let before = identity(&fstat(&file)?);
    let bytes = bounded::read_all(&file, BYTES_MAX)?;
    let after = identity(&fstat(&file)?);
    Ok((bytes, (before == after).then_some(before)))
}

/// The combined identity of a bundle and its companion files, as in [`read_whole`].
///
/// # Errors
/// When the file does not exist, is not a regular file, or is larger than 1 MiB.
pub fn identity_of_whole(bundle: &Path) -> io::Result<Identity> {
    let mut identity = identity_of(bundle)?;
    for ending in ["key", "ocsp"] {
        let companion = [true, false]
            .into_iter()
            .find_map(|whole| identity_of(&companion_path(bundle, ending, whole)).ok());
        identity = companion.map_or(identity, |companion| together(identity, companion));
    }
    Ok(identity)
}

/// Combines two identities into one. If one of the two changes, the result changes, too. The result has the later of the two modification times, and
/// the later of the two change times.
fn together([inode, size, modified, changed]: Identity, other: Identity) -> Identity {
    let mix = |one: u64, other: u64| one.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other;
    let [its_inode, its_size, its_modified, its_changed] = other;
    let inode = mix(mix(inode, its_inode), modified ^ its_modified.rotate_left(7));
    let size = mix(mix(size, its_size), changed ^ its_changed.rotate_left(7));
    [inode, size, modified.max(its_modified), changed.max(its_changed)]
}

/// The file name extensions for the kinds of keys. A bundle can consist of one file for each kind, such as `NAME.pem.rsa` and `NAME.pem.ecdsa`.
pub const KINDS: [&str; 3] = ["rsa", "ecdsa", "dsa"];

/// The paths of the existing files of a bundle that consists of one file for each kind of key.
pub fn files_of_kinds(bundle: &Path) -> Vec<PathBuf> {
    let of = |kind: &&str| {
        let mut path = bundle.as_os_str().to_owned();
        path.extend([OsStr::new("."), OsStr::new(kind)]);
        PathBuf::from(path)
    };
    KINDS.iter().map(of).filter(|path| path.is_file()).collect()
}

/// The paths of bundles in these directories that may have companion files. A change of a companion file does not change the identity of the bundle's
/// own file. So the caller must call [`identity_of_whole`] to find changes of these bundles.
pub fn with_companions(directories: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut with = BTreeSet::new();
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            with.extend(bundles_of_companion(&directory.join(entry.file_name())));
        }
    }
    with
}

/// The paths of the bundles to which this companion file may belong. The result is empty if `file` is not a companion file.
pub fn bundles_of_companion(file: &Path) -> Vec<PathBuf> {
    let extension = file.extension().and_then(OsStr::to_str);
    if !extension.is_some_and(|extension| COMPANIONS.contains(&extension)) {
        return Vec::new();
    }
    ["", "pem", "crt"].map(|ending| file.with_extension(ending)).into()
}

/// The identity of a file. The content of the file is not read.
///
/// # Errors
/// When the file does not exist, is not a regular file, or is larger than 1 MiB.
fn identity_of(file: &Path) -> io::Result<Identity> {
    regular_identity(&rustix::fs::stat(file)?)
}

fn regular_identity(found: &Stat) -> io::Result<Identity> {
    regular(found).map_err(io::Error::other)?;
    Ok(identity(found))
}

/// An open directory of certificates. For a file in it, the kernel need not resolve the path of the directory again.
#[derive(Debug)]
pub struct OpenDirectory(OwnedFd);

impl OpenDirectory {
    /// Opens the directory.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Self> {
        open_directory(directory).map(OpenDirectory)
    }

    /// The identity of a file of this name. If `name` is an absolute path, the file at this path. The content of the file is not read.
    ///
    /// # Errors
    /// When the file does not exist, is not a regular file, or is larger than 1 MiB.
    pub fn identity_of(&self, name: &OsStr) -> io::Result<Identity> {
        regular_identity(&statat(&self.0, name, AtFlags::empty())?)
    }
}

fn identity(found: &Stat) -> Identity {
    let nanos = |seconds: i64, nanos: u64| (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanos);
    let (modified, changed) =
        (nanos(found.st_mtime, found.st_mtime_nsec), nanos(found.st_ctime, found.st_ctime_nsec));
    [found.st_ino, found.st_size as u64, modified, changed]
}

fn regular(found: &Stat) -> Result<(), String> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if found.st_size as u64 <= BYTES_MAX => Ok(()),
        FileType::RegularFile => Err(too_large()),
        _ => Err("it is not a regular file".to_owned()),
    }
}

fn too_large() -> String {
    "it is larger than 1 MiB".to_owned()
}

fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// With these flags, opening a pipe does not wait for its writer, and opening a terminal does not make it the controlling terminal.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn stat_of(file: &OwnedFd) -> Result<Stat, String> {
    fstat(file).map_err(|why| io::Error::from(why).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Mutex;

    #[test]
    fn bundles_by_name() {
        let scratch = Scratch::new();
        let at = |name: &str| scratch.path().join(name);
        for name in [
            "b.pem",
            "a.pem",
            ".hidden.pem",
            "a.pem.key",
            "c.issuer",
            "d.ocsp",
            "e.sctl",
            "notes.txt",
            "no-ending",
        ] {
            std::fs::write(at(name), name).unwrap();
        }
        for name in ["alone.crt", "with.crt", "with.key", "whole.crt", "whole.crt.key"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::create_dir(at("sub.pem")).unwrap();
        symlink(at("sub.pem"), at("to-sub.pem")).unwrap();
        symlink(at("a.pem"), at("to-a.pem")).unwrap();
        symlink(at("nowhere"), at("dangling.pem")).unwrap();
        let names: Vec<_> =
            list(scratch.path()).unwrap().names.into_iter().map(|name| name.into_string().unwrap()).collect();
        let expected =
            ["a.pem", "b.pem", "dangling.pem", "no-ending", "notes.txt", "to-a.pem", "whole.crt", "with.crt"];
        assert_eq!(names, expected);
        assert!(list_authorities(scratch.path()).unwrap().contains(&"alone.crt".into()));
        assert_eq!(list(scratch.path()).unwrap().passed_over(), Vec::<PathBuf>::new());
        assert_eq!(
            list(scratch.path()).unwrap().with_companions,
            with_companions(&[scratch.path().to_owned()].into())
        );
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for name in ["alone.crt", "with.crt", "b.crt"] {
            std::fs::write(at(name), key).unwrap();
        }
        assert_eq!(list(scratch.path()).unwrap().passed_over(), [at("alone.crt")]);
        for name in ["alone.crt", "with.crt"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::write(at("with.key"), "with.key").unwrap();
        std::fs::remove_file(at("b.crt")).unwrap();
        let whole = read_whole(&at("a.pem")).unwrap();
        assert_eq!((whole.pem, whole.key), (b"a.pem".to_vec(), Some(b"a.pem.key".to_vec())));
        assert_eq!(read_whole(&at("with.crt")).unwrap().key, Some(b"with.key".to_vec()));
        assert_eq!(read_whole(&at("b.pem")).unwrap().key, None);
    }

    type Said = BTreeMap<String, Result<Vec<u8>, String>>;

    fn said(engine: &dyn Engine, directory: &Path, names: &[&str]) -> Said {
        let names: Vec<OsString> = names.iter().map(OsString::from).collect();
        let said = Mutex::new(Said::new());
        engine
            .read(directory, &names, &|at, read| {
                let name = names[at].clone().into_string().unwrap();
                let before = said.lock().unwrap().insert(name.clone(), read.map(<[u8]>::to_vec));
                assert!(before.is_none(), "{name} was read twice");
            })
            .unwrap();
        said.into_inner().unwrap()
    }

    /// The tests that every engine must pass.
    fn conforms(engine: &dyn Engine) {
        let scratch = Scratch::new();
        let directory = scratch.path().join("certificates");
        std::fs::create_dir(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        // Sizes just below, at and just above each size at which a buffer grows.
        let mut names = Vec::new();
        for size in [0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 16_383, 16_384, 16_385, 100_000, 1 << 20] {
            let name = format!("size-{size}");
            let bytes: Vec<u8> = (0..size).map(|n: usize| (n * 7 + size) as u8).collect();
            std::fs::write(at(&name), bytes).unwrap();
            names.push(name);
        }
        for n in 0..3_000 {
            let name = format!("many-{n}");
            std::fs::write(at(&name), format!("content of {n}")).unwrap();
            names.push(name);
        }
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        for (name, content) in said(engine, &directory, &texts) {
            assert_eq!(content, Ok(std::fs::read(at(&name)).unwrap()), "{name}");
        }
        // An error of one file is reported for this file only, and the other files are read.
        std::fs::write(at("large"), vec![0; (1 << 20) + 1]).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("private"), "x").unwrap();
        std::fs::set_permissions(at("private"), std::fs::Permissions::from_mode(0o0)).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        symlink(at("loop"), at("loop")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let odd = ["large", "directory", "gone", "dangling", "loop", "pipe", "size-1", "private"];
        let odd = said(engine, &directory, &odd);
        assert_eq!(odd["large"], Err("it is larger than 1 MiB".into()));
        assert!(odd["directory"].is_err(), "{:?}", odd["directory"]);
        // A read from a pipe does not block.
        assert!(odd["pipe"].as_ref().map_or(true, Vec::is_empty), "{:?}", odd["pipe"]);
        for name in ["gone", "dangling"] {
            assert!(odd[name].as_ref().unwrap_err().contains("No such file"), "{:?}", odd[name]);
        }
        assert!(odd["loop"].is_err() && odd["size-1"].is_ok());
        assert!(rustix::process::geteuid().is_root() || odd["private"].is_err());
        assert!(said(engine, &directory, &[]).is_empty());
        assert!(engine.read(&at("nowhere"), &["a".into()], &|_, _| ()).is_err());
    }

    #[test]
    fn threads_conform() {
        conforms(&Threads::default());
        conforms(&Threads::new(1));
    }

    #[test]
    fn a_ring_conforms_where_there_is_one() {
        match Ring::probe() {
            Ok(ring) => conforms(&ring),
            Err(why) => assert!(why.contains("io_uring"), "{why}"),
        }
    }

    /// In each round, a different completion of io_uring fails. The file of this completion is reported as failed, and all other files are read.
    #[test]
    fn whatever_completion_fails_only_its_file_is_not_read() {
        let Ok(ring) = Ring::probe() else { return };
        let scratch = Scratch::new();
        let names: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
        for name in &names {
            std::fs::write(scratch.path().join(name), name.repeat(5_000)).unwrap();
        }
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut failed = 0;
        for nth in 0..400 {
            for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::IO, rustix::io::Errno::ACCESS] {
                let said = said(&ring.clone().failing(nth, errno), scratch.path(), &texts);
                let wrong: Vec<_> = said.values().filter(|read| read.is_err()).collect();
                assert!(wrong.len() <= 1, "{nth}: {wrong:?}");
                failed += wrong.len();
                for (name, read) in said.iter().filter(|(_, read)| read.is_ok()) {
                    assert_eq!(read.as_deref(), Ok(name.repeat(5_000).as_bytes()));
                }
            }
        }
        assert!(failed > 100, "{failed}");
    }
}
