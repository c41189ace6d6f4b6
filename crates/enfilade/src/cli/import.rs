//! `enfilade import`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Import {
    /// Import the realms, users with passwords, tokens, roles and datastores of a Proxmox Backup Server from copies of its files. Existing
    /// records do not change, but a user without a password gets one. A chunk store becomes read-only. To go on editing the files, put them
    /// into the data directory and import from there: then only passwords and realms are imported
    Proxmox {
        /// The directory of the files, for instance a copy of /etc/proxmox-backup
        directory: PathBuf,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
        /// Also import the passwords of users with a second factor: the password alone is then enough here. Without this option these users
        /// get no password
        #[arg(long)]
        without_second_factor: bool,
    },
    /// Import domains, projects, users, groups, roles, assignments, the catalog and application credentials of a Keystone over its API,
    /// with their ids; existing records do not change. The API does not give secrets: application credentials need new ones. Import into an
    /// empty data directory, and run `enfilade bootstrap` afterwards
    Keystone {
        /// The name of the cloud in clouds.yaml
        #[arg(long, value_name = "NAME")]
        os_cloud: String,
        /// A dump of Keystone's database (mysqldump, or sqlite3 .dump), from which the password hashes are imported
        #[arg(long, value_name = "FILE")]
        passwords: Option<PathBuf>,
        /// Leave out domains, roles and projects whose name another record has here, with every assignment that needs them
        #[arg(long)]
        leave_out_taken: bool,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
    },
}

impl Import {
    /// Whether the import only shows what it would do, and changes nothing.
    pub(crate) fn is_pretended(&self) -> bool {
        match self {
            Import::Proxmox { pretend, .. } | Import::Keystone { pretend, .. } => *pretend,
        }
    }
}
