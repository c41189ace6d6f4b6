//! The words of what Keystone's clients know of: domains, projects, the catalog, sessions.

use clap::{Args, Subcommand};
use enfilade_facts::tables::Interface;
use enfilade_facts::vocabulary::{EndpointId, Realm, ServiceId, Userid};

#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// The administrator
    #[arg(long, default_value = "admin@Default", value_name = "NAME@DOMAIN")]
    pub(crate) user: Userid,
    /// Read the administrator's password from the first line of standard input
    #[arg(long, required = true)]
    pub(crate) password_stdin: bool,
    /// The administrator's project
    #[arg(long, default_value = "admin", value_name = "NAME")]
    pub(crate) project: String,
    /// The role that may do everything
    #[arg(long, default_value = "admin", value_name = "NAME")]
    pub(crate) role: String,
    /// What the identity service is called
    #[arg(long, default_value = "keystone", value_name = "NAME")]
    pub(crate) service: String,
    /// The region it is in
    #[arg(long, default_value = "RegionOne", value_name = "NAME")]
    pub(crate) region: String,
    /// Where everybody reaches it [default: https:// and `[tls] listen`]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Where other services reach it [default: the public URL]
    #[arg(long, value_name = "URL")]
    pub(crate) internal_url: Option<String>,
    /// Where administrators reach it [default: the public URL]
    #[arg(long, value_name = "URL")]
    pub(crate) admin_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Domain {
    /// Make a domain: a realm of users, groups and projects
    Add {
        /// Its name
        domain: Realm,
    },
    /// Show all domains
    List,
    /// Let its users in again
    Enable {
        /// Its name
        domain: Realm,
    },
    /// Keep its users out, and end their sessions
    Disable {
        /// Its name
        domain: Realm,
    },
    /// Remove a domain nothing is in
    Remove {
        /// Its name
        domain: Realm,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Make a project
    Add {
        /// Its name
        name: String,
        /// The domain it is in
        #[arg(long, default_value = "Default")]
        domain: Realm,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
    },
    /// Show all projects and the datastores that are bound to them
    List,
    /// Change a project
    Set {
        /// NAME, NAME@DOMAIN or its id
        project: String,
        /// What it is for; empty takes the text away
        #[arg(long)]
        description: Option<String>,
        /// Let people work in it
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Let nobody work in it
        #[arg(long)]
        disable: bool,
    },
    /// Remove a project with the roles on it and the application credentials for it; its sessions end
    Remove {
        /// NAME, NAME@DOMAIN or its id
        project: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// Show services and where they are
    List,
    /// Make a service
    Service {
        /// What kind, such as `object-store`
        kind: String,
        /// What it is called
        name: String,
    },
    /// Say where a service is; one of the same interface and region moves
    Endpoint {
        /// The service's id
        service: ServiceId,
        /// public, internal or admin
        interface: Interface,
        /// The address; $(project_id)s stands for the project of whoever asks
        url: String,
        /// The region
        #[arg(long)]
        region: Option<String>,
    },
    /// Remove a service with its endpoints
    RemoveService {
        /// Its id
        service: ServiceId,
    },
    /// Remove an endpoint
    RemoveEndpoint {
        /// Its id
        endpoint: EndpointId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Revoke {
    /// One token
    Token {
        /// Its audit id, as `openstack token` and the log show it; `-` reads the token itself from standard input
        token: String,
    },
    /// A token and everything that was made of it
    Chain {
        /// The audit id of the first token; `-` reads a token of the chain from standard input
        token: String,
    },
    /// Everything a user was given so far
    User {
        /// NAME@DOMAIN
        user: Userid,
    },
    /// Everything that was given for a project so far
    Project {
        /// NAME, NAME@DOMAIN or its id
        project: String,
    },
    /// Everything the users of a domain were given so far, and everything for it
    Domain {
        /// Its name
        domain: Realm,
    },
    /// Show what is revoked
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// Show sessions that were given out and neither ended nor were revoked, of one user or of everybody
    List {
        /// NAME@DOMAIN
        user: Option<Userid>,
    },
    /// End all sessions of a user: tokens and login tickets
    End {
        /// NAME@DOMAIN
        user: Userid,
    },
}
