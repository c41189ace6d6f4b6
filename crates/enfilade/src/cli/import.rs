//! `enfilade import`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Import realms, users with their passwords, tokens with their secrets, roles and datastores from domains.cfg, user.cfg, shadow.json,
    /// token.shadow, acl.cfg and datastore.cfg. Existing records do not change, but a user without a password gets one. A chunk store
    /// becomes read-only. To keep editing user.cfg, token.shadow, acl.cfg and datastore.cfg, put all files into the data directory, and
    /// import from there: then only passwords and realms are imported
    Proxmox {
        /// The directory of the files, for instance a copy of /etc/proxmox-backup
        directory: PathBuf,
        /// Show what would be imported, and change nothing
        #[arg(long)]
        pretend: bool,
        /// Import the passwords of users who have a second factor there, too: here the password alone is then enough. Without this option
        /// these users get no password
        #[arg(long)]
        without_second_factor: bool,
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
