//! `enfilade backup` and `enfilade restore`.

use clap::Args;
use enfilade_sources::backup::age::Recipient;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The backup to write: one file if the name ends in .tar or .age, otherwise a new directory. Backups are not compressed, and do not contain the
    /// content of datastores: copy the content and its ACLs separately (`rsync -aX`, as root)
    pub(crate) target: PathBuf,
    /// Include the ACLs of the files of all datastores, as `enfilade acl save` writes them
    #[arg(long)]
    pub(crate) acls: bool,
    /// Encrypt for this age recipient (age1…); may be given several times. The name must end in .age
    #[arg(long = "recipient", value_name = "RECIPIENT")]
    pub(crate) recipients: Vec<Recipient>,
    /// Encrypt with a passphrase, which is asked for on the terminal. The name must end in .age
    #[arg(long, conflicts_with_all = ["recipients", "passphrase_stdin"])]
    pub(crate) passphrase: bool,
    /// Encrypt with the passphrase in the first line of standard input. The name must end in .age
    #[arg(long, conflicts_with = "recipients")]
    pub(crate) passphrase_stdin: bool,
    /// Replace an existing file when the new file is complete
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The directory or file that `enfilade backup` wrote
    pub(crate) backup: PathBuf,
    /// If the data directory is not empty, rename it, and put the restored directory in its place. The content of its datastores is kept if the
    /// backup is from the same server. No enfilade process may use the data directory
    #[arg(long)]
    pub(crate) force: bool,
    /// Decrypt with the private key in this file, as `age-keygen` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
    /// Decrypt with the passphrase, which is asked for on the terminal
    #[arg(long, conflicts_with_all = ["identity", "passphrase_stdin"])]
    pub(crate) passphrase: bool,
    /// Decrypt with the passphrase in the first line of standard input
    #[arg(long, conflicts_with = "identity")]
    pub(crate) passphrase_stdin: bool,
    /// Only read and check the whole backup; nothing is written
    #[arg(long)]
    pub(crate) check: bool,
}
