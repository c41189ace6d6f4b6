//! `enfilade import`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Import {
    /// Users, tokens with their secrets, roles and datastores from user.cfg, token.shadow, acl.cfg and datastore.cfg; what is here
    /// already stays as it is. To keep working on such files, put them into the data directory instead
    Proxmox {
        /// Where the files are, for instance a copy of /etc/proxmox-backup
        directory: PathBuf,
        /// Only say what would be done
        #[arg(long)]
        pretend: bool,
    },
    /// Domains, projects, users, groups, roles, assignments, the catalog and application credentials of a Keystone, asked over its API,
    /// under the ids they have there; what is here already stays as it is. Secrets it does not tell
    Keystone {
        /// Which cloud of clouds.yaml
        #[arg(long, value_name = "NAME")]
        os_cloud: String,
        /// A dump of its database (mysqldump, or sqlite3 .dump), for the hashes of passwords
        #[arg(long, value_name = "FILE")]
        passwords: Option<PathBuf>,
        /// Only say what would be done
        #[arg(long)]
        pretend: bool,
    },
}
