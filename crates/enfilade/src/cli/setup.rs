//! `enfilade setup`.

use clap::Args;
use enfilade_facts::vocabulary::{DatastoreName, TokenName};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// The user of the datastore: NAME, or NAME@REALM [default: the user that runs the command]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Read the password of the user from the first line of standard input [default: a new random password]
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// The name of the datastore [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) datastore: Option<DatastoreName>,
    /// The directory with the content of the datastore [default: a new directory in the data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// The name of the user's API token
    #[arg(long, value_name = "NAME", default_value = "setup")]
    pub(crate) token: TokenName,
    /// The file into which the command writes the certificate that clients have to trust. Every user can read this file [default: enfilade.crt in the
    /// current directory if the data directory belongs to another user; otherwise the command writes no file]
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// Ask nothing: use the defaults, and start the service
    #[arg(long)]
    pub(crate) yes: bool,
    /// Do not start the service
    #[arg(long)]
    pub(crate) no_start: bool,
}
