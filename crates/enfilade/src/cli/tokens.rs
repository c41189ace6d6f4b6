//! `enfilade token`.

use super::{changes, future, moment, seconds};
use clap::Subcommand;
use enfilade_facts::vocabulary::{Authid, Userid};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token; its secret is shown once
    #[command(alias = "add")]
    Create {
        /// USER@REALM!NAME
        token: Authid,
        /// When the token expires: 30d, 2027-01-31, 2027-01-31T18:00:00Z, or never
        #[arg(long, default_value = "never", value_name = "TIME", value_parser = future)]
        expires: i64,
        /// A comment
        #[arg(long)]
        comment: Option<String>,
        /// Limit the token to roles that are assigned to the token itself and that its owner also has [default: all roles of its owner]
        #[arg(long)]
        own_roles: bool,
        /// A client certificate (PEM) instead of a secret: a TLS client that presents this certificate acts as the token
        #[arg(long, conflicts_with = "project", value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Limit the token to this project (NAME, NAME@DOMAIN or its id): the token becomes an application credential for OpenStack's clients
        #[arg(long, conflicts_with = "own_roles")]
        project: Option<String>,
        /// A role of the token's owner on the project; may be given several times [default: all roles that the owner has on the project now]
        #[arg(long, requires = "project", value_name = "ROLE")]
        role: Vec<String>,
    },
    /// Show tokens of one user or of all users
    List {
        /// USER@REALM
        user: Option<Userid>,
    },
    /// Show one token
    Show {
        /// USER@REALM!NAME
        token: Authid,
    },
    /// Change a token
    #[command(group = changes([
        "enable", "disable", "expires", "comment", "end_grace", "own_roles", "owner_roles",
    ]))]
    Set {
        /// USER@REALM!NAME
        token: Authid,
        /// Enable the token
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Refuse the token until it is enabled again
        #[arg(long)]
        disable: bool,
        /// When the token expires: 30d, 2027-01-31, 2027-01-31T18:00:00Z, or never
        #[arg(long, value_name = "TIME", value_parser = moment)]
        expires: Option<i64>,
        /// A comment; an empty value removes it
        #[arg(long)]
        comment: Option<String>,
        /// Refuse the replaced secret from now on, even if its grace period has not ended
        #[arg(long)]
        end_grace: bool,
        /// From now on, limit the token to roles that are assigned to the token itself and that its owner also has
        #[arg(long)]
        own_roles: bool,
        /// From now on, give the token all roles of its owner
        #[arg(long, conflicts_with = "own_roles")]
        owner_roles: bool,
    },
    /// Replace the secret of a token; the new secret is shown once
    Regenerate {
        /// USER@REALM!NAME
        token: Authid,
        /// How long the old secret stays valid: a number and s, m, h, d or w
        #[arg(long, default_value = "0s", value_name = "TIME", value_parser = seconds)]
        grace: i64,
    },
    /// Mark a token, or all tokens, for an upgrade of the hash. The next use of a marked token replaces its slow hash with a fast hash, if Enfilade,
    /// Proxmox or Keystone generated the secret
    Upgrade {
        /// USER@REALM!NAME
        #[arg(required_unless_present = "all")]
        token: Option<Authid>,
        /// Every token
        #[arg(long, conflicts_with = "token")]
        all: bool,
    },
    /// Delete a token; the next request with the token is refused
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// USER@REALM!NAME
        token: Authid,
    },
}
