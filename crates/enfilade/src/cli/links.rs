//! `enfilade link`.

use super::future;
use super::quantity::quantity;
use clap::Subcommand;
use enfilade_facts::vocabulary::{CredentialId, DatastoreName, StorePath, Userid};

#[derive(Debug, Subcommand)]
pub(crate) enum Link {
    /// Share a file or folder by a link that works without a login; the link is shown once
    #[command(alias = "add")]
    Create {
        /// The datastore
        datastore: DatastoreName,
        /// The file or folder, such as /photos; / is the whole datastore
        path: StorePath,
        /// The user who shares: guests have the rights of this user, limited to the file or folder
        #[arg(long, value_name = "NAME@REALM")]
        user: Userid,
        /// When the link expires: 7d, 2027-01-31 or 2027-01-31T18:00:00Z
        #[arg(long, default_value = "7d", value_name = "TIME", value_parser = future)]
        expires: i64,
        /// A name for the list of links
        #[arg(long, default_value = "")]
        name: String,
        /// Let guests upload files into the folder, and see nothing in it
        #[arg(long)]
        drop: bool,
        /// The largest file that a guest may upload: bytes, or a number with K, M, G, T or P (powers of 1024), such as 1G
        #[arg(long, value_name = "SIZE", value_parser = quantity, requires = "drop")]
        max_upload: Option<u64>,
        /// How often the link can be used: a use is one download of a file or folder, or one upload [default: any number]
        #[arg(long, value_name = "COUNT")]
        uses: Option<u32>,
        /// Protect the link with a password, which the command asks for
        #[arg(long, conflicts_with = "password_stdin")]
        password: bool,
        /// Read the password of the link from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Show the links of one user or of all users
    List {
        /// The user, as NAME@REALM [default: all users]
        user: Option<Userid>,
    },
    /// End a link; the next request with it is refused
    #[command(aliases = ["delete", "remove", "rm"])]
    End {
        /// The id of the link (`enfilade link list`)
        id: CredentialId,
    },
}
