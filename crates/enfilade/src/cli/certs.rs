//! `enfilade certs`: commands, options and help.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Certs {
    /// Show every certificate: its names, its key type, and when it expires
    List {
        /// Only those that expire within this time: a number and s, m, h or d, such as 30d
        #[arg(long, value_name = "TIME", value_parser = super::seconds)]
        expiring: Option<i64>,
        /// The directory of certificates [default: the server's]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Show the certificate that a server sends for a name, with its content
    Show {
        /// The server name, as in the ClientHello
        name: String,
        /// Act as a client that does not support ECDSA keys
        #[arg(long)]
        rsa_only: bool,
        /// The directory of certificates [default: the server's]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Add a bundle to the directory, or replace it by a renewed one; it is verified first, and a running server loads it
    Add {
        /// The bundle: certificate, intermediates and private key
        file: PathBuf,
        /// The file name in the directory [default: the name of the file]
        #[arg(long)]
        name: Option<String>,
        /// The directory of certificates [default: the server's]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Remove a bundle from the directory
    Remove {
        /// The file name in the directory
        name: String,
        /// The directory of certificates [default: the server's]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Report every certificate that is added, renewed, removed or becomes unusable, as it happens
    Watch {
        /// The directory of certificates [default: the server's]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Read every key as a handshake would; exits with 1 if one is unusable
    Check {
        /// The directory of certificates [default: the server's]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}
