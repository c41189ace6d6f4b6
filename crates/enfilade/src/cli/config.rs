//! `enfilade config`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Config {
    /// Check the configuration: unknown keys, invalid values, certificates with which a server cannot start, settings without effect; exits with 1 on
    /// an error
    Check {
        /// The file to check [default: the file of --config, else enfilade.toml in the data directory]
        file: Option<PathBuf>,
    },
    /// Show the value of each key, and where the value comes from: the file, the environment or the default
    Show {
        /// Show only keys with a value other than the default
        #[arg(long)]
        changed: bool,
    },
    /// Show the reference of all keys
    Reference {
        /// Show only keys with this word in their name, such as `tls.`
        word: Option<String>,
    },
    /// Print an enfilade.toml with every key, its meaning and its default, as comments
    Example,
}
