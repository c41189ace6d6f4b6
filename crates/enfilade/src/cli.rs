//! The command line: commands, options and help.

pub(crate) mod acl;
mod applications;
mod backup;
pub(crate) mod certs;
mod config;
mod datastores;
mod facts;
mod fleet;
mod import;
mod quantity;
mod reference;
pub(crate) mod keystone;
mod links;
pub(crate) mod revoke;
mod setup;
mod times;
mod tokens;

pub(crate) use applications::{Application, Decide, Integrate, Product, Properties, RequestLine};
pub(crate) use backup::{Backup, Restore};
pub(crate) use config::Config;
pub(crate) use datastores::Datastore;
pub(crate) use facts::Facts;
pub(crate) use fleet::Fleet;
pub(crate) use import::Import;
pub(crate) use links::Link;
pub(crate) use quantity::Quantity;
pub(crate) use reference::Subject;
pub(crate) use setup::Setup;
pub(crate) use times::{future, moment, seconds};
pub(crate) use tokens::Token;

use crate::listen::Addresses;
use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use enfilade_facts::vocabulary::{
    AccessMask, Authid, DatastoreName, GroupName, Realm, RolePath, Sid, Userid,
};
use std::path::PathBuf;

/// TLS, tokens, tenancy and file permissions in front of your data.
#[derive(Debug, Parser)]
#[command(name = "enfilade", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The data directory [default: $ENFILADE_DATA; else /var/lib/enfilade for root, and `enfilade` in the XDG data home for other users]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The configuration [default: enfilade.toml in the data directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer in JSON, one value per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the arguments of this process.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        Self::try_parse()?.checked()
    }

    /// Refuses an option that conflicts with one value of another argument, because clap cannot check such a conflict.
    fn checked(self) -> Result<Self, clap::Error> {
        match &self.command {
            Command::Datastore(Datastore::Maintenance { mode, message: Some(_), .. }) if mode == "none" => {
                let why =
                    "`--message` cannot be used with `none`: without maintenance, a datastore has no message";
                Err(Self::command().error(clap::error::ErrorKind::ArgumentConflict, why))
            }
            _ => Ok(self),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server; at a start with an empty data directory, it creates a certificate, an administrator and a datastore
    Serve(Serve),
    /// Create a new data directory with an administrator, a datastore and a certificate, without serving
    Init,
    /// Set up a server for its first client: a user with an API token, a datastore, and the service of systemd; asks on a terminal, and can be
    /// repeated
    Setup(Setup),
    /// Set up an OpenStack cloud: create an administrator, a project, roles, the identity service, and keys
    Bootstrap(keystone::Bootstrap),
    /// Users
    #[command(subcommand)]
    User(User),
    /// Groups of users and of other groups
    #[command(subcommand)]
    Group(Group),
    /// Domains: containers of users, groups and projects
    #[command(subcommand)]
    Domain(keystone::Domain),
    /// Projects: roles are assigned on them, and datastores can be bound to them
    #[command(subcommand)]
    Project(keystone::Project),
    /// Roles and their assignments: on paths, and on projects, domains and the system
    #[command(subcommand)]
    Role(RoleCommand),
    /// The service catalog: services and their endpoints
    #[command(subcommand)]
    Catalog(keystone::Catalog),
    /// API tokens
    #[command(subcommand)]
    Token(Token),
    /// Links with which users share files and folders
    #[command(subcommand)]
    Link(Link),
    /// Keys of Fernet tokens, in a directory with the layout of `keystone-manage`
    #[command(subcommand)]
    Keys(Keys),
    /// End sessions and revoke credentials: for a user, group, domain or project, or for a single token or session
    #[command(subcommand)]
    Revoke(revoke::Revoke),
    /// Sessions of users
    #[command(subcommand)]
    Session(revoke::Session),
    /// The delays and blocks that running servers impose after failed logins
    #[command(subcommand)]
    Penalties(Penalties),
    /// Datastores
    #[command(subcommand)]
    Datastore(Datastore),
    /// Applications behind nginx, HAProxy or a similar proxy; this server decides which requests to the applications are permitted
    #[command(subcommand)]
    Application(Application),
    /// Print a configuration with which nginx, HAProxy or a similar proxy asks this server for decisions
    Integrate(Integrate),
    /// Read questions about requests to applications from standard input, one JSON value per line, and write the decisions
    Decide(Decide),
    /// ACLs on files and directories
    #[command(subcommand)]
    Acl(acl::Acl),
    /// Certificates
    #[command(subcommand)]
    Certs(certs::Certs),
    /// Back up the store (the facts), keys, certificates, configuration and edited files, without the content of datastores; servers can run during
    /// the backup
    Backup(Backup),
    /// Restore the store (the facts), keys, certificates, configuration and edited files from a backup into an empty or new data directory
    Restore(Restore),
    /// The configuration: check it, show it, look up its keys
    #[command(subcommand)]
    Config(Config),
    /// The store with all records of the server (the facts): status, check, backup, restore, log of changes
    #[command(subcommand)]
    Facts(Facts),
    /// Several machines that share their facts through a log of changes in etcd
    #[command(subcommand)]
    Fleet(Fleet),
    /// Import the current users, roles, datastores and other records of another server
    #[command(subcommand)]
    Import(Import),
    /// Show whether an access is permitted, and which rule decides it
    Explain(Explain),
    /// Check configuration, certificates, facts and datastores without serving; exits with 1 on an error
    Doctor,
    /// Write a tar archive with data for the examination of a problem: checks, settings, metrics and log; the archive contains no secrets
    SupportBundle {
        /// The new file
        file: PathBuf,
        /// How many lines of the journal the archive contains
        #[arg(long, value_name = "N", default_value_t = 5_000)]
        log_lines: u32,
    },
    /// Ask the running server at `[operations] listen` whether it is ready; exits with 1 if the server is not ready; for health checks of containers
    Ready,
    /// Show the reference: configuration keys, limits, refusal codes, metrics, routes and commands of this program
    Reference {
        /// Show only this table
        #[arg(value_enum)]
        subject: Option<Subject>,
        /// Show only rows with this word in their name, such as ID05 or `tls.`
        word: Option<String>,
    },
    /// Write completions for a shell to standard output
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, into a directory
    Man {
        /// The directory
        directory: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Penalties {
    /// List the addresses and names with a delay or refusal after failed logins, and the time at which the delay or refusal ends
    List,
    /// Forget failed logins, so that the address or name is no longer delayed or refused
    Clear {
        /// An address (its network is cleared, too), or a name as `list` prints it [default: all addresses and names]
        #[arg(value_name = "ADDRESS|USER")]
        subject: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Show the keys, the use of each key, and the time until which tokens may need it
    List,
    /// Create missing keys: the primary key, which signs tokens, and the staged key, which becomes the primary key at the next rotation
    Init {
        /// Also accept that `keys/token-hash.key` is lost or was replaced by another key: API tokens made with the lost key need a new secret
        #[arg(long)]
        accept_loss: bool,
    },
    /// Make the staged key the primary key, create a new staged key, and delete keys beyond `[identity] max_active_keys`
    Rotate {
        /// Also delete keys that unexpired tokens may still need: the server then refuses these tokens
        #[arg(long)]
        force: bool,
    },
    /// Delete keys beyond `[identity] max_active_keys`
    Prune {
        /// Also delete keys that unexpired tokens may still need: the server then refuses these tokens
        #[arg(long)]
        force: bool,
    },
    /// Replace all keys, for example if an attacker may have them: every session of the Identity API ends
    Replace {
        /// Confirm that every session ends
        #[arg(long)]
        force: bool,
    },
    /// Make the keys of this machine the keys of all members of the fleet; do not use it with keys that an attacker may have
    Share,
    /// Check file modes, missing keys, and files that are not keys; exits with 1 on an error
    Check,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address for HTTPS, such as 0.0.0.0:8443, :8443 or nas.lan:8443; commas separate several addresses [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<Addresses>,
    /// The address for metrics and health [default: 127.0.0.1:9443]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ops_listen: Option<Addresses>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Create a user
    #[command(alias = "create")]
    Add {
        /// NAME@REALM
        user: Userid,
        /// Ask for a password on the terminal [default: no password]
        #[arg(long, conflicts_with = "password_stdin")]
        password: bool,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
        /// The SID of the user in ACLs [default: the next SID of this store]
        #[arg(long)]
        sid: Option<Sid>,
        /// User number (UID), for files without an ACL
        #[arg(long)]
        uid: Option<u32>,
        /// Primary group number (GID), for files without an ACL
        #[arg(long)]
        gid: Option<u32>,
        /// When the user expires: 30d, 2027-01-31, 2027-01-31T18:00:00Z, or never
        #[arg(long, default_value = "never", value_name = "TIME", value_parser = future)]
        expires: i64,
        /// A comment
        #[arg(long)]
        comment: Option<String>,
    },
    /// Show all users
    List,
    /// Give a user a new password; asks for it on the terminal
    Passwd {
        /// NAME@REALM
        user: Userid,
        /// Read the password from the first line of standard input instead
        #[arg(long)]
        password_stdin: bool,
    },
    /// Change a user
    #[command(group = changes(["expires", "comment", "uid", "gid", "default_project"]))]
    Set {
        /// NAME@REALM
        user: Userid,
        /// When the user expires: 30d, 2027-01-31, 2027-01-31T18:00:00Z, or never
        #[arg(long, value_name = "TIME", value_parser = moment)]
        expires: Option<i64>,
        /// A comment; an empty value removes it
        #[arg(long)]
        comment: Option<String>,
        /// User number (UID), for files without an ACL and for ACLs that identify users by number
        #[arg(long)]
        uid: Option<u32>,
        /// Primary group number (GID) of the user, for the same files and ACLs as --uid
        #[arg(long)]
        gid: Option<u32>,
        /// The default project of the user (NAME, NAME@DOMAIN or its id), for logins that do not request a scope; an empty value removes the default
        #[arg(long, value_name = "PROJECT")]
        default_project: Option<String>,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Show every way to log in as a user (password, tokens, keys, trusts, sessions), whether each way works, and the roles of the user
    Access {
        /// NAME@REALM
        user: Userid,
    },
    /// Show whether a user has a second factor, or reset it, for example if the user lost the device; no session or token ends
    SecondFactor {
        /// NAME@REALM
        user: Userid,
        /// What to do
        #[arg(value_enum)]
        action: SecondFactorAction,
    },
    /// Remove a user with all tokens, memberships and roles; a later user with the same name gets none of these
    #[command(aliases = ["delete", "rm"])]
    Remove {
        /// NAME@REALM
        user: Userid,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Refuse all logins, tokens and sessions of a user
    Disable {
        /// NAME@REALM
        user: Userid,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Enable a disabled or inactive user, and end a lock after failed logins
    Enable {
        /// NAME@REALM
        user: Userid,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SecondFactorAction {
    /// Show whether the user has a second factor, since when, and how many recovery codes are left
    Show,
    /// Remove the second factor: then the password alone is enough, and the user can set up another second factor
    Reset,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// Create a group
    #[command(alias = "create")]
    Add {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// The SID of the group in ACLs [default: the next SID of this store]
        #[arg(long)]
        sid: Option<Sid>,
        /// Group number (GID), for files without an ACL
        #[arg(long)]
        gid: Option<u32>,
        /// A comment
        #[arg(long)]
        comment: Option<String>,
    },
    /// Show all groups and their members
    List,
    /// Remove a group, its memberships and its roles
    #[command(aliases = ["delete", "rm"])]
    Remove {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Members of a group
    #[command(subcommand)]
    Member(Member),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Member {
    /// Add users or groups to a group
    Add {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// USER@REALM or @GROUP
        #[arg(required = true)]
        members: Vec<String>,
    },
    /// Remove users or groups from a group
    Remove {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// USER@REALM or @GROUP
        #[arg(required = true)]
        members: Vec<String>,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Assignment {
    #[command(flatten)]
    pub(crate) on: On,
    /// USER@REALM, USER@REALM!TOKEN or @GROUP
    #[arg(long, value_name = "WHO")]
    pub(crate) auth_id: String,
    /// On a path: Admin, Audit, NoAccess, DatastoreAdmin, DatastoreReader, DatastoreBackup, DatastorePowerUser or DatastoreAudit; on the path of an
    /// application: ApplicationReader, ApplicationUser or ApplicationAdmin; on a project, a
    /// domain or the system: a role created with `role define`, such as reader, member, manager, admin
    pub(crate) role: String,
}

/// The place of a role assignment.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct On {
    /// On a path: /, /datastore/NAME, /application/NAME, or a path below it
    #[arg(long, value_parser = role_path)]
    pub(crate) path: Option<RolePath>,
    /// On a project: NAME, NAME@DOMAIN, or the id of the project
    #[arg(long)]
    pub(crate) project: Option<String>,
    /// On a domain
    #[arg(long)]
    pub(crate) domain: Option<Realm>,
    /// On the whole system
    #[arg(long)]
    pub(crate) system: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Assign a role on a path, a project, a domain or the system
    Assign {
        #[command(flatten)]
        assignment: Assignment,
        /// Assign the role only on the path itself, not on paths below it
        #[arg(long, requires = "path")]
        no_propagate: bool,
        /// Assign the role even if the datastore or application of the path does not exist yet
        #[arg(long, requires = "path")]
        before_creation: bool,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Remove an assignment
    Remove {
        #[command(flatten)]
        assignment: Assignment,
        /// Remove the assignment that projects below this project or domain inherit; `role list --named` shows such assignments
        #[arg(long, conflicts_with_all = ["path", "system"])]
        inherited: bool,
        /// Proceed even if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
    /// Show all assignments
    List {
        /// Show the assignments on projects, domains and the system, instead of the assignments on paths
        #[arg(long)]
        named: bool,
    },
    /// Create a role for projects, domains and the system
    Define {
        /// The name of the role
        name: String,
        /// A role that the new role implies; may be given several times
        #[arg(long, value_name = "ROLE")]
        implies: Vec<String>,
        /// A description
        #[arg(long)]
        description: Option<String>,
    },
    /// Remove a role for projects, domains and the system, with all its assignments and implications
    Undefine {
        /// The name of the role
        name: String,
        /// Proceed even if the role is immutable, such as a role of `bootstrap`, or if no administrator can log in afterwards
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// USER@REALM or USER@REALM!TOKEN
    pub(crate) authid: Authid,
    /// The datastore
    #[arg(required_unless_present = "url")]
    pub(crate) datastore: Option<DatastoreName>,
    /// Explain a request to an application instead: the method and the URL, such as 'POST https://wiki.example.com/admin'
    #[arg(long, value_name = "REQUEST", conflicts_with_all = ["datastore", "project"])]
    pub(crate) url: Option<RequestLine>,
    /// The path in the datastore
    #[arg(default_value = "/")]
    pub(crate) path: String,
    /// The right, with a name as in `acl set`. A download needs the right `read-data`. The right `read` also includes `execute`, and the rights to
    /// read the attributes and the ACL. If nothing exists at the path, `write-data` stands for the creation of a file, and `add-subdirectory` for the
    /// creation of a directory
    #[arg(default_value = "read-data")]
    pub(crate) right: AccessMask,
    /// Explain the access of a session for this project (NAME, NAME@DOMAIN or its id), instead of a login with the password or the token
    #[arg(long)]
    pub(crate) project: Option<String>,
}

/// Makes the [`ArgGroup`] of the options that change a record. The command needs at least one of these options. Otherwise the command would report a
/// change although it made none.
fn changes<const N: usize>(options: [&'static str; N]) -> ArgGroup {
    ArgGroup::new("changes").args(options).required(true).multiple(true)
}

/// Parses the path of a role. If the text is only the name of a datastore, or begins with `/applications/`, the error contains the path that the user
/// probably meant.
fn role_path(text: &str) -> Result<RolePath, String> {
    text.parse::<RolePath>().map_err(|why| {
        let meant = match text.strip_prefix("/applications/") {
            Some(rest) => format!("/application/{rest}"),
            None => format!("/datastore/{}", text.trim_start_matches('/')),
        };
        match meant.parse::<RolePath>() {
            Ok(meant) if !text.is_empty() && !text.starts_with("/datastore/") => {
                format!("{why}; did you mean `{meant}`?")
            }
            _ => why.to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_datastore_has_no_message() {
        let read = |rest: &[&str]| {
            let words = ["enfilade", "datastore", "maintenance", "main"].iter().chain(rest);
            Cli::try_parse_from(words).and_then(Cli::checked).map(drop).map_err(|why| why.exit_code())
        };
        assert_eq!(read(&["none"]), Ok(()));
        assert_eq!(read(&["offline", "--message", "disks"]), Ok(()));
        assert_eq!(read(&["none", "--message", "disks"]), Err(2));
    }
}
