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
    /// Put a bundle into the directory, or a renewed one in the place of the one before; it is verified first, and a running server takes it up
    Add {
        /// The bundle: certificate, intermediates and private key
        file: PathBuf,
        /// What it is called there [default: as the file is]
        #[arg(long)]
        name: Option<String>,
        /// Another directory than the server's
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Take a bundle out of the directory
    Remove {
        /// What it is called there
        name: String,
        /// Another directory than the server's
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Tell of every certificate that is added, renewed, removed or cannot be used, as it happens
    Watch {
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
