//! `enfilade import`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Import {
    /// Import the realms, users with passwords, tokens, roles and datastores of a Proxmox Backup Server from copies of its files. Existing records do
    /// not change. Roles that would also apply to other datastores or users of this server are left out. A datastore that is a chunk store becomes
    /// read-only. To keep editing the files, put them into the data directory, and import from the data directory: this import reads only passwords
    /// and realms, because the server itself reads the other files
    Proxmox {
        /// The directory of the files, for instance a copy of /etc/proxmox-backup
        directory: PathBuf,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
        /// Also import the passwords of users with a second factor: on this server, the password alone is then enough. Without this option these
        /// users get no password
        #[arg(long)]
        without_second_factor: bool,
        /// Declare that an earlier import was from the same source. Then users, tokens and datastores on this server count as identical with those of
        /// the same name in the source. Users without a password on this server get their password from the source, and new roles and tokens are
        /// imported. Without this option, a user counts as identical only if the hash of the password or of a token's secret is the same on this
        /// server and in the source, and a token only if the hash of its secret is the same
        #[arg(long)]
        same_source: bool,
    },
    /// Import the records of a Keystone server over its API, with their ids: domains, projects, users, groups, roles, assignments, the catalog,
    /// limits, policies, endpoint filters, application credentials, trusts, EC2 keys and other credentials. Existing records do not change. The API
    /// does not show passwords, or the secrets of application credentials and OAuth consumers: --passwords reads them from a dump of the database.
    /// Import into an empty data directory, and run `enfilade bootstrap` afterwards
    Keystone {
        /// The name of the cloud in clouds.yaml
        #[arg(long, value_name = "NAME")]
        os_cloud: String,
        /// A dump of Keystone's database (mysqldump, or sqlite3 .dump), from which the hashes of passwords and the secrets are imported
        #[arg(long, value_name = "FILE")]
        passwords: Option<PathBuf>,
        /// Leave out each domain, role, project or service if another record of this server already has its name. Also leave out every assignment
        /// that needs one of the records that were left out
        #[arg(long)]
        leave_out_taken: bool,
        /// Also import records, passwords and secrets of an earlier import that were deleted, removed or revoked on this server after that import.
        /// Without this option, they are left out
        #[arg(long)]
        restore_deleted: bool,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
    },
}

impl Import {
    /// Whether the import only shows what it would change.
    pub(crate) fn is_pretended(&self) -> bool {
        match self {
            Import::Proxmox { pretend, .. } | Import::Keystone { pretend, .. } => *pretend,
        }
    }
}
