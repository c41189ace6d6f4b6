//! Commands for the records that Keystone's clients use: domains, projects and the catalog of services.

use super::changes;
use clap::{Args, Subcommand};
use enfilade_facts::tables::Interface;
use enfilade_facts::vocabulary::{EndpointId, Realm, Userid};

#[derive(Clone, Debug, Args)]
pub(crate) struct Bootstrap {
    /// The administrator
    #[arg(long, default_value = "admin@Default", value_name = "NAME@DOMAIN")]
    pub(crate) user: Userid,
    /// Read the administrator's password from the first line of standard input [default: ask for it on the terminal]
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// The administrator's project
    #[arg(long, default_value = "admin", value_name = "NAME")]
    pub(crate) project: String,
    /// The role of the administrator, which has all rights
    #[arg(long, default_value = "admin", value_name = "NAME")]
    pub(crate) role: String,
    /// The name of the identity service
    #[arg(long, default_value = "keystone", value_name = "NAME")]
    pub(crate) service: String,
    /// The region of the identity service
    #[arg(long, default_value = "RegionOne", value_name = "NAME")]
    pub(crate) region: String,
    /// The public URL of the identity service; without a path, /v3 is added [default: the URL of an earlier bootstrap, even of another region; else
    /// https:// and `[tls] listen`]
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// The URL of the identity service for other services [default: the internal URL of an earlier bootstrap, if it was not the same as the public
    /// URL of that bootstrap; else the value of `--public-url`]
    #[arg(long, value_name = "URL")]
    pub(crate) internal_url: Option<String>,
    /// The URL of the identity service for administrators [default: the admin URL of an earlier bootstrap, if it was not the same as the public URL
    /// of that bootstrap; else the value of `--public-url`]
    #[arg(long, value_name = "URL")]
    pub(crate) admin_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Domain {
    /// Create a domain: a container of users, groups and projects
    #[command(alias = "create")]
    Add {
        /// The name of the domain
        domain: Realm,
    },
    /// Show all domains
    List,
    /// Enable a disabled domain
    Enable {
        /// The name of the domain
        domain: Realm,
    },
    /// Refuse all logins of users of the domain, and end their sessions
    Disable {
        /// The name of the domain
        domain: Realm,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Remove an empty domain
    #[command(aliases = ["delete", "rm"])]
    Remove {
        /// The name of the domain
        domain: Realm,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Create a project
    #[command(alias = "create")]
    Add {
        /// NAME, or NAME@DOMAIN
        name: String,
        /// The domain of the project, if NAME does not contain a domain [default: Default]
        #[arg(long)]
        domain: Option<Realm>,
        /// A description
        #[arg(long)]
        description: Option<String>,
    },
    /// Show all projects and the datastores that are bound to them
    List,
    /// Change a project
    #[command(group = changes(["description", "enable", "disable"]))]
    Set {
        /// NAME, NAME@DOMAIN or its id
        project: String,
        /// A description; an empty value removes it
        #[arg(long)]
        description: Option<String>,
        /// Enable the project
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Refuse all sessions for the project until it is enabled again
        #[arg(long)]
        disable: bool,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Remove a project with the roles on it and the application credentials for it; its sessions end
    #[command(aliases = ["delete", "rm"])]
    Remove {
        /// NAME, NAME@DOMAIN or its id
        project: String,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// Show services and their endpoints
    List,
    /// Create a service
    Service {
        /// The type of the service, such as `object-store`
        kind: String,
        /// The name of the service
        name: String,
    },
    /// Create an endpoint of a service, or change the URL of the endpoint that has the same interface and region
    Endpoint {
        /// The name of the service, or its id
        service: String,
        /// public, internal or admin
        interface: Interface,
        /// The URL; $(project_id)s in the URL is replaced by the id of the client's project
        url: String,
        /// The region; an empty value means none [default: the region of the other endpoints, if all have the same]
        #[arg(long)]
        region: Option<String>,
    },
    /// Remove a service with its endpoints
    RemoveService {
        /// The name of the service, or its id
        service: String,
    },
    /// Remove an endpoint
    RemoveEndpoint {
        /// The id of the endpoint
        endpoint: EndpointId,
    },
}
