//! Files that people edit. The records in other tables mirror the content of these files.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::revision::Revision;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A file that defines records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum FileName {
    /// Datastores.
    #[serde(rename = "datastore.cfg")]
    Datastores = 1,
    /// Users and tokens.
    #[serde(rename = "user.cfg")]
    Users = 2,
    /// Roles on paths.
    #[serde(rename = "acl.cfg")]
    Acl = 3,
    /// Hashes of token secrets.
    #[serde(rename = "token.shadow")]
    Secrets = 4,
}

impl FileName {
    /// Every file.
    pub const ALL: [FileName; 4] = [FileName::Datastores, FileName::Users, FileName::Acl, FileName::Secrets];

    /// The name of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            FileName::Datastores => "datastore.cfg",
            FileName::Users => "user.cfg",
            FileName::Acl => "acl.cfg",
            FileName::Secrets => "token.shadow",
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Key for FileName {
    fn bytes(&self) -> Vec<u8> {
        vec![*self as u8]
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        FileName::ALL.into_iter().find(|file| bytes == [*file as u8])
    }
}

/// An error in a file, or in the part of a file that a record mirrors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFault {
    /// The line number of the error; the first line is 1. The number is 0 if no line contains the error, because the part or the file is missing.
    pub line: u32,
    /// A description of the error.
    pub reason: String,
    /// Since when the error exists, in seconds since the epoch.
    pub since: i64,
    /// Whether the last good facts are no longer used: the stale limit has passed, or there never were good facts.
    pub refuses: bool,
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.reason),
            line => write!(f, "line {line}: {}", self.reason),
        }
    }
}

impl FileFault {
    pub(super) fn encode(to: &mut Writer, fault: &Self) {
        to.u32(fault.line).text(&fault.reason).i64(fault.since).flag(fault.refuses);
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(FileFault { line: from.u32()?, reason: from.text()?, since: from.i64()?, refuses: from.flag()? })
    }
}

/// Data that a record has only if the record mirrors a part of a file that people edit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrored {
    /// The error in the record's part of the file, if there is one.
    pub fault: Option<FileFault>,
}

impl Mirrored {
    pub(super) fn encode(to: &mut Writer, mirrored: &Self) {
        to.option(mirrored.fault.as_ref(), FileFault::encode);
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Mirrored { fault: from.option(FileFault::decode)? })
    }
}

/// Identifies a version of a file. The modification time is not part of this value, because a program that writes the file can set that time back and
/// so hide a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The inode.
    pub inode: u64,
    /// The change time (ctime), seconds since the epoch.
    pub changed: i64,
    /// The nanoseconds of the change time.
    pub changed_nanos: u32,
    /// The length of the file, in bytes.
    pub bytes: u64,
}

/// A mirrored file: the version that the facts are taken from, and the errors in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredFile {
    /// The version that the facts were taken from; `None` while the file cannot be read.
    pub version: Option<FileVersion>,
    /// A digest of that version's bytes.
    #[serde(with = "super::names::as_hex")]
    pub digest: [u8; 16],
    /// The error of the file as a whole: it is missing or cannot be read. The records of the file are used only until the stale limit has passed.
    pub fault: Option<FileFault>,
    /// The problems, each with its line and its consequence; at most [`MirroredFile::PROBLEMS_MAX`].
    pub problems: Vec<String>,
    /// The number of all problems.
    pub problem_count: u32,
    /// Since when the file has had at least one problem without interruption, in seconds since the epoch; `None` if the file has no problem.
    pub since: Option<i64>,
    /// The last revision at which the file had no problem, if known. Only set while the file has a problem.
    pub good: Option<Revision>,
}

impl MirroredFile {
    /// The largest number of problems that the record lists.
    pub const PROBLEMS_MAX: usize = 20;
}

impl Row for MirroredFile {
    const TABLE: Table = Table::Files;
    type Key = FileName;

    /// Clears the version of the file, so that the server compares the whole file with the records from the dump.
    fn arrive(&mut self) {
        (self.version, self.digest, self.good) = (None, [0; 16], None);
    }

    fn encode(&self, to: &mut Writer) {
        to.option(self.version.as_ref(), |to, version| {
            to.u64(version.inode).i64(version.changed).u32(version.changed_nanos).u64(version.bytes);
        });
        to.fixed(&self.digest);
        to.option(self.fault.as_ref(), FileFault::encode);
        to.list(&self.problems, |to, problem| {
            to.text(problem);
        });
        to.u32(self.problem_count);
        to.option(self.since, |to, since| {
            to.i64(since);
        });
        to.option(self.good, |to, good| {
            to.u64(good.0);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(MirroredFile {
            version: from.option(|from| {
                Some(FileVersion {
                    inode: from.u64()?,
                    changed: from.i64()?,
                    changed_nanos: from.u32()?,
                    bytes: from.u64()?,
                })
            })?,
            digest: from.fixed()?,
            fault: from.option(FileFault::decode)?,
            problems: from.list(Reader::text)?,
            problem_count: from.u32()?,
            since: from.option(Reader::i64)?,
            good: from.option(|from| from.u64().map(Revision))?,
        })
    }
}
