//! The words of ACLs.

use clap::Subcommand;
use enfilade_admin::Target;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, Sid};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Acl {
    /// Show the ACL of a file or directory
    Get {
        datastore: DatastoreName,
        /// The path in the datastore
        #[arg(default_value = "/")]
        path: String,
        /// In one line, as icacls and samba-tool write it
        #[arg(long)]
        sddl: bool,
    },
    /// Replace the ACL of a file or directory
    #[command(after_help = "Lines, as `acl get` shows them:\n  \
        owner alice@local\n  \
        protected\n  \
        allow @staff read,write inherit=files,dirs\n  \
        deny everyone delete\n\n\
        The first entry that speaks of a right decides it. Rights: read, write, modify, full, or single ones\n\
        (list, add-file, add-subdirectory, delete, read-acl, write-acl, …). Who: USER@REALM, @GROUP, everyone,\n\
        authenticated, creator-owner, or a SID. `protected`: nothing is handed on to it from above.")]
    Set {
        datastore: DatastoreName,
        /// The path in the datastore
        path: String,
        /// The lines; from standard input when none is given
        lines: Vec<String>,
        /// One line of SDDL in the place of lines, such as `D:(A;OICI;0x1200a9;;;AU)`
        #[arg(long, conflicts_with = "lines", value_name = "TEXT")]
        sddl: Option<String>,
        /// Hand it on to everything beneath: each object keeps its own entries, and what it inherited it inherits anew
        #[arg(long)]
        recursive: bool,
        /// Say what would change, and change nothing
        #[arg(long, requires = "recursive")]
        dry_run: bool,
    },
    /// Write the ACLs of a path and of everything beneath it to standard output, a line of JSON each
    Save {
        datastore: DatastoreName,
        /// The path in the datastore
        #[arg(default_value = "/")]
        path: String,
    },
    /// Put ACLs back that were saved, from standard input; what is not there any more is named
    Restore { datastore: DatastoreName },
    /// Tell who may do what with a path and with everything beneath it: a line for each object and person
    #[command(
        after_help = "Roles and ACLs count together, as for a request. What is not told of is not there for that person.\n\
        Keep what two reviews say with --json, and compare them with `acl changes`."
    )]
    Review {
        datastore: DatastoreName,
        /// The path in the datastore
        #[arg(default_value = "/")]
        path: String,
        /// Of this user or token alone; may be given several times [default: every user]
        #[arg(long = "auth-id", value_name = "AUTHID")]
        people: Vec<Authid>,
        /// Tell only of objects these rights are granted on
        #[arg(long, default_value = "read-attributes")]
        right: AccessMask,
        /// A table for spreadsheets
        #[arg(long)]
        csv: bool,
    },
    /// Let entries for a SID from elsewhere, as of a domain the files came from, speak of a user or group here
    Map {
        /// What the entries name
        sid: Sid,
        /// USER@REALM or @GROUP@REALM
        who: Target,
    },
    /// Let entries for such a SID speak of nobody again
    Unmap {
        /// What the entries name
        sid: Sid,
    },
    /// Show the SIDs from elsewhere, and of whom their entries speak
    Mapped,
    /// Compare two reviews that were kept with --json: what somebody gained, lost, or may do otherwise
    Changes {
        /// The earlier one
        before: PathBuf,
        /// The later one
        after: PathBuf,
    },
}
