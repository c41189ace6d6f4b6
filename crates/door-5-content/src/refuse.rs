//! The refusals of door 5.

use enfilade_access::ObjectId;
use enfilade_facts::locks::LocksError;
use enfilade_facts::vocabulary::{AccessMask, PathRefused};
use enfilade_facts::{Door, Fault, RefusalRow, Refuse};
use rustix::io::Errno;
use std::fmt::Display;

/// A refusal of door 5.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The path leads to no object that can be served: there is no entry, or the path leads through a link or into another file system.
    #[error("`{0}` does not exist")]
    Absent(String),
    /// The directory that should contain the object does not exist.
    #[error("the parent directory of `{0}` does not exist")]
    ParentAbsent(String),
    /// An object with this name exists already.
    #[error("`{0}` exists already")]
    Exists(String),
    /// A file is where a directory is needed, or a directory is where a file is needed.
    #[error("{what} failed: expected a {needed}")]
    WrongKind {
        /// The operation.
        what: &'static str,
        /// `file` or `directory`.
        needed: &'static str,
    },
    /// The directory is not empty. The entries of the directory may be of kinds that are never shown.
    #[error("directory `{0}` is not empty")]
    NotEmpty(String),
    /// The file system, or a quota of the file system, is full.
    #[error("no space left while {what}: {errno}")]
    NoSpace {
        /// The operation.
        what: String,
        /// The error of the kernel.
        errno: String,
    },
    /// The datastore's quota is used up.
    #[error("the quota of the datastore is used up: {used} of {quota} bytes are used")]
    OverQuota {
        /// The quota, in bytes.
        quota: u64,
        /// The used bytes, including the bytes of running uploads.
        used: u64,
    },
    /// The datastore's directory cannot be opened.
    #[error("the datastore's directory `{path}` cannot be opened: {errno}")]
    RootUnavailable {
        /// The directory.
        path: String,
        /// The error of the kernel.
        errno: String,
    },
    /// The datastore's directory overlaps with a reserved path.
    #[error(
        "the datastore's directory `{path}` overlaps with `{reserved}`, which the server reserves for its own files (keys, facts, certificates, configuration): give the datastore another directory"
    )]
    Reserved {
        /// The directory.
        path: String,
        /// The reserved path.
        reserved: String,
    },
    /// The datastore's directory is in none of the directories that the server could open when it was started.
    #[error(
        "the server can open only directories that it knew at its start, and the datastore's directory `{0}` is not one of them: restart the server"
    )]
    NeedsRestart(String),
    /// A system call failed.
    #[error("{what} failed: {errno}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The error of the kernel.
        errno: String,
    },
    /// The name no longer belongs to the object that was judged, or another request has reserved the name.
    #[error("`{0}` was replaced or removed during the request")]
    ChangedMeanwhile(String),
    /// The permit is for another object or for other rights. The caller has a bug.
    #[error("the permit does not grant {wanted} on device {} inode {}", object.device, object.inode)]
    NotCovered {
        /// The rights that are needed.
        wanted: AccessMask,
        /// The object on which these rights are needed.
        object: ObjectId,
    },
    /// The object is a pipe, a socket or a device. `Node::child` also returns this refusal for a link or a mount. In a path (`Root::find`), a link or
    /// a mount counts as absent instead.
    #[error("`{0}` is a link, a mount, a pipe, a socket or a device; these are never served")]
    Special(String),
    /// The ACL cannot be stored.
    #[error("the ACL of {what} cannot be written: {why}")]
    AclNotWritable {
        /// The object.
        what: String,
        /// The reason, and what the operator can do.
        why: String,
    },
    /// A name is longer than the file system allows.
    #[error("the name `{0}` is too long for the file system")]
    TooLong(String),
    /// A tree is larger than one request may process, the request takes too long, or the client has disconnected.
    #[error("the tree was not processed to its end: {0}")]
    TooMuch(&'static str),
    /// A lock covers the resource, and the request does not contain the lock token.
    #[error("`{0}` is locked")]
    Locked(String),
    /// The lock does not exist, belongs to another user, or does not cover the path.
    #[error("the user has no lock with this token on the path")]
    NoSuchLock,
    /// A limit of locks is reached.
    #[error("the user, the datastore or the tree has reached its limit of locks")]
    TooManyLocks,
    /// The store of locks cannot be read or written.
    #[error(transparent)]
    Locks(#[from] LocksError),
    /// A COPY or MOVE would put a resource onto or into itself, or would replace a directory that contains the resource.
    #[error("a file or directory cannot be copied or moved onto itself, an ancestor or a descendant")]
    WithinItself,
    /// An upload or a copy into a directory is still running, in this process or in another process. Also used if another request works on the
    /// unfinished upload to this path.
    #[error("an upload or a copy into `{0}` is still running; try again later")]
    Uploading(String),
    /// A condition of the request was true when the request came, but was no longer true just before the change. Also used if an upload in pieces
    /// gets more bytes than its record announced.
    #[error(
        "a condition of the request (If, If-Match, If-None-Match or If-Unmodified-Since) is no longer true, because the resource or its locks changed during the request: read the resource again and repeat the request. Or the request is a piece of an upload with more bytes than announced: begin this upload again"
    )]
    Unmet,
    /// A COPY or MOVE took place, was refused afterwards, and could not be undone.
    #[error(
        "the COPY or MOVE to `{path}` was refused after it took place, and could not be undone: another process or request changed a name meanwhile{}",
        now_at(kept.as_deref())
    )]
    NotTakenBack {
        /// The path at which the COPY or MOVE took place.
        path: String,
        /// The present path of the replaced object, if an object was replaced and still exists.
        kept: Option<String>,
    },
    /// A lock with `Depth: infinity` requires write access to every member of the directory, and the user does not have this access.
    #[error(
        "a lock with Depth: infinity on `{0}` needs write access to every member, and this user does not have write access to all of them"
    )]
    NotAll(String),
    /// The root of a datastore, which no request can create, replace or delete.
    #[error("the root of a datastore cannot be created, replaced or deleted")]
    IsRoot,
    /// No entry may have this name.
    #[error("`{name}` is not allowed as a name: {why}")]
    BadName {
        /// The name.
        name: String,
        /// Why the name is not allowed.
        why: PathRefused,
    },
}

/// Every refusal of this door.
#[rustfmt::skip]
pub const CODES: [RefusalRow; 28] = [
    RefusalRow::new("CT01", Fault::Client, "no such file or directory", "check the path"),
    RefusalRow::new("CT02", Fault::Client, "the parent directory does not exist", "create the parent directory first"),
    RefusalRow::new("CT03", Fault::Client, "a file or directory of this name exists already", "choose another name, or send `Overwrite: T`"),
    RefusalRow::new("CT04", Fault::Client, "a file where a directory is needed, or a directory where a file is needed", "check the path"),
    RefusalRow::new("CT05", Fault::Client, "the directory is not empty", "delete its entries first; some may be hidden from the user"),
    RefusalRow::new("CT06", Fault::Operator, "the file system is full, its own quota is used up, or the ACL and the other attributes of one file are too large", "the log says which: make room on the file system, raise its quota, or shorten the ACL or the properties of the file"),
    RefusalRow::new("CT07", Fault::Operator, "the datastore's directory cannot be opened", "check that the directory exists, and that the server's user may open it; `enfilade datastore show` shows the path"),
    RefusalRow::new("CT08", Fault::Source, "a system call failed", "the field `reason` in the log contains the call and the error; check the disk and the owner of the file"),
    RefusalRow::new("CT09", Fault::Client, "the name was replaced or removed during the request", "read the resource again and repeat the request"),
    RefusalRow::new("CT10", Fault::Source, "a bug of the server: the permit does not cover the operation", "report the bug, with the line of the log"),
    RefusalRow::new("CT11", Fault::Client, "the name is a link, a mount, a pipe, a socket or a device; these are never served", "replace the entry with a file or directory, or create a separate datastore for the mount"),
    RefusalRow::new("CT12", Fault::Operator, "the ACL cannot be written", "the log contains the reason: for example, the file system has no extended attributes, or the server does not have a necessary capability"),
    RefusalRow::new("CT13", Fault::Client, "the name is too long for the file system", "choose a shorter name"),
    RefusalRow::new("CT14", Fault::Client, "the root of a datastore cannot be created, replaced or deleted", "use a path below the root"),
    RefusalRow::new("CT15", Fault::Client, "the name is not allowed", "the answer contains the reason; choose another name"),
    RefusalRow::new("CT16", Fault::Client, "the datastore's quota is used up", "delete files, or raise the quota: `enfilade datastore set NAME --quota`"),
    RefusalRow::new("CT17", Fault::Client, "the tree is larger than one request may process, the request took too long, or the client closed the connection", "repeat a DELETE to delete the rest, or raise `tree_entries` or `tree_seconds`"),
    RefusalRow::new("CT18", Fault::Client, "the file or directory is locked, and the request does not contain the lock token", "wait until the lock ends, or run `enfilade datastore unlock NAME PATH`"),
    RefusalRow::new("CT19", Fault::Client, "the user has no lock with this token on the path", "lock the path again"),
    RefusalRow::new("CT20", Fault::Client, "too many locks: of this user, of the datastore, or on the tree", "release locks, or raise `locks_per_user`, `locks_per_store` or `deep_locks_per_tree`"),
    RefusalRow::new("CT21", Fault::Source, "the store of locks could not be read or written", "the log contains the reason"),
    RefusalRow::new("CT22", Fault::Client, "a file or directory cannot be copied or moved onto itself, an ancestor or a descendant", "choose another destination"),
    RefusalRow::new("CT23", Fault::Operator, "the datastore's directory overlaps with files of the server itself", "give the datastore another directory"),
    RefusalRow::new("CT24", Fault::Client, "a lock with `Depth: infinity` needs write access to every member of the tree", "lock a smaller tree, or use `Depth: 0`"),
    RefusalRow::new("CT25", Fault::Client, "an upload or a copy into the directory is still running", "try again when the upload or copy has ended"),
    RefusalRow::new("CT26", Fault::Client, "a condition of the request (`If`, `If-Match`, `If-None-Match`, `If-Unmodified-Since`) was true when the request came, but no longer true just before the change", "read the resource again and repeat the request"),
    RefusalRow::new("CT27", Fault::Client, "a COPY or MOVE had to be undone after it took place, but this was not possible", "the log contains the path of the result, and the path of the replaced resource if it still exists; check both by hand"),
    RefusalRow::new("CT28", Fault::Operator, "the server can open the datastore's directory only after a restart", "restart the server: it can open only directories that it knew at its start, and those in `[datastores] roots`"),
];

impl Refusal {
    /// Makes the refusal for a system call that failed during the operation `what` on `name`.
    pub(crate) fn io(errno: Errno, what: &str, name: &str) -> Self {
        let said = format!("{what} `{name}`");
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => {
                Refusal::NoSpace { what: said, errno: errno.to_string() }
            }
            Errno::NAMETOOLONG => Refusal::TooLong(name.to_owned()),
            _ => Refusal::Io { what: said, errno: errno.to_string() },
        }
    }

    /// Makes the refusal for a directory in which `entries` entries could not be examined.
    pub(crate) fn unlisted(path: &impl Display, entries: u64) -> Self {
        let errno = format!("{entries} entries could not be examined; see the kernel's log");
        Refusal::Io { what: format!("listing `{path}`"), errno }
    }

    /// Whether this refusal is [`Refusal::Uploading`] for this path.
    pub fn is_about(&self, path: &impl Display) -> bool {
        matches!(self, Refusal::Uploading(of) if *of == path.to_string())
    }

    /// Makes the refusal for a failed lookup of `name`. A link, another file system, or a name that is too long counts as absent.
    pub(crate) fn lookup(errno: Errno, name: &str) -> Self {
        match errno {
            errno if is_absent(errno) => Refusal::Absent(name.to_owned()),
            errno if is_special(errno) => Refusal::Special(name.to_owned()),
            errno => Refusal::io(errno, "opening", name),
        }
    }
}

fn now_at(kept: Option<&str>) -> String {
    kept.map_or_else(String::new, |kept| format!("; the replaced resource is now at `{kept}`"))
}

/// Whether an object counts as absent if its lookup fails with this error. The error means one of the following: there is no entry, the path leads to
/// a link or to another file system, or the path contains a name that is too long.
pub(crate) fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG)
}

/// Whether this error means an object that is never served. `NXIO` comes from the check of the kind (`kinds.rs`) or from opening a socket, `NODEV`
/// from opening a device without a driver.
pub(crate) fn is_special(errno: Errno) -> bool {
    matches!(errno, Errno::NXIO | Errno::NODEV)
}

impl Refuse for Refusal {
    fn door(&self) -> Door {
        Door::Content
    }

    fn code(&self) -> &'static str {
        match self {
            Refusal::Absent(_) => "CT01",
            Refusal::ParentAbsent(_) => "CT02",
            Refusal::Exists(_) => "CT03",
            Refusal::WrongKind { .. } => "CT04",
            Refusal::NotEmpty(_) => "CT05",
            Refusal::NoSpace { .. } => "CT06",
            Refusal::RootUnavailable { .. } => "CT07",
            Refusal::Io { .. } => "CT08",
            Refusal::ChangedMeanwhile(_) => "CT09",
            Refusal::NotCovered { .. } => "CT10",
            Refusal::Special(_) => "CT11",
            Refusal::AclNotWritable { .. } => "CT12",
            Refusal::TooLong(_) => "CT13",
            Refusal::IsRoot => "CT14",
            Refusal::BadName { .. } => "CT15",
            Refusal::OverQuota { .. } => "CT16",
            Refusal::TooMuch(_) => "CT17",
            Refusal::Locked(_) => "CT18",
            Refusal::NoSuchLock => "CT19",
            Refusal::TooManyLocks => "CT20",
            Refusal::Locks(_) => "CT21",
            Refusal::WithinItself => "CT22",
            Refusal::Reserved { .. } => "CT23",
            Refusal::NotAll(_) => "CT24",
            Refusal::Uploading(_) => "CT25",
            Refusal::Unmet => "CT26",
            Refusal::NotTakenBack { .. } => "CT27",
            Refusal::NeedsRestart(_) => "CT28",
        }
    }

    fn fault(&self) -> Fault {
        RefusalRow::fault_of(&CODES, self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_stands_in_the_table_once() {
        let text = String::new;
        let every = [
            Refusal::Absent(text()),
            Refusal::ParentAbsent(text()),
            Refusal::Exists(text()),
            Refusal::WrongKind { what: "", needed: "" },
            Refusal::NotEmpty(text()),
            Refusal::NoSpace { what: text(), errno: text() },
            Refusal::RootUnavailable { path: text(), errno: text() },
            Refusal::Io { what: text(), errno: text() },
            Refusal::ChangedMeanwhile(text()),
            Refusal::NotCovered { wanted: AccessMask::DELETE, object: ObjectId { device: 1, inode: 2 } },
            Refusal::Special(text()),
            Refusal::AclNotWritable { what: text(), why: text() },
            Refusal::TooLong(text()),
            Refusal::IsRoot,
            Refusal::BadName { name: text(), why: PathRefused::Dots },
            Refusal::OverQuota { quota: 0, used: 0 },
            Refusal::TooMuch(""),
            Refusal::Locked(text()),
            Refusal::NoSuchLock,
            Refusal::TooManyLocks,
            Refusal::Locks(LocksError(text())),
            Refusal::WithinItself,
            Refusal::Reserved { path: text(), reserved: text() },
            Refusal::NotAll(text()),
            Refusal::Uploading(text()),
            Refusal::Unmet,
            Refusal::NotTakenBack { path: text(), kept: None },
            Refusal::NeedsRestart(text()),
        ];
        let codes: Vec<_> = every.iter().map(Refuse::code).collect();
        assert_eq!(codes, CODES.map(|row| row.code));
    }

    #[test]
    fn the_kernels_answers_keep_their_meaning() {
        for (errno, code) in [
            (Errno::NOSPC, "CT06"),
            (Errno::DQUOT, "CT06"),
            (Errno::FBIG, "CT06"),
            (Errno::NAMETOOLONG, "CT13"),
            (Errno::IO, "CT08"),
            (Errno::ACCESS, "CT08"),
        ] {
            assert_eq!(Refusal::io(errno, "writing", "a").code(), code, "{errno}");
        }
        for (errno, code) in [
            (Errno::NOENT, "CT01"),
            (Errno::NOTDIR, "CT01"),
            (Errno::LOOP, "CT01"),
            (Errno::XDEV, "CT01"),
            (Errno::NAMETOOLONG, "CT01"),
            (Errno::NXIO, "CT11"),
            (Errno::ACCESS, "CT08"),
            (Errno::IO, "CT08"),
        ] {
            assert_eq!(Refusal::lookup(errno, "a").code(), code, "{errno}");
        }
        assert_eq!(
            Refusal::io(Errno::NOSPC, "writing", "a").to_string(),
            "no space left while writing `a`: No space left on device (os error 28)"
        );
    }
}
