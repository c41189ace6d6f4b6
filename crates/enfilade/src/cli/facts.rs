//! `enfilade facts`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Facts {
    /// Show the id, the revision and the size of the store
    Status,
    /// Read every record and print what is damaged; the exit code is 1 if something is damaged
    Check,
    /// Show the newest changes: author, time, and content
    Log {
        /// The number of changes
        #[arg(long, default_value_t = 20, value_name = "N")]
        last: u64,
    },
    /// Back up only the records in the store (the facts); servers can run and write during the backup. For a backup of all data of the server, use
    /// `enfilade backup`
    Backup {
        /// The backup file, outside of the data directory; it may be a device or a pipe. `-` is standard output
        file: PathBuf,
        /// Replace an existing file when the new file is complete
        #[arg(long)]
        force: bool,
    },
    /// Replace all records in the store (the facts) with the records of a backup; running servers use the new records from their next request on
    Restore {
        /// The backup file. With --accept-rollback it can be left out: then the store keeps its present records, although it was rolled back or
        /// replaced
        #[arg(required_unless_present = "accept_rollback")]
        file: Option<PathBuf>,
        /// Replace existing facts
        #[arg(long)]
        force: bool,
        /// Accept records that are older than the newest acknowledged change: the later changes are lost, and credentials that these changes revoked
        /// are valid again
        #[arg(long)]
        accept_rollback: bool,
        /// Move the existing store aside without opening it, and make a new one, for example because pages are damaged; stop every server first
        #[arg(long)]
        set_aside: bool,
    },
    /// Upgrade a store of an older version to the format of this version; before the upgrade, a backup is written next to the store
    Upgrade {
        /// Only check that every record can be upgraded, and print the steps of the upgrade; nothing is changed
        #[arg(long)]
        dry_run: bool,
    },
    /// Make the file of the store as short as its records allow; no other process may have the store open
    Compact {
        /// Only estimate how much disk space would be freed; nothing is changed, and servers can run at the same time
        #[arg(long)]
        dry_run: bool,
    },
    /// Write all records as JSON, one line for each record, to standard output or a file
    Dump {
        /// The file, outside of the data directory; it may be a device or a pipe. `-` is standard output [default: standard output]
        file: Option<PathBuf>,
        /// Include the hashes of passwords and secrets; without this option they are written as `redacted`
        #[arg(long)]
        secrets: bool,
        /// Replace an existing file when the new file is complete
        #[arg(long)]
        force: bool,
    },
    /// Replace all records in the store (the facts) with the records of a dump
    Load {
        /// The dump
        file: PathBuf,
        /// Replace existing facts
        #[arg(long)]
        force: bool,
        /// Accept records that are older than the newest acknowledged change: the later changes are lost, and credentials that these changes revoked
        /// are valid again
        #[arg(long)]
        accept_rollback: bool,
        /// Move the existing store aside without opening it, and make a new one, for example because pages are damaged; stop every server first
        #[arg(long)]
        set_aside: bool,
    },
}
