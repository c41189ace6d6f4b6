//! `enfilade import`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Import users, tokens with their secrets, roles and datastores from user.cfg, token.shadow, acl.cfg and datastore.cfg; existing
    /// records do not change. To keep editing such files, put them into the data directory instead
    Proxmox {
        /// The directory of the files, for instance a copy of /etc/proxmox-backup
        directory: PathBuf,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
    },
    /// Import domains, projects, users, groups, roles, assignments, the catalog and application credentials of a Keystone over its API,
    /// with their ids; existing records do not change. The API does not give secrets: application credentials need new ones
    Keystone {
        /// The name of the cloud in clouds.yaml
        #[arg(long, value_name = "NAME")]
        os_cloud: String,
        /// A dump of its database (mysqldump, or sqlite3 .dump), for the hashes of passwords
        #[arg(long, value_name = "FILE")]
        passwords: Option<PathBuf>,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
    },
}
