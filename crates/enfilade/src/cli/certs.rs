//! `enfilade certs`: commands, options and help.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Certs {
    /// Show every certificate: its names, its key type, and when it expires
    List {
        /// Show only certificates that expire within this time: a number and s, m, h or d, such as 30d
        #[arg(long, value_name = "TIME", value_parser = super::seconds)]
        expiring: Option<i64>,
        /// The directory of certificates [default: the configured directory or crt-list]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Show the certificate that a server sends for a name, with its content
    Show {
        /// The server name, as in the ClientHello, or the IP address that the client connects to
        name: String,
        /// Act as a client that does not support ECDSA keys
        #[arg(long)]
        rsa_only: bool,
        /// Print only the certificate and its chain in PEM, without the key; fails if no certificate has the name
        #[arg(long)]
        pem: bool,
        /// The directory of certificates [default: the configured directory or crt-list]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Add or renew a certificate: its files are verified and joined to one bundle, which a running server then loads
    Add {
        /// The certificate, its private key and its chain, in any order: PEM, DER or PKCS #12 (.p12, .pfx), encrypted or not
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The file name in the directory [default: the name of the file that holds the certificate, with .pem]
        #[arg(long)]
        name: Option<String>,
        /// Give the certificate to all members of the fleet of this machine
        #[arg(long, conflicts_with = "directory")]
        fleet: bool,
        /// Read the passphrase of encrypted files from the first line of standard input [default: ask on a terminal]
        #[arg(long)]
        passphrase_stdin: bool,
        /// The directory of certificates [default: the configured directory; with a configured crt-list, the command is refused]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Make a certificate for host names and IP addresses, signed by the local CA if there is one, otherwise self-signed
    SelfSigned {
        /// Host names and IP addresses, such as nas.lan 192.168.1.2 [default: those of `[tls] names`]
        #[arg(value_parser = crate::self_made::name, value_name = "NAME")]
        names: Vec<String>,
        /// The file name in the directory [default: the first name, with .pem]
        #[arg(long)]
        name: Option<String>,
        /// The directory of certificates [default: the configured directory; with a configured crt-list, the command is refused]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Make a local CA; a client that trusts this CA trusts every certificate that `certs self-signed` makes afterwards
    Ca {
        /// Only print the certificate of the CA in PEM, for clients; do not make a CA
        #[arg(long)]
        show: bool,
        /// The name that clients show for the CA [default: Enfilade CA, with the name of this machine]
        #[arg(long, conflicts_with = "show")]
        name: Option<String>,
    },
    /// Remove a bundle from the directory
    Remove {
        /// The file name in the directory
        name: String,
        /// Remove the certificate from all members of the fleet of this machine
        #[arg(long, conflicts_with = "directory")]
        fleet: bool,
        /// The directory of certificates [default: the configured directory; with a configured crt-list, the command is refused]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Report each certificate when it is added, renewed, removed or becomes unusable
    Watch {
        /// The directory of certificates [default: the configured directory or crt-list]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Check that every certificate can be used in a handshake with its key; exits with 1 if one is unusable, or if there is no certificate
    Check {
        /// The directory of certificates [default: the configured directory or crt-list]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}
