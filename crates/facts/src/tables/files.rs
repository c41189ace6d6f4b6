//! Files people edit, whose content is mirrored into other tables.

use super::{Key, Row, Table};
use crate::codec::{Reader, Writer};
use crate::revision::Revision;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A file that is the truth for records.
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
    /// Every one.
    pub const ALL: [FileName; 4] = [FileName::Datastores, FileName::Users, FileName::Acl, FileName::Secrets];

    /// What it is called in its directory.
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

/// What is wrong with a file, or with the part of it a record comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFault {
    /// The line the trouble is in, from 1; 0 where it is in no line (the part or the file is gone).
    pub line: u32,
    /// What is wrong.
    pub reason: String,
    /// Since when, seconds since the epoch.
    pub since: i64,
    /// Whether the last good facts serve no longer: the stale limit has passed, or there never were any.
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

/// Marks a record that mirrors a part of a file people edit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirrored {
    /// What is wrong with its part of the file.
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

/// Tells one version of a file from another. It has no time of modification, because a writer can restore that and hide a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The inode.
    pub inode: u64,
    /// When it was changed, or anything about it: seconds since the epoch.
    pub changed: i64,
    /// And nanoseconds.
    pub changed_nanos: u32,
    /// How long it is, in bytes.
    pub bytes: u64,
}

/// How the facts stand to a file that is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirroredFile {
    /// The version the facts were taken from; `None` while it cannot be read.
    pub version: Option<FileVersion>,
    /// A digest of that version's bytes.
    #[serde(with = "super::names::as_hex")]
    pub digest: [u8; 16],
    /// What is wrong with the whole of it: it is gone, or cannot be read. Then nothing in it is believed for longer than
    /// the stale limit.
    pub fault: Option<FileFault>,
    /// Everything that is wrong, each with its line, and what is done about it; at most [`MirroredFile::PROBLEMS_MAX`].
    pub problems: Vec<String>,
    /// How many things are wrong.
    pub problem_count: u32,
    /// Since when something is wrong, seconds since the epoch.
    pub since: Option<i64>,
    /// While something is wrong: the last revision at which nothing was, as far as that is known.
    pub good: Option<Revision>,
}

impl MirroredFile {
    /// How many problems are told.
    pub const PROBLEMS_MAX: usize = 20;
}

impl Row for MirroredFile {
    const TABLE: Table = Table::Files;
    type Key = FileName;

    /// The file has to be compared with everything that came along.
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
