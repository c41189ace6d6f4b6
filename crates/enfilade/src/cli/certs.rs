//! The words of certificates.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Certs {
    /// Show every certificate: its names, its kind of key, and until when it is valid
    List {
        /// Only those that end within this time: a number and s, m, h or d, such as 30d
        #[arg(long, value_name = "TIME", value_parser = super::seconds)]
        expiring: Option<i64>,
        /// Another directory than the server's
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Show which certificate answers a name, and everything that is in it
    Show {
        /// As a client asks for it
        name: String,
        /// As a client that takes no ECDSA keys
        #[arg(long)]
        rsa_only: bool,
        /// Another directory than the server's
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Read every key as a handshake would; exits with 1 when one cannot be used
    Check {
        /// Another directory than the server's
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}
