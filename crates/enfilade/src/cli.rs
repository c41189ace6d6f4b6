//! The command line's words.

pub(crate) mod acl;
pub(crate) mod certs;
mod facts;
mod import;
pub(crate) mod keystone;

pub(crate) use facts::Facts;
pub(crate) use import::Import;

use clap::{Args, Parser, Subcommand};
use enfilade_facts::vocabulary::{
    AccessMask, AclDialect, Authid, DatastoreName, GroupName, Realm, RolePath, Sid, Userid,
};
use std::net::SocketAddr;
use std::path::PathBuf;

/// TLS, tokens, tenancy and file permissions in front of your data.
#[derive(Debug, Parser)]
#[command(name = "enfilade", version, about, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The data directory [default: $ENFILADE_DATA, /var/lib/enfilade for root, else the XDG data home]
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve; on an empty data directory make everything that is needed first
    Serve(Serve),
    /// Make a new data directory with an administrator, a datastore and a certificate, without serving
    Init,
    /// Make what an OpenStack cloud begins with: an administrator, a project, roles, the identity service, and keys
    Bootstrap(keystone::Bootstrap),
    /// Users
    #[command(subcommand)]
    User(User),
    /// Groups of users and of other groups
    #[command(subcommand)]
    Group(Group),
    /// Domains: realms of users, groups and projects
    #[command(subcommand)]
    Domain(keystone::Domain),
    /// Projects: what roles are given on, and datastores are bound to
    #[command(subcommand)]
    Project(keystone::Project),
    /// Roles: on paths, and on projects, domains and the system
    #[command(subcommand)]
    Role(RoleCommand),
    /// Services and where they are, as OpenStack's clients are told
    #[command(subcommand)]
    Catalog(keystone::Catalog),
    /// API tokens
    #[command(subcommand)]
    Token(Token),
    /// Keys of Fernet tokens, in a directory as `keystone-manage` lays it out
    #[command(subcommand)]
    Keys(Keys),
    /// Take back what was given: tokens, and everything of a user, a project or a domain
    #[command(subcommand)]
    Revoke(keystone::Revoke),
    /// Sessions of users
    #[command(subcommand)]
    Session(keystone::Session),
    /// Datastores
    #[command(subcommand)]
    Datastore(Datastore),
    /// ACLs on files and directories
    #[command(subcommand)]
    Acl(acl::Acl),
    /// Certificates
    #[command(subcommand)]
    Certs(certs::Certs),
    /// The store of facts itself: check, backup, restore, the log of changes
    #[command(subcommand)]
    Facts(Facts),
    /// Take over what another house has, once
    #[command(subcommand)]
    Import(Import),
    /// Walk the doors without acting: who may do what where, and which rule says so
    Explain(Explain),
    /// Look at everything that can be looked at without serving; exits with 1 when something does not work
    Doctor,
    /// Write a shell's completions to standard output
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, into a directory
    Man {
        /// Where
        directory: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// The keys: what each is for, and until when tokens may need it
    List,
    /// Make the directory, a staged key and one that signs, as far as they are missing
    Init,
    /// Let the staged key sign, stage a new one, and drop what is more than `[identity] max_active_keys`
    Rotate {
        /// Also drop keys that live tokens may still need: those are refused then
        #[arg(long)]
        force: bool,
    },
    /// Drop what is more than `[identity] max_active_keys`
    Prune {
        /// Also drop keys that live tokens may still need: those are refused then
        #[arg(long)]
        force: bool,
    },
    /// Modes, missing keys, and files that are none; exits with 1 when something is wrong
    Check,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to serve HTTPS [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Where to serve metrics and health [default: 127.0.0.1:9443]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ops_listen: Option<SocketAddr>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Make a user
    Add {
        /// NAME@REALM
        user: Userid,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
        /// What ACLs call the user [default: the next SID of this store]
        #[arg(long)]
        sid: Option<Sid>,
        /// User number, for files without an ACL
        #[arg(long)]
        uid: Option<u32>,
        /// Primary group number, for files without an ACL
        #[arg(long)]
        gid: Option<u32>,
        /// Until when, in seconds since the epoch; 0 is for ever
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        expires: i64,
        #[arg(long)]
        comment: Option<String>,
    },
    /// Show all users
    List,
    /// Give a user a new password
    Passwd {
        /// NAME@REALM
        user: Userid,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Change a user
    Set {
        /// NAME@REALM
        user: Userid,
        /// Until when, in seconds since the epoch; 0 is for ever
        #[arg(long, value_name = "SECONDS")]
        expires: Option<i64>,
        /// Who it is; empty takes the comment away
        #[arg(long)]
        comment: Option<String>,
        /// The number files know the user by where they have no ACL, or one that names people by number
        #[arg(long)]
        uid: Option<u32>,
        /// The primary group's number for the same
        #[arg(long)]
        gid: Option<u32>,
        /// The project a login is for when it names none (NAME, NAME@DOMAIN or its id); empty takes it away
        #[arg(long, value_name = "PROJECT")]
        default_project: Option<String>,
    },
    /// Remove a user with all tokens, memberships and roles; whoever has the name later is somebody else
    Remove {
        /// NAME@REALM
        user: Userid,
    },
    /// Keep a user and all tokens of the user out
    Disable {
        /// NAME@REALM
        user: Userid,
    },
    /// Let a user in again
    Enable {
        /// NAME@REALM
        user: Userid,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Group {
    /// Make a group
    Add {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// What ACLs call the group [default: the next SID of this store]
        #[arg(long)]
        sid: Option<Sid>,
        /// Group number, for files without an ACL
        #[arg(long)]
        gid: Option<u32>,
        #[arg(long)]
        comment: Option<String>,
    },
    /// Show all groups and who is in them
    List,
    /// Remove a group, its memberships and its roles
    Remove {
        /// NAME, or NAME@REALM
        group: GroupName,
    },
    /// Who is in a group
    #[command(subcommand)]
    Member(Member),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Member {
    /// Put users or groups into a group
    Add {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// USER@REALM or @GROUP
        #[arg(required = true)]
        members: Vec<String>,
    },
    /// Take users or groups out of a group
    Remove {
        /// NAME, or NAME@REALM
        group: GroupName,
        /// USER@REALM or @GROUP
        #[arg(required = true)]
        members: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Assignment {
    #[command(flatten)]
    pub(crate) on: On,
    /// For whom: USER@REALM, USER@REALM!TOKEN or @GROUP
    #[arg(long, value_name = "WHO")]
    pub(crate) auth_id: String,
    /// On a path: Admin, Audit, NoAccess, DatastoreAdmin, DatastoreReader, DatastoreBackup, DatastorePowerUser or DatastoreAudit;
    /// elsewhere what `role define` made, such as reader, member, manager, admin
    pub(crate) role: String,
}

/// Where a role is given.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct On {
    /// On a path: /, /datastore/NAME, or a path below it
    #[arg(long)]
    pub(crate) path: Option<RolePath>,
    /// On a project: NAME, NAME@DOMAIN or its id
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
    /// Give somebody a role on a path, a project, a domain or the system
    Assign {
        #[command(flatten)]
        assignment: Assignment,
        /// Only on the path itself, not below
        #[arg(long, requires = "path")]
        no_propagate: bool,
    },
    /// Take a role away
    Remove {
        #[command(flatten)]
        assignment: Assignment,
    },
    /// Show who has which role where
    List {
        /// On projects, domains and the system, instead of paths
        #[arg(long)]
        named: bool,
    },
    /// Make a role for projects, domains and the system
    Define {
        /// Its name
        name: String,
        /// Whoever has it has these, too
        #[arg(long, value_name = "ROLE")]
        implies: Vec<String>,
        #[arg(long)]
        description: Option<String>,
    },
    /// Remove such a role, whoever has it
    Undefine {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token; its secret is shown once
    Create {
        /// USER@REALM!NAME
        token: Authid,
        /// Until when, in seconds since the epoch; 0 is for ever
        #[arg(long, default_value_t = 0, value_name = "SECONDS")]
        expires: i64,
        #[arg(long)]
        comment: Option<String>,
        /// Only the roles that are assigned to the token itself, within its owner's; otherwise it has its owner's
        #[arg(long)]
        own_roles: bool,
        /// A client certificate (PEM) in the place of a secret: whoever shows it in the TLS handshake has come in
        #[arg(long, conflicts_with = "project", value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// For this project alone (NAME, NAME@DOMAIN or its id): an application credential of OpenStack's clients
        #[arg(long, conflicts_with = "own_roles")]
        project: Option<String>,
        /// With these of its owner's roles there; without any, with all that are given there now
        #[arg(long, requires = "project", value_name = "ROLE")]
        role: Vec<String>,
    },
    /// Show tokens, of one user or of everybody
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
    Set {
        /// USER@REALM!NAME
        token: Authid,
        /// Let it in
        #[arg(long, conflicts_with = "disable")]
        enable: bool,
        /// Keep it out
        #[arg(long)]
        disable: bool,
        /// Until when, in seconds since the epoch; 0 is for ever
        #[arg(long, value_name = "SECONDS")]
        expires: Option<i64>,
        /// What it is for; empty takes the comment away
        #[arg(long)]
        comment: Option<String>,
        /// End the grace of the secret that was replaced
        #[arg(long)]
        end_grace: bool,
        /// From now on only the roles that are assigned to the token itself, within its owner's
        #[arg(long)]
        own_roles: bool,
        /// From now on its owner's roles
        #[arg(long, conflicts_with = "own_roles")]
        owner_roles: bool,
    },
    /// Give a token a new secret, which is shown once
    Regenerate {
        /// USER@REALM!NAME
        token: Authid,
        /// How long the old secret still works: a number and s, m, h or d
        #[arg(long, default_value = "0s", value_name = "TIME", value_parser = crate::cli::seconds)]
        grace: i64,
    },
    /// Have the slow hash of a token from elsewhere replaced by a fast one when its secret is used next
    Upgrade {
        /// USER@REALM!NAME
        #[arg(required_unless_present = "all")]
        token: Option<Authid>,
        /// Every token
        #[arg(long, conflicts_with = "token")]
        all: bool,
    },
    /// Delete a token; the next request with it is refused
    Delete {
        /// USER@REALM!NAME
        token: Authid,
    },
}

/// A time as people write it: `90s`, `15m`, `24h`, `7d`.
pub(crate) fn seconds(text: &str) -> Result<i64, String> {
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err("expected a number and s, m, h or d, as in `24h`".into()),
    };
    let count = text.get(..text.len() - 1).and_then(|count| count.parse::<u32>().ok());
    count.map(|count| i64::from(count) * unit).ok_or_else(|| "expected a whole number before the unit".into())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Datastore {
    /// Make a datastore
    Create {
        name: DatastoreName,
        /// Where its content is; made when it is not there
        #[arg(long)]
        path: PathBuf,
        #[arg(long)]
        comment: Option<String>,
        /// How much it may hold: bytes, or a number with K, M, G, T or P (of 1024), such as 500G
        #[arg(long, value_parser = quantity)]
        quota: Option<u64>,
        /// How ACLs are written down on its files: ntacl (security.NTACL) or nfs4 (security.nfs4acl_xdr) [default: ntacl]
        #[arg(long, value_name = "DIALECT")]
        acls: Option<AclDialect>,
        /// Another property of `datastore.cfg`, such as gc-schedule=daily
        #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
        properties: Vec<(String, String)>,
    },
    /// Show all datastores
    List,
    /// Show one datastore: its properties, how full it is, who is inside, and what is amiss
    Show { name: DatastoreName },
    /// Change a datastore's properties
    Set {
        name: DatastoreName,
        /// What it is for; empty takes the comment away
        #[arg(long)]
        comment: Option<String>,
        /// Bind it to a project (NAME, NAME@DOMAIN or its id), so that whoever has a role there can mount it; empty unbinds it
        #[arg(long)]
        project: Option<String>,
        /// How much it may hold: bytes, or a number with K, M, G, T or P (of 1024), such as 500G; `none` for as much as there is room
        #[arg(long, value_parser = quantity_or_none)]
        quota: Option<Quantity>,
        /// It is there only while something is mounted at this directory, as a share of another machine is; `none` to always be there
        #[arg(long)]
        mounted_at: Option<String>,
        /// How ACLs are written down on its files: ntacl (security.NTACL) or nfs4 (security.nfs4acl_xdr)
        #[arg(long, value_name = "DIALECT")]
        acls: Option<AclDialect>,
        /// The rights that must be granted on an entry for it to be there for somebody [at first: read-data,read-named-attributes,
        /// read-attributes,read-acl]
        #[arg(long, value_name = "RIGHTS")]
        visible_by: Option<AccessMask>,
        /// Whether every directory on the way to a file must grant traverse, as on UNIX, or a file is judged alone, as on Windows
        #[arg(long, value_name = "YES|NO", value_parser = ["yes", "no"])]
        check_traverse: Option<String>,
        /// Whether what is moved keeps its ACLs, as on Windows, or inherits those of its new directory
        #[arg(long, value_name = "KEEP|INHERIT", value_parser = ["keep", "inherit"])]
        moves: Option<String>,
        /// Whether a copy inherits the ACLs of its directory, as on Windows, or keeps those of what it is a copy of
        #[arg(long, value_name = "KEEP|INHERIT", value_parser = ["keep", "inherit"])]
        copies: Option<String>,
        /// Another property of `datastore.cfg`, such as gc-schedule=daily; an empty value takes it away
        #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
        properties: Vec<(String, String)>,
    },
    /// Close a datastore for some kinds of work, or open it again
    Maintenance {
        name: DatastoreName,
        /// read-only, offline, unmount, s3-refresh, delete, or none to open it again
        #[arg(value_parser = ["read-only", "offline", "unmount", "s3-refresh", "delete", "none"])]
        mode: String,
        /// For whoever is refused
        #[arg(long)]
        message: Option<String>,
        /// Wait until everybody who is inside and may not come in any more has left, in every server of the machine
        #[arg(long)]
        wait: bool,
    },
    /// Show who is inside which datastore: operations that read and write, in every server of the machine
    Operations {
        /// Of this datastore alone
        name: Option<DatastoreName>,
    },
    /// Remove all WebDAV locks that cover a path, for all owners
    Unlock {
        name: DatastoreName,
        /// The path in the datastore
        path: String,
    },
    /// Take a datastore out of the configuration; its content stays where it is
    Remove { name: DatastoreName },
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// USER@REALM or USER@REALM!TOKEN
    pub(crate) authid: Authid,
    pub(crate) datastore: DatastoreName,
    /// The path in the datastore
    #[arg(default_value = "/")]
    pub(crate) path: String,
    /// read, write, delete, full, or any right `acl set` knows
    #[arg(default_value = "read")]
    pub(crate) right: AccessMask,
}

/// How much, or as much as there is room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity(pub(crate) Option<u64>);

fn quantity_or_none(text: &str) -> Result<Quantity, String> {
    if text == "none" { Ok(Quantity(None)) } else { quantity(text).map(|bytes| Quantity(Some(bytes))) }
}

fn quantity(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = text.get(number.len()..).unwrap_or_default().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let power = ["", "K", "M", "G", "T", "P"].iter().position(|known| *known == unit);
    let bytes = number.parse::<u64>().ok().zip(power.and_then(|power| 1024_u64.checked_pow(power as u32)));
    let bytes = bytes.and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected bytes, or a number with K, M, G, T or P, such as 500G".to_owned())
}

fn property(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("expected KEY=VALUE, such as gc-schedule=daily")?;
    Ok((key.to_owned(), value.to_owned()))
}
