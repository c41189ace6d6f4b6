//! The reasons why a store cannot be opened, and messages for errors of LMDB.

use enfilade_facts::format::{FORMAT, FORMAT_IN_FLEET, FORMAT_OLDEST};
use enfilade_facts::{Revision, SourceError};
use std::path::{Path, PathBuf};

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or a file in it cannot be used.
    #[error("facts in `{path}` cannot be opened: {why}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// Pages or files of the store are damaged.
    #[error(
        "facts in `{path}` are damaged: {why}; nothing was changed. Stop every enfilade process on this data directory, then restore a backup of the facts with `enfilade facts restore FILE --set-aside` (an older backup also needs --accept-rollback), or a backup of the whole server with `enfilade restore FILE --force`"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// The damage.
        why: String,
    },
    /// A process ended because LMDB read or wrote damaged pages.
    #[error(
        "facts in `{0}` are refused: an enfilade process ended when it read or wrote damaged pages of the store (the file `faulted` in this directory was made at that time). Run `enfilade facts check`. If the check finds no damage, the facts can be opened again; otherwise restore a backup of the facts with `enfilade facts restore FILE --set-aside` (an older backup also needs --accept-rollback), or a backup of the whole server with `enfilade restore FILE --force`"
    )]
    Faulted(PathBuf),
    /// Another process uses the store exclusively.
    #[error(
        "facts in `{0}` cannot be opened: another process is restoring, upgrading or compacting them; try again when that process has ended"
    )]
    Taken(PathBuf),
    /// The operation needs the store exclusively, and other processes have it open.
    #[error(
        "facts in `{0}` cannot be opened exclusively: other processes have them open; stop these processes first (`lsof +D` with this directory lists them)"
    )]
    InUse(PathBuf),
    /// A restore was killed before it could rename the new store to the path of the store.
    #[error(
        "`{path}` is missing, but `{new}` exists: a restore was interrupted. Move the restored store to its place with \
        `mv -T '{new}' '{path}'`. Only if you want to begin with an empty store, remove `{new}` instead"
    )]
    Unmoved {
        /// The path of the store.
        path: PathBuf,
        /// The path of the restored store.
        new: PathBuf,
    },
    /// The mode of a directory or file of the store lets other users read or change it.
    #[error(
        "facts in `{path}` can be opened by other users (mode {mode:o}); run `chmod {allowed:o} '{path}'`"
    )]
    TooWide {
        /// The directory or file.
        path: PathBuf,
        /// The mode of the directory or file.
        mode: u32,
        /// The allowed mode.
        allowed: u32,
    },
    /// The store is on a network file system, where LMDB's memory map is not safe.
    #[error(
        "facts in `{0}` are on a network file system, where LMDB is not safe; choose a local directory with --data"
    )]
    Network(PathBuf),
    /// The store was written by a later version of this program.
    #[error(
        "facts in `{path}` have format {found}, and this program works with format {FORMAT}: run a newer enfilade, or move this directory \
        away and restore a backup with `enfilade facts restore`"
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format of the store.
        found: u32,
    },
    /// The store was written by an earlier version of this program. Nothing was changed.
    #[error(
        "facts in `{path}` have format {found}, and this program works with format {FORMAT}: stop every enfilade process that uses them, then \
        run `enfilade facts upgrade`, which writes a backup first"
    )]
    Older {
        /// The directory.
        path: PathBuf,
        /// The format of the store.
        found: u32,
    },
    /// The store belongs to a member of a fleet, and has an older format than this program accepts in a fleet. Nothing was changed.
    #[error(
        "facts in `{path}` belong to a member of a fleet of format {found}, and this program can be a member of fleets of format {FORMAT_IN_FLEET} to {FORMAT}: \
        run the earlier version of enfilade again, and follow docs/fleet.md, \"Update the program\""
    )]
    OlderInFleet {
        /// The directory.
        path: PathBuf,
        /// The format of the store.
        found: u32,
    },
    /// The store was written by an early version of this program, and cannot be upgraded.
    #[error(
        "facts in `{path}` have format {found}, and the oldest format that can be upgraded is {FORMAT_OLDEST}: use another directory (--data)"
    )]
    TooOld {
        /// The directory.
        path: PathBuf,
        /// The format of the store.
        found: u32,
    },
    /// The store contains the copy of the facts that a member of a fleet has. If one machine replaced or rewrote its records, they would differ from
    /// the records of the other members.
    #[error(
        "facts in `{0}` belong to a member of a fleet, so they cannot be restored, compacted or upgraded on this machine alone; `enfilade fleet --help` lists what a member can do"
    )]
    OfFleet(PathBuf),
    /// The directory contains an LMDB environment of another program, which must not be changed.
    #[error(
        "`{0}` holds an LMDB environment that is not a store of facts; choose another directory with --data"
    )]
    Foreign(PathBuf),
    /// Acknowledged changes are missing. If the store were opened, tokens that the missing changes revoked would be valid again.
    #[error(
        "facts in `{path}` are too old: their newest revision is {found}, but revision {expected} was acknowledged before. The disk is damaged, or an older copy has replaced the facts. Restore a backup with `enfilade facts restore FILE`, or accept the older facts with `enfilade facts restore --accept-rollback`, which undoes all later revocations and removals"
    )]
    WentBack {
        /// The directory.
        path: PathBuf,
        /// The newest revision in the store.
        found: Revision,
        /// The newest acknowledged revision.
        expected: Revision,
    },
    /// The files of the store were replaced by the files of another store.
    #[error(
        "facts in `{0}` belong to another store than the one that was in this directory before; put the previous store back, or accept the present store with `enfilade facts restore --accept-rollback`"
    )]
    Replaced(PathBuf),
}

impl OpenError {
    pub(super) fn io(path: &Path, why: &dyn std::fmt::Display) -> Self {
        OpenError::Io { path: path.to_owned(), why: why.to_string() }
    }

    pub(super) fn heed(path: &Path, why: &heed::Error) -> Self {
        match is_full_disk(path, why) {
            true => OpenError::heed(path, &no_space()),
            false => OpenError::io(path, &format!("{why}{}", hint(why))),
        }
    }
}

/// Advice to the operator for an error of LMDB.
fn hint(why: &heed::Error) -> &'static str {
    match why {
        heed::Error::Io(io) => match io.raw_os_error() {
            Some(28) => "; the disk is full: make room",
            Some(122) => "; the disk quota is used up: make room",
            Some(30) => "; the file system is read-only, and even readers have to write the lock file",
            Some(13) => {
                "; the files belong to another user: run as their owner, or share the facts with `[facts] group`"
            }
            Some(5) => {
                "; the disk has errors: restore a backup on another disk. A change that failed with this error was not acknowledged"
            }
            Some(12) => "; there is too little address space for the map (see `ulimit -v`)",
            _ => "",
        },
        heed::Error::Mdb(heed::MdbError::MapFull) => {
            "; the map of the facts is full, nothing was changed: set `[facts] map_mebibytes` to a larger number in enfilade.toml and \
             restart every enfilade process on this data directory, or stop all of them and run `enfilade facts compact`"
        }
        heed::Error::Mdb(heed::MdbError::MapResized) => {
            "; the file has grown past the map of this process: set `[facts] map_mebibytes` to the same number for all \
                processes on this data directory, then restart this process"
        }
        heed::Error::Mdb(heed::MdbError::ReadersFull) => {
            "; too many processes and threads read the facts at the same time: stop some enfilade processes, or try again"
        }
        heed::Error::Mdb(heed::MdbError::BadRslot) => {
            "; internal error: this thread already has a view open, and it can have only one"
        }
        heed::Error::Mdb(heed::MdbError::Panic) => {
            "; an earlier write of this process failed: restart this process"
        }
        heed::Error::Mdb(
            heed::MdbError::Corrupted | heed::MdbError::PageNotFound | heed::MdbError::Invalid,
        ) => {
            "; the file is damaged: run `enfilade facts check`, then restore a backup with `enfilade facts restore FILE --set-aside`"
        }
        _ => "",
    }
}

/// An error of LMDB, with a hint for the operator.
#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
pub(super) fn unavailable(why: heed::Error) -> SourceError {
    SourceError::Unavailable(format!("{why}{}", hint(&why)))
}

/// Below this number of free bytes, a disk counts as full.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// Whether LMDB reports an error of the disk (EIO), and the disk of the store at `path` is full. LMDB reports EIO if the disk becomes full in the
/// middle of a write.
fn is_full_disk(path: &Path, why: &heed::Error) -> bool {
    let found = || rustix::fs::statvfs(path);
    let is_full =
        || found().is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) < ROOM_BYTES_MIN);
    matches!(why, heed::Error::Io(io) if io.raw_os_error() == Some(libc::EIO)) && is_full()
}

fn no_space() -> heed::Error {
    heed::Error::Io(std::io::Error::from_raw_os_error(libc::ENOSPC))
}

/// An error of LMDB during a write to the store at `path`, with a hint for the operator.
pub(super) fn unwritten(path: &Path, why: heed::Error) -> SourceError {
    unavailable(if is_full_disk(path, &why) { no_space() } else { why })
}

/// The error for a change that was refused because the change would use reserved disk space. `kept_for` describes the changes for which the space is
/// reserved.
pub(super) fn no_disk_space(why: std::io::Error, kept_for: &str) -> SourceError {
    let why = heed::Error::Io(why);
    SourceError::Unavailable(format!("{why}{}; the reserve of disk space is kept for {kept_for}", hint(&why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lmdb::rewrite::Failed;
    use heed::MdbError;

    #[test]
    fn a_disk_with_room_is_not_called_full() {
        let why = |code| heed::Error::Io(std::io::Error::from_raw_os_error(code));
        let of = |path: &str| unwritten(Path::new(path), why(libc::EIO)).to_string();
        assert_eq!(of("/nowhere"), unavailable(why(libc::EIO)).to_string());
        // procfs has no free space.
        assert_eq!(of("/proc"), unavailable(why(libc::ENOSPC)).to_string());
        let rewritten = Failed::from(why(libc::EIO)).at(Path::new("/proc"));
        assert_eq!(rewritten, unavailable(why(libc::ENOSPC)));
    }

    #[test]
    fn what_an_operator_can_mend_comes_with_advice() {
        let io = |code| heed::Error::Io(std::io::Error::from_raw_os_error(code));
        let cases = [
            (io(libc::ENOSPC), "the disk is full: make room"),
            (io(libc::EDQUOT), "the disk quota is used up: make room"),
            (io(libc::EROFS), "the file system is read-only"),
            (io(libc::EACCES), "run as their owner"),
            (io(libc::EIO), "the disk has errors"),
            (io(libc::ENOMEM), "see `ulimit -v`"),
            (heed::Error::Mdb(MdbError::MapFull), "run `enfilade facts compact`"),
            (heed::Error::Mdb(MdbError::MapResized), "to the same number for all processes"),
            (
                heed::Error::Mdb(MdbError::ReadersFull),
                "too many processes and threads read the facts at the same time",
            ),
            (heed::Error::Mdb(MdbError::BadRslot), "this thread already has a view open"),
            (heed::Error::Mdb(MdbError::Panic), "restart this process"),
            (heed::Error::Mdb(MdbError::Corrupted), "run `enfilade facts check`"),
            (heed::Error::Mdb(MdbError::PageNotFound), "run `enfilade facts check`"),
            (heed::Error::Mdb(MdbError::Invalid), "run `enfilade facts check`"),
        ];
        for (why, advice) in cases {
            assert!(hint(&why).starts_with("; ") && hint(&why).contains(advice), "{why}{}", hint(&why));
        }
        for why in [io(libc::ENOENT), heed::Error::Mdb(MdbError::KeyExist), heed::Error::EnvAlreadyOpened] {
            assert_eq!(hint(&why), "", "{why}");
        }
    }
}
