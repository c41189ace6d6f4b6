//! `enfilade datastore`.

use super::changes;
use super::quantity::{Quantity, quantity, quantity_or_none};
use clap::Subcommand;
use enfilade_facts::vocabulary::{AccessMask, AclDialect, DatastoreName};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Datastore {
    /// Create a datastore
    #[command(alias = "add")]
    Create {
        /// The datastore
        name: DatastoreName,
        /// The directory of the datastore's content; created if it does not exist
        #[arg(long)]
        path: PathBuf,
        /// A comment
        #[arg(long)]
        comment: Option<String>,
        /// The maximum size of the datastore's content: bytes, or a number with K, M, G, T or P (powers of 1024), such as 500G
        #[arg(long, value_parser = quantity)]
        quota: Option<u64>,
        /// How ACLs are stored on the files of the datastore: ntacl (security.NTACL) or nfs4 (security.nfs4acl_xdr) [default: ntacl]
        #[arg(long, value_name = "DIALECT")]
        acls: Option<AclDialect>,
        /// Another property of `datastore.cfg`, such as gc-schedule=daily
        #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
        properties: Vec<(String, String)>,
    },
    /// Show all datastores
    List,
    /// Show one datastore: its properties, usage, active operations, and warnings
    Show {
        /// The datastore
        name: DatastoreName,
    },
    /// Change a datastore's properties
    #[command(group = changes([
        "comment", "project", "quota", "mounted_at", "acls", "visible_by", "check_traverse", "moves", "copies", "home",
        "properties",
    ]))]
    Set {
        /// The datastore
        name: DatastoreName,
        /// A comment; an empty value removes it
        #[arg(long)]
        comment: Option<String>,
        /// Bind the datastore to a project (NAME, NAME@DOMAIN or its id), so that members of the project can mount it; an empty value unbinds it
        #[arg(long)]
        project: Option<String>,
        /// The maximum size of the datastore's content: bytes, or a number with K, M, G, T or P (powers of 1024), such as 500G; `none` for no limit
        #[arg(long, value_parser = quantity_or_none)]
        quota: Option<Quantity>,
        /// Serve the datastore only while a file system, such as a network share, is mounted at this directory; `none` means that the datastore is
        /// always served
        #[arg(long)]
        mounted_at: Option<String>,
        /// How ACLs are stored on the files of the datastore: ntacl (security.NTACL) or nfs4 (security.nfs4acl_xdr)
        #[arg(long, value_name = "DIALECT")]
        acls: Option<AclDialect>,
        /// The rights that a user needs on an entry to see the entry [initially: read-data,read-named-attributes,read-attributes,read-acl]
        #[arg(long, value_name = "RIGHTS")]
        visible_by: Option<AccessMask>,
        /// Whether every directory above a file must grant traverse, as on UNIX; with `no` only the ACL of the file counts, as on Windows
        #[arg(long, value_name = "YES|NO", value_parser = ["yes", "no"])]
        check_traverse: Option<String>,
        /// Whether a moved object keeps its ACL, as on Windows, or inherits from its new directory
        #[arg(long, value_name = "KEEP|INHERIT", value_parser = ["keep", "inherit"])]
        moves: Option<String>,
        /// Whether a copy inherits from its directory, as on Windows, or keeps the ACL of its source
        #[arg(long, value_name = "KEEP|INHERIT", value_parser = ["keep", "inherit"])]
        copies: Option<String>,
        /// Let this member of the fleet serve the datastore. The maintenance mode of the datastore must be `offline`. The value `none` removes
        /// the home, and then the files member serves the datastore. If you name several members, a later member takes the datastore over when all
        /// members before it have had no server for 10 s
        #[arg(long, value_name = "MEMBER,…")]
        home: Option<String>,
        /// Another property of `datastore.cfg`, such as gc-schedule=daily; an empty value removes it
        #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
        properties: Vec<(String, String)>,
    },
    /// Close a datastore for some kinds of operations, or open it again
    Maintenance {
        /// The datastore
        name: DatastoreName,
        /// read-only, offline, unmount, s3-refresh or delete; the value `none` opens the datastore again
        #[arg(value_parser = ["read-only", "offline", "unmount", "s3-refresh", "delete", "none"])]
        mode: String,
        /// A message for refused clients; an empty value removes it [default: the message of the present mode]
        #[arg(long)]
        message: Option<String>,
        /// Wait until all operations that the mode forbids have ended, in every server of the machine
        #[arg(long)]
        wait: bool,
    },
    /// Show the active operations of each datastore, in every server of the machine
    Operations {
        /// Show only this datastore
        name: Option<DatastoreName>,
        /// Wait until the datastore has no active operation
        #[arg(long, requires = "name")]
        wait: bool,
    },
    /// Remove all WebDAV locks that cover a path, for all owners
    Unlock {
        /// The datastore
        name: DatastoreName,
        /// The path in the datastore
        path: String,
    },
    /// Remove a datastore from the configuration; its content is not deleted
    #[command(aliases = ["delete", "rm"])]
    Remove {
        /// The datastore
        name: DatastoreName,
    },
}

fn property(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("expected KEY=VALUE, such as gc-schedule=daily")?;
    Ok((key.to_owned(), value.to_owned()))
}
