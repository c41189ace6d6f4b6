//! The manifest of a backup: its origin, and a list of its files.

use super::BackupError;
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The format of the backups that this program writes. It is also the newest format that this program reads.
pub const FORMAT: u32 = 1;
/// The name of the manifest in a backup.
pub const MANIFEST: &str = "manifest.json";
/// The greatest length of a manifest, enough for a million files.
const BYTES_MAX: u64 = 256 << 20;
const PATH_BYTES_MAX: usize = 1024;

/// The origin of a backup, and a list of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format of the backup.
    pub enfilade_backup: u32,
    /// The version of the program that made the backup.
    pub program: String,
    /// The time of the backup, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The data directory that was backed up.
    pub data: PathBuf,
    /// The id of the store of facts.
    pub store: String,
    /// The revision of the facts.
    pub revision: u64,
    /// The number of facts.
    pub records: u64,
    /// Parts of the server's data that were outside the data directory. The key is the path in the backup, and the value is the path on the machine
    /// on which the backup was made.
    pub outside: BTreeMap<String, PathBuf>,
    /// Every file except the manifest, in the order of the backup.
    pub files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The path of the file in the backup and in the restored data directory.
    pub path: String,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 digest of the file, in hexadecimal digits.
    pub sha256: String,
    /// The mode of the file. A restore sets this mode if servers share the data directory through a group.
    pub mode: u32,
}

/// The field that the manifest has in every format.
#[derive(Deserialize)]
struct Format {
    enfilade_backup: u32,
}

impl Manifest {
    /// The manifest as it is stored: one line of JSON, and a line with the digest of the first line.
    ///
    /// # Errors
    /// When the manifest cannot be written as JSON.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        let digest = Sha256::of(&bytes);
        bytes.extend_from_slice(format!("{digest}\n").as_bytes());
        Ok(bytes)
    }

    /// Reads a manifest. If any byte of the manifest was changed, the call returns an error.
    pub(super) fn read(from: &mut dyn Read) -> Result<Self, BackupError> {
        let mut bytes = Vec::new();
        let read = from.take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|why| BackupError::io(MANIFEST, why))?;
        if BYTES_MAX < bytes.len() as u64 {
            return Err(BackupError::NotOne(format!("`{MANIFEST}` is longer than {BYTES_MAX} bytes")));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        let (line, digest) = bytes.split_at(end);
        let named =
            |why: serde_json::Error| BackupError::NotOne(format!("`{MANIFEST}` cannot be read: {why}"));
        let is_whole = digest.strip_suffix(b"\n") == Some(Sha256::of(line).as_bytes());
        let format: Format = match serde_json::from_slice(line) {
            Ok(format) => format,
            Err(_) if !line.ends_with(b"\n") => {
                return Err(BackupError::Damaged(format!("`{MANIFEST}` was cut short")));
            }
            Err(why) => return Err(named(why)),
        };
        if FORMAT < format.enfilade_backup {
            return Err(BackupError::Newer { found: format.enfilade_backup });
        }
        if !is_whole {
            return Err(BackupError::Damaged(format!("the checksum of `{MANIFEST}` does not match")));
        }
        let manifest: Manifest = serde_json::from_slice(line).map_err(named)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks that no path leaves the restored directory, and that no path occurs twice.
    fn check(&self) -> Result<(), BackupError> {
        let mut seen = BTreeSet::new();
        for Entry { path, .. } in &self.files {
            let path = Path::new(path);
            if !is_inside(path) || path == Path::new(MANIFEST) {
                return Err(BackupError::Damaged(format!(
                    "the manifest lists `{}`, which is not allowed as the path of a file",
                    path.display()
                )));
            }
            if !seen.insert(path) {
                return Err(BackupError::Damaged(format!("the manifest lists `{}` twice", path.display())));
            }
        }
        Ok(())
    }
}

/// Whether a path is relative, not empty and not too long, has no `.`, `..` or NUL, and is in normal form (for example without `//`).
pub(super) fn is_inside(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let is_spelled_once = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    is_plain && is_spelled_once && !text.is_empty() && text.len() <= PATH_BYTES_MAX && !text.contains(&0)
}

/// A SHA-256 digest of bytes that are added part by part.
pub(super) struct Sha256(digest::Context);

impl Default for Sha256 {
    fn default() -> Self {
        Sha256(digest::Context::new(&digest::SHA256))
    }
}

impl Sha256 {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn hex(self) -> String {
        HEXLOWER.encode(self.0.finish().as_ref())
    }

    fn of(bytes: &[u8]) -> String {
        HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
    }
}
