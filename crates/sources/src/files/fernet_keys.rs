//! The keys of Fernet tokens, in a directory with the layout of `keystone-manage`. Each key is in a file of its own. The name of the file is a
//! number, and the content is 32 bytes in base64url. `0` is the staged key, which becomes the next primary key. The key with the highest number is
//! the primary key, which signs tokens. All other keys are secondary keys, which only verify tokens. Files with a name that is not a number are
//! reported and not changed.

use super::bounded;
use super::{atomic, directory};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The number of the staged key.
pub const STAGED: u32 = 0;
/// The greatest size of a key's file, in bytes. A key has 44 characters, and an editor may add white space.
const FILE_BYTES_MAX: u64 = 64;
const KEY_BYTES: usize = 32;

/// The number and the bytes of each key, in the order of the numbers.
pub type KeyList = Vec<(u32, Zeroizing<[u8; KEY_BYTES]>)>;

fn new_key() -> io::Result<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(key.as_mut()).map_err(|why| io::Error::other(why.to_string()))?;
    Ok(key)
}

fn no_staged_key() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no staged key; run `enfilade keys init`")
}

/// A directory of keys.
#[derive(Clone, Debug)]
pub struct FernetKeys {
    directory: PathBuf,
    group: Option<u32>,
}

/// A key.
pub struct FernetKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    /// The change time of the key's file, in seconds since the epoch. For the primary key, this is the time at which it became the primary key,
    /// because the rotation then renamed its file.
    pub since: i64,
    /// The mode of the key's file, if it allows too many users to read the file.
    pub too_wide: Option<u32>,
}

impl FernetKey {
    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }
}

/// The content of the directory of keys.
#[derive(Default)]
pub struct Found {
    /// The keys, by number.
    pub keys: BTreeMap<u32, FernetKey>,
    /// The names of files that are not keys, each with the reason.
    pub ignored: Vec<(String, String)>,
    /// The mode of the directory, if it allows too many users to enter the directory.
    pub too_wide: Option<u32>,
}

impl Found {
    /// The number and the bytes of each key.
    pub fn list(&self) -> KeyList {
        self.keys.iter().map(|(number, key)| (*number, key.bytes.clone())).collect()
    }

    /// The number of the key that signs.
    pub fn primary(&self) -> Option<u32> {
        self.keys.keys().next_back().copied()
    }
}

/// The reason why keys were not changed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file or the directory could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The callback `agree` refused.
    #[error("{0}")]
    Refused(String),
}

/// The effect of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The new number of the staged key, which becomes the primary key.
    pub primary: u32,
    /// The keys to delete.
    pub drops: Vec<u32>,
}

/// The keys to delete, the lowest numbers first. At most `keep` keys remain. As in Keystone, `keep` includes the staged key and the new primary key.
fn above(numbers: impl Iterator<Item = u32>, keep: usize) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.filter(|number| *number != STAGED).collect();
    numbers.sort_unstable();
    numbers.truncate(numbers.len().saturating_sub(keep.saturating_sub(1)));
    numbers
}

impl FernetKeys {
    /// The Fernet keys in a directory. The directory need not exist yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        FernetKeys { directory: directory.into(), group: None }
    }

    /// If a group is given, the members of the group may use the keys like the owner of the keys.
    #[must_use]
    pub fn shared_by(self, group: Option<u32>) -> Self {
        FernetKeys { group, ..self }
    }

    /// The mode of the directory or of a file in it; `None` if only the owner and the members of the group may open the directory or the file.
    fn too_wide(&self, meta: &Metadata) -> Option<u32> {
        let allowed = if self.group == Some(meta.gid()) { 0o770 } else { 0o700 };
        Some(meta.mode() & 0o777).filter(|mode| mode & !allowed & 0o077 != 0)
    }

    /// The directory of the keys.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads the keys. A concurrent rotation renames files, so the directory is read again if a file disappears.
    ///
    /// # Errors
    /// When the directory cannot be read. An unreadable file is part of the result.
    pub fn read(&self) -> io::Result<Found> {
        let mut found = self.read_once();
        for _ in 0..8 {
            match &found {
                Err(why) if why.kind() == io::ErrorKind::NotFound && self.directory.exists() => {
                    found = self.read_once();
                }
                _ => break,
            }
        }
        found
    }

    fn read_once(&self) -> io::Result<Found> {
        let mut found =
            Found { too_wide: self.too_wide(&std::fs::metadata(&self.directory)?), ..Found::default() };
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            let number = name.parse::<u32>().ok().filter(|number| number.to_string() == name);
            let Some(number) = number else {
                found.ignored.push((name.into_owned(), "its name is not a number".into()));
                continue;
            };
            match self.read_key(number) {
                Ok(key) => drop(found.keys.insert(number, key)),
                Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(why),
                Err(why) => found.ignored.push((name.into_owned(), why.to_string())),
            }
        }
        found.ignored.sort();
        Ok(found)
    }

    fn path(&self, number: u32) -> PathBuf {
        self.directory.join(number.to_string())
    }

    fn read_key(&self, number: u32) -> io::Result<FernetKey> {
        let file = bounded::open(&self.path(number))?;
        let meta = file.metadata()?;
        let text = Zeroizing::new(bounded::read_all(&file, FILE_BYTES_MAX)?);
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        if text.is_empty() {
            return Err(wrong("it is empty"));
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES + 1]);
        let length = URL_SAFE.decode_slice(text.trim_ascii(), bytes.as_mut());
        let key = bytes.first_chunk().filter(|_| length == Ok(KEY_BYTES));
        let key = key.ok_or_else(|| wrong("it does not contain 32 bytes in base64url"))?;
        let bytes = Zeroizing::new(*key);
        Ok(FernetKey { bytes, since: meta.ctime(), too_wide: self.too_wide(&meta) })
    }

    /// Takes the lock that is needed to change keys. The lock is released when the returned file is closed.
    fn lock(&self) -> io::Result<File> {
        let directory = File::open(&self.directory)?;
        flock(&directory, FlockOperation::LockExclusive)?;
        Ok(directory)
    }

    /// Creates the directory, a staged key and a primary key, if they are missing. Returns whether a key was created.
    ///
    /// # Errors
    /// When the directory or one of the keys cannot be created.
    pub fn init(&self) -> io::Result<bool> {
        directory::make_for(&self.directory, self.group)?;
        let directory = self.lock()?;
        let found = self.read()?;
        if found.keys.contains_key(&STAGED) && found.keys.len() > 1 {
            return Ok(false);
        }
        if !found.keys.contains_key(&STAGED) {
            self.write_staged()?;
        }
        if found.keys.keys().all(|number| *number == STAGED) {
            std::fs::rename(self.path(STAGED), self.path(1))?;
            self.write_staged()?;
        }
        directory.sync_all()?;
        Ok(true)
    }

    fn write_staged(&self) -> io::Result<()> {
        self.write(STAGED, &*new_key()?)
    }

    /// The effect that a rotation would have.
    pub fn plan(found: &Found, max_active: usize) -> Rotation {
        // A number is skipped if it is the name of a file that is not a key, because the file must not be overwritten.
        let is_taken = |number: &u32| found.ignored.iter().any(|(name, _)| *name == number.to_string());
        let above_all = found.primary().unwrap_or(STAGED).saturating_add(1);
        let primary = (above_all..).find(|number| !is_taken(number)).unwrap_or(u32::MAX);
        let numbers = found.keys.keys().copied().filter(|number| *number != STAGED).chain([primary]);
        Rotation { primary, drops: above(numbers, max_active.max(1)) }
    }

    /// The keys to delete so that at most `max_active` keys remain.
    pub fn excess(found: &Found, max_active: usize) -> Vec<u32> {
        // The staged key and the primary key are never deleted.
        above(found.keys.keys().copied(), max_active.max(2))
    }

    /// If `agree` accepts, makes the staged key the primary key, creates a new staged key, and deletes the keys with the lowest numbers so that at
    /// most `max_active` keys remain. The order of the steps ensures that every key except the deleted keys is in the directory at any moment. So
    /// tokens of the keys that stay can always be verified.
    ///
    /// # Errors
    /// When there is no staged key, `agree` refuses, or a file cannot be written. A failed rotation deletes no key that a successful rotation would
    /// keep.
    pub fn rotate(
        &self,
        max_active: usize,
        agree: impl FnOnce(&Found, &Rotation) -> Result<(), String>,
    ) -> Result<Rotation, KeysError> {
        let directory = self.lock()?;
        let found = self.read()?;
        if !found.keys.contains_key(&STAGED) {
            return Err(no_staged_key().into());
        }
        let rotation = Self::plan(&found, max_active);
        agree(&found, &rotation).map_err(KeysError::Refused)?;
        std::fs::rename(self.path(STAGED), self.path(rotation.primary))?;
        self.write_staged()?;
        self.remove(&rotation.drops)?;
        directory.sync_all()?;
        Ok(rotation)
    }

    /// If `agree` accepts, deletes keys so that at most `max_active` remain.
    ///
    /// # Errors
    /// When `agree` refuses, or a file cannot be read or deleted.
    pub fn prune(
        &self,
        max_active: usize,
        agree: impl FnOnce(&Found, &[u32]) -> Result<(), String>,
    ) -> Result<Vec<u32>, KeysError> {
        let directory = self.lock()?;
        let found = self.read()?;
        let excess = Self::excess(&found, max_active);
        agree(&found, &excess).map_err(KeysError::Refused)?;
        self.remove(&excess)?;
        directory.sync_all()?;
        Ok(excess)
    }

    /// The keys after a rotation, with a new staged key.
    ///
    /// # Errors
    /// When there is no staged key, or there are no random bytes.
    pub fn rotated(found: &Found, rotation: &Rotation) -> io::Result<KeyList> {
        let staged = found.keys.get(&STAGED).ok_or_else(no_staged_key)?;
        let stay = |(number, key): (&u32, &FernetKey)| {
            let stays = *number != STAGED && !rotation.drops.contains(number);
            stays.then(|| (*number, key.bytes.clone()))
        };
        let others = found.keys.iter().filter_map(stay).chain([(rotation.primary, staged.bytes.clone())]);
        Ok([(STAGED, new_key()?)].into_iter().chain(others).collect())
    }

    /// A new staged key and a new primary key. No token was signed with these keys.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub fn new_keys() -> io::Result<KeyList> {
        Ok(vec![(STAGED, new_key()?), (1, new_key()?)])
    }

    /// Replaces the keys in the directory with these keys. If a key is already in the directory, its file is not changed.
    ///
    /// # Errors
    /// When a file cannot be written. After an error, the caller can call this function again: the second call completes the replacement.
    pub fn install(&self, keys: &[(u32, Zeroizing<[u8; KEY_BYTES]>)]) -> io::Result<()> {
        directory::make_for(&self.directory, self.group)?;
        let directory = self.lock()?;
        let found = self.read()?;
        let is_there = |number: &u32, key: &Zeroizing<[u8; KEY_BYTES]>| {
            found.keys.get(number).is_some_and(|found| found.bytes == *key)
        };
        // The file of the staged key is written last, because until then this file can contain the only copy of the new primary key.
        for (number, key) in keys.iter().rev().filter(|(number, key)| !is_there(number, key)) {
            self.write(*number, key)?;
        }
        // Key files that cannot be read are removed, too. If such a file were repaired later, its key would be in use again.
        let number = |name: &str| name.parse::<u32>().ok().filter(|number| number.to_string() == name);
        let unread = found.ignored.iter().filter_map(|(name, _)| number(name));
        let is_gone = |number: &u32| !keys.iter().any(|(stays, _)| stays == number);
        let mut gone: Vec<u32> = found.keys.keys().copied().chain(unread).filter(is_gone).collect();
        // The key with the highest number is removed first, because it signs as long as its file exists.
        gone.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        self.remove(&gone)?;
        directory.sync_all()
    }

    fn write(&self, number: u32, key: &[u8; KEY_BYTES]) -> io::Result<()> {
        let text = Zeroizing::new(URL_SAFE.encode(key));
        atomic::write_shared(&self.path(number), text.as_bytes(), self.group)
    }

    fn remove(&self, numbers: &[u32]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| std::fs::remove_file(self.path(*number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::PermissionsExt;

    fn keys(scratch: &Scratch) -> FernetKeys {
        FernetKeys::new(scratch.path().join("fernet"))
    }

    fn rotate(keys: &FernetKeys, max_active: usize) -> Rotation {
        keys.rotate(max_active, |_, _| Ok(())).unwrap()
    }

    fn numbers(keys: &FernetKeys) -> Vec<u32> {
        keys.read().unwrap().keys.into_keys().collect()
    }

    #[test]
    fn rotations_leave_what_those_of_the_original_leave() {
        for (max_active, steps) in [
            (3, [vec![0, 1, 2], vec![0, 2, 3], vec![0, 3, 4], vec![0, 4, 5]]),
            (5, [vec![0, 1, 2], vec![0, 1, 2, 3], vec![0, 1, 2, 3, 4], vec![0, 2, 3, 4, 5]]),
            (1, [vec![0], vec![0], vec![0], vec![0]]),
        ] {
            let scratch = Scratch::new();
            let keys = keys(&scratch);
            assert!(keys.init().unwrap());
            assert!(!keys.init().unwrap());
            assert_eq!(numbers(&keys), [0, 1]);
            for expected in steps {
                rotate(&keys, max_active);
                assert_eq!(numbers(&keys), expected, "at most {max_active}");
            }
        }
    }

    /// The keys of this example are 0, 4, 5, 6 and 7, and at most five keys are kept. The example is from an article on key rotation.
    #[test]
    fn the_homework() {
        let scratch = Scratch::new();
        let keys = keys(&scratch);
        keys.init().unwrap();
        (0..6).for_each(|_| drop(rotate(&keys, 5)));
        assert_eq!(numbers(&keys), [0, 4, 5, 6, 7]);
        let before = keys.read().unwrap();
        let bytes = |found: &Found, number: u32| found.keys.get(&number).map(|key| *key.bytes());
        assert_eq!(before.primary(), Some(7), "key 7 is the primary key");
        let rotation = rotate(&keys, 5);
        assert_eq!(
            rotation,
            Rotation { primary: 8, drops: vec![4] },
            "key 0 becomes key 8, and key 4 is deleted"
        );
        let after = keys.read().unwrap();
        assert_eq!(bytes(&after, 8), bytes(&before, 0), "the staged key is the primary key now");
        assert_ne!(bytes(&after, 0), bytes(&before, 0));
        assert_eq!(bytes(&after, 5), bytes(&before, 5), "key 5 still verifies tokens");
        assert_eq!(after.keys.into_keys().collect::<Vec<_>>(), [0, 5, 6, 7, 8]);
    }

    #[test]
    fn what_is_no_key_is_reported_and_left_alone() {
        let scratch = Scratch::new();
        let keys = keys(&scratch);
        keys.init().unwrap();
        let write = |name: &str, text: &str| std::fs::write(keys.directory().join(name), text).unwrap();
        write("foo", "x");
        write("99", "");
        write("98", "not base64");
        write("07", &URL_SAFE.encode([7; 32]));
        write("12", &format!("{}\n", URL_SAFE.encode([7; 32])));
        write("13", &URL_SAFE.encode([7; 31]));
        let found = keys.read().unwrap();
        assert_eq!(found.keys.keys().copied().collect::<Vec<_>>(), [0, 1, 12]);
        let why: Vec<&str> = found.ignored.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(
            found.ignored.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["07", "13", "98", "99", "foo"]
        );
        assert_eq!(why[0], "its name is not a number");
        assert_eq!(why[3], "it is empty");
        rotate(&keys, 3);
        assert_eq!(numbers(&keys), [0, 12, 14], "13 is the name of a file that is not a key");
        assert!(keys.directory().join("foo").exists());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(keys.directory()), mode(&keys.directory().join("0"))), (0o700, 0o600));
    }

    #[test]
    fn other_keys_are_installed_as_a_rotation_leaves_them() {
        let scratch = Scratch::new();
        let [one, other] = ["one", "other"].map(|name| FernetKeys::new(scratch.path().join(name)));
        let of = |keys: &FernetKeys| {
            let found = keys.read().unwrap();
            found.keys.into_iter().map(|(number, key)| (number, *key.bytes())).collect::<Vec<_>>()
        };
        one.init().unwrap();
        (0..3).for_each(|_| drop(rotate(&one, 3)));
        let found = one.read().unwrap();
        let rotation = FernetKeys::plan(&found, 3);
        let keys = FernetKeys::rotated(&found, &rotation).unwrap();
        assert_eq!(keys.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 4, 5]);
        assert_eq!(*keys[2].1, *found.keys[&0].bytes(), "the staged key is the primary key");
        assert!(found.keys.values().all(|key| key.bytes() != &*keys[0].1), "the staged key is new");
        for directory in [&one, &other, &one] {
            directory.install(&keys).unwrap();
            assert_eq!(of(directory), keys.iter().map(|(number, key)| (*number, **key)).collect::<Vec<_>>());
        }
        let new = FernetKeys::new_keys().unwrap();
        one.install(&new).unwrap();
        assert_eq!(of(&one).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_rotation_that_is_refused_changes_nothing() {
        let scratch = Scratch::new();
        let keys = keys(&scratch);
        keys.init().unwrap();
        let refused = keys.rotate(1, |_, rotation| match rotation.drops.as_slice() {
            [] => Ok(()),
            _ => Err("still needed".to_owned()),
        });
        assert_eq!(refused.unwrap_err().to_string(), "still needed");
        assert_eq!(numbers(&keys), [0, 1]);
        std::fs::remove_file(keys.directory().join("0")).unwrap();
        let refused = keys.rotate(3, |_, _| Ok(())).unwrap_err();
        assert!(refused.to_string().contains("keys init"), "{refused}");
        assert!(keys.init().unwrap());
        assert_eq!(numbers(&keys), [0, 1]);
    }

    #[test]
    fn whoever_reads_while_somebody_rotates_finds_every_key_that_signs() {
        let scratch = Scratch::new();
        let keys = keys(&scratch);
        keys.init().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut last = None;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let found = keys.read().unwrap();
                    let primary = found.primary().map(|number| *found.keys[&number].bytes());
                    // The key that signed at the previous read is still in the directory.
                    if let Some(last) = last {
                        assert!(found.keys.values().any(|key| *key.bytes() == last));
                    }
                    last = primary;
                }
            });
            (0..200).for_each(|_| drop(rotate(&keys, 300)));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}
