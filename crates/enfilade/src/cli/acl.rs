//! The words of ACLs.

use clap::Subcommand;
use enfilade_facts::vocabulary::DatastoreName;

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
}
