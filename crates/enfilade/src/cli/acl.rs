//! `enfilade acl`: commands, options and help.

use clap::Subcommand;
use enfilade_admin::Target;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, Sid};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Acl {
    /// Show the ACL of a file or directory
    Get {
        /// The datastore
        datastore: DatastoreName,
        /// The path in the datastore
        #[arg(default_value = "/")]
        path: String,
        /// Show the ACL as one line of SDDL, as icacls and samba-tool write it
        #[arg(long)]
        sddl: bool,
    },
    /// Replace the ACL of a file or directory
    #[command(after_help = "Lines, as `acl get` shows them:\n  \
        owner alice@local\n  \
        protected\n  \
        allow @staff read,write inherit=files,dirs\n  \
        deny everyone delete\n\n\
        For each right, the server uses the first entry that applies to the user and contains this right.\n\
        Rights: read, write, modify, full, or single ones (list, add-file, add-subdirectory, delete, read-acl, write-acl, …).\n\
        Who: USER@REALM, @GROUP, everyone, authenticated, creator-owner, or a SID. `protected`: the ACL inherits nothing.")]
    Set {
        /// The datastore
        datastore: DatastoreName,
        /// The path in the datastore
        path: String,
        /// The lines of the new ACL [default: read from standard input]
        lines: Vec<String>,
        /// The ACL in SDDL instead of lines, such as `D:(A;OICI;0x1200a9;;;AU)`
        #[arg(long, conflicts_with = "lines", value_name = "TEXT")]
        sddl: Option<String>,
        /// Set an ACL without entries, which grants nothing
        #[arg(long, conflicts_with_all = ["lines", "sddl"])]
        empty: bool,
        /// Propagate the ACL to everything below the path: each object keeps its explicit entries, and its inherited entries are replaced
        #[arg(long)]
        recursive: bool,
        /// Show the changes without making them
        #[arg(long, requires = "recursive")]
        dry_run: bool,
    },
    /// Write the ACLs of a path and of everything below it to standard output; each ACL is one line of JSON
    Save {
        /// The datastore
        datastore: DatastoreName,
        /// The path in the datastore
        #[arg(default_value = "/")]
        path: String,
    },
    /// Restore ACLs: read the output of `acl save` from standard input; paths that no longer exist are reported
    Restore {
        /// The datastore
        datastore: DatastoreName,
    },
    /// Show the rights of each user on a path and on everything below it: one line for each object and user
    #[command(
        after_help = "Roles and ACLs apply together, as for a request. If an object has no line for a user, the user cannot see the object.\n\
        Save two reviews with --json, and compare them with `acl changes`."
    )]
    Review {
        /// The datastore
        datastore: DatastoreName,
        /// The path in the datastore
        #[arg(default_value = "/")]
        path: String,
        /// Only this user or token; may be given several times [default: every user]
        #[arg(long = "auth-id", value_name = "AUTHID")]
        people: Vec<Authid>,
        /// Show only objects on which these rights are granted
        #[arg(long, default_value = "read-attributes")]
        right: AccessMask,
        /// Write CSV, for spreadsheets
        #[arg(long)]
        csv: bool,
    },
    /// Map a foreign SID, for example of a Windows domain, to a user or group of this server
    Map {
        /// The foreign SID in the ACL entries
        sid: Sid,
        /// USER@REALM or @GROUP@REALM
        who: Target,
    },
    /// Remove the mapping of a foreign SID
    Unmap {
        /// The foreign SID in the ACL entries
        sid: Sid,
    },
    /// Show the mapped foreign SIDs, and the user or group of each SID
    Mapped,
    /// Compare two reviews that `acl review --json` wrote: rights gained, lost, or changed
    Changes {
        /// The earlier review
        before: PathBuf,
        /// The later review
        after: PathBuf,
    },
}

impl Acl {
    /// The datastore with the content that the command reads or changes.
    pub(crate) fn datastore(&self) -> Option<&DatastoreName> {
        match self {
            Acl::Get { datastore, .. }
            | Acl::Set { datastore, .. }
            | Acl::Save { datastore, .. }
            | Acl::Restore { datastore, .. }
            | Acl::Review { datastore, .. } => Some(datastore),
            Acl::Map { .. } | Acl::Unmap { .. } | Acl::Mapped | Acl::Changes { .. } => None,
        }
    }
}
